"""mhaviz matrices"""

from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import WeightOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, OneAttention
from mhaviz.cli.shared.parsing import several
from mhaviz.cli.shared.texts import OneSentence, Target, given_to


def matrices(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    looks: WeightOptions,
    head: Annotated[
        Any,
        typer.Option(
            metavar="N,N-N|all",
            parser=several("heads", "all"),
            help="Heads whose S, A and H are drawn. \\[default: all if at most 4, else the first]",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="WORD|POSITION",
            help="Query to mark, by its token or its position, #3. \\[default: the one with the largest weight]",
        ),
    ] = None,
    texts: OneSentence,
    target: Target = None,
) -> None:
    """Show the whole layer as matrices with their shapes: X → Q, K, V → S → A → H → O.

    \b
    mhaviz matrices -o matrices.png
    mhaviz matrices "the cat sat on the mat" --d-model 8 --n-heads 2 --token cat
    mhaviz matrices --model translation "the small black cat" --head 0 --token le

    Each product stands between its factors: S has Q on its left and Kᵀ above it, so that a row and a column meet in one
    cell; H has A on its left and V above it, so that a row of A weighs the rows of V. One query and one key are marked
    in all matrices. Small matrices show their numbers. Without a sentence, the first one of the worked example is read,
    with d_model 8 and 4 heads.

    Output: a {RESULT_SUFFIXES} file.
    """
    given = given_to(model, delivery, texts, target, has_example=True)
    style, loaded = style_of(looks, delivery), model.load(delivery, given)
    with delivery.working("computing"):
        found = loaded.matrices(
            given,
            token=token,
            head=range(loaded.n_heads) if head == "all" else head,
            **vars(attention),
        )
    delivery.deliver(found, style)
