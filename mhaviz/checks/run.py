"""Run all probes of a layer."""

import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from mhaviz.checks.deadline import Deadline, TimeUpError
from mhaviz.checks.evidence import Evidence
from mhaviz.checks.held_modules import modules_of, modules_run_by
from mhaviz.checks.passes import as_before
from mhaviz.checks.registry import CannotProbe, codes
from mhaviz.checks.signatures import adapted, beside_memory
from mhaviz.errors import ArgumentError, MhavizError, parameter
from mhaviz.layer.seeding import check_seed
from mhaviz.observe.handlers import one_line
from mhaviz.results.check import Check, Finding, Unprobed
from mhaviz.results.result import Source


def run_probes(
    attend: Any,
    d_model: int,
    n_heads: int | None,
    ignore: Collection[str],
    seed: int,
    deadline: Deadline,
    on_progress: Callable[[str], None] | None = None,
) -> Check:
    """Return what the probes find; see ``mhaviz.check``."""
    probes = codes()
    if unknown := [code for code in ignore if code not in probes]:
        raise ArgumentError(f"{parameter('ignore')}: expected codes of findings, {', '.join(probes)}, got {unknown[0]}")
    check_seed(seed)
    with warnings.catch_warnings(), torch.inference_mode(False), _generators_kept(), as_before(modules_of(attend)):
        warnings.simplefilter("ignore")
        layer = adapted(attend, d_model, n_heads, deadline)
        with as_before(modules_run_by(layer)):
            found = _check(Evidence(layer, seed, deadline), ignore, on_progress)
            other = beside_memory(layer, deadline)
            if other is None:
                return found
            return _with_memory(found, _check(Evidence(other, seed, deadline), ignore, on_progress))


def _generators_kept() -> AbstractContextManager[None]:
    """Restore the caller's random state afterwards, of the CPU and of the GPUs that are in use."""
    is_in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.random.fork_rng(range(torch.cuda.device_count()) if is_in_use else [])


def _with_memory(found: Check, other: Check) -> Check:
    """Return a check of a layer, with what is found besides where it reads other tokens than its own."""
    codes_found = set(found.codes)
    more = [replace(one, tried=f"{one.tried}; with a memory") for one in other if one.code not in codes_found]
    findings = sorted([*found.findings, *more], key=lambda one: one.severity != "error")
    return replace(found, findings=tuple(findings), rules={**other.rules, **found.rules})


def joined(parts: Sequence[Check]) -> Check:
    """Return one check of the parts of a model."""
    findings = [
        replace(found, module=f"{part.source.model}: {found.module}".rstrip(": ")) for part in parts for found in part
    ]
    findings.sort(key=lambda found: found.severity != "error")
    probed = dict.fromkeys(name for part in parts for name in part.probed)
    unprobed = {one.name: one for part in parts for one in part.unprobed if one.name not in probed}
    first = parts[0].source
    names = " and ".join(part.source.model for part in parts)
    source = replace(
        first, footnote=first.footnote.replace(first.model, names), details={**first.details, "name": names}
    )
    return replace(
        parts[0], source=source, findings=tuple(findings), probed=tuple(probed), unprobed=tuple(unprobed.values())
    )


def _check(evidence: Evidence, ignore: Collection[str], on_progress: Callable[[str], None] | None) -> Check:
    layer = evidence.layer
    assert evidence.length
    findings: list[Finding] = []
    probed: dict[str, None] = {}
    unprobed: dict[str, str] = {}
    hidden: dict[str, str] = {}
    for code, one in codes().items():
        if on_progress is not None:
            on_progress(one.name)
        if any(found.code == code for found in findings):
            continue
        hiding = {found.code for found in findings if found.severity == "error"} & (one.unless - set(ignore))
        if hiding:
            hidden.setdefault(one.name, f"{sorted(hiding)[0]} hides it")
            continue
        try:
            found = list(one.find(evidence))
        except CannotProbe as reason:
            unprobed.setdefault(one.name, str(reason))
            continue
        except TimeUpError:
            raise
        except MhavizError as error:
            unprobed.setdefault(one.name, str(error))
            continue
        except Exception as error:  # a layer may raise anything on unusual inputs
            unprobed.setdefault(one.name, f"the layer raises {one_line(error, 120)}")
            continue
        probed[one.name] = None
        findings += found
    kept = [found for found in findings if found.code not in ignore]
    kept.sort(key=lambda found: found.severity != "error")
    source = Source(
        f"{layer.name}, d_model {layer.d_model}, random inputs, seed {evidence.seed}",
        {"name": layer.name, "d_model": layer.d_model, "seed": evidence.seed},
        layer.masking.reading,
    )
    known = [name for name in probed if name not in unprobed]
    hidden = {name: reason for name, reason in hidden.items() if name not in known}
    left = tuple(Unprobed(name, reason) for name, reason in (hidden | unprobed).items())
    rules = {found.code: codes()[found.code].meaning for found in kept}
    return Check(source, tuple(kept), tuple(known), left, tuple(ignore), rules)
