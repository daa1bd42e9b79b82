"""The gradients of a target at the attentions that a model has just run."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from mhaviz.attention.graded import GradedAttention
from mhaviz.attention.model import GradedRun, Site
from mhaviz.attention.targets import Target
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Text
from mhaviz.observe.gradients import Differentiated, differentiate, hold
from mhaviz.observe.observed import ObservedCall


def hold_site(name: str, owner: object, site: Site | None, observed: ObservedCall) -> None:
    """Let the graph hold an attention of a model.

    Args:
        name: name of the model.
        owner: see ``hold``; one for each pass.
        site: the attention; None: it is none that can be drawn.
        observed: its call.

    Raises:
        MhavizError: no gradient can be found there, or it is none that can be drawn.
    """
    if site is None:
        raise MhavizError(f"{name}: expected only attention that can be drawn, got another beside it")
    if why := hold(observed, owner, site):
        raise MhavizError(f"{name}: {_name(site)}: no gradient arrives, as {why}")


def graded_run(name: str, owner: object, sites: Iterable[Site], target: Target, output: Any, text: Text) -> GradedRun:
    """Return the run of a model whose attentions are held by the graph of its output, which is freed.

    Args:
        name: name of the model.
        owner: as of ``hold_site``.
        sites: its attentions.
        target: what is explained.
        output, text: the model's output, and the text that it has read.

    Raises:
        MhavizError: y is NaN or infinite; no gradient arrives at an attention, except at those after which y was
            computed; as ``differentiate``.
    """
    score = target.score(output, text)
    found = sorted(
        differentiate(target.value(output, text), owner, retain_graph=False), key=lambda one: one.held.tag.number
    )
    require_all(name, [_name(one.held.tag) for one in found], [_name(site) for site in sites])
    return GradedRun(score, tuple((one.held.tag, graded(one)) for one in found))


def require_all(name: str, found: Sequence[str], ran: Iterable[str]) -> None:
    """Raise MhavizError unless gradients have arrived at all attentions up to the last one at which any has.

    Args:
        name: name of the model.
        found: names of the attentions with a gradient, in the order in which they ran.
        ran: names of all.
    """
    before = list(takewhile(lambda one: one != found[-1], ran)) if found else list(ran)
    if lacking := [one for one in before if one not in found]:
        raise MhavizError(
            f"{name}: no gradient arrives at {lacking[0]}: y does not depend on it, or a layer stops gradients, as "
            f"quantised ones and detach do"
        )


def graded(found: Differentiated, name: str = "") -> GradedAttention:
    """Return an attention with its gradient; ``name``: its name in messages, if its tag is no site."""
    held, name = found.held, name or _name(found.held.tag)
    if not held.is_unchanged:
        raise MhavizError(f"{name}: its tensors were changed in place after it had run, so that its weights are lost")
    return GradedAttention(name, held.call, held.value, found.gradient, held.output if held.is_output_kept else None)


def _name(site: Site) -> str:
    return f"layer {site.layer}, {site.kind}"
