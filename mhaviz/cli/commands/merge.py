"""mhaviz merge"""

from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.command import given
from mhaviz.cli.shared.appearance import Cmap, PictureOptions, style_of
from mhaviz.cli.shared.change_limits import LimitOptions, require_models_alike, verdict
from mhaviz.cli.shared.corpora import deliver_beside_part, part_among
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.ranking import RankingOptions
from mhaviz.errors import ArgumentError
from mhaviz.pages.registry import HEAD_SUFFIXES
from mhaviz.results.corpus_part import SUFFIX


def merge(
    parts: Annotated[list[Path], typer.Argument(metavar="PART…", help="Files of all shards, in any order.")],
    delivery: Delivery,
    picture: PictureOptions,
    ranking: RankingOptions,
    limits: LimitOptions,
    cmap: Cmap = "ink",
) -> None:
    """Join parts of a corpus, which heads or diff of two models have read separately.

    \b
    mhaviz merge part-*.safetensors -o heads.png
    mhaviz merge part-*.safetensors --fail-above 0.1 -o result.json

    The result is that of the whole corpus, shown as by the command that wrote the parts. --sort and --top are for parts
    from heads, --fail-above and --fail-above-row for parts from diff.

    Output: a {HEAD_SUFFIXES} file; .safetensors: the sums of the whole, as one part.

    Exit status: as for mhaviz diff, if limits are given.
    """
    delivery.check(parts, (*HEAD_SUFFIXES, SUFFIX))
    style, allowed, path = style_of(picture, cmap=cmap), limits.limits, part_among(delivery)

    from mhaviz.corpus.merging import merge_parts, result_of
    from mhaviz.files.parts import write_part
    from mhaviz.pages.registry import entry_of
    from mhaviz.results.head_statistics import HeadStatistics

    whole = merge_parts(parts)
    found = result_of(whole)
    is_of_heads = isinstance(found, HeadStatistics)
    if unheeded := given(limits if is_of_heads else ranking):
        raise ArgumentError(f"{', '.join(unheeded)}: not for parts of {whole.study}; leave it out")
    delivery.check(parts, (*entry_of(found).formats, SUFFIX))
    details = {"order": ranking.order(found.probe)} if is_of_heads else {}
    difference = None if is_of_heads else found.limited(allowed.mean, allowed.row)
    with verdict() as reach:
        if difference is not None:
            reach(require_models_alike, difference)
        if path is not None:
            write_part(whole, path)
        deliver_beside_part(difference or found, delivery, style, **details)
