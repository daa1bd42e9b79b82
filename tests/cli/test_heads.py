"""mhaviz heads as a user types it, with a model of a few lines."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from mhaviz.api import loaded
from mhaviz.attention.call import AttentionWeights
from mhaviz.attention.model import CorpusModel, Site, SiteCall
from mhaviz.cli.shared.ranking import SortColumn
from mhaviz.cli.shared.texts import stream_sentences
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.head_statistics import MEASURES
from mhaviz.results.result import Source


@dataclass(frozen=True)
class FakeModel(CorpusModel):
    """Two layers of three heads that look at the first, the previous and the last key; [CLS] is 0, [SEP] is 1."""

    kinds: tuple = ("self",)
    max_length: int | None = None
    batches: list = field(default_factory=list)

    device = torch.device("cpu")
    predictor = zeroing = identity = pads_unseen = read_unnamed = token_text = None  # it predicts nothing
    language_codes = ()

    @property
    def all_sites(self):
        return tuple(Site(kind, layer, 3, 1) for layer in range(2) for kind in self.kinds)

    def encode(self, sentences, target=None):
        raise NotImplementedError

    def trace(self, inputs, values=False):
        raise NotImplementedError

    def describe(self, inputs=None):
        return Source("a model of a test", {"kind": "test", "model": "fake"})

    def lengths(self, texts):
        return [len(text.split()) + 2 if text.split() != ["."] else 0 for text in texts]

    def encode_unnamed(self, texts, pieces=()):
        self.batches.append(texts)
        lengths = self.lengths(texts)
        assert self.max_length is None or max(lengths) <= self.max_length
        words = ([2 + sum(map(ord, word)) for word in text.split()] for text in texts)
        return tuple(Tokens(("",) * n, (0, n - 1), (0, *ids, 1)) for n, ids in zip(lengths, words, strict=True))

    def run(self, side, on_attention, heads=None, batched=False):
        lengths = list(map(len, side))
        n, most = len(lengths), max(lengths)
        weights = torch.zeros(n, 3, most, most)
        weights[:, 0, :, 0] = 1
        weights[:, 1, range(most), [0, *range(most - 1)]] = 1
        weights[range(n), 2, :, [length - 1 for length in lengths]] = 1
        for site in self.sites():
            on_attention(SiteCall(site, AttentionWeights(weights), (0, 1, 2), side, side))


@pytest.fixture
def model(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def make(*arguments, **options):
        fake = FakeModel(*arguments, **options)
        monkeypatch.setattr(loaded, "load_model", lambda *_, **__: fake)
        return fake

    return make


TEXT = "the cat saw the dog\n\na bird\n  \nthe end\n"


def test_in_numbers(mhaviz, model):
    model()
    Path("t.txt").write_text(TEXT)
    data = json.loads(mhaviz("heads", "--model", "fake", "one two two", "--file", "t.txt", "--json").out)
    assert data["source"] == {"footnote": "a model of a test", "kind": "test", "model": "fake"}
    (kind,) = data["kinds"]
    assert (kind["kind"], kind["layers"], kind["sentences"], kind["queries"]) == ("self", [0, 1], 4, 20)
    statistics = kind["statistics"]
    assert list(statistics) == [column.name for column in MEASURES]
    assert statistics["first"]["mean"][0][0] == statistics["previous"]["mean"][1][1] == 1.0
    assert statistics["separators"]["mean"][0] == pytest.approx([1, np.mean([2 / 5, 2 / 7, 1 / 2, 1 / 2]), 1])
    assert statistics["separators"]["spread"][0][1] == pytest.approx(np.std([2 / 5, 2 / 7, 1 / 2, 1 / 2], ddof=1))
    copies = statistics["copies"]
    assert (copies["sentences"], copies["queries"]) == (2, 2)
    assert copies["mean"][0] == [0, 0.5, 0]
    assert data["too_long"] == 0


def test_in_the_terminal(mhaviz, model):
    model()
    result = mhaviz("heads", "--model", "fake", "one two two", "a b c", "--sort", "previous")
    assert result.status == 0
    assert not result.err
    assert " ".join(result.out.split()).startswith(
        "a model of a test: 2 of 6 heads put most of their weight on the token before, where there is one "
        "self-attention: 6 heads, means over 2 sentences, 10 tokens "
    )
    assert "heads by previous, highest first\n" in result.out
    assert result.out.splitlines()[-1] == "a model of a test"
    assert "copies, induction: of 1 token in 1 sentence that has an earlier copy" in result.out
    assert not mhaviz("heads", "--model", "fake", "one two", "-q").out


def test_one_sentence_has_no_spread(mhaviz, model):
    model()
    result = mhaviz("heads", "--model", "fake", "a b c", "--json")
    assert "null" in result.out
    statistics = json.loads(result.out)["kinds"][0]["statistics"]
    assert statistics["first"]["spread"] == statistics["copies"]["mean"] == [[None] * 3] * 2
    table = mhaviz("heads", "--model", "fake", "a b c").out.split("heads by")[1]
    assert "±0" not in table


def test_files_are_the_same_each_time(mhaviz, model):
    model(("self", "cross"))
    for name in ("one", "two"):
        result = mhaviz(
            "heads", "--model", "fake", "a b c", "a d", "--dpi", "60", "-o", f"{name}.png", "-o", f"{name}.json"
        )
        assert result.status == 0
        assert result.err.splitlines()[:2] == [f"mhaviz: saved {name}.png", f"mhaviz: saved {name}.json"]
    for suffix in ("png", "json"):
        assert Path(f"one.{suffix}").read_bytes() == Path(f"two.{suffix}").read_bytes()


def test_options_change_the_result(mhaviz, model):
    model(("self", "cross"))
    options = ["", "--sort first", "--top 1", "--kind cross", "--kind self"]
    assert len({mhaviz("heads", "--model", "fake", "a b c", "a b", *option.split()).out for option in options}) == len(
        options
    )
    for i, option in enumerate(["", "--cmap magma", "--kind self"]):
        words = ("heads", "--model", "fake", "a b c", "-q", "-o", f"{i}.png", "--dpi", "40", *option.split())
        assert mhaviz(*words).status == 0
    assert len({path.read_bytes() for path in Path().glob("?.png")}) == 3
    assert [
        kind["kind"]
        for kind in json.loads(mhaviz("heads", "--model", "fake", "a b", "--kind", "cross", "--json").out)["kinds"]
    ] == ["cross"]


@pytest.mark.parametrize("arguments", [["-"], ["--file", "-"]])
def test_standard_input(mhaviz, model, arguments):
    fake = model()
    result = mhaviz("heads", "--model", "fake", *arguments, stdin=b"\xef\xbb\xbfone two\r\n\r\nthree\n")
    assert result.status == 0
    assert fake.batches == [("one two", "three")]


def test_standard_input_can_be_read_once(mhaviz, model):
    model()
    result = mhaviz("heads", "--model", "fake", "-", "--file", "-", stdin=b"one two\n")
    assert (result.status, result.err) == (1, "mhaviz: standard input is empty: expected sentences, one per line\n")


def test_what_has_no_token_is_left_out_and_counted(mhaviz, model):
    fake = model(max_length=5)
    Path("t.txt").write_text("a b\nc d e\n.\n")
    result = mhaviz("heads", "--model", "fake", "--file", "t.txt")
    assert result.status == 0
    assert fake.batches == [("c d e", "a b")]
    assert result.err == "mhaviz: 1 sentence was left out: the model's tokenizer finds no token of a text\n"


def test_a_corpus_streams(mhaviz, model):
    """Sorted within some thousand lines, and never all of it at once."""
    fake = model()
    with Path("t.txt").open("w") as file:
        for number in range(5_000):
            file.write("word " * (1 + number % 7) + "\n")
    result = mhaviz("heads", "--model", "fake", "--file", "t.txt", "--json")
    assert json.loads(result.out)["kinds"][0]["sentences"] == 5_000
    assert max(len(batch) * (len(batch[0].split()) + 2) for batch in fake.batches) <= 2048
    lines = stream_sentences(None, Path("t.txt"))
    sentence = next(iter(lines))
    assert sentence.text == "word"
    assert sentence.done == pytest.approx(6 / Path("t.txt").stat().st_size)
    assert list(lines)[-1].done == 1.0


def test_the_columns_are_those_of_the_table():
    assert list(get_args(SortColumn)) == [column.name for column in MEASURES]


BAD = [
    ("--random-repeat 5 a", 2, "--random-repeat takes the place of sentences; leave out one of them"),
    ("--random-repeat 5", 2, "--random-repeat is for a transformers model; name one with --model"),
    ("--random-repeat 5 --needle x", 2, "--random-repeat and --needle are two kinds of texts; leave out one"),
    ("--sort needle a", 2, "--sort needle ranks heads by what they read of a needle, and none was in the sentences"),
    ("--sort retrieval a", 2, "--sort retrieval ranks heads by what they read of a needle, and none was"),
    ("--languages fr a", 2, "--languages: expected two codes such as eng_Latn,fra_Latn, got 'fr'"),
    ("--languages= a", 2, "--languages: expected two codes such as eng_Latn,fra_Latn, got ''"),
    ("--sort nothing a", 2, "'nothing' is not one of 'entropy', 'distance', 'itself', 'previous', 'next', 'first'"),
    ("--top 0 a", 2, "--top: expected a number of heads such as 20, or all, got '0'"),
    ("--top many a", 2, "--top: expected a number of heads such as 20, or all, got 'many'"),
    ("--kind cross a", 2, "--kind: expected a kind of attention that the model has, self, got cross"),
    ("", 2, "no sentence: give one in quotes, --file sentences.txt, or - for standard input"),
    ("--file nothing.txt", 1, "cannot read nothing.txt: No such file or directory"),
    ("--file .", 1, "cannot read .: Is a directory"),
    ("--file empty.txt", 1, "empty.txt is empty: expected sentences, one per line"),
    ("--file latin.txt", 1, "latin.txt is not UTF-8: byte 0xe9 in line 2; convert it first"),
    ("-", 1, "standard input is empty"),
    ("-o x.gif a", 2, "expected a name ending in .png, .svg, .pdf, .json"),
    ("--cmap nothing a", 2, "cmap: expected a matplotlib colormap, got 'nothing'"),
    ("--dpi 1 a", 2, "dpi: expected at least 20, got 1"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), BAD, ids=[words for words, _, _ in BAD])
def test_bad_input_is_one_line_and_the_right_status(mhaviz, model, arguments, status, message):
    model(max_length=9)
    Path("empty.txt").write_text("\n \n")
    Path("latin.txt").write_bytes("good\ncafé\n".encode("latin-1"))
    result = mhaviz("heads", "--model", "fake", *arguments.split())
    assert result.status == status, result.err
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert not result.out


def test_a_table_of_all_numbers(mhaviz, model):
    model()
    result = mhaviz("heads", "--model", "fake", "a b c", "a d", "-q", "-o", "heads.csv")
    assert (result.status, result.err) == (0, "")
    lines = Path("heads.csv").read_text().splitlines()
    assert lines[0].startswith('"kind","layer","head","number","mean","spread","low","high","chance"')
    assert '"self",0,0,"first",1.0,0.0,"","",' in lines[6]


def test_a_blank_argument(mhaviz, model):
    model()
    assert mhaviz("heads", "--model", "fake", " ").status == 2


def test_no_model(mhaviz, tmp_path):
    (tmp_path / "t.txt").write_text("a b")
    result = mhaviz("heads", "--file", str(tmp_path / "t.txt"))
    assert (result.status, result.err) == (2, "mhaviz: Missing option '--model'; see mhaviz heads --help\n")
