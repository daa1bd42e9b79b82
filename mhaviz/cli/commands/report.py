"""mhaviz report"""

from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import MapOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, OneAttention
from mhaviz.cli.shared.parsing import one
from mhaviz.cli.shared.texts import OneSentence, Target, given_to
from mhaviz.pages.registry import PAGE_SUFFIXES


def report(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    looks: MapOptions,
    head: Annotated[Any, typer.Option(metavar="N", parser=one("head"), help="Head whose scaling is compared.")] = 0,
    texts: OneSentence,
    target: Target = None,
) -> None:
    """Put tokens, heads, shapes and scaling on one page.

    \b
    mhaviz report "I wonder what will come next!" -o report.pdf
    mhaviz report --model translation "the big cows follow this boy" -o report.png

    The picture fits a sheet of A4 or letter paper, unless --width is given. A translator's source-target attention is
    shown, unless --kind names another.

    Output: a {PAGE_SUFFIXES} file.
    """
    given = given_to(model, delivery, texts, target, suffixes=PAGE_SUFFIXES)
    style, loaded = style_of(looks, delivery), model.load(delivery, given)
    with delivery.working("computing"):
        page = loaded.report(given, head=head, page=".html" in delivery.suffixes, **vars(attention))
    delivery.deliver(page, style)
