"""Statistics of heads over a corpus in parts: those of the whole, whatever is killed, and of nothing else."""

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
from mhaviz.analyses.corpus_difference import DifferenceStudy
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.corpus import batches as corpus_batches
from mhaviz.corpus import corpus as corpora
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.parts import read_part, write_part
from mhaviz.results.head_statistics import STATISTICS

DRAW = random.Random(0)
TEXTS = [" ".join(DRAW.choices(WORDS, k=DRAW.randint(2, 30))) for _ in range(200)]
FEW = TEXTS[:40]


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


def shards(model, texts, n, folder, **options):
    """The files of all shards."""
    paths = [folder / f"part-{number}.safetensors" for number in range(1, n + 1)]
    for number, path in enumerate(paths, start=1):
        model.head_statistics(mhaviz.Corpus(texts, shard=(number, n), part=path), **options)
    return paths


@pytest.mark.parametrize("n", [2, 64])
def test_parts_give_what_the_whole_gives(model, tmp_path, n):
    whole = model.head_statistics(TEXTS, replicates=20)
    paths = shards(model, TEXTS, n, tmp_path, replicates=20)
    DRAW.shuffle(paths)
    merged = mhaviz.merge(paths, part=tmp_path / "all.safetensors")
    assert apart(merged, whole) <= 1e-12  # 1e-9 is promised
    assert merged.source == whole.source
    again = mhaviz.merge(paths[::-1])
    assert apart(mhaviz.merge([tmp_path / "all.safetensors"]), merged) == apart(again, merged) == 0.0


def test_a_sentence_in_another_batch_gives_the_same(model, monkeypatch):
    """Alone, without padding, and in the batches of a block, in float64."""
    together = model.head_statistics(FEW, replicates=0)
    monkeypatch.setattr(corpus_batches, "_cuts", lambda lengths, most: ((i, i + 1) for i in range(len(lengths))))
    assert 0 < apart(model.head_statistics(FEW, replicates=0), together) <= 1e-12  # 1e-9 is promised


class KilledError(Exception):
    pass


def test_killed_at_random_nothing_is_lost(model, tmp_path, monkeypatch):
    """Twenty times after some batch, whatever has been saved by then; in tests/benchmarks by SIGKILL."""
    monkeypatch.setattr(corpora, "_SECONDS", -1.0)
    monkeypatch.setattr(corpora, "_SHARE", 0)
    whole, killed, notices = tmp_path / "whole.safetensors", tmp_path / "killed.safetensors", []
    model.head_statistics(mhaviz.Corpus(TEXTS, part=whole), replicates=20)

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
                mhaviz.Corpus(TEXTS, part=killed, resume=True), replicates=20, on_progress=die_after(DRAW.randint(0, 3))
            )
            killed.unlink()
        except KilledError:
            deaths += 1
    model.head_statistics(mhaviz.Corpus(TEXTS, part=killed, resume=True), replicates=20, on_notice=notices.append)
    assert killed.read_bytes() == whole.read_bytes()
    assert re.search("going on after sentence|does not exist: reading from the first", notices[0])
    model.head_statistics(mhaviz.Corpus(TEXTS, part=killed, resume=True), replicates=20, on_notice=notices.append)
    assert notices[-1] == f"{killed} is complete"
    assert killed.read_bytes() == whole.read_bytes()


def test_what_cannot_be_gone_on_with(model, model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "_SECONDS", -1.0)
    path = tmp_path / "part.safetensors"

    def go_on(texts=FEW, of=model, shard=None, **options):
        of.head_statistics(mhaviz.Corpus(texts, shard, path, resume=True), **{"replicates": 0} | options)

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
    with pytest.raises(MhavizError, match="what is asked for differ in their number of shards: 1, and 4"):
        go_on(shard=(1, 4))
    with pytest.raises(MhavizError, match="what is asked for differ in their model: "):
        go_on(of=mhaviz.load(model_folder("bert"), dtype="float32"))
    go_on([*FEW, "more"])  # what comes after what has been read may change
    with pytest.raises(MhavizError, match="expected all 41 sentences"):
        go_on([*FEW, "more", "still more"])


