"""Searches with beams: examples of a batch that go on from one another's texts."""

import numpy as np
import pytest
import torch
from rounding import rounding

from mhaviz import record
from mhaviz.observe.known_keys import are_alike, moved_examples

transformers = pytest.importorskip("transformers")

CLOSE = rounding()
TOKENS = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
PROMPT = torch.tensor([[5, 22, 23, 24, 25]])
NAMES = {"self": "encoder_attentions", "masked": "decoder_attentions", "cross": "cross_attentions"}


@pytest.fixture(scope="module", params=["llama", "t5"])
def model(request):
    torch.manual_seed(5)
    if request.param == "llama":
        sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
        made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **TOKENS))
    else:
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
        made = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **TOKENS))
    for parameter in made.parameters():  # so that beams change places
        parameter.data *= 5 if parameter.dim() > 1 else 1
    return made.eval()


def searched(model, ids, **options):
    return model.generate(ids, num_beams=3, max_new_tokens=6, do_sample=False, return_dict_in_generate=True, **options)


@torch.no_grad()
def whole(model, ids, written):
    """Attentions of the whole text, by kind."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    if model.config.is_encoder_decoder:
        found = model(ids, decoder_input_ids=written[:, :-1], output_attentions=True)
        expected = {kind: found[name] for kind, name in NAMES.items()}
    else:
        expected = {"masked": model(written[:, :-1], output_attentions=True).attentions}
    model.set_attn_implementation(before)
    return expected


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_an_example_has_the_map_of_the_text_that_it_ends_with(model, attention):
    model.set_attn_implementation(attention)
    ids = torch.cat([PROMPT, PROMPT + 3])
    decoder = "decoder.*" if model.config.is_encoder_decoder else None  # the encoder has other examples
    with record(model, examples="all", module=decoder) as recording:
        made = searched(model, ids)
    assert any(len({*beams}) > 1 for beams in made.beam_indices.tolist()), "the winners have changed their places"
    found = 0
    for text, beams in enumerate(made.beam_indices.tolist()):
        expected = whole(model, ids[text : text + 1], made.sequences[text : text + 1])
        for m in recording.attention:
            if m.kind != "self" and m.sentence == beams[-1]:
                np.testing.assert_allclose(m.weights, expected[m.kind][m.layer][0], atol=max(CLOSE, 2e-5))
                found += 1
    assert found == 2 * 2 * (len(expected) - ("self" in expected))
    (line,) = [line for line in recording.notices if "beams" in line]
    assert (
        "examples of the batch change places between steps, as the beams of a search do; a map is of the text" in line
    )
    assert "an example is a beam of a search, and its map" in recording.attention.source.remark


def test_one_example_is_followed_wherever_it_comes_from(model):
    model.set_attn_implementation("sdpa")
    with record(model, examples="all") as every:
        searched(model, PROMPT)
    with record(model, examples=1) as recording:
        searched(model, PROMPT)
    with record(model) as first:
        searched(model, PROMPT)
    for one, number in ((recording, 1), (first, 0)):
        of_number = [m for m in every.attention if m.sentence == number or (m.kind == "self" and not number)]
        maps = [m for m in one.attention if m.kind != "self"]
        for m, expected in zip(maps, [m for m in of_number if m.kind != "self"], strict=True):
            np.testing.assert_array_equal(m.weights, expected.weights)
    assert any(line.startswith("kept the first of up to 3 along the batch axis") for line in first.notices)


def test_a_search_without_a_cache_has_a_pass_for_each_step(model):
    with record(model) as recording:
        searched(model, PROMPT, use_cache=False)
    assert not any("beams" in line for line in recording.notices)


def test_examples_that_stay_in_their_places_are_no_beams(model):
    ids = PROMPT.expand(2, -1)
    with record(model, examples="all") as recording:
        written = model.generate(ids, max_new_tokens=6, do_sample=False)
    for m in recording.attention:
        if m.kind != "self":
            A = whole(model, ids[:1], written[:1])[m.kind][m.layer]
            np.testing.assert_allclose(m.weights, A[0], atol=max(CLOSE, 2e-5))
    assert not any("beams" in line for line in recording.notices)


def test_a_long_search_is_pooled_as_it_grows(model):
    with record(model, size=4) as recording:
        searched(model, PROMPT)
    with record(model) as single:
        searched(model, PROMPT)
    for m, expected in zip(recording.attention, single.attention, strict=True):
        if m.kind != "self":
            assert len(m.rows) <= 4
            rows, columns = m.rows.edges, m.columns.edges[:-1]
            means = np.add.reduceat(expected.weights, rows[:-1], axis=1) / np.diff(rows)[:, None]
            np.testing.assert_allclose(m.weights, np.add.reduceat(means, columns, axis=2), atol=max(CLOSE, 2e-5))


def keys_of(*examples):
    """Keys of one feature each, which stand far apart."""
    return torch.tensor(examples, dtype=torch.float32)[..., None]


def test_where_keys_were_before():
    known = keys_of((1, 2, 3), (1, 2, 9), (4, 5, 6))
    assert are_alike(keys_of((1, 2), (1, 2), (3, 4)))
    assert not are_alike(known)
    assert not are_alike(known[:1])
    assert moved_examples(known, known, 3) == (), "each is in its own place"
    assert moved_examples(known, torch.cat([known[[1, 1, 0]], known[:, :1]], dim=1), 3) == (1, 1, 0)
    assert moved_examples(known, keys_of((1, 2, 3), (1, 2, 9), (4, 5, 7)), 3) == (), "one is new"
    assert moved_examples(known, known[:2], 3) == (), "one is gone"
