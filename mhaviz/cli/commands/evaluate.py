"""mhaviz evaluate"""

from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.appearance import PictureOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import PlainDevice


def evaluate(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="translation (bundled), or a file saved by mhaviz train.")
    ],
    delivery: Delivery,
    looks: PictureOptions,
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="CORPUS", help="File of pairs. \\[default: the bundled corpus of translation]", show_default=False
        ),
    ] = None,
    device: PlainDevice = "auto",
) -> None:
    """Count the held-out sentences that a trained model translates correctly.

    \b
    mhaviz evaluate translation
    mhaviz evaluate pairs.safetensors pairs.tsv -o evaluation.png

    Of the corpus that the checkpoint was trained on, only the held-out part is evaluated; of another corpus, all. If
    the pairs have gold alignments, the alignment error rate (AER) of each head of source-target attention is computed.

    Output: a {RESULT_SUFFIXES} file.
    """
    delivery.check([Path(name) for name in (checkpoint, corpus) if name is not None])

    style = style_of(looks, delivery)

    from mhaviz.api.evaluation import evaluate as evaluation_of

    delivery.deliver(evaluation_of(checkpoint, corpus, device=device, on_notice=delivery.tell), style)
