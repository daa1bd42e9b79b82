"""How long mhaviz.check takes: python tests/benchmarks/check_time.py [--repeat N]

All layers of tests/checks, with a mistake and without, each made beforehand and checked in every round; one thread, on
the CPU. Layers of packages that are not installed are left out. The time of a layer is the median of its rounds, and
the table has the median of all layers and the slowest. The target is at most a second for each.
"""

import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import parse_repeat, time_functions

TARGET = 1000.0  # ms
sys.path.insert(0, str(Path(__file__).parents[1]))  # checks stands there

if TYPE_CHECKING:
    from mhaviz.results.check import Check

Checking = Callable[[], "Check"]


def layers() -> dict[str, dict[str, Checking]]:
    """The checks to time, by what they check."""
    import torch

    torch.set_num_threads(1)
    from checks import planted_a, planted_b
    from checks.right_layers import RIGHT

    from mhaviz.api.checking import check

    def of(make: Callable[[], Any], d_model: int, kwargs: dict[str, Any]) -> Checking | None:
        try:
            layer = make()
        except ModuleNotFoundError:
            return None
        return partial(check, layer, d_model=d_model, **kwargs)

    planted = {"einsum to lists of heads": planted_a, "fused to packed documents": planted_b}
    found: dict[str, dict[str, Checking | None]] = {}
    for name, module in planted.items():
        found[f"with a mistake: {name}"] = {
            f"{one.style}-{one.name}": of(one.make, one.d_model, one.kwargs) for one in module.MISTAKES
        }
        found[f"the same without it: {name}"] = {title: of(*rest) for title, *rest in module.RIGHT}
    found["that are right"] = {one.name: of(one.make, one.d_model, one.kwargs) for one in RIGHT}
    return {name: {title: run for title, run in checks.items() if run is not None} for name, checks in found.items()}


def main() -> None:
    repeat = parse_repeat(__doc__, default=3)
    print("| layers | number | median | slowest | target |")
    print("| --- | ---: | ---: | --- | ---: |")
    for name, checks in layers().items():
        times = [statistics.median(rounds) for rounds in time_functions(list(checks.values()), repeat)]
        slowest, title = max(zip(times, checks, strict=True))
        print(
            f"| {name} | {len(times)} | {statistics.median(times):,.0f} ms | {slowest:,.0f} ms, {title} "
            f"| <= {TARGET:,.0f} ms |"
        )


if __name__ == "__main__":
    main()
