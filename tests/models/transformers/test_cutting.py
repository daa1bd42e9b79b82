"""Texts that are too long for a model, cut into pieces: every query counts once, with the context that it has."""

import copy
import itertools

import numpy as np
import pytest
import torch
import transformers as hf
from families import FAMILIES, bytes_and_words, word_pieces
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

import mhaviz
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.corpus.batches import added_around, cut
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.tokens import Tokens

LONG = "the cat sat on the mat . a dog ran ! the token s play ing hello world ' the cat ran on the dog !"


def of_length(before, length, after):
    total = before + length + after
    special = (*range(before), *range(before + length, total))
    return Tokens(("",) * total, special, tuple(range(total)))


@given(
    before=st.integers(0, 2),
    length=st.integers(1, 60),
    after=st.integers(0, 2),
    room=st.integers(1, 12),
    share=st.none() | st.floats(0, 0.999),
    is_masked=st.booleans(),
)
def test_every_token_counts_in_one_piece(before, length, after, room, share, is_masked):
    overlap = None if share is None else int(room * share)
    tokens = of_length(before, length, after)
    assert added_around(tokens) == (before, after)
    pieces = cut(tokens, before + room + after, (before, after), overlap, is_masked)
    if len(pieces) == 1:
        assert length <= room
        assert pieces[0].piece is None
        assert pieces[0].source == tokens
        return
    counted = [place for text in pieces for place in range(text.piece.start, text.piece.end)]
    assert len(counted) == len(tokens)
    ids = [text.source.ids[i] for text in pieces for i in range(text.piece.start, text.piece.end)]
    assert ids == list(range(len(tokens))), "each once, in order"
    for text in pieces:
        assert len(text.source) == before + room + after
        assert text.piece.count == len(pieces)
        places = range(before, before + room)
        assert [text.source.ids[i] for i in places] == [text.piece.offset + i for i in places]
        assert text.source.special == (*range(before), *range(before + room, before + room + after))
    for one, following in itertools.pairwise(pieces):
        shared = one.piece.offset + room - following.piece.offset
        assert shared >= (overlap if overlap is not None else 0)
        new = following.piece.start - before  # tokens of context before the first query that counts
        assert new == (shared if is_masked else (shared + 1) // 2)


@pytest.mark.parametrize(("overlap", "most"), [(6, 8), (-1, 8), (0, 2)])
def test_an_overlap_that_cannot_be(overlap, most):
    with pytest.raises(ArgumentError, match=r"`overlap`: expected from 0 to -?\d tokens, as a piece has \d, got"):
        cut(of_length(1, 50, 1), most, (1, 1), overlap)


@pytest.fixture(scope="module", params=["bert", "gpt2"])
def short(request):
    """A model of 12 positions, as transformers itself runs it and as mhaviz does."""
    kind, config, _ = FAMILIES[request.param]
    torch.manual_seed(0)
    sizes = config()
    sizes.max_position_embeddings = 12
    model = kind._from_config(sizes, attn_implementation="eager").eval().double()
    words = {"bert": word_pieces, "gpt2": bytes_and_words}[request.param]()
    return model, words, mhaviz.load(model, words)


def test_statistics_count_a_long_text_as_one_sentence(short):
    model, words, loaded = short
    overlap, notices = 3, []
    found = loaded.head_statistics(mhaviz.Corpus(["the cat", LONG, "a dog"], overlap=overlap), on_notice=notices.append)
    is_masked = found.kinds[0].kind == "masked"
    expected, of_copies = [], []
    for text in ("the cat", LONG, "a dog"):
        ids = words(text)["input_ids"]
        first, last = (0, 0) if is_masked else (1, 1)
        body, room = ids[first : len(ids) - last], 12 - first - last
        entropy, previous, queries, copies, copied = 0.0, 0.0, 0, 0.0, 0
        starts = [0] if len(body) <= room else [*range(0, len(body) - room, room - overlap), len(body) - room]
        begin = 0  # of the tokens that no piece has counted
        for i, start in enumerate(starts):
            part = torch.tensor([ids[:first] + body[start : start + room] + ids[len(ids) - last :]])
            with torch.no_grad():
                A = torch.stack(model(part, output_attentions=True).attentions)[:, 0].numpy()
            end = len(ids)
            if i + 1 < len(starts):
                end = start + room if is_masked else (starts[i + 1] + start + room + 1) // 2
                end += first
            rows = range(begin - start, end - start)
            entropy = entropy - np.where(A > 0, A * np.log(np.maximum(A, 1e-300)), 0)[:, :, rows].sum(axis=(2, 3))
            before = [row for row in rows if row]
            previous = previous + A[:, :, before, [row - 1 for row in before]].sum(axis=2)
            for row in range(max(rows.start, first), min(rows.stop, first + len(body[start : start + room]))):
                earlier = [i for i in range(first, row) if part[0, i] == part[0, row]]
                copies, copied = copies + A[:, :, row, earlier].sum(axis=2), copied + bool(earlier)
            queries, begin = queries + len(before), end
        assert begin == len(ids)
        expected.append((entropy / len(ids), previous / queries))
        if copied:
            of_copies.append((copies / copied, copied))
    heads = found.kinds[0]
    assert heads.sentences == 3
    assert heads.queries == sum(len(words(text)["input_ids"]) for text in ("the cat", LONG, "a dog"))
    np.testing.assert_allclose(heads.entropy.mean, np.mean([one for one, _ in expected], axis=0), rtol=1e-9)
    np.testing.assert_allclose(heads.previous.mean, np.mean([one for _, one in expected], axis=0), rtol=1e-9)
    assert heads.copies.queries == heads.induction.queries == sum(copied for _, copied in of_copies) > 0
    np.testing.assert_allclose(heads.copies.mean, np.mean([one for one, _ in of_copies], axis=0), rtol=1e-9)
    assert found.too_long == 0
    assert any("1 sentence was cut into" in notice and "overlap by 3" in notice for notice in notices)


def test_two_models_are_compared_on_pieces(short):
    model, words, loaded = short
    other = copy.deepcopy(model)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    found = mhaviz.diff_models(loaded, mhaviz.load(other, words), mhaviz.Corpus(["the cat", LONG], overlap=3))
    of_sentences, largest, n_tokens = [], {}, 0
    for number, text in enumerate(["the cat", LONG]):
        divergences, length = 0.0, len(words(text)["input_ids"])
        tokens = loaded._whole.read_unnamed([text])[0]
        pieces = cut(tokens, 12, added_around(tokens), 3, is_masked=loaded.kinds == ("masked",))
        for read in pieces:
            ids = torch.tensor([read.source.ids])
            with torch.no_grad():
                p, q = (torch.stack(m(ids, output_attentions=True).attentions)[:, 0].numpy() for m in (model, other))
            bits = jensenshannon(p, q, base=2, axis=-1) ** 2  # n_layers n_heads q_length
            start, end = (read.piece.start, read.piece.end) if read.piece else (0, length)
            divergences = divergences + bits[:, :, start:end].sum(axis=2)
            for query in range(start, end):
                largest[number, query + (read.piece.offset if read.piece else 0)] = bits[:, :, query]
        of_sentences.append(divergences / length)
        n_tokens += length
    heads = found.kinds[0].divergence
    assert len(pieces) > 2
    assert (heads.sentences, heads.queries) == (2, n_tokens) == (2, len(largest))
    np.testing.assert_allclose(heads.mean, np.mean(of_sentences, axis=0), rtol=1e-9)
    places, rows = list(largest), np.stack(list(largest.values()))
    best = rows.argmax(axis=0)
    np.testing.assert_allclose(heads.largest, rows.max(axis=0), rtol=1e-9)
    assert [[places[one] for one in layer] for layer in best] == [
        list(map(tuple, layer)) for layer in np.stack([heads.sentence, heads.query], axis=-1).tolist()
    ]


def test_processes_share_long_texts(short, as_processes):
    _, _, loaded = short
    texts = [LONG if i % 5 == 0 else "the cat sat" for i in range(40)]
    whole = loaded.head_statistics(mhaviz.Corpus(texts, overlap=4))

    def read(rank, overlap=4):
        return loaded.head_statistics(mhaviz.Corpus(texts, overlap=overlap, torchrun=True))

    shared = as_processes(2, read)
    for name in ("entropy", "previous"):
        one, other = (getattr(found.kinds[0], name) for found in (whole, shared))
        assert (one.sentences, one.queries) == (other.sentences, other.queries)
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
        np.testing.assert_allclose(one.spread, other.spread, rtol=1e-9)
    with pytest.raises(MhavizError, match=r"differ in their overlap"):
        as_processes(2, lambda rank: read(rank, 4 - rank))


def test_pieces_of_what_an_encoder_reads_beside_a_decoder():
    """The decoder writes a target for each piece, all of whose queries count; the text is one sentence."""
    torch.manual_seed(0)
    sizes = FAMILIES["bart"][1]()
    sizes.max_position_embeddings = 12
    words = FAMILIES["bart"][2]()
    model = hf.BartForConditionalGeneration(sizes).eval()
    loaded = mhaviz.load(model, words, predicts=True)
    found = {heads.kind: heads for heads in loaded.head_statistics([LONG, "the cat"]).kinds}
    length = sum(len(words(text)["input_ids"]) for text in (LONG, "the cat"))
    assert (found["self"].sentences, found["self"].queries) == (2, length)
    pieces = cut(loaded._whole.read_unnamed([LONG])[0], 12, (1, 1))
    written = loaded._whole.encode_unnamed([LONG] * len(pieces) + ["the cat"], [*pieces, None])
    assert found["cross"].sentences == 2
    assert found["cross"].queries == sum(len(text.target) for text in written.texts)


def test_a_needle_needs_texts_that_are_read_at_once(short):
    model = short[2]._whole
    tokens = model.read_unnamed([LONG])[0]
    pieces = cut(tokens, 12, added_around(tokens), is_masked=True)
    study = HeadStudy(needle=[5, 6])
    with pytest.raises(MhavizError, match="expected texts that the model can read in one piece, as each has"):
        model.run(model.encode_unnamed([LONG], pieces[:1]), lambda seen: study.add(seen, [0]))


@pytest.mark.parametrize("markers", [1, 40])
def test_markers_at_the_ends_of_a_long_text_are_in_one_piece_each(short, markers, monkeypatch):
    """Each piece has what the tokenizer adds. With 40 markers as well it would have no room for the text."""
    _, words, loaded = short
    marker = words.sep_token or words.eos_token
    text = f"{marker * markers} {LONG} {marker * markers}"
    model, pieces = type(loaded._whole), []
    encode = model.encode_unnamed

    def encoding(*given):
        inputs = encode(*given)
        pieces.extend(one for one in inputs.texts if one.piece is not None)
        return inputs

    monkeypatch.setattr(model, "encode_unnamed", encoding)
    found = loaded.head_statistics([text, marker * markers, "the cat"])
    assert found.kinds[0].queries == sum(len(words(one)["input_ids"]) for one in (text, "the cat"))
    assert found.kinds[0].sentences == 2, "markers alone are no text"
    whole, (before, after) = words(text)["input_ids"], added_around(loaded._whole.read_unnamed(["a"])[0])
    for one in pieces:
        start, end = before + one.piece.offset, one.piece.offset + 12 - after
        assert [*one.source.ids] == [*whole[:before], *whole[start:end], *whole[len(whole) - after :]]
    assert whole == [number for one in pieces for number in one.source.ids[one.piece.start : one.piece.end]]


def test_on_the_command_line(mhaviz, short, tmp_path):
    model, words, _ = short
    for part in (model, words):
        part.save_pretrained(tmp_path / "short")
    (tmp_path / "texts.txt").write_text(f"the cat\n{LONG}\n")
    name = str(tmp_path / "short")
    corpus = ("--file", str(tmp_path / "texts.txt"))
    result = mhaviz("heads", "--model", name, *corpus)
    assert result.status == 0
    assert "1 sentence was cut into pieces of 12 tokens that overlap by a quarter of that, as up to" in result.err
    assert "1 text cut into pieces" in " ".join(result.out.split())
    assert mhaviz("diff", name, name, *corpus, "--fail-above", "0").status == 0
    result = mhaviz("heads", "--model", name, *corpus, "--languages", ",fr")
    assert (result.status, result.out) == (2, "")
    assert "--languages is for multilingual models" in result.err
