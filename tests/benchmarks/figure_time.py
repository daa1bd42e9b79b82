"""How long a picture of 144 heads of 32 tokens takes, beside the same grid drawn as notebooks usually draw it.

The peer is 12 x 12 matplotlib subplots, each with imshow, a title and all 32 tokens on both axes, saved as a PNG of the
same size in inches and the same dpi. Building and saving are timed together, in one process and after one round that is
not timed, so that both find fonts and caches ready. mhaviz should be at least 10 times faster: 0.1x.
"""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from measure import Row, parse_repeat, print_table, time_functions

from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.views.formats import save_all
from mhaviz.views.showing import figure_of
from mhaviz.views.style import Style

TARGET = 0.1
SIDE = 12  # subplots
N_HEADS, LENGTH = SIDE * SIDE, 32


def random_attention() -> Attention:
    """Softmax of random scores, between 32 tokens that all differ."""
    scores = np.random.default_rng(0).normal(size=(N_HEADS, LENGTH, LENGTH)).astype(np.float32)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    tokens = tuple(f"token{i}" for i in range(LENGTH))
    return Attention(Source("random weights"), (AttentionMap(weights, Axis.of(tokens), Axis.of(tokens)),))


def draw_with_mhaviz(attention: Attention, path: Path) -> None:
    save_all([path], attention, Style())


def draw_as_notebooks_do(
    maps: Sequence[AttentionMap], columns: int, path: Path, inches: tuple[float, float], dpi: float
) -> None:
    """A subplot a head, with all its tokens, so many side by side."""
    heads = [(m, weights) for m in maps for weights in m.weights]
    figure, grid = plt.subplots(len(heads) // columns, columns, figsize=inches)
    for head, ((m, weights), axes) in enumerate(zip(heads, grid.flat, strict=True)):
        axes.imshow(weights, cmap="bone")
        axes.set_xticks(range(len(m.keys)), m.keys, rotation=90)
        axes.set_yticks(range(len(m.queries)), m.queries)
        axes.set_title(f"head {head}")
    figure.savefig(path, dpi=dpi)
    plt.close(figure)


def main() -> None:
    repeat = parse_repeat(__doc__, default=5)
    plt.switch_backend("Agg")
    attention = random_attention()
    sheet = figure_of(attention)
    with tempfile.TemporaryDirectory() as folder:
        ours = Path(folder) / "mhaviz.png"
        theirs = Path(folder) / "notebook.png"
        functions = [
            partial(draw_with_mhaviz, attention, ours),
            partial(draw_as_notebooks_do, attention.maps, SIDE, theirs, (sheet.width, sheet.height), sheet.dpi),
        ]
        mhaviz, peer = time_functions(functions, repeat)
        assert plt.imread(ours).shape[:2] == plt.imread(theirs).shape[:2]
    what = f"PNG of {N_HEADS} heads, {LENGTH} tokens; peer: {SIDE} x {SIDE} subplots"
    print_table([Row(what, mhaviz, peer, TARGET)])


if __name__ == "__main__":
    main()