def test_what_does_not_belong_together(model, tmp_path):
    one, two, three = shards(model, FEW, 3, tmp_path, replicates=0)

    def changed(path, **changes):
        target = tmp_path / "changed.safetensors"
        write_part(replace(read_part(path), **changes), target)
        return target

    part = read_part(two)
    progress = part.progress
    for paths, message in (
        ([], "expected the files of all shards, got none"),
        ([one], "shards 2/3, 3/3 are missing; give all 3 shards"),
        ([one, two], "shard 3/3 is missing"),
        ([one, two, two, three], "part-2.safetensors are both shard 2/3; give each shard once"),
        ([one, tmp_path / "no.safetensors", three], "no.safetensors: No such file"),
    ):
        with pytest.raises(MhavizError, match=message):
            mhaviz.merge(paths)
    for changes, message in (
        (
            {"progress": replace(progress, is_all=False)},
            r"changed.safetensors, shard 2/3, is not complete: .* sentence 40",
        ),
        (
            {"progress": replace(progress, read=99)},
            "changed.safetensors and .* differ in their text: 99 sentences with the digest",
        ),
        ({"progress": replace(progress, digest="0" * 64)}, "differ in their text"),
        ({"models": (replace(part.models[0], fingerprint="x"),)}, r"differ in their model: .*\(x\)"),
        ({"options": {**part.options, "kind": "self"}}, "differ in their kind: 'self'"),
        ({"version": "0.0"}, "changed.safetensors was made by mhaviz 0.0, and this is"),
        ({"study": "diff"}, "differ in their study: diff, and heads"),
        ({"arrays": {"self.0.x": np.ones(3)}}, "cannot join .*changed.safetensors"),
        ({"shard": replace(part.shard, count=10**15)}, "differ in their number of shards"),
    ):
        with pytest.raises(MhavizError, match=message):
            mhaviz.merge([one, changed(two, **changes), three])
    with pytest.raises(MhavizError, match=r"shards 1/1000000000000000, 3/.*, … are missing"):
        mhaviz.merge([changed(two, shard=replace(part.shard, count=10**15))])


def test_files_of_anybody(model, tmp_path):
    path, broken = tmp_path / "part.safetensors", tmp_path / "broken.safetensors"
    model.head_statistics(mhaviz.Corpus(FEW[:3], part=path), replicates=0)
    with safe_open(path, "numpy") as file:
        arrays, about = {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["mhaviz"])  # noqa: SIM118

    def refused(metadata=None, changes=None, message="cannot read "):
        content = {"mhaviz": json.dumps(about | (metadata or {}))} if not isinstance(metadata, str) else metadata
        save_file(arrays | (changes or {}), broken, {"mhaviz": content} if isinstance(content, str) else content)
        with pytest.raises(MhavizError, match=message) as caught:
            mhaviz.merge([broken])
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
        {"source": {"footnote": 3}},
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
    refused({}, {"self.0.mean": np.ones((2, 2))}, "cannot read")
    refused({"options": about["options"] | {"replicates": -1}}, message="expected 0 to 100,000 replicates")
    refused({"options": about["options"] | {"seed": "x"}})
    probe = {"kind": "random repeats", "n_tokens": "x"}
    refused({"options": about["options"] | {"probe": probe}}, message="Expected `int`, got `str`")
    save_file(arrays, broken)
    with pytest.raises(MhavizError, match="it is not a part of a corpus"):
        mhaviz.merge([broken])
    broken.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(MhavizError, match="incomplete metadata, file not fully covered"):
        mhaviz.merge([broken])
    with pytest.raises(MhavizError, match=r"expected a name ending in \.safetensors"):
        mhaviz.merge([__file__])


def test_what_does_not_go_together(tmp_path):
    for options, message in (
        ({"shard": (0, 4)}, "expected a shard from 1"),
        ({"part": "part.json"}, r"expected a name ending in \.safetensors, got part.json"),
        ({"resume": True}, r"continues from a part; name a \.safetensors file"),
    ):
        with pytest.raises(ArgumentError, match=message):
            mhaviz.Corpus(**options)


