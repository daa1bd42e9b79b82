"""mhaviz report"""

from typing import Annotated

import typer

from mhaviz.cli.shared.appearance import Cmap, Dpi, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, OneAttention
from mhaviz.cli.shared.sentences import OneText
from mhaviz.numbering import parse_number
from mhaviz.views.formats import PAGE_SUFFIXES


def report(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    dpi: Dpi = 150,
    cmap: Cmap = "ink",
    head: Annotated[str, typer.Option(help="The head whose scaling is compared.")] = "0",
    texts: OneText,
) -> None:
    """Put tokens, heads, shapes and scaling on one page.

    \b
    mhaviz report "I wonder what will come next!" -o report.pdf
    mhaviz report --model translation "the big cows follow this boy" -o report.png

    Of a translator it is about source-target attention, or another --kind.

    Output: a {page_files} file.
    """
    given = texts.given_to(model, delivery, PAGE_SUFFIXES)
    one_head = parse_number("head", head, "report compares the scaling of one head")
    style, loaded = style_of(dpi=dpi, cmap=cmap), model.load(delivery.notice, given)
    with delivery.working("computing"):
        page = loaded.report(given, head=one_head, page=".html" in delivery.suffixes, **attention.chosen)
    delivery.deliver(page, style)
