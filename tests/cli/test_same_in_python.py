"""A study on the command line gives the same numbers as its function in Python."""

import io
import shlex

import pytest

import mhaviz as package
from mhaviz.views.data import document, write_json

TRANSLATED = ("translation", "the small black cat")
STUDIES = [
    ("heatmap 'a b c' --n-heads 2", lambda: package.load(n_heads=2).attend("a b c")),
    ("heatmap --model translation 'the small black cat'", lambda: package.attend(*TRANSLATED)),
    ("explain 'a b c' --token b", lambda: package.explain("random", "a b c", "b")),
    ("explain --model translation 'the small black cat' --token le", lambda: package.explain(*TRANSLATED, "le")),
    ("matrices", lambda: package.matrices("random")),
    ("matrices --n-heads 2", lambda: package.load(n_heads=2).matrices()),
    ("matrices --model translation 'the small black cat'", lambda: package.matrices(*TRANSLATED)),
    ("masks", lambda: package.masks("random")),
    ("masks --mask none --dropout 0.2 --seed 3", lambda: package.load(causal=False, seed=3).masks(dropout=0.2)),
    ("masks 'a b' --target 'c d e'", lambda: package.masks("random", "a b", "c d e")),
    ("masks --model translation 'the small black cat' --dropout 0.1", lambda: package.masks(*TRANSLATED, dropout=0.1)),
    ("trace-shapes", lambda: package.trace_shapes()),
    ("trace-shapes --seq-length 9", lambda: package.load().trace_sizes(1, 9)),
    ("compare-scaling", lambda: package.compare_scaling("random")),
    ("compare-scaling --model translation 'the small black cat'", lambda: package.compare_scaling(*TRANSLATED)),
    ("embeddings", lambda: package.sinusoids()),
    ("embeddings 'a b'", lambda: package.embeddings("random", "a b")),
    ("report 'a b c'", lambda: package.load().report("a b c")),
    ("evaluate translation", lambda: package.evaluate("translation")),
]


@pytest.mark.parametrize(("command", "study"), STUDIES, ids=[command for command, _ in STUDIES])
def test_the_same_numbers(mhaviz, command, study):
    result = mhaviz(*shlex.split(command), "--json")
    assert result.status == 0
    ours = io.StringIO()
    write_json(document(study()), ours)
    assert result.out == ours.getvalue()
