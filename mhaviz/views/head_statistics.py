"""What every head looks at, in colours: the same in the terminal and in figures."""

from collections.abc import Sequence

import numpy as np

from mhaviz.pages.head_statistics import COLUMNS, IN_MODEL_ORDER, Measure, Order, known_columns
from mhaviz.records import HeadAverages, HeadStatistics
from mhaviz.views.colours import BONE
from mhaviz.views.panels import Panel, Scale

__all__ = ["COLUMNS", "IN_MODEL_ORDER", "Order", "named_scales", "panels", "scales"]


def panels(kind: HeadAverages, columns: Sequence[Measure], scales: dict[str, Scale]) -> list[Panel]:
    """A layers × heads panel for each of these columns that the kind has."""
    return [
        Panel(column.name, kind.average(column.name).mean.astype(np.float32), scales[column.name])
        for column in columns
        if kind.average(column.name).is_known
    ]


def scales(statistics: HeadStatistics, cmap: str = BONE) -> dict[str, Scale]:
    """The scale of each number, one for all kinds: weights from 0 to 1, the others from 0 to the largest."""
    largest = {
        column.name: max(float(np.nanmax(kind.average(column.name).mean, initial=0.0)) for kind in statistics.kinds)
        for column in known_columns(statistics.kinds)
    }
    return {
        column.name: Scale(
            cmap, 0.0, 1.0 if column.unit == "weight" else largest[column.name] or 1.0, decimals=column.decimals
        )
        for column in known_columns(statistics.kinds)
    }


def named_scales(statistics: HeadStatistics, cmap: str = BONE) -> dict[str, Scale]:
    """Every scale once, by what it measures; that of the weights first."""
    every = scales(statistics, cmap)
    named = {column.unit: every[column.name] for column in known_columns(statistics.kinds)}
    return dict(sorted(named.items(), key=lambda pair: pair[0] != "weight"))
