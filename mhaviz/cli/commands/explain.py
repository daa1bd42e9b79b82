"""mhaviz explain"""

from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import ColourOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, Generate, OneAttention
from mhaviz.cli.shared.parsing import one
from mhaviz.cli.shared.texts import Instead, OneSentence, Target, given_to


def explain(
    *,
    model: AnyModelOptions,
    attention: OneAttention,
    delivery: Delivery,
    looks: ColourOptions,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="WORD|POSITION",
            help="The query: a token of the sentence (of the target, if there is one), or its position, from 0. A "
            "number that is also a token is the token; #3 is always a position.",
        ),
    ] = None,
    head: Annotated[Any, typer.Option(metavar="N", parser=one("head"), help="Head to explain.")] = 0,
    generate: Generate = 0,
    texts: OneSentence,
    target: Target = None,
    instead: Instead,
) -> None:
    """Explain one query of one head, feature by feature and key by key.

    \b
    mhaviz explain "I am going to deposit my money at the bank" --token deposit --head 2
    mhaviz explain --model translation "the small black cat" --token le -o explain.png
    mhaviz explain --model path/to/bert "The animal didn't cross the street." --layer 2 --token street

    A score is the sum of the d_key products of the features of query and key. The softmax turns the scores, divided by
    √d_key, into weights. The output is the sum of the values, each times its weight. A translator's source-target
    attention is explained, unless --kind names another. See --help-all for --pair, --chat and --ids.

    Output: a {RESULT_SUFFIXES} file.
    """
    given = given_to(model, delivery, texts, target, instead, generate=generate)
    style, loaded = style_of(looks, delivery), model.load(delivery, given)
    explained = loaded.explain(given, token, head=head, **vars(attention))
    delivery.deliver(explained, style)
