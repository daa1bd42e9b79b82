"""Statistics of heads over a corpus that processes share: those of one process, whatever is killed."""

import json
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from families import WORDS
from forked import run_two
from safetensors import safe_open
from safetensors.numpy import save_file

import mhaviz
from mhaviz.analyses import bootstrap
from mhaviz.analyses.corpus_difference import DifferenceStudy
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.corpus import batches as corpus_batches
from mhaviz.corpus import corpus as corpora
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.parts import read_part, write_part
from mhaviz.results.corpus_part import Shard
from mhaviz.results.head_statistics import STATISTICS

DRAW = random.Random(0)
TEXTS = [" ".join(DRAW.choices(WORDS, k=DRAW.randint(2, 30))) for _ in range(200)]
FEW = TEXTS[:40]


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    """Those of the bootstrap are most of what is saved."""
    monkeypatch.setattr(bootstrap, "REPLICATES", 20)


@pytest.fixture(scope="module")
def model(model_folder):
    return mhaviz.load(model_folder("bert"), dtype="float64", device="cpu")


def apart(one, other):
    """The largest difference of any number of two statistics."""
    differences = []
    for ours, theirs in zip(one.kinds, other.kinds, strict=True):
        assert (ours.kind, ours.layers, ours.sentences, ours.queries) == (
            theirs.kind,
            theirs.layers,
            theirs.sentences,
            theirs.queries,
        )
        for name in STATISTICS:
            a, b = ours.number(name), theirs.number(name)
            assert (a.sentences, a.queries) == (b.sentences, b.queries)
            for field in ("mean", "spread", "low", "high", "chance"):
                x, y = (np.asarray(getattr(average, field)) for average in (a, b))
                np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
                differences.append(np.nanmax(np.abs(x - y), initial=0))
    return max(differences)


@pytest.mark.parametrize("n", [2, 64])
@pytest.mark.slow
def test_processes_give_what_one_gives(model, as_processes, n):
    """Of 64 some have no sentence: if one failed, torchrun would end all."""
    whole, own = model.head_statistics(TEXTS), []

    def read(rank):
        own.append(model.head_statistics(mhaviz.Corpus(TEXTS, torchrun=True)))
        return own[-1]

    shared = as_processes(n, read)
    assert apart(shared, whole) <= 1e-12  # 1e-9 is promised
    assert shared.source == whole.source
    assert own[0].source.details["shard"] == [n, n]
    assert apart(as_processes(n, read), shared) == 0.0


def test_a_sentence_in_another_batch_gives_the_same(model, monkeypatch):
    """Alone, without padding, and in the batches of a block, in float64."""
    together = model.head_statistics(FEW)
    monkeypatch.setattr(corpus_batches, "_cuts", lambda lengths, most: ((i, i + 1) for i in range(len(lengths))))
    assert 0 < apart(model.head_statistics(FEW), together) <= 1e-12  # 1e-9 is promised


class KilledError(Exception):
    pass


def test_killed_at_random_nothing_is_lost(model, tmp_path, monkeypatch):
    """Twenty times after some batch, whatever has been saved by then; in tests/benchmarks by SIGKILL."""
    monkeypatch.setattr(corpora, "_SECONDS", -1.0)
    monkeypatch.setattr(corpora, "_SHARE", 0)
    whole, killed, notices = tmp_path / "whole.safetensors", tmp_path / "killed.safetensors", []
    model.head_statistics(mhaviz.Corpus(TEXTS, whole))

    def die_after(batches):
        left = iter(range(batches))

        def on_progress(done, taken):
            if next(left, None) is None:
                raise KilledError

        return on_progress

    deaths = 0
    while deaths < 20:
        try:
            model.head_statistics(
                mhaviz.Corpus(TEXTS, part=killed, resume=True), on_progress=die_after(DRAW.randint(0, 3))
            )
            killed.unlink()
        except KilledError:
            deaths += 1
    model.head_statistics(mhaviz.Corpus(TEXTS, part=killed, resume=True), on_notice=notices.append)
    assert killed.read_bytes() == whole.read_bytes()
    assert re.search("going on after sentence|does not exist: reading from the first", notices[0])
    model.head_statistics(mhaviz.Corpus(TEXTS, part=killed, resume=True), on_notice=notices.append)
    assert notices[-1] == f"{killed} is complete"
    assert killed.read_bytes() == whole.read_bytes()


