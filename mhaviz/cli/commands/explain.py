"""mhaviz explain"""

from typing import Annotated

import typer

from mhaviz.cli.shared.appearance import Dpi, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.given_options import OneInput
from mhaviz.cli.shared.models import AnyModelOptions, Generate, OneAttention
from mhaviz.numbering import parse_number


def explain(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    dpi: Dpi = 150,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="WORD|POSITION",
            help="The query: a word of the sentence (of the target, if there is one) or its position, from 0. A number "
            "that is also a word is the word; #3 is always a position.",
        ),
    ] = None,
    head: Annotated[str, typer.Option(help="The head that is explained.")] = "0",
    generate: Generate = 0,
    texts: OneInput,
) -> None:
    """Explain one query of one head, feature by feature and key by key.

    \b
    mhaviz explain "I am going to deposit my money at the bank" --token deposit --head 2
    mhaviz explain --model translation "the small black cat" --token le -o explain.png
    mhaviz explain --model path/to/bert "The animal didn't cross the street." --layer 2 --token street

    Each score is the sum of d_key products of a query's and a key's features; divided by √d_key, the softmax makes
    weights of the scores; the output is the sum of the value rows, each times its weight. Of a translator it is the
    source-target attention that is explained, or another --kind.

    Output: a {record_files} file.
    """
    given = texts.given_to(model, delivery, generate=generate)
    one_head = parse_number("head", head, "explain takes one head")
    style, loaded = style_of(dpi=dpi), model.load(delivery.notice, given)
    explained = loaded.explain(given, token, head=one_head, **attention.chosen)
    delivery.deliver(explained, style)
