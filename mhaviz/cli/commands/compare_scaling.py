"""mhaviz compare-scaling"""

from typing import Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import CmapOptions, File, ModelOptions, OneSentence, OutputOptions, Target
from mhaviz.cli.shared.numbers import parse_heads
from mhaviz.cli.shared.sentences import read_sentences, require_one, require_some, require_words
from mhaviz.errors import ArgumentError


def compare_scaling(
    model: ModelOptions,
    options: OutputOptions,
    looks: CmapOptions,
    sentence: OneSentence = None,
    head: Annotated[str, typer.Option(help="Heads to compare: 0,3-5 or all.")] = "0",
    sweep: Annotated[bool, typer.Option("--sweep", help="Measure at every d_key from 2 to 1024 instead.")] = False,
    file: File = None,
    target: Target = None,
) -> None:
    """Show why scores are divided by √d_key: scores and softmax, unscaled beside scaled.

    \b
    mhaviz compare-scaling "I wonder what will come next!" -o scaling.png
    mhaviz compare-scaling --sweep -o sweep.png
    mhaviz compare-scaling --model path/to/bert "The animal didn't cross the street." --layer 3

    Without a sentence: the first of the worked example. Of a translator it is source-target attention that is
    compared, or another --kind. Unscaled scores spread as √d_key, so that the softmax saturates as d_key grows, and
    its Jacobian, through which gradients pass, vanishes.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery.of(options, [*model.files, *([file] if file else [])])
    any_text = model.takes_any_text
    texts = read_sentences(sentence, file, any_text=any_text)
    require_one("compare-scaling", texts)
    require_words("--target", target)
    if target and not texts and model.input is None:
        raise ArgumentError("--target goes with one sentence, got none; give the source sentence")
    if sweep:
        unheeded = [f"--{name.replace('_', '-')}" for name in model.given if name != "seed"]
        unheeded += ["--target"] * (target is not None) + ["--head"] * (head != "0")
        if unheeded:
            raise ArgumentError(
                f"--sweep goes through d_key with one head, on the CPU and unmasked; leave out {', '.join(unheeded)}"
            )
    elif model.model != "random" and model.input is None:
        require_some(texts)

    from mhaviz.models.single_layer import WORKED_EXAMPLE

    look, text = looks.look, texts[0] if texts else WORKED_EXAMPLE[0]
    if sweep:
        from mhaviz.analyses.scaling import sweep_scaling
        from mhaviz.layer.tokens import tokenize

        delivery.deliver(sweep_scaling(tokenize(text), model.seed or 0), look)
        return
    loaded = model.load(delivery.notice)
    with delivery.working("computing"):
        comparison = loaded.compare_scaling(
            [text] if model.input is None else texts,
            target,
            head=parse_heads(head, loaded.n_heads),
            layer=model.one_layer(loaded),
            kind=model.kind_name,
            generate=model.generate,
        )
    delivery.deliver(comparison, look, looks.cmap)
