"""Attentions of ``generate``, saved as they are: they equal those of the model on the whole text."""

import numpy as np
import pytest
import torch
from rounding import rounding

from mhaviz import display_attention
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.generated_steps import are_steps, n_padding
from mhaviz.files.maps import About, read_maps

transformers = pytest.importorskip("transformers")

CLOSE = rounding()
TOKENS = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
PROMPT = torch.tensor([[5, 22, 23, 24, 25]])
TWO = torch.tensor([[5, 22, 23, 24, 25], [0, 0, 7, 9, 3]])
NOT_PADDED = (TWO != 0).long()
OPTIONS = {
    "cache": {},
    "no cache": {"use_cache": False},
    "static": {"cache_implementation": "static"},
    "beams": {"num_beams": 3},
}


def eager(model):
    for parameter in model.parameters():  # so that beams change places
        parameter.data *= 5 if parameter.dim() > 1 else 1
    model.set_attn_implementation("eager")
    return model.eval()


@pytest.fixture(scope="module")
def llama():
    torch.manual_seed(4)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    return eager(transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **TOKENS)))


@pytest.fixture(scope="module")
def t5():
    torch.manual_seed(3)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
    return eager(transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **TOKENS)))


def written(model, ids, **options):
    """What ``generate`` returns, without the objects that no file should hold."""
    asked = {"do_sample": False, "output_attentions": True, "return_dict_in_generate": True, "max_new_tokens": 5}
    found = model.generate(ids, **asked, **options)
    return {name: value for name, value in found.items() if name != "past_key_values"}


def saved(held, path):
    torch.save(held, path)
    return path


def require_equal(maps, expected):
    for m, A in zip(maps, expected, strict=True):
        np.testing.assert_allclose(m.weights, A[m.sentence or 0].detach(), atol=CLOSE)


@pytest.mark.parametrize("options", OPTIONS)
def test_steps_are_one_map_of_the_whole_text(options, llama, tmp_path):
    made = written(llama, PROMPT, **OPTIONS[options])
    held = made["attentions"] if options != "beams" else {n: made[n] for n in ("attentions", "beam_indices")}
    assert options != "beams" or len({*made["beam_indices"][0].tolist()}) > 1, "the winner has changed its place"
    read = read_maps(saved(held, tmp_path / "x.pt"))
    require_equal(read.attention.maps, llama(made["sequences"][:, :-1], output_attentions=True).attentions)
    for layer, m in enumerate(read.attention.maps):
        assert (m.kind, m.layer, m.sentence) == ("masked", layer, None)
        assert m.queries == m.keys == tuple("012345678")
        np.testing.assert_array_equal(m.hidden, ~np.tri(9, dtype=bool))
    assert not read.notices


@pytest.mark.parametrize("options", OPTIONS)
def test_a_decoder_and_what_it_reads_of_the_source(options, t5, tmp_path):
    made = written(t5, PROMPT, **OPTIONS[options])
    assert options != "beams" or len({*made["beam_indices"][0].tolist()}) > 1, "the winner has changed its place"
    expected = t5(PROMPT, decoder_input_ids=made["sequences"][:, :-1], output_attentions=True)
    path = saved(made, tmp_path / "x.pt")
    for name, kind in (("decoder_attentions", "masked"), ("cross_attentions", "cross"), ("encoder_attentions", "self")):
        read = read_maps(path, About(name))
        require_equal(read.attention.maps, expected[name])
        assert {m.kind for m in read.attention.maps} == {kind}
        assert not read.notices
    with pytest.raises(ArgumentError, match=r"choose one of cross_attentions 5 steps of 2 × \(., 2, 1, 5\), decoder_"):
        read_maps(path)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_batch_is_as_many_texts_without_their_padding(options, llama, tmp_path):
    made = written(llama, TWO, attention_mask=NOT_PADDED, **OPTIONS[options])
    read = read_maps(saved(made, tmp_path / "x.pt"), About("attentions"))
    assert [(m.sentence, m.layer) for m in read.attention.maps] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for text, start in ((0, 0), (1, 2)):
        maps = read.attention.maps[2 * text : 2 * text + 2]
        alone = llama(made["sequences"][text : text + 1, start:-1], output_attentions=True).attentions
        for m, A in zip(maps, alone, strict=True):
            np.testing.assert_allclose(m.weights, A[0].detach(), atol=CLOSE)
            assert (m.kind, m.keys) == ("masked", tuple(map(str, range(start, 9))))
    (notice,) = read.notices
    assert notice.endswith("left out the first 2 tokens of sentence 1: padding, as no later query weighs them")


