"""mhaviz merge"""

from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.appearance import Cmap, PictureOptions, style_of
from mhaviz.cli.shared.change_limits import require_models_alike
from mhaviz.cli.shared.corpora import deliver_beside_part, part_among
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import given
from mhaviz.cli.shared.limit_options import LimitOptions
from mhaviz.cli.shared.ranking import RankingOptions
from mhaviz.errors import ArgumentError
from mhaviz.files.part_names import SUFFIX
from mhaviz.views.formats import HEAD_SUFFIXES


def merge(
    parts: Annotated[list[Path], typer.Argument(metavar="PART…", help="The files of all shards, in any order.")],
    delivery: Delivery,
    picture: PictureOptions,
    ranking: RankingOptions,
    limits: LimitOptions,
    cmap: Cmap = "ink",
) -> None:
    """Join the parts of a corpus that were read apart, by heads or by diff of two models.

    \b
    mhaviz merge part-*.safetensors -o heads.png
    mhaviz merge part-*.safetensors --fail-above 0.1 -o result.json

    The result is that of the whole corpus, as the command that made the parts shows it. --sort, --reverse and --top are
    for parts of heads, --fail-above and --fail-above-row for those of diff.

    Output: a {head_files} file; .safetensors: one part of the whole.

    Exit status: as that of mhaviz diff, where limits are given.
    """
    delivery.check(parts, (*HEAD_SUFFIXES, SUFFIX))
    style, allowed = style_of(picture, cmap), limits.limits

    from mhaviz.api.parts import merge as merged
    from mhaviz.records.head_statistics import HeadStatistics

    found = merged(parts, part=part_among(delivery))
    of_other, what = (limits, "heads") if isinstance(found, HeadStatistics) else (ranking, "diff")
    if unheeded := given(of_other):
        raise ArgumentError(f"{', '.join(unheeded)}: not for parts of {what}; leave it out")
    if isinstance(found, HeadStatistics):
        deliver_beside_part(found, delivery, style, order=ranking.order(found.probe))
        return
    difference = found.limited(allowed.mean, allowed.row)
    deliver_beside_part(difference, delivery, style)
    require_models_alike(difference)
