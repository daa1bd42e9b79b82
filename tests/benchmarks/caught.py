"""Which models a recording catches, and how far its weights are from the model's own: a Markdown table.

    python tests/benchmarks/caught.py [--write] [NAME …]

Models of transformers, of timm where it is installed, and of torch.nn, and layers written by hand: small, with random
weights, without a network. Each runs with and without a recording. What counts as the model's own weights:

- transformers: ``output_attentions=True`` of the same parameters with eager attention;
- torch.nn: ``need_weights=True``;
- timm: what its softmaxes return where ``fused_attn`` is False;
- by hand: what the layer has computed.

timm needs torchvision: ``pip install --no-deps timm torchvision==0.28.0`` beside torch 2.13, with CUDA or without.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

TESTS = Path(__file__).parents[1]
TABLE = TESTS.parent / "samples" / "caught-models.md"
OTHER = "## Over an image"
"""The heading of what ``patches_drawn.py`` writes below."""
LEAST_CAUGHT = 60
sys.path.insert(0, str(TESTS))  # zoo stands there

if TYPE_CHECKING:
    from zoo.measure import Found
    from zoo.program import Entry

HEADER = """# Which models a recording catches

Made by `python tests/benchmarks/caught.py --write`, with {versions}.

Small models with random weights, each run with and without `mhaviz.record`. "Difference" is the largest between a
recorded weight and the model's own: those that transformers gives with `output_attentions=True` and eager attention,
`torch.nn` with `need_weights=True`, timm's softmaxes return without a fused kernel, and a layer by hand has computed.
0 is the same bit for bit. "Output" says whether the program computes the same bits with and without a recording.

{summary}
"""


def entries(names: Sequence[str]) -> "tuple[list[Entry], list[str]]":
    """What is measured, and the versions of what it comes from."""
    from zoo.timm_models import TIMM, import_timm

    try:
        timm = import_timm()  # before transformers, which asks for torchvision too
    except ImportError:
        timm = None
        print("timm is not installed: its models are left out", file=sys.stderr)
    import torch
    import transformers

    torch.set_num_threads(1)
    from zoo.hand_written import HAND_WRITTEN
    from zoo.torch_layers import TORCH
    from zoo.transformers_models import TRANSFORMERS

    found = [*TRANSFORMERS, *(TIMM if timm else []), *TORCH, *HAND_WRITTEN]
    versions = [f"torch {torch.__version__.partition('+')[0]}", f"transformers {transformers.__version__}"]
    versions += [f"timm {timm.__version__}"] if timm else []
    return [entry for entry in found if not names or entry.name in names], versions


def row(entry: "Entry", found: "Found") -> str:
    """A line of the table."""
    first = f"`{found.names[0]}`" if found.names and found.names[0] else ""
    notes = [entry.why] if entry.why else []
    notes += [f"{len(found.others)} of what was recorded is none of its attentions"] * bool(found.others)
    if found.notices:
        notes.append(found.notices[0].partition(": ")[2] or found.notices[0])
    difference = "" if not found.n_caught else f"{found.largest:.1e}" if found.largest else "0"
    output = "the same" if found.same_bits else "another"
    cells = entry.name, entry.kind, len(found.own), found.n_caught, difference, output, first, "; ".join(notes)
    return f"| {' | '.join(str(cell).replace('|', '∣') for cell in cells)} |"


def table(rows: Sequence[str]) -> str:
    """The rows below their titles."""
    titles = "model", "kind", "attentions", "caught", "difference", "output", "the first is", "what is missed and why"
    lines = f"| {' | '.join(titles)} |", "| --- | --- | ---: | ---: | ---: | --- | --- | --- |"
    return "\n".join([*lines, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.relative_to(TESTS.parent)}")
    parser.add_argument("names", nargs="*", metavar="NAME", help="these models alone")
    options = parser.parse_args()
    if options.write and options.names:
        parser.error("--write: expected no names: the table holds all models")
    chosen, versions = entries(options.names)
    from zoo.measure import measure_entry

    found = [(entry, measure_entry(entry)) for entry in chosen]
    with_attention = [(entry, one) for entry, one in found if one.own or entry.missed]
    summary = "\n".join(
        f"- {name}: {sum(one.is_whole for entry, one in with_attention if of(entry))} of "
        f"{sum(of(entry) for entry, _ in with_attention)} {what} caught whole, "
        f"{sum(one.n_caught for entry, one in with_attention if of(entry)):,} of "
        f"{sum(len(one.own) for entry, one in with_attention if of(entry)):,} attentions"
        for name, what, of in (
            ("transformers", "models", lambda entry: entry.kind not in ("timm", "torch.nn", "by hand")),
            ("timm", "models", lambda entry: entry.kind == "timm"),
            ("torch.nn", "layers", lambda entry: entry.kind == "torch.nn"),
            ("by hand", "styles", lambda entry: entry.kind == "by hand"),
        )
        if any(of(entry) for entry, _ in with_attention)
    )
    rows = table([row(entry, one) for entry, one in found])
    text = HEADER.format(versions=", ".join(versions), summary=summary) + "\n" + rows + "\n"
    if options.write:
        _, heading, other = TABLE.read_text(encoding="utf-8").partition(OTHER)
        TABLE.write_text(f"{text}\n{heading}{other}" if heading else text, encoding="utf-8")
        print(summary)
    else:
        print(text)
    wrong = [entry.name for entry, one in found if len(one.own) - one.n_caught != entry.missed or one.others]
    differs = [entry.name for entry, one in found if not one.same_bits]
    models = sum(one.is_whole for entry, one in with_attention if entry.kind not in ("torch.nn", "by hand"))
    if wrong or differs or (not options.names and models < LEAST_CAUGHT):
        raise SystemExit(f"caught: {models} models, target at least {LEAST_CAUGHT}; not as known: {wrong}; {differs}")


if __name__ == "__main__":
    main()
