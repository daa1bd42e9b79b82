"""Merging of the parts of a study over a corpus, after checks that they belong together."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from mhaviz.analyses.sums import Study
from mhaviz.errors import ArgumentError, MhavizError, as_one_line, counted, quoted, shortened
from mhaviz.files.parts import read_part, require_version, write_part
from mhaviz.results.corpus_part import CorpusPart, Progress, Shard
from mhaviz.results.result import Source

_LISTED = 8  # most shards that an error names


STUDIES = {
    "heads": "mhaviz.analyses.head_statistics:HeadStudy",
    "diff": "mhaviz.analyses.corpus_difference:DifferenceStudy",
}
"""Subclass of ``Study`` for each name of a study in a part, imported when it is needed."""


def merge(paths: str | Path | Sequence[str | Path], *, part: str | Path | None = None) -> Any:
    """Merge the parts of all shards of a corpus, from any machines, and return the result of the study.

    Args:
        paths: .safetensors files of all shards, in any order, or one file of the whole corpus.
        part: a .safetensors file to which the merged part of the whole corpus is written; None: write none.

    Returns:
        The study's result: ``HeadStatistics`` of ``head_statistics``, ``CorpusDifference`` of ``diff_models``.

    Raises:
        ArgumentError: no file is given.
        MhavizError: a file cannot be read or is no part; the parts are of different models, texts, options or versions;
            a shard occurs twice, is missing or is not complete; no shard has a sentence that the model can read.

    Examples:
        >>> texts = ["The cat sat on the mat.", "A dog barks.", "Birds sing."]
        >>> parts = ["part-1.safetensors", "part-2.safetensors"]
        >>> for number, part in enumerate(parts, start=1):
        ...     found = mhaviz.head_statistics("minilm", mhaviz.Corpus(texts, shard=(number, 2), part=part))
        >>> mhaviz.merge(parts).kinds[0].sentences
        3
    """
    whole = merge_parts([Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)])
    result = result_of(whole)
    if part is not None:
        write_part(whole, Path(part))
    return result


def result_of(part: CorpusPart) -> Any:
    """Return the result of a part. Raises MhavizError if its arrays are not valid."""
    with as_one_line(f"{part.study}: the part's numbers cannot be read"):
        return study_of(part).result(source_of(part.source, part.shard, part.progress), part.progress.too_long)


def study_of(part: CorpusPart) -> Study:
    """Return the study of a part. Raises MhavizError for an unknown study, ValueError for arrays that do not fit it."""
    if part.study not in STUDIES:
        raise MhavizError(f"expected a part of {' or '.join(STUDIES)}, got one of {quoted(part.study)}")
    study: Study = resolve_name(STUDIES[part.study]).of_options(part.options)
    return study.restore(part.arrays)


def source_of(source: Source, shard: Shard, progress: Progress) -> Source:
    """Return the source with the shard, if it is not the whole corpus, and with the number of texts that were cut."""
    footnote, details, n_cut = source.footnote, dict(source.details), progress.cut
    if not shard.is_whole:
        footnote, details["shard"] = f"{footnote}, shard {shard}", [shard.number, shard.count]
    if n_cut:
        footnote, details["cut"] = f"{footnote}, {counted(n_cut, 'text')} cut into pieces", n_cut
    return replace(source, footnote=footnote, details=details)


def merge_parts(paths: Sequence[Path]) -> CorpusPart:
    """Read the parts in these files, and return one part of the whole corpus. Raises as ``merge``."""
    if not paths:
        raise ArgumentError("merge: expected the files of all shards, got none")
    whole = joined([(str(path), read_part(path)) for path in paths])
    if not whole.progress.taken:
        raise MhavizError(
            f"expected a sentence that the model can read, got {whole.progress.too_long:,} that are too long, and "
            f"{whole.progress.empty:,} without a token"
        )
    return whole


def joined(parts: Sequence[tuple[str, CorpusPart]]) -> CorpusPart:
    """Join the parts of all shards, each with its name for errors, to one part of the whole corpus.

    The sums are joined in the order of the shards, so that the order of the parts does not change any bit.

    Raises:
        MhavizError: the parts do not belong together, or a shard is missing.
    """
    first_name, first = parts[0]
    by_shard: dict[int, tuple[str, CorpusPart]] = {}
    for name, part in parts:
        require_same_study(part, name, first, first_name)
        if part.shard.number in by_shard:
            other, _ = by_shard[part.shard.number]
            raise MhavizError(f"{name} and {other} are both shard {part.shard}; give each shard once")
        by_shard[part.shard.number] = name, part
    lacking = (number for number in range(1, first.shard.count + 1) if number not in by_shard)
    if missing := list(islice(lacking, _LISTED + 1)):  # a file may give any number of shards
        raise MhavizError(f"{_listed(missing, first.shard.count)}; give all {first.shard.count:,} shards")
    in_order = [by_shard[number] for number in sorted(by_shard)]
    for name, part in in_order:
        if not part.progress.is_all:
            raise MhavizError(
                f"{name}, shard {part.shard}, is not complete: it ends at sentence {part.progress.read:,}; "
                f"resume it first"
            )
    (name, whole), *others = in_order
    with as_one_line(f"cannot read {name}"):
        study = study_of(whole)
    progress = whole.progress
    for name, part in others:
        with as_one_line(f"cannot join {name}"):
            study.join(study_of(part))
        progress = progress.joined(part.progress)
    if (there := progress.taken + progress.too_long + progress.empty) != progress.read:
        raise MhavizError(
            f"expected all {counted(progress.read, 'sentence')} of the text in the parts, got {there:,}; read it again"
        )
    return replace(whole, shard=Shard(), progress=progress, arrays=study.arrays())


def require_same_study(part: CorpusPart, name: str, other: CorpusPart, other_name: str) -> None:
    """Raise MhavizError unless ``part`` is of this version, and both have the same study, models, options and texts.

    Texts, and the sizes of their blocks, are compared only if both parts are complete.
    """
    require_version(part, name)
    mine, theirs = _in_common(part), _in_common(other)
    if not (part.progress.is_all and other.progress.is_all):
        mine, theirs = ({what: made for what, made in one.items() if what not in _OF_TEXTS} for one in (mine, theirs))
    for what in [*mine, *theirs]:
        (value, text), (other_value, other_text) = (one.get(what, (None, "None")) for one in (mine, theirs))
        if value != other_value:
            raise MhavizError(
                f"{name} and {other_name} differ in their {shortened(what)}: {shortened(text)}, and "
                f"{shortened(other_text)}; only parts of the same {shortened(what)} go together"
            )


_OF_TEXTS = "text", "block"


def _in_common(part: CorpusPart) -> dict[str, tuple[object, str]]:
    """Return what parts of a study have in common: for each name, the value to compare, and its text in errors."""
    fingerprints = [model.fingerprint for model in part.models]
    models = " and ".join(f"{model.name[-30:]} ({model.fingerprint})" for model in part.models)
    count, read, digest, block = part.shard.count, part.progress.read, part.progress.digest, part.progress.block
    return {
        "study": (part.study, part.study),
        "model": (fingerprints, models),
        "number of shards": (count, f"{count:,}"),
        **{option: (value, quoted(value)) for option, value in sorted(part.options.items())},
        "text": ((read, digest), f"{counted(read, 'sentence')} with the digest {digest[:12]}"),
        "block": (block, counted(block, "sentence")),
    }


def _listed(missing: Sequence[int], count: int) -> str:
    named = ", ".join(f"{number}/{count}" for number in missing[:_LISTED])
    more = ", …" if len(missing) > _LISTED else ""
    return f"shard {named} is missing" if len(missing) == 1 else f"shards {named}{more} are missing"
