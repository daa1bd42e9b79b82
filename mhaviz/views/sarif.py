"""Findings of a check as SARIF 2.1.0 (OASIS 2020), which editors and code hosts show beside the lines of a program."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from mhaviz._version import __version__
from mhaviz.pages.labels import harmless
from mhaviz.results.check import Check, Finding, Line

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_REPOSITORY = "https://github.com/mhaviz/mhaviz"
_HELP = f"{_REPOSITORY}/blob/main/samples/checks.md"
_LEVELS = {"error": "error", "notice": "note"}


def sarif(check: Check) -> dict[str, Any]:
    """Return a check as a SARIF log of one run, whose rules are the codes of the findings.

    The run's properties are what was probed and what was not, as a run without results may be one without probes.
    """
    codes = list(dict.fromkeys(check.codes))
    driver = {
        "name": "mhaviz",
        "version": __version__,
        "informationUri": _REPOSITORY,
        "rules": [_rule(code, check.rules) for code in codes],
    }
    details = {name: value for name, value in check.to_dict().items() if name in ("probed", "unprobed", "ignored")}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in check],
        "properties": {"source": check.source.footnote} | details,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str, meanings: Mapping[str, str]) -> dict[str, Any]:
    meaning = meanings.get(code, "")
    rule = {"id": code, "shortDescription": {"text": _literal(meaning or code)}, "helpUri": f"{_HELP}#{code}"}
    return rule | ({"fullDescription": {"text": _literal(meaning)}} if meaning else {})


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    what, found = finding.mistake or finding.found, finding.mistake and f"found: {finding.found}"  # the summary first
    said = "; ".join(filter(None, [what, found, finding.mend and f"mend: {finding.mend}"]))
    result = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": _literal(said)},
    }
    location = dict[str, Any]()
    if finding.line:
        location["physicalLocation"] = _physical(finding.line)
    if finding.module:
        name = finding.module.rpartition(".")[2] or finding.module
        location["logicalLocations"] = [{"name": name, "fullyQualifiedName": finding.module, "kind": "module"}]
    details = {name: getattr(finding, name) for name in ("tried", "found", "mistake", "mend")}
    return result | ({"locations": [location]} if location else {}) | {"properties": details}


def _physical(line: Line) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": line.number}
    if line.text:
        region["snippet"] = {"text": line.text}
    return {"artifactLocation": {"uri": _uri(line.file)}, "region": region}


def _uri(file: str) -> str:
    """Return a file as the reference of a URI (RFC 3986), relative to where the program ran if its path is."""
    path = PurePath(file)
    escaped = quote(path.as_posix().encode("utf-8", "surrogatepass"))
    return f"file://{'' if escaped.startswith('/') else '/'}{escaped}" if path.is_absolute() else escaped


def _literal(text: str) -> str:
    """Return a text as a message in which nothing is a placeholder or a link (sections 3.11.5 and 3.11.6)."""
    return harmless(text).replace("{", "{{").replace("}", "}}").replace("](", "] (")