def test_what_cannot_be_gone_on_with(model, model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "_SECONDS", -1.0)
    path = tmp_path / "part.safetensors"

    def go_on(texts=FEW, of=model, path=path, **options):
        of.head_statistics(mhaviz.Corpus(texts, path, resume=True), **options)

    def die(done, taken):
        if taken > 20:
            raise KilledError

    with pytest.raises(KilledError):
        go_on(on_progress=die)
    with pytest.raises(MhavizError, match=r"expected the first \d+ sentences of the text as they were .* got others"):
        go_on(["another", *FEW[1:]])
    with pytest.raises(MhavizError, match="got 3 sentences"):
        go_on(FEW[:3])
    with pytest.raises(MhavizError, match=r"what is asked for differ in their kind: None, and 'self'"):
        go_on(kind="self")
    write_part(replace(read_part(path), shard=Shard(2, 4)), other := tmp_path / "other.safetensors")
    with pytest.raises(MhavizError, match=r"other.safetensors is shard 2/4, and this is 1/1; name the file of this"):
        go_on(path=other)
    write_part(replace(read_part(path), version="0.0"), other)
    with pytest.raises(MhavizError, match=r"other.safetensors was made by mhaviz 0\.0, and this is"):
        go_on(path=other)
    with pytest.raises(MhavizError, match="what is asked for differ in their model: "):
        go_on(of=mhaviz.load(model_folder("bert"), dtype="float32"))
    go_on([*FEW, "more"])  # what comes after what has been read may change
    with pytest.raises(MhavizError, match="expected all 41 sentences"):
        go_on([*FEW, "more", "still more"])


def test_processes_that_do_not_read_the_same(model, as_processes):
    """As where a file has other lines on another machine, or another model is under its name."""
    for changed, options, message in (
        (FEW[:-1], {}, "process 2 and process 1 differ in their text: 39 sentences with the digest"),
        (["another", *FEW[1:]], {}, "process 2 and process 1 differ in their text: 40 sentences"),
        (FEW, {"kind": "self"}, "process 2 and process 1 differ in their kind: 'self', and None"),
    ):

        def read(rank, changed=changed, options=options):
            corpus = mhaviz.Corpus(changed if rank else FEW, torchrun=True)
            return model.head_statistics(corpus, **options if rank else {})

        with pytest.raises(MhavizError, match=message):
            as_processes(2, read)


