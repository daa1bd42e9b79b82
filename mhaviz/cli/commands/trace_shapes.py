"""mhaviz trace-shapes"""

from dataclasses import replace
from typing import Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import DpiOption, ModelOptions, given
from mhaviz.cli.shared.sentences import ManyTexts, quotes_notice
from mhaviz.errors import ArgumentError, quoted
from mhaviz.units import parse_whole

_OF_SIZES = ("--d-model", "--n-heads", "--seed", "--mask", "--device")  # options of a layer without sentences


def trace_shapes(
    *,
    model: ModelOptions,
    delivery: Delivery,
    looks: DpiOption,
    follow: Annotated[
        str | None,
        typer.Option(metavar="B,P,F", help="Follow element (batch, position, feature) of Q through every reshape."),
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Print the numbers of small tensors, for the first sentence.")
    ] = False,
    batch_size: Annotated[int | None, typer.Option(help="Trace this many sentences of --seq-length.")] = None,
    seq_length: Annotated[int | None, typer.Option(help="Trace a length without a sentence.")] = None,
    texts: ManyTexts,
) -> None:
    """Show the shape of every tensor on the way through the layer.

    \b
    mhaviz trace-shapes --follow 0,2,5
    mhaviz trace-shapes "one two three" --d-model 4 --n-heads 2 --values
    mhaviz trace-shapes --batch-size 32 --seq-length 100000 --n-heads 32

    Without a sentence: the worked example, three sentences with d_model 8 and 4 heads. Shapes alone are traced without
    computing anything, so any size will do. The bytes are those that a step adds: none for a view. A product and a sum
    count one operation each, a softmax five a weight. Of a translator it is the way through source-target attention
    that is traced, or another --kind.

    Output: a {record_files} file.
    """
    delivery.check([*model.files, *texts.files])
    sentences = texts.read(any_text=model.takes_any_text)
    texts.require_words()
    element = _parse_element(follow)
    bare_sizes, is_random = batch_size is not None or seq_length is not None, model.is_random
    unheeded = [name for name in given(model) if name not in _OF_SIZES]
    unheeded += ["sentences"] * bool(sentences) + ["--target"] * bool(texts.target) + ["--values"] * values
    if bare_sizes and unheeded:
        raise ArgumentError(f"--batch-size and --seq-length trace sizes alone; leave out {', '.join(unheeded)}")
    if bare_sizes and seq_length is None:
        raise ArgumentError("--batch-size needs a length; add --seq-length")
    if model.input is None:
        texts.require_source(sentences)
        if not is_random:
            texts.require_some(sentences)

    from mhaviz.models.single_layer import WORKED_EXAMPLE

    style = looks.style
    is_worked_example = is_random and not sentences and not bare_sizes
    whole_input = texts.all_of(WORKED_EXAMPLE if is_worked_example else sentences)
    if is_worked_example:
        d_model, n_heads = 8 if model.d_model is None else model.d_model, 4 if model.n_heads is None else model.n_heads
        model = replace(model, d_model=d_model, n_heads=n_heads)
    loaded = model.load(delivery.notice)
    if seq_length is not None:
        trace = loaded.trace_sizes(1 if batch_size is None else batch_size, seq_length)
    else:
        trace = loaded.trace_shapes(
            whole_input,
            values=values,
            layer=model.one_layer,
            kind=model.kind,
            generate=model.generate,
        )

    from mhaviz.analyses.following import follow_element
    from mhaviz.views.data import document

    followed = follow_element(trace, element) if element else None
    whole = document(trace) | ({"follow": document(followed)} if followed else {})
    delivery.deliver(trace, style, document=whole, notice=quotes_notice(texts.sentences), followed=followed)


def _parse_element(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(map(str.isdecimal, parts)):
        raise ArgumentError(
            f"--follow: expected three coordinates such as 0,2,5 (batch, position, feature), got {quoted(text)}"
        )
    return tuple(map(parse_whole, parts))
