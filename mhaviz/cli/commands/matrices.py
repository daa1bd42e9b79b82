"""mhaviz matrices"""

from dataclasses import replace
from typing import Annotated

import typer

from mhaviz.api.choosing import choose_token
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import CmapOptions, ModelOptions
from mhaviz.cli.shared.numbers import parse_numbers
from mhaviz.cli.shared.sentences import OneText
from mhaviz.layer.tokens import tokenize


def matrices(
    *,
    model: ModelOptions,
    delivery: Delivery,
    looks: CmapOptions,
    head: Annotated[
        str | None, typer.Option(help="Heads whose S, A and H are drawn: 0,2-3 or all. \\[default: all of up to 4]")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="WORD|POSITION",
            help="The query that is marked, by its word or its position, #3. \\[default: that of the largest weight]",
        ),
    ] = None,
    texts: OneText,
) -> None:
    """Show the whole layer as matrices with their shapes: X → Q, K, V → S → A → H → O.

    \b
    mhaviz matrices -o matrices.png
    mhaviz matrices "the cat sat on the mat" --d-model 8 --n-heads 2 --token cat
    mhaviz matrices --model translation "the small black cat" --head 0 --token le

    Without a sentence: the first of the worked example, with d_model 8 and 4 heads. Each product stands between its
    factors: S has Q on its left and Kᵀ above it, so that a row and a column meet in one cell; H has A on its left and V
    above it, so that a row of A weighs the rows of V. One query and one key are marked in all matrices. Of more than 4
    heads it is the first whose S, A and H are drawn. Small matrices have their numbers.

    Output: a {record_files} file.
    """
    delivery.check([*model.files, *texts.files])
    sentences = texts.read_one("matrices", model.takes_any_text, required=False)
    is_worked_example = model.is_random and not sentences
    if model.input is None:
        texts.require_source(sentences)
        if not is_worked_example:
            texts.require_some(sentences)
    if model.is_random and sentences and token is not None:  # a mistake is known before anything heavy is loaded
        choose_token(token, tokenize(texts.target or sentences[0]), is_target=texts.target is not None)

    from mhaviz.models.single_layer import WORKED_EXAMPLE

    style, given = looks.style, texts.all_of(WORKED_EXAMPLE[:1] if is_worked_example else sentences)
    if is_worked_example:
        d_model, n_heads = 8 if model.d_model is None else model.d_model, 4 if model.n_heads is None else model.n_heads
        model = replace(model, d_model=d_model, n_heads=n_heads)
    loaded = model.load(delivery.notice)
    with delivery.working("computing"):
        found = loaded.matrices(
            given,
            token=token,
            head=None if head is None else parse_numbers("head", head) or range(loaded.n_heads),
            layer=model.one_layer,
            kind=model.kind,
            generate=model.generate,
        )
    delivery.deliver(found, style)