def test_files_of_anybody(model, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "_SECONDS", -1.0)
    path, broken = tmp_path / "part.safetensors", tmp_path / "broken.safetensors"
    model.head_statistics(mhaviz.Corpus(FEW[:3], path))
    with safe_open(path, "numpy") as file:
        arrays, about = {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["mhaviz"])  # noqa: SIM118

    def go_on(path):
        model.head_statistics(mhaviz.Corpus(FEW[:3], path, resume=True))

    def refused(metadata=None, changes=None, message="cannot read "):
        content = {"mhaviz": json.dumps(about | (metadata or {}))} if not isinstance(metadata, str) else metadata
        save_file(arrays | (changes or {}), broken, {"mhaviz": content} if isinstance(content, str) else content)
        with pytest.raises(MhavizError, match=message) as caught:
            go_on(broken)
        assert "\n" not in str(caught.value)

    for metadata in (
        {"models": []},
        {"models": ["x"]},
        {"models": [{"name": 3, "fingerprint": ""}]},
        {"shard": {"number": 0, "count": 1}},
        {"shard": {"number": 1, "count": True}},
        {"shard": "1/1"},
        {"options": None},
        {"progress": {**about["progress"], "read": 1e300}},
        {"progress": {**about["progress"], "read": 10**30}},
        {"mhaviz": 5},
        {"study": 5},
    ):
        refused(metadata)
    refused("nonsense")
    refused("[" * 100_000)
    refused("[]", message="it is not a part of a corpus")
    refused({}, {"more": np.ones(3, np.float32)}, "more: expected float64, got float32")
    refused({}, {"self.0.mean": np.full_like(arrays["self.0.mean"], np.nan)}, "mean: expected numbers from")
    refused({}, {"self.0.mean": np.full_like(arrays["self.0.mean"], 1e300)}, "mean: expected numbers from")
    refused({}, {"self.0.mean": np.ones((2, 2))}, "cannot go on from")
    refused({}, {"self.0.x": np.ones(3), "x": np.ones(3)}, "expected names such as self.0.mean, got 'x'")
    refused({"options": about["options"] | {"overlap": -1}}, message="differ in their overlap: -1, and None")
    refused({"study": "diff"}, message="differ in their study: diff, and heads")
    save_file(arrays, broken)
    with pytest.raises(MhavizError, match="it is not a part of a corpus"):
        go_on(broken)
    broken.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(MhavizError, match="incomplete metadata, file not fully covered"):
        go_on(broken)


def test_what_does_not_go_together(tmp_path):
    for options, message in (
        ({"part": "part.json"}, r"expected a name ending in \.safetensors, got part.json"),
        ({"resume": True}, r"continues from a part; name a \.safetensors file"),
    ):
        with pytest.raises(ArgumentError, match=message):
            mhaviz.Corpus(**options)


def test_texts_that_are_all_left_out(model, as_processes):
    texts, notices = ["" if number < 4 else text for number, text in enumerate(TEXTS[:20])], []

    def read(rank, texts=texts):
        return model.head_statistics(mhaviz.Corpus(texts, torchrun=True), on_notice=notices.append)

    as_processes(40, read)
    assert set(notices) == {"4 sentences were left out: the model's tokenizer finds no token of a text"}
    for run in (lambda: read(0, [""] * 20), lambda: as_processes(2, lambda rank: read(rank, [""] * 20))):
        with pytest.raises(
            MhavizError, match="expected a sentence that the model can read: 20 sentences were left out"
        ):
            run()


