"""A difference as JUnit's XML, which nearly every service for continuous integration reads: a test case a head.

There is no schema by JUnit's own authors; the elements are those of Ant's ``junitreport``, that all readers know:
``testsuite``, ``testcase``, and in it ``failure``, ``error`` or ``skipped``. Neither times nor dates are in it, so that
the same difference is always the same file.
"""

from collections.abc import Mapping
from typing import BinaryIO
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from mhaviz.pages.verdicts import Verdict, verdicts
from mhaviz.records import CorpusDifference, Difference
from mhaviz.views.labels import visible

_NAME = "mhaviz diff"


def write_junit(record: Difference | CorpusDifference, stream: BinaryIO) -> None:
    """Write a test case for each head: a failure if it is above a limit, an error if nobody can tell.

    Without limits nothing fails, and what has no divergence is skipped.
    """
    found = verdicts(record)
    checked = record.limits.are_given
    failures = sum(bool(one.above) for one in found)
    unknown = sum(bool(one.unknown) for one in found)
    counts = {
        "tests": len(found),
        "failures": failures,
        "errors": unknown if checked else 0,
        "skipped": 0 if checked else unknown,
    }
    root = _element(None, "testsuites", name=_NAME, **counts)
    suite = _element(root, "testsuite", name=_NAME, **counts)
    properties = _element(suite, "properties")
    about = {"source": record.source.footnote, "fail-above": record.limits.mean, "fail-above-row": record.limits.row}
    for name, value in about.items():
        if value is not None:
            _element(properties, "property", name=name, value=value)
    for verdict in found:
        _add_case(suite, verdict, checked)
    indent(root)
    ElementTree(root).write(stream, encoding="utf-8", xml_declaration=True)
    stream.write(b"\n")


def _add_case(suite: Element, verdict: Verdict, checked: bool) -> None:
    case = _element(suite, "testcase", classname=f"mhaviz.{verdict.group.replace('.', '·')}", name=verdict.name)
    if verdict.above:
        message = "; ".join(verdict.above)
        _element(case, "failure", message=message, type="divergence").text = _safe(message)
    elif verdict.unknown:
        _element(case, "error" if checked else "skipped", message=verdict.unknown)
    if verdict.divergence is not None:
        _element(case, "system-out").text = f"divergence {verdict.divergence!r} bits"


def _element(parent: Element | None, tag: str, **attributes: object) -> Element:
    texts: Mapping[str, str] = {name: _safe(str(value)) for name, value in attributes.items()}
    return Element(tag, dict(texts)) if parent is None else SubElement(parent, tag, dict(texts))


def _safe(text: str) -> str:
    """XML 1.0 has no way to write most control characters and surrogates: section 2.2. They are shown escaped."""
    return visible(text)
