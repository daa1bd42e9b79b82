"""What is loaded when."""

import subprocess
import sys

import pytest

import mhaviz

SAVED = """import os, tempfile, numpy
from mhaviz.cli import main
os.chdir(tempfile.mkdtemp())
numpy.save('w.npy', numpy.eye(2))
assert main(['show', 'w.npy', '-q', '-o', 'w.json', '-o', 'w.safetensors']) == 0"""


def loaded_after(code):
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import mhaviz", {"torch", "matplotlib", "numpy", "rich", "typer"}),
        ("import mhaviz; mhaviz.tokenize('a b')", {"torch", "matplotlib", "numpy"}),
        (
            "from mhaviz.cli import main\n"
            "for words in (['--help'], ['--version'], ['heatmap', '--help'], ['heads', '--help']): main(words)",
            {"torch", "matplotlib", "numpy"},
        ),
        ("from mhaviz.cli import main; main(['show', '--help']); main(['diff', '--help'])", {"torch", "numpy"}),
        ("from mhaviz.cli import main; main(['explain', 'a b'])", {"torch", "matplotlib"}),
        (
            "from mhaviz.cli import main\n"
            "for words in ('heatmap', 'explain --token cat', 'compare-scaling', 'report', 'heatmap --model translation'"
            "):\n    assert main([*words.split(), '-q', 'the cat']) == 0",
            {"transformers"},
        ),
        (
            "from mhaviz.cli import main\n"
            "for model in ('random', 'translation'):\n"
            "    for asked in (['--generate', '3'], ['--verify']):\n"
            "        assert main(['heatmap', 'the cat', '-q', '--model', model, *asked]) == 2",
            {"transformers"},
        ),
        ("import mhaviz; mhaviz.display_attention", {"torch", "matplotlib.pyplot"}),
        (
            "import mhaviz.views.terminal.page, mhaviz.views.figure.page\n"
            "import mhaviz.views.terminal.projections, mhaviz.views.figure.projections\n"
            "import mhaviz.views.terminal.explanation, mhaviz.views.figure.explanation\n"
            "import mhaviz.records, mhaviz.views.data, mhaviz.views.terminal.report, mhaviz.views.figure.report",
            {"torch"},
        ),
        ("from mhaviz.cli import main; main(['heatmap', 'a', '-q', '-o', '/dev/null/a.png'])", {"torch"}),
        ("import mhaviz.files.arrays, mhaviz.files.maps, mhaviz.files.texts, mhaviz.files.writing", {"torch"}),
        ("import mhaviz.files.texts, mhaviz.files.writing", {"torch", "numpy"}),
        (f"{SAVED}; main(['show', 'w.npy', '-q', '-o', 'w.safetensors'])", {"torch", "matplotlib"}),
        (
            f"{SAVED}; main(['show', 'w.json', '-o', 'w.png']); main(['show', 'w.safetensors', '-o', 'x.json'])\n"
            "main(['diff', 'w.json', 'w.safetensors', '-o', 'd.png', '-o', 'd.json'])",
            {"torch"},
        ),
        ("from mhaviz.cli import main; main(['heatmap', 'a b', '-q', '-o', '/dev/null/a.png'])", {"transformers"}),
        ("import mhaviz; mhaviz.MultiHeadAttention(8, 2)", {"matplotlib", "rich", "typer"}),
    ],
)
def test_heavy_modules_wait_until_they_are_needed(code, absent):
    assert not loaded_after(code) & absent


def test_public_names():
    assert set(mhaviz.__all__) <= set(dir(mhaviz))
    for name in mhaviz.__all__:
        assert getattr(mhaviz, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mhaviz.nothing
