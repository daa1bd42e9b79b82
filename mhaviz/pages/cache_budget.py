"""Page of what a smaller cache keeps: curves over the budgets, heads × budgets, and the heads that lose most."""

import math

import numpy as np

from mhaviz.errors import counted
from mhaviz.pages.blocks import NOTHING, Block, Column, Curves, Page, Plot, PlotAxis, Series, Table, Text
from mhaviz.pages.head_numbers import layers_by_heads, reading_text
from mhaviz.pages.numbers import percent
from mhaviz.pages.panels import Panel, Scale
from mhaviz.pages.registry import ABLATION_SUFFIXES, shown
from mhaviz.results.attention import head_name
from mhaviz.results.cache_budget import REREADING, WITH_HINDSIGHT, CacheBudget, Policy

_NAMES: dict[Policy, str] = {
    "columns": "columns",
    "rows": "rows",
    "window": "window",
    "h2o": "H2O",
    "snapkv": "SnapKV",
}
_MEANINGS: dict[Policy, str] = {
    "columns": "the best fixed set of keys, chosen after the last query",
    "rows": "each query's largest weights, of the sum over heads that share keys",
    "window": "the first keys and the last",
    "h2o": "recent keys and heavy hitters (Zhang et al. 2023)",
    "snapkv": "keys that the end of a prompt looks at (Li et al. 2024), rereading all of the text at each vote",
}
_COLOURS: dict[Policy, int] = {"window": 1, "h2o": 0, "snapkv": 2}
_ALIKE = 0.01
"""Difference of two shares below which neither policy stands out."""
_ASTRAY = 0.1
"""Difference of a head's share from the mean from which on the page names the head."""
_ALL = 1 - 1e-6
"""Share from which on all is kept, but for rounding."""
_LOSING = 8
"""Heads in the table of those that lose most."""
MASS = "a share of the weights is no measure of quality: what a model writes from the kept keys was not tried"
_REREADS = ", which rereads the text,"
"""What sets a policy apart from those whose evicted keys never return."""
_BAND = "band: the middle half of the heads"


@shown(CacheBudget, ABLATION_SUFFIXES)
def cache_budget_page(found: CacheBudget) -> Page:
    """Return the page: what every policy keeps, what the best one keeps of each head, and which heads lose most."""
    policy, number = _best(found), _middle(found)
    reading = reading_text([found.share[policy]])
    blocks: tuple[Block, ...] = (
        Text(_about(found, policy, number), "subtitle"),
        _curves(found),
        Text((f"what {_NAMES[policy]} keeps of each head",), "heading"),
        _heads(found, policy),
        _losing(found, policy, number),
        Text((MASS,), "quiet"),
    )
    return Page(_lesson(found, number), blocks, found.source.footnote, reading)


def _middle(found: CacheBudget) -> int:
    """Return the place of the budget that the title is about: the middle one, the smaller of two."""
    return (len(found.budgets) - 1) // 2


def _comparable(found: CacheBudget) -> list[Policy]:
    """Return the policies that a cache can follow all along; if there is none, those that reread; otherwise all."""
    real = [policy for policy in found.policies if policy not in WITH_HINDSIGHT]
    return [policy for policy in real if policy not in REREADING] or real or list(found.policies)


def _ranked(found: CacheBudget, number: int) -> list[tuple[Policy, float]]:
    """Return the policies that can be compared with their mean shares at a budget, the highest first."""
    shares = [(policy, float(found.mean(policy)[number])) for policy in _comparable(found)]
    return sorted(shares, key=lambda pair: -pair[1])


def _best(found: CacheBudget) -> Policy:
    """Return the policy that keeps most at the budget of the title, of those that can be compared."""
    return _ranked(found, _middle(found))[0][0]


def _tokens(found: CacheBudget) -> str:
    """Return "1,024", or "512 to 1,024" for texts of other lengths."""
    ends = dict.fromkeys((min(found.lengths), max(found.lengths)))
    return " to ".join(f"{length:,}" for length in ends)


def _lesson(found: CacheBudget, number: int) -> str:
    """Return the title: what the budget holds at best, and what each policy keeps of it; apart, those that reread."""
    ranked = _ranked(found, number)
    compared = dict(ranked)
    of = f"{found.budgets[number]:,} of {_tokens(found)} keys"
    bounds: list[Policy] = [policy for policy in ("rows", "columns") if policy in set(found.policies) - set(compared)]
    held = f"{of} hold {_percent(float(found.mean(bounds[0])[number]))} of the attention" if bounds else of
    apart = "".join(
        f"; {_NAMES[policy]}{_REREADS} {_percent(float(found.mean(policy)[number]))}"
        for policy in found.policies
        if policy in REREADING and policy not in compared
    )
    (first, most), *others = ranked
    if others and most - others[-1][1] < _ALIKE:
        ends = " to ".join(dict.fromkeys(_percent(share) for share in (others[-1][1], most)))
        which = (
            f"{' and '.join(_NAMES[policy] for policy in compared)} keep" if apart else "no policy stands out, all keep"
        )
        return f"{held}: {which} {ends}{apart}"
    rest = "".join(f", {_NAMES[policy]} {_percent(share)}" for policy, share in others)
    return f"{held}: {_NAMES[first]}{_REREADS * (first in REREADING)} keeps {_percent(most)}{rest}{apart}"


