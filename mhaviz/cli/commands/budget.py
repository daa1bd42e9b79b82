"""mhaviz budget"""

from pathlib import Path
from typing import Annotated, Any

import typer

from mhaviz.cli.shared.appearance import ColourOptions, style_of
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.corpora import require_one_process
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import DecoderOptions
from mhaviz.cli.shared.parsing import names, parsed, wholes
from mhaviz.cli.shared.texts import Sentences, quotes_notice, read_wholes
from mhaviz.errors import counted
from mhaviz.pages.registry import ABLATION_SUFFIXES


def budget(
    checkpoint: DecoderOptions,
    delivery: Delivery,
    looks: ColourOptions,
    keep: Annotated[
        Any,
        typer.Option(
            metavar="N,N,…",
            parser=parsed(wholes, "numbers of keys such as 64,256,1024"),
            help="Numbers of keys that the cache of a head, or of a group of heads that share keys, holds.",
        ),
    ],
    policy: Annotated[
        Any,
        typer.Option(
            metavar="NAME,NAME,…",
            parser=parsed(names, "names of policies"),
            help="Which keys it holds: columns, rows, window, h2o, snapkv. \\[default: all]",
            show_default=False,
        ),
    ] = None,
    sentences: Sentences = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(help="Read a UTF-8 file as one text; - is standard input. Repeatable.", show_default=False),
    ] = None,
) -> None:
    """Show how much of each head's attention a smaller key-value cache keeps.

    \b
    mhaviz budget --model path/to/gpt2 --file long.txt --keep 64,256 -o budget.png
    mhaviz budget --model path/to/llama --file long.txt --keep 64,256,1024 --policy rows,window,h2o
    mhaviz budget --model path/to/llama --file a.txt --file b.txt --keep 256 --layer 0,5 -o budget.csv

    Kept is the share of a query's weights, unchanged, on the N keys that the policy lets it see, averaged over the
    queries after as many tokens as the largest N. Heads that share keys share one budget. rows: each query's largest
    weights, of the sum over the heads that share keys, of which no policy keeps more. columns: the keys with the
    largest sums over the queries that can see them, for all queries alike. window: the first 4 and the last. h2o: half
    recent keys, half heavy hitters (Zhang et al. 2023). snapkv: keys that the end of a prompt looks at (Li et al.
    2024), which is read whole again at each vote, as no cache of N keys can.

    Mass is not quality: what the model would write from these keys is not tried. Of a text that is longer than the
    model is built for, the first tokens are read.

    Output: a {ABLATION_SUFFIXES} file.
    """
    files = file or []
    delivery.check(files, ABLATION_SUFFIXES)
    require_one_process("budget reads all texts")
    style = style_of(looks, delivery)
    texts = read_wholes(sentences, files)
    loaded = checkpoint.load(delivery)
    with progress(delivery.quiet, "reading texts", time_left=True) as on_progress:
        found = loaded.budget(
            texts,
            keep=keep,
            **{} if policy is None else {"policies": policy},
            layer=checkpoint.layer,
            on_notice=delivery.tell,
            on_progress=lambda done, taken: on_progress(done, counted(taken, "text")),
        )
    delivery.deliver(found, style, notice=quotes_notice(sentences))
