"""What is loaded when."""

import subprocess
import sys

import jedi
import pytest

import mhaviz

SAVED = """import os, tempfile, numpy
from mhaviz.cli import main
os.chdir(tempfile.mkdtemp())
numpy.save('w.npy', numpy.eye(2))
assert main(['show', 'w.npy', '-q', '-o', 'w.json', '-o', 'w.safetensors']) == 0"""

# What a program runs, and what must not be loaded after each part; what is loaded stays loaded, so that a part may
# follow one that leaves more unloaded.
PARTS = [
    ("import mhaviz", {"torch", "matplotlib", "numpy", "rich", "typer"}),
    ("mhaviz.tokenize('a b')", {"torch", "matplotlib", "numpy"}),
    (
        "from mhaviz.cli import main\n"
        "for words in (['--help'], ['--version'], ['heatmap', '--help'], ['heads', '--help']): main(words)\n"
        "main(['record', '--help'])",
        {"torch", "matplotlib", "numpy"},
    ),
    ("main(['show', '--help']); main(['diff', '--help']); main(['check', '--help'])", {"torch", "matplotlib", "numpy"}),
    ("import mhaviz.files.texts, mhaviz.files.writing", {"torch", "matplotlib", "numpy"}),
    ("main(['embeddings', '--help'])", {"torch", "matplotlib", "numpy"}),
    ("main(['explain']); main(['embeddings', '--model', 'translation'])", {"torch", "matplotlib"}),
    ("import mhaviz.files.arrays, mhaviz.files.maps", {"torch", "matplotlib"}),
    (f"{SAVED}; main(['show', 'w.npy', '-q', '-o', 'w.safetensors'])", {"torch", "matplotlib"}),
    ("mhaviz.display_attention", {"torch", "matplotlib.pyplot"}),
    (
        "import mhaviz.views.terminal.page, mhaviz.views.figure.page\nimport mhaviz.results.report, mhaviz.views.data",
        {"torch"},
    ),
    ("main(['heatmap', 'a', '-q', '-o', '/dev/null/a.png'])", {"torch"}),
    (
        "main(['show', 'w.json', '-o', 'w.png']); main(['show', 'w.safetensors', '-o', 'x.json'])\n"
        "main(['diff', 'w.json', 'w.safetensors', '-o', 'd.png', '-o', 'd.json'])",
        {"torch"},
    ),
    (
        "for words in ('explain --token cat', 'embeddings', 'heatmap --model translation'):\n"
        "    assert main([*words.split(), '-q', 'the cat']) == 0",
        {"transformers", "torch._dynamo"},
    ),
    ("assert main(['report', '-q', 'the cat']) == 0", {"transformers"}),
    (
        "for model in ('random', 'translation'):\n"
        "    for asked in (['--generate', '3'], ['--verify']):\n"
        "        assert main(['heatmap', 'the cat', '-q', '--model', model, *asked]) == 2",
        {"transformers"},
    ),
]


def loaded_after(parts):
    program = "\n".join(f"{code}\nprint('\\nloaded', *sys.modules)" for code in ("import sys", *parts))
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = (line.split() for line in result.stdout.splitlines())
    return [set(names) for first, *names in filter(None, lines) if first == "loaded"][1:]


@pytest.mark.slow
def test_heavy_modules_wait_until_they_are_needed():
    for (code, absent), loaded in zip(PARTS, loaded_after([code for code, _ in PARTS]), strict=True):
        assert not loaded & absent, code


def test_public_names():
    assert set(mhaviz.__all__) <= set(dir(mhaviz))
    for name in mhaviz.__all__:
        assert getattr(mhaviz, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mhaviz.nothing


def test_editors_list_the_public_names():
    """Without running anything, as IPython's and others do."""
    listed = {completion.name for completion in jedi.Script("import mhaviz\nmhaviz.").complete()}
    assert listed >= set(mhaviz.__all__)
    (load,) = jedi.Script("import mhaviz\nmhaviz.load").infer()
    assert load.full_name == "mhaviz.api.loaded.load"
