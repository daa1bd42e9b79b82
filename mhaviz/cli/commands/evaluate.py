"""mhaviz evaluate"""

from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import PlainDevice


def evaluate(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="translation, which is bundled, or a file of mhaviz train.")
    ],
    delivery: Delivery,
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="CORPUS", help="A file of pairs. \\[default: what it has learnt from]", show_default=False
        ),
    ] = None,
    device: PlainDevice = "auto",
) -> None:
    """Say how many held-out sentences a trained model translates right.

    \b
    mhaviz evaluate translation
    mhaviz evaluate pairs.safetensors pairs.tsv -o evaluation.png

    What is held out of the corpus that the checkpoint has learnt from is evaluated, or all of another. Of pairs with a
    gold alignment it says as well how well each head of source-target attention is aligned (AER).

    Output: a {RESULT_SUFFIXES} file.
    """
    delivery.check([Path(name) for name in (checkpoint, corpus) if name is not None])

    from mhaviz.api.evaluation import evaluate as evaluation_of

    delivery.deliver(evaluation_of(checkpoint, corpus, device=device, on_notice=delivery.tell))
