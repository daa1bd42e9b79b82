"""mhaviz explain"""

from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.layers import choose_layer
from mhaviz.cli.saved_weights import require_one_input
from mhaviz.cli.sentences import read_sentences, require_one, require_some, require_words
from mhaviz.cli.token_choice import choose_token
from mhaviz.errors import ArgumentError
from mhaviz.layer.tokens import tokenize

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet


def explain(
    context: typer.Context,
    sentence: options.OneSentence = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="WORD|POSITION",
            help="The query: a word of the sentence (of the target, if there is one) or its position, from 0. A number "
            "that is also a word is the word; #3 is always a position.",
        ),
    ] = None,
    file: options.File = None,
    target: options.Target = None,
    head: Annotated[str, typer.Option(help="The head that is explained.")] = "0",
    checkpoint: options.Checkpoint = None,
    kind: options.KindOption = None,
    model: options.Model = None,
    revision: options.Revision = None,
    dtype: options.Dtype = "auto",
    layer: options.OneLayer = None,
    generate: options.Generate = 0,
    weights: options.WeightsFile = None,
    prefix: options.Prefix = None,
    input: options.InputFile = None,
    input_name: options.InputName = None,
    d_model: options.DModel = 512,
    heads: options.Heads = 8,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    mask: options.MaskOption = options.Mask.none,
    output: options.Output = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    dpi: options.Dpi = 150,
) -> None:
    """Explain one query of one head, feature by feature and key by key.

    Each score is the sum of d_key products of a query's and a key's features; divided by √d_key, the softmax makes
    weights of the scores; the output is the sum of the value rows, each times its weight.

    Of a trained translator it is the source-target attention that is explained, for the word that is being produced,
    or another --kind.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery(output or (), quiet, json, inputs=options.files_read(context))
    texts = read_sentences(sentence, file, any_text=model is not None)
    if input is None:
        require_some(texts)
    require_one("explain", texts)
    require_words("--target", target)

    if not (checkpoint or model or input):  # the tokens, and so a mistake, are known before anything heavy is loaded
        choose_token(token, tokenize(target or texts[0]), _asking(cross=target is not None))

    from mhaviz.analyses import explanation

    look = options.choose_look(dpi=dpi)
    source = choose_layer(context, delivery)
    chosen = options.parse_heads(head, source.n_heads)
    if len(chosen) != 1:
        raise ArgumentError(f"--head: explain takes one head, got {len(chosen)}; name one of them")

    inputs = source.encode(texts, target)
    require_one_input("explain", inputs)
    site = source.one_site(inputs)
    queries, _ = inputs.texts[0].sides(site.kind)
    position = choose_token(token, queries.texts, _asking(site.kind == "cross"))
    explained = explanation.explain(source, inputs, position, chosen[0])

    def draw() -> "Sheet":
        from mhaviz.views.figure.explanation import explanation_figure

        return explanation_figure(explained, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.explanation import ExplanationView

        return ExplanationView(explained)

    delivery.deliver(explained, draw, view)


def _asking(cross: bool) -> str:
    return "the target, whose words are the queries" if cross else "the sentence"
