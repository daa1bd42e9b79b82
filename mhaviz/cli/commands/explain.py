"""mhaviz explain"""

from typing import Annotated

import typer

from mhaviz.api.token_choice import choose_token
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import DpiOption, File, ModelOptions, OneSentence, OutputOptions, Target
from mhaviz.cli.shared.numbers import parse_heads
from mhaviz.cli.shared.sentences import read_sentences, require_one, require_some, require_words
from mhaviz.errors import ArgumentError
from mhaviz.layer.tokens import tokenize


def explain(
    model: ModelOptions,
    options: OutputOptions,
    looks: DpiOption,
    sentence: OneSentence = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="WORD|POSITION",
            help="The query: a word of the sentence (of the target, if there is one) or its position, from 0. A number "
            "that is also a word is the word; #3 is always a position.",
        ),
    ] = None,
    head: Annotated[str, typer.Option(help="The head that is explained.")] = "0",
    file: File = None,
    target: Target = None,
) -> None:
    """Explain one query of one head, feature by feature and key by key.

    \b
    mhaviz explain "I am going to deposit my money at the bank" --token deposit --head 2
    mhaviz explain --model translation "the small black cat" --token le -o explain.png
    mhaviz explain --model path/to/bert "The animal didn't cross the street." --layer 2 --token street

    Each score is the sum of d_key products of a query's and a key's features; divided by √d_key, the softmax makes
    weights of the scores; the output is the sum of the value rows, each times its weight. Of a translator it is the
    source-target attention that is explained, or another --kind.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery.of(options, [*model.files, *([file] if file else [])])
    any_text = model.takes_any_text
    texts = read_sentences(sentence, file, any_text=any_text)
    if model.input is None:
        require_some(texts)
    require_one("explain", texts)
    require_words("--target", target)
    if model.model == "random":  # the tokens, and so a mistake, are known before anything heavy is loaded
        choose_token(token, tokenize(target or texts[0]), _asking(cross=target is not None))

    look = looks.look
    loaded = model.load(delivery.notice)
    heads = parse_heads(head, loaded.n_heads)
    if len(heads) != 1:
        raise ArgumentError(f"--head: explain takes one head, got {len(heads)}; name one of them")
    explained = loaded.explain(
        texts,
        lambda tokens, site: choose_token(token, tokens, _asking(site.kind == "cross")),
        target,
        head=heads[0],
        layer=model.one_layer(loaded),
        kind=model.kind_name,
        generate=model.generate,
    )
    delivery.deliver(explained, look)


def _asking(cross: bool) -> str:
    return "the target, whose words are the queries" if cross else "the sentence"