def test_a_shard_whose_sentences_are_all_left_out(model, tmp_path):
    """Of a torchrun it is one process of many: if it failed, all would be ended."""
    texts = ["" if number < 4 else text for number, text in enumerate(TEXTS[:20])]
    notices = []
    one, two = (tmp_path / f"{number}.safetensors" for number in (1, 2))
    found = model.head_statistics(mhaviz.Corpus(texts, shard=(1, 40)), replicates=0, on_notice=notices.append)
    assert (found.kinds, notices) == ((), ["4 sentences were left out: the model's tokenizer finds no token"])
    for number, path in enumerate((one, two), start=1):
        model.head_statistics(mhaviz.Corpus([""] * 20, shard=(number, 2), part=path), replicates=0)
    with pytest.raises(
        MhavizError, match="a sentence that the model can read, got 0 that are too long, and 20 without"
    ):
        mhaviz.merge([one, two])
    with pytest.raises(MhavizError, match="expected a sentence that the model can read: 20 sentences were left out"):
        model.head_statistics([""] * 20, replicates=0)


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


def run(mhaviz, *words):
    result = mhaviz(*(["heads"] if words[0] != "merge" else []), *map(str, words))
    return result.status, result.err.splitlines(), result.out


def test_as_a_user_types_it(mhaviz, model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text("\n".join(FEW))
    reads = ("--model", model_folder("bert"), "--file", "corpus.txt", "--replicates", "20")
    status, _, whole = run(mhaviz, *reads, "--json", "-o", "whole.safetensors")
    assert status == 0
    for number in range(1, 10):
        status, said, _ = run(mhaviz, *reads, "--shard", f"{number}/9", "-o", f"part-{number}.safetensors")
        assert (status, said[0]) == (0, f"mhaviz: saved part-{number}.safetensors")
    assert said[1:] == ["mhaviz: shard 9/9 has no sentence of this corpus"]
    parts = [f"part-{number}.safetensors" for number in range(9, 0, -1)]
    status, said, merged = run(mhaviz, "merge", *parts, "--json", "-o", "all.safetensors", "-o", "heads.csv")
    assert (status, said) == (0, ["mhaviz: saved all.safetensors", "mhaviz: saved heads.csv"])
    ours, theirs = (json.loads(one)["kinds"][0]["statistics"]["entropy"]["mean"] for one in (merged, whole))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    status, said, table = run(mhaviz, "merge", "whole.safetensors", "--top", "1")
    assert (status, said) == (0, [])
    assert "means over 40 sentences" in table

    status, said, _ = run(mhaviz, *reads, "--resume", "-o", "heads.json", "-q")
    assert (status, said) == (0, [])
    assert not list(Path().glob("heads.part*")), "what was kept to go on from is gone once all is saved"

    for words, status, message in (
        ((*reads, "--shard", "0/4"), 2, "--shard: expected a shard from 1"),
        ((*reads, "--shard", "3"), 2, "--shard: expected a part and the number of parts, such as 3/64, got '3'"),
        ((*reads, "--resume"), 2, "--resume continues from sums that are kept beside the output; add -o"),
        ((*reads, "-o", "a.safetensors", "-o", "b.safetensors"), 2, "expected one .safetensors file among the outputs"),
        (
            (*reads, "--shard", "9/9", "-o", "x.json"),
            1,
            "shard 9/9 has no sentence of this corpus, so there is nothing to draw",
        ),
        (("merge", *parts, "--fail-above", "0.1"), 2, "--fail-above: not for parts of heads"),
        (("merge", *parts[1:]), 1, "shard 9/9 is missing"),
        (("merge", *parts, "-o", parts[0]), 2, "is read, and cannot be written at the same time"),
        (("merge",), 2, "Missing argument 'PART…'"),
        (("merge", "corpus.txt"), 1, "cannot tell the format of corpus.txt"),
    ):
        got, said, _ = run(mhaviz, *words)
        assert (got, len(said)) == (status, 1), said
        assert message in said[0]
    for command in (("show", "all.safetensors"), ("heatmap", "a b", "--model", "all.safetensors")):
        assert mhaviz(*command).status == 1


def test_parts_that_were_divided_otherwise_do_not_belong_together(model, tmp_path, monkeypatch):
    one, other = (tmp_path / name for name in ("one.safetensors", "other.safetensors"))
    model.head_statistics(mhaviz.Corpus(FEW, shard=(1, 2), part=one), replicates=0)
    with monkeypatch.context() as patch:
        patch.setattr(corpora, "with_block_size", lambda sentences: (iter(sentences), 8))
        model.head_statistics(mhaviz.Corpus(FEW, shard=(2, 2), part=other), replicates=0)
    with pytest.raises(MhavizError, match=r"other.safetensors and .* differ in their block: 8 sentences, and 5"):
        mhaviz.merge([one, other])
    model.head_statistics(mhaviz.Corpus(FEW, shard=(2, 2), part=other), replicates=0)
    part = read_part(other)
    write_part(replace(part, progress=replace(part.progress, taken=part.progress.taken - 1)), other)
    with pytest.raises(MhavizError, match="expected all 40 sentences of the text in the parts, got 39"):
        mhaviz.merge([one, other])


@pytest.mark.parametrize("command", ["heads", "diff"])
def test_a_run_that_is_stopped(mhaviz, model_folder, tmp_path, monkeypatch, command):
    """Each run with an output keeps what it has read beside it, also one that nobody has asked to go on."""
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text("\n".join(TEXTS[:80]))
    folder = str(model_folder("bert"))
    words = ["--model", folder, "--replicates", "20"] if command == "heads" else [folder, folder]
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
    words = ["heads", "--model", str(model_folder("bert")), "--replicates", "0", "-o", "k.json", "--file", "corpus.txt"]
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
    assert mhaviz(*words[:-4], "-o", "named.safetensors", *words[-2:]).status == 1, "it is asked for"


def test_the_part_of_an_output_with_a_long_name(mhaviz, model_folder, tmp_path, monkeypatch):
    """It is called after the output, and would have a longer name than a file system allows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(corpora, "_SECONDS", -1.0)
    monkeypatch.setattr(corpora, "_SHARE", 0)
    name = "é" * 119 + "abc.json"
    result = mhaviz("heads", *FEW, "--model", str(model_folder("bert")), "-o", name, "--replicates", "2")
    assert (result.status, result.err) == (0, f"mhaviz: saved {name}\n")
    assert [path.name for path in tmp_path.iterdir()] == [name]


SAVING_OFTEN = """
import os, sys
from mhaviz.corpus import corpus as corpora
from mhaviz.cli import run
corpora._SECONDS, corpora._SHARE = -1.0, 0
write = corpora.write_part
def write_and_die(part, path):
    write(part, path)
    os._exit(9)
if DIES:
    corpora.write_part = write_and_die
sys.exit(run())
"""


def test_two_processes_share_a_corpus(model_folder, tmp_path):
    """The first alone speaks and saves, and finds what one finds, after both were killed; what they kept is gone."""
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS))
    words = ["heads", "--model", model_folder("bert"), "--dtype", "float64", "--file", "corpus.txt", "--json"]
    words += ["--replicates", "20", "--resume", "-o", "two.safetensors"]
    killed = run_two(f"DIES = True{SAVING_OFTEN}", *words, folder=tmp_path)
    assert [status for status, *_ in killed] == [9, 9], killed
    kept = [tmp_path / f"two-{number}-of-2.safetensors" for number in (1, 2)]
    assert [read_part(path).progress.read for path in kept] == [25, 50]
    (status, *first), second = run_two(f"DIES = False{SAVING_OFTEN}", *words, folder=tmp_path)
    assert (status, *second) == (0, 0, "", ""), (first, second)
    assert first[1].splitlines() == [
        "mhaviz: going on after sentence 25, where two-1-of-2.safetensors has come to",
        "mhaviz: saved two.safetensors",
    ]
    whole = mhaviz.load(model_folder("bert"), dtype="float64", device="cpu").head_statistics(TEXTS, replicates=20)
    assert apart(mhaviz.merge([tmp_path / "two.safetensors"]), whole) <= 1e-12
    (kind,) = json.loads(first[0])["kinds"]
    assert (kind["sentences"], kind["queries"]) == (whole.kinds[0].sentences, whole.kinds[0].queries)
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["two.safetensors"]


@pytest.mark.parametrize("shard", ["3/64", "torchrn", (1,), ()])
def test_a_shard_that_is_none_is_an_error(shard):
    with pytest.raises(ArgumentError, match="shard: expected two numbers, such as"):
        mhaviz.Corpus("a b", shard=shard)
