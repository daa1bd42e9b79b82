"""mhaviz report"""

from typing import Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import File, ModelOptions, OneSentence, OutputOptions, PageOptions, Target
from mhaviz.cli.shared.numbers import parse_heads
from mhaviz.cli.shared.sentences import read_sentences, require_one, require_some, require_words
from mhaviz.errors import ArgumentError


def report(
    model: ModelOptions,
    options: OutputOptions,
    looks: PageOptions,
    sentence: OneSentence = None,
    head: Annotated[str, typer.Option(help="The head whose scaling is compared.")] = "0",
    file: File = None,
    target: Target = None,
) -> None:
    """Put tokens, heads, shapes and scaling on one page.

    \b
    mhaviz report "I wonder what will come next!" -o report.pdf
    mhaviz report --model translation "the big cows follow this boy" -o report.png

    The page is A4. Of a translator it is about source-target attention, or another --kind.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery.of(options, [*model.files, *([file] if file else [])])
    texts = read_sentences(sentence, file, any_text=model.takes_any_text)
    if model.input is None:
        require_some(texts)
    require_one("report", texts)
    require_words("--target", target)

    look = looks.look
    loaded = model.load(delivery.notice)
    heads = parse_heads(head, loaded.n_heads)
    if len(heads) != 1:
        raise ArgumentError(f"--head: report compares the scaling of one head, got {len(heads)}; name one of them")
    with delivery.working("computing"):
        page = loaded.report(
            texts,
            target,
            head=heads[0],
            layer=model.one_layer(loaded),
            kind=model.kind_name,
            generate=model.generate,
        )
    delivery.deliver(page, look)