def test_who_is_who(model, model_folder, tmp_path):
    """A fingerprint tells parameters, their types, configurations and tokenizers apart, and no folders."""
    same = mhaviz.load(model_folder("bert"), dtype="float64").corpus_model().identity
    assert model.corpus_model().identity == same

    def of_copy(file, **changes):
        folder = shutil.copytree(model_folder("bert"), tmp_path / "copy", dirs_exist_ok=True)
        told = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(told | changes))
        return mhaviz.load(folder, dtype="float64").corpus_model().identity.fingerprint

    assert of_copy("config.json") == same.fingerprint
    assert of_copy("config.json", layer_norm_eps=1e-3) != same.fingerprint
    assert of_copy("config.json", layer_norm_eps=1e-12) == same.fingerprint
    of_no_weight = {"use_cache": False, "id2label": {"0": "x", "1": "y"}, "hidden_dropout_prob": 0.3}
    assert of_copy("config.json", **of_no_weight, problem_type="regression", output_attentions=True) == same.fingerprint
    normalizer = {"type": "BertNormalizer", "clean_text": True, "lowercase": False, "strip_accents": None}
    assert of_copy("tokenizer.json", normalizer=normalizer | {"handle_chinese_chars": True}) != same.fingerprint

    known = {word: number for number, word in enumerate(["[PAD]", *WORDS])}
    whole_words = {"type": "WordLevel", "vocab": known, "unk_token": "[UNK]"}
    plain = {"pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "normalizer": None, "added_tokens": []}
    assert len(of_copy("tokenizer.json", model=whole_words, **plain)) == 16, "the sample has words that it cannot read"

    other = mhaviz.load(model_folder("bert"), dtype="float64")
    last = list(other.corpus_model().loaded.model.parameters())[-1]
    last.data.view(-1)[-1] += 1e-9
    assert other.corpus_model().identity.fingerprint != same.fingerprint


def test_as_a_user_types_it(mhaviz, model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text("\n".join(FEW))
    reads = ("heads", "--model", str(model_folder("bert")), "--file", "corpus.txt")
    result = mhaviz(*reads, "--resume", "-o", "heads.json", "-q")
    assert (result.status, result.err) == (0, "")
    assert not list(Path().glob("heads.part*")), "what was kept to go on from is gone once all is saved"
    for words, message in (
        (("--resume",), "--resume continues from sums that are kept beside the output; add -o"),
        (("-o", "sums.safetensors"), "sums.safetensors: expected a name ending in "),
        (("--shard", "1/4"), "No such option: --shard"),
    ):
        result = mhaviz(*reads, *words)
        assert (result.status, len(result.err.splitlines())) == (2, 1), result.err
        assert message in result.err
    assert mhaviz("merge", "a.safetensors").status == 2


@pytest.mark.parametrize("command", ["heads", "diff"])
def test_a_run_that_is_stopped(mhaviz, model_folder, tmp_path, monkeypatch, command):
    """Each run with an output keeps what it has read beside it, also one that nobody has asked to go on."""
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text("\n".join(TEXTS[:80]))
    folder = str(model_folder("bert"))
    words = ["--model", folder] if command == "heads" else [folder, folder]
    words += ["--file", "corpus.txt", "-q", "-o", "k.json"]
    kept = Path("k.part.safetensors")

    result = mhaviz(command, *words)
    assert (result.status, result.err, kept.exists()) == (0, "", False), "a short run keeps nothing"
    whole = json.loads(Path("k.json").read_text())
    Path("k.json").unlink()

    def count_and_stop(*arguments):
        if kept.exists() and read_part(kept).progress.read > 40:
            raise KeyboardInterrupt
        return counted(*arguments)

    study = HeadStudy if command == "heads" else DifferenceStudy
    counted = study.read
    with monkeypatch.context() as patch:
        patch.setattr(corpora, "_SECONDS", -1.0)
        patch.setattr(corpora, "_SHARE", 0)
        patch.setattr(study, "read", count_and_stop)
        result = mhaviz(command, *words)
        message = "mhaviz: interrupted; the sums so far are kept in k.part.safetensors: continue with --resume\n"
        assert (result.status, result.err, Path("k.json").exists()) == (130, message, False)
        kept.replace("once.safetensors")
        result = mhaviz(command, *words)
        assert result.err == message, "without --resume it begins anew"
        assert Path("once.safetensors").read_bytes() == kept.read_bytes()
        before = kept.read_bytes()
        result = mhaviz(command, *words)
        message = "k.part.safetensors keeps sums of an earlier run; continue from it with --resume, or remove it"
        assert (result.status, result.err) == (2, f"mhaviz: {message}\n")
        assert kept.read_bytes() == before, "hours of work are not written over for want of an option"
    result = mhaviz(command, *words[:-3], "-o", "k.json", "--resume")
    assert result.status == 0
    assert "mhaviz: going on after sentence" in result.err
    assert json.loads(Path("k.json").read_text()) == whole
    assert not kept.exists()
    result = mhaviz(command, *words[:-3], "-o", "k.json", "--resume")
    assert "mhaviz: k.part.safetensors does not exist: reading from the first sentence\n" in result.err


def test_what_is_kept_is_told_after_an_error_and_no_run_fails_for_it(mhaviz, model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(corpora, "_SECONDS", -1.0)
    monkeypatch.setattr(corpora, "_SHARE", 0)
    monkeypatch.setattr(corpus_batches, "MOST_OF_A_BLOCK", 4)  # 32 sentences are read ahead
    words = ["heads", "--model", str(model_folder("bert")), "-o", "k.json", "--file", "corpus.txt"]
    Path("corpus.txt").write_bytes("\n".join(TEXTS).encode() + b"\n\xff\n")
    result = mhaviz(*words)
    kept, error = result.err.splitlines()
    assert (result.status, kept) == (
        1,
        "mhaviz: the sums so far are kept in k.part.safetensors: continue with --resume",
    )
    assert "UTF-8" in error
    Path("k.part.safetensors").unlink()

    def full(part, path):
        raise MhavizError(f"{path} cannot be written (No space left on device)")

    monkeypatch.setattr(corpora, "write_part", full)
    Path("corpus.txt").write_text("\n".join(FEW))
    result = mhaviz(*words)
    assert result.status == 0
    assert result.err.splitlines() == [
        "mhaviz: this run cannot be resumed: k.part.safetensors cannot be written (No space left on device)",
        "mhaviz: saved k.json",
    ]


def test_the_part_of_an_output_with_a_long_name(mhaviz, model_folder, tmp_path, monkeypatch):
    """It is called after the output, and would have a longer name than a file system allows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(corpora, "_SECONDS", -1.0)
    monkeypatch.setattr(corpora, "_SHARE", 0)
    name = "é" * 119 + "abc.json"
    result = mhaviz("heads", *FEW, "--model", str(model_folder("bert")), "-o", name)
    assert (result.status, result.err) == (0, f"mhaviz: saved {name}\n")
    assert [path.name for path in tmp_path.iterdir()] == [name]


SAVING_OFTEN = """
import os, sys
from mhaviz.corpus import corpus as corpora
from mhaviz.analyses import bootstrap
from mhaviz.cli import run
bootstrap.REPLICATES, corpora._SECONDS, corpora._SHARE = 20, -1.0, 0
write = corpora.write_part
def write_and_die(part, path):
    write(part, path)
    os._exit(9)
if DIES:
    corpora.write_part = write_and_die
sys.exit(run())
"""


@pytest.mark.slow
def test_two_processes_share_a_corpus(model_folder, tmp_path):
    """The first alone speaks and saves, and finds what one finds, after both were killed; what they kept is gone."""
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS))
    words = ["heads", "--model", model_folder("bert"), "--dtype", "float64", "--file", "corpus.txt", "--json"]
    words += ["--resume", "-o", "two.csv"]
    killed = run_two(f"DIES = True{SAVING_OFTEN}", *words, folder=tmp_path)
    assert [status for status, *_ in killed] == [9, 9], killed
    kept = [tmp_path / f"two.part-{number}-of-2.safetensors" for number in (1, 2)]
    assert [read_part(path).progress.read for path in kept] == [25, 50]
    (status, *first), second = run_two(f"DIES = False{SAVING_OFTEN}", *words, folder=tmp_path)
    assert (status, *second) == (0, 0, "", ""), (first, second)
    assert first[1].splitlines() == [
        "mhaviz: going on after sentence 25, where two.part-1-of-2.safetensors has come to",
        "mhaviz: saved two.csv",
    ]
    whole = mhaviz.load(model_folder("bert"), dtype="float64", device="cpu").head_statistics(TEXTS)
    (kind,) = json.loads(first[0])["kinds"]
    assert (kind["sentences"], kind["queries"]) == (whole.kinds[0].sentences, whole.kinds[0].queries)
    for name, numbers in kind["statistics"].items():
        for field in ("mean", "low", "high"):
            ours, theirs = np.array(numbers[field], float), getattr(whole.kinds[0].number(name), field)
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    assert not list(tmp_path.glob("*.safetensors"))
