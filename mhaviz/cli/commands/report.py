"""mhaviz report"""

from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.appearance import Cmap, Columns, PictureOptions, Vmax, style_of_weights
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import ModelOptions, OneAttention, WeightOptions
from mhaviz.cli.shared.numbers import parse_number
from mhaviz.cli.shared.sentences import OneText
from mhaviz.views.formats import PAGE_SUFFIXES


def report(
    *,
    model: ModelOptions,
    weights: WeightOptions,
    attention: OneAttention,
    delivery: Delivery,
    picture: PictureOptions,
    cmap: Cmap = "ink",
    vmax: Vmax = "auto",
    columns: Columns = None,
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
    delivery.check([Path(model.model), *weights.files, *texts.files], PAGE_SUFFIXES)
    given, style = texts.given_to(model, weights), style_of_weights(picture, cmap=cmap, vmax=vmax, columns=columns)
    loaded = model.load(delivery.notice, attention.generate, **weights.options)
    one_head = parse_number("head", head, "report compares the scaling of one head")
    with delivery.working("computing"):
        page = loaded.report(
            given,
            head=one_head,
            **attention.chosen,
            page=delivery.has_page,
        )
    delivery.deliver(page, style)
