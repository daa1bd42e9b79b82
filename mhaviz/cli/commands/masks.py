"""mhaviz masks"""

from dataclasses import replace
from typing import Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import CmapOptions, ModelOptions
from mhaviz.cli.shared.numbers import parse_numbers
from mhaviz.cli.shared.sentences import ManyTexts, quotes_notice
from mhaviz.errors import ArgumentError
from mhaviz.models.load import kind_of


def masks(
    *,
    model: ModelOptions,
    delivery: Delivery,
    looks: CmapOptions,
    dropout: Annotated[
        float | None, typer.Option(metavar="P", help="Share of the weights to drop, from 0 to less than 1.")
    ] = None,
    head: Annotated[str, typer.Option(help="Heads to draw: 0,3-5 or all.")] = "0",
    texts: ManyTexts,
) -> None:
    """Show what a mask hides: scores before it and after it, weights, and what dropout drops.

    \b
    mhaviz masks "the cat sat on the mat" -o masks.png
    mhaviz masks "the cat sat on the mat" "a dog barks" --mask none
    mhaviz masks "the cat sat on the mat" "a dog barks" --dropout 0.2 --seed 3

    Without a sentence: the worked example, with d_model 8 and 4 heads. Without --mask a layer with random or saved
    weights has a causal mask here; other models have their own. Several sentences are padded to the longest. --dropout
    drops what torch.nn.Dropout drops of the weights of all heads after torch.manual_seed of --seed, and divides the
    others by 1 − P. Of a translator it is the decoder's masked attention, or another --kind.

    Output: a {record_files} file.
    """
    delivery.check([*model.files, *texts.files])
    sentences = texts.read(any_text=model.takes_any_text)
    texts.require_words()
    if dropout is not None and not 0 <= dropout < 1:
        raise ArgumentError(f"--dropout: expected a share from 0 to less than 1, got {dropout:g}")
    is_worked_example = model.is_random and not sentences
    if model.input is None:
        texts.require_source(sentences)
        if not is_worked_example:
            texts.require_some(sentences)

    from mhaviz.models.single_layer import WORKED_EXAMPLE

    style, given = looks.style, texts.all_of(WORKED_EXAMPLE if is_worked_example else sentences)
    if is_worked_example:
        d_model, n_heads = 8 if model.d_model is None else model.d_model, 4 if model.n_heads is None else model.n_heads
        model = replace(model, d_model=d_model, n_heads=n_heads)
    has_own_masks = "causal" not in kind_of(model.model).options
    if not (model.mask or has_own_masks or texts.target or model.input):
        model = replace(model, mask="causal")
    seed = model.seed or 0
    if dropout is not None and not model.is_random and model.seed is not None:
        model = replace(model, seed=None)  # it is that of the draw; the weights are the model's own
    loaded = model.load(delivery.notice)
    with delivery.working("computing"):
        found = loaded.masks(
            given,
            dropout=dropout,
            seed=seed,
            head=parse_numbers("head", head),
            layer=model.one_layer,
            kind=model.kind,
            generate=model.generate,
        )
    delivery.deliver(found, style, notice=quotes_notice(texts.sentences))