def test_beams_that_nobody_can_follow_are_refused(llama, tmp_path):
    made = written(llama, PROMPT, num_beams=3)
    path = saved(made["attentions"], tmp_path / "x.pt")
    with pytest.raises(
        MhavizError, match="examples 0 and 1 of its batch of 3 begin alike, as the beams of a search do"
    ):
        read_maps(path)
    saved({"attentions": made["attentions"], "beam_indices": torch.tensor([[0, 0, 3]])}, path)
    with pytest.raises(
        MhavizError, match=r"beam_indices: expected beams below 3 for up to 5 steps, got up to 3 for 3$"
    ):
        read_maps(path)


def test_a_text_that_ends_early_has_fewer_steps(llama, tmp_path):
    made = written(llama, PROMPT, num_beams=3)
    beams = made["beam_indices"].clone()
    beams[:, 3:] = -1
    (m, _) = read_maps(saved({**made, "beam_indices": beams}, tmp_path / "x.pt"), About("attentions")).attention.maps
    A = llama(made["sequences"][:, :7], output_attentions=True).attentions[0][0]
    np.testing.assert_allclose(m.weights, A.detach(), atol=CLOSE)


def test_one_step_is_read_by_its_number(llama, tmp_path):
    made = written(llama, PROMPT)
    (m, _) = read_maps(saved(made["attentions"], tmp_path / "x.pt"), About("2")).attention.maps
    np.testing.assert_array_equal(m.weights, made["attentions"][2][0][0])
    (m, _) = read_maps(saved(made, tmp_path / "x.pt"), About("attentions.2")).attention.maps
    np.testing.assert_array_equal(m.weights, made["attentions"][2][0][0])


def test_labels_of_all_tokens(llama, tmp_path):
    words = tuple("abcdefghi")
    path = saved(written(llama, PROMPT)["attentions"], tmp_path / "x.pt")
    (m, _) = read_maps(path, About(queries=words)).attention.maps
    assert (m.queries, m.keys, m.kind) == (words, words, "masked")
    saved(written(llama, TWO, attention_mask=NOT_PADDED)["attentions"], path)
    with pytest.raises(
        ArgumentError, match=r"`queries`: expected none, as labels are of one text, and .* holds 2 in a"
    ):
        read_maps(path, About(queries=words))


def test_what_generate_returns_is_named_where_it_cannot_be_read(llama, tmp_path):
    found = llama.generate(PROMPT, max_new_tokens=1, return_dict_in_generate=True)
    with pytest.raises(MhavizError, match=r"it holds GenerateDecoderOnlyOutput of transformers, a Python object, .*"):
        read_maps(saved(found, tmp_path / "x.pt"))


def test_steps_in_python(llama):
    made, words = written(llama, PROMPT), list("abcdefghi")
    figure = display_attention(words, words, made["attentions"])
    drawn = [image.get_array() for image in figure.page.images if image.get_label().startswith("L")]
    expected = llama(made["sequences"][:, :-1], output_attentions=True).attentions
    for head, A in zip(drawn, torch.cat(expected).flatten(0, 1).detach(), strict=True):
        np.testing.assert_allclose(np.ma.filled(head, 0), A, atol=CLOSE)
    assert "masked self-attention" in figure.page.texts[0].get_text()
    with pytest.raises(ArgumentError, match="layer 0 of attention: expected axis q_length to be 8, got 9"):
        display_attention(words[:8], words[:8], made["attentions"])
    with pytest.raises(ArgumentError, match=r"attention\[0\]\[0\]: expected axis batch_size to be 1, got 2"):
        display_attention(words, words, written(llama, TWO, attention_mask=NOT_PADDED)["attentions"])


def rows(n_rows, n_keys, seed=0):
    """Weights of a batch of one, of one head, that see all keys."""
    return torch.randn(1, 1, n_rows, n_keys, generator=torch.Generator().manual_seed(seed)).softmax(-1)