def _about(found: CacheBudget, policy: Policy, number: int) -> tuple[str, ...]:
    """Return what was measured, and which head loses most."""
    n_heads, n_layers = len(list(found.heads())), len(found.layers)
    groups = sorted(set(found.groups))
    shared = f", in groups of {' or '.join(map(str, groups))} that share keys and a budget" * (groups[-1] > 1)
    texts = counted(len(found.lengths), "text")
    lines = [
        f"{counted(n_heads, 'head')} of {counted(n_layers, 'layer')}{shared}; {texts} of {_tokens(found)} tokens; "
        f"means over {counted(found.queries, 'query')}, those after the first {counted(found.budgets[-1], 'token')}"
    ]
    (name, row, column), *others = _lowest(found, policy, number)
    least, mean = float(found.share[policy][number, row, column]), float(found.mean(policy)[number])
    if others and mean - least >= _ASTRAY:
        lines.append(f"{name} loses most: {_NAMES[policy]} keeps {_percent(least)} of its attention")
    return tuple(lines)


def _lowest(found: CacheBudget, policy: Policy, number: int) -> list[tuple[str, int, int]]:
    """Return name, row and column of all heads, first the one of which a policy keeps least."""
    share = found.share[policy][number]
    heads = [(head_name(found.layers[row], column), row, column) for row, column in found.heads()]
    return sorted(heads, key=lambda head: float(share[head[1:]]))


def _curves(found: CacheBudget) -> Block:
    """Return the mean shares as curves, and as a table; the table alone where there is a single budget."""
    meanings = tuple(f"{_NAMES[policy]}: {_MEANINGS[policy]}" for policy in found.policies)
    table = _table(found, "; ".join(meanings))
    if len(found.budgets) == 1:
        return table
    series = []
    for policy in found.policies:
        means = tuple(found.mean(policy).tolist())
        if policy in WITH_HINDSIGHT:
            series.append(Series(_NAMES[policy], found.budgets, means, line="dashed" if policy == "rows" else "dotted"))
        else:
            shares = found.share[policy].reshape(len(found.budgets), -1)
            quartiles = np.nanquantile(shares, (0.25, 0.75), axis=1).T
            band = tuple((float(low), float(high)) for low, high in quartiles)
            colour = _COLOURS[policy]
            series.append(Series(_NAMES[policy], found.budgets, means, colour, colour, band))
    x = PlotAxis("keys in the cache", log=2, unit="{:,.0f}".format)
    y = PlotAxis(unit=percent, limits=(0, 1))
    notes = (_BAND,) * any(bool(curve.band) for curve in series) + meanings
    return Curves((Plot("attention kept, mean over heads", tuple(series), x, y, notes=notes),), table)


def _table(found: CacheBudget, notes: str) -> Table:
    """Return the mean share of each policy at each budget, and of the head of which it keeps least."""
    rows = []
    for number, budget in enumerate(found.budgets):
        pairs = ((found.mean(policy)[number], np.nanmin(found.share[policy][number])) for policy in found.policies)
        rows.append((budget, *((float(mean), float(least)) for mean, least in pairs)))
    columns = (
        Column("keys", "{:,}".format, is_key=True),
        *(Column(_NAMES[policy], _mean_and_least) for policy in found.policies),
    )
    least = "mean over heads, and of the head of which least is kept"
    return Table(columns, tuple(rows), "attention kept", notes=f"{least}; {notes}")


def _mean_and_least(pair: tuple[float, float]) -> str:
    mean, least = pair
    return f"{_percent(mean)}, {_percent(least)}"


def _heads(found: CacheBudget, policy: Policy) -> Block:
    """Return what a policy keeps of each head, layers × heads, one panel for each budget."""
    scale = Scale(zeros=True, name="attention kept")
    panels = [
        Panel(f"{counted(budget, 'key')}", share.astype(np.float32), scale)
        for budget, share in zip(found.budgets, found.share[policy], strict=True)
    ]
    return layers_by_heads("", found.layers, panels)


def _losing(found: CacheBudget, policy: Policy, number: int) -> Table:
    """Return the heads of which a policy keeps least, and what the others keep of them."""
    heads = _lowest(found, policy, number)
    columns = Column("head", align="left", is_key=True), *(Column(_NAMES[name], _percent) for name in found.policies)
    rows = tuple(
        (head, *(float(found.share[name][number, row, column]) for name in found.policies))
        for head, row, column in heads[:_LOSING]
    )
    of = f": {_LOSING} of {len(heads):,}" if len(heads) > _LOSING else ""
    heading = f"heads by what {_NAMES[policy]} keeps with {counted(found.budgets[number], 'key')}, lowest first{of}"
    return Table(columns, rows, heading)


def _percent(share: float) -> str:
    """Return "88%", and no "100%" of less than all."""
    if math.isnan(share):
        return NOTHING
    return ">99%" if percent(share) == "100%" and share < _ALL else percent(share)
