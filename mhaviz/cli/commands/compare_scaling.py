"""mhaviz compare-scaling"""

from typing import Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import CmapOptions, ModelOptions, given
from mhaviz.cli.shared.numbers import parse_numbers
from mhaviz.cli.shared.sentences import OneText
from mhaviz.errors import ArgumentError


def compare_scaling(
    *,
    model: ModelOptions,
    delivery: Delivery,
    looks: CmapOptions,
    head: Annotated[str, typer.Option(help="Heads to compare: 0,3-5 or all.")] = "0",
    sweep: Annotated[bool, typer.Option("--sweep", help="Measure at every d_key from 2 to 1024 instead.")] = False,
    texts: OneText,
) -> None:
    """Show why scores are divided by √d_key: scores and softmax, unscaled beside scaled.

    \b
    mhaviz compare-scaling "I wonder what will come next!" -o scaling.png
    mhaviz compare-scaling --sweep -o sweep.png
    mhaviz compare-scaling --model path/to/bert "The animal didn't cross the street." --layer 3

    Without a sentence: the first of the worked example. Of a translator it is source-target attention that is
    compared, or another --kind. Unscaled scores spread as √d_key, so that the softmax saturates as d_key grows, and
    its Jacobian, through which gradients pass, vanishes.

    Output: a {record_files} file.
    """
    delivery.check([*model.files, *texts.files])
    sentences = texts.read_one("compare-scaling", model.takes_any_text, required=False)
    if model.input is None:
        texts.require_source(sentences)
    if sweep:
        unheeded = [name for name in given(model) if name != "--seed"]
        unheeded += ["--target"] * (texts.target is not None) + ["--head"] * (head != "0")
        if unheeded:
            raise ArgumentError(
                f"--sweep goes through d_key with one head, on the CPU and unmasked; leave out {', '.join(unheeded)}"
            )
    elif not model.is_random and model.input is None:
        texts.require_some(sentences)

    from mhaviz.models.single_layer import WORKED_EXAMPLE

    style, text = looks.style, sentences[0] if sentences else WORKED_EXAMPLE[0]
    if sweep:
        from mhaviz.analyses.scaling import sweep_scaling
        from mhaviz.layer.tokens import tokenize

        delivery.deliver(sweep_scaling(tokenize(text), model.seed or 0), style)
        return
    stands_in = model.input is None and not texts.takes_the_place
    whole_input = texts.all_of([text] if stands_in else sentences)
    loaded = model.load(delivery.notice)
    with delivery.working("computing"):
        comparison = loaded.compare_scaling(
            whole_input,
            head=parse_numbers("head", head),
            layer=model.one_layer,
            kind=model.kind,
            generate=model.generate,
        )
    delivery.deliver(comparison, style)