def masked(n, seed=0):
    """Weights of a batch of one, of one head, that see no later key."""
    scores = torch.randn(n, n, generator=torch.Generator().manual_seed(seed))
    return scores.masked_fill(~torch.ones(n, n).tril().bool(), -torch.inf).softmax(-1)[None, None]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([masked(3), masked(4, seed=1)], "list 1 does not repeat the weights of the one before"),
        ([masked(4), rows(1, 4)], "step 1 has 4 keys where there are 5 tokens, and it is not known which they are"),
        ([masked(2), rows(1, 3), rows(1, 3)], "step 2 has 3 keys where there are 4 tokens"),
        ([masked(5), rows(1, 3)], "step 1 has 3 keys where there are 6 tokens"),
    ],
)
def test_lists_that_may_be_no_steps_are_refused(steps, message, tmp_path):
    with pytest.raises(MhavizError, match=message):
        read_maps(saved([[A] for A in steps], tmp_path / "x.pt"))


def test_texts_that_are_no_steps_need_a_number(tmp_path):
    saved([[masked(n)] * 2 for n in (4, 6, 5)], tmp_path / "x.pt")
    with pytest.raises(ArgumentError, match=r"choose one of 0 2 × \(1, 1, 4, 4\), 1 2 × \(1, 1, 6, 6\)"):
        read_maps(tmp_path / "x.pt")


def test_a_window_that_the_prompt_has_as_well(tmp_path):
    seen = torch.ones(5, 5).tril().triu(-2).bool()
    whole = torch.randn(7, 7).masked_fill(~torch.ones(7, 7).tril().triu(-2).bool(), -torch.inf).softmax(-1)
    steps = [[whole[None, None, :5, :5]], *([whole[None, None, i : i + 1, i - 2 : i + 1]] for i in (5, 6))]
    (m,) = read_maps(saved(steps, tmp_path / "x.pt")).attention.maps
    np.testing.assert_array_equal(m.weights[0], whole)
    assert (m.kind, m.reach) == ("masked", 2)
    np.testing.assert_array_equal(m.hidden[:5, :5], ~seen)


def test_a_prompt_that_is_read_to_both_sides_hides_nothing(tmp_path):
    (m,) = read_maps(saved([[rows(3, 3)], [rows(1, 4)]], tmp_path / "x.pt")).attention.maps
    assert (m.kind, m.hidden) == ("self", None)
    np.testing.assert_array_equal(m.weights[0, :3, :3], rows(3, 3)[0, 0])
    assert not m.weights[0, :3, 3].any()


def test_a_cache_from_before_the_prompt_comes_before_its_queries(tmp_path):
    whole = masked(6)
    (m,) = read_maps(saved([[whole[..., 3:5, :5]], [whole[..., 5:, :]]], tmp_path / "x.pt")).attention.maps
    assert (m.kind, m.queries, m.keys) == ("masked", tuple("345"), tuple("012345"))
    np.testing.assert_array_equal(m.weights[0], whole[0, 0, 3:])
    np.testing.assert_array_equal(m.hidden, ~np.tri(6, dtype=bool)[3:])


def test_one_query_each_over_as_many_keys_may_be_several_texts(tmp_path):
    lists = [[rows(1, 4, seed)] for seed in range(3)]
    read = read_maps(saved(lists, tmp_path / "x.pt"))
    (m,) = read.attention.maps
    np.testing.assert_array_equal(m.weights[0], torch.cat([one[0][0, 0] for one in lists]))
    assert m.kind == "cross"
    (notice,) = read.notices
    assert "3 lists of layers are read as steps of one text with the same keys; if they are of several" in notice
    read = read_maps(saved({"cross_attentions": lists}, tmp_path / "x.pt"))
    assert not read.notices


def test_only_what_no_token_reads_and_no_mask_allows_is_padding():
    text = np.tri(4, dtype=np.float32)[None]
    assert n_padding([text]) == 0
    behind = np.zeros((1, 6, 6), np.float32)
    behind[:, 2:, 2:] = text
    behind[:, :2, :2] = np.tri(2)
    assert n_padding([behind]) == 0, "another text before it"
    behind[:, :2] = 1 / 6
    assert n_padding([behind]) == 2
    behind[:, :2] = 0
    assert n_padding([behind]) == 2
    behind[:, 5, :2] = 0.1
    assert n_padding([behind, text]) == n_padding([behind]) == 0


def test_lists_of_other_shapes_are_no_steps():
    assert are_steps([[(1, 2, 3, 3)], [(1, 2, 1, 4)]])
    assert not are_steps([[(1, 2, 3, 3)], [(1, 3, 1, 4)]])
    assert not are_steps([[(1, 2, 3, 3)], [(2, 2, 1, 4)]])
    assert not are_steps([[(1, 2, 3, 3)], [(1, 2, 1, 4), (1, 2, 1, 4)]])
    assert not are_steps([[(3, 3)], [(1, 4)]])
