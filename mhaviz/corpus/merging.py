"""Joins the parts of a study over a corpus, after it has been found out that they belong together."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from mhaviz.analyses.sums import Study
from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameter, quoted, shortened
from mhaviz.files.parts import read_part, require_version, write_part
from mhaviz.results.corpus_part import CorpusPart, Progress, Shard
from mhaviz.results.result import Source

_LISTED = 8  # shards that an error names


STUDIES = {
    "heads": "mhaviz.analyses.head_statistics:HeadStudy",
    "diff": "mhaviz.analyses.corpus_difference:DifferenceStudy",
}
"""The subclass of ``Study`` of every study that has parts, by the name that they bear; loaded when it is needed."""


def merge(paths: str | Path | Sequence[str | Path], *, part: str | Path | None = None) -> Any:
    """The result of a study over a corpus whose shards were read one by one, on whatever machines.

    Args:
        paths: the .safetensors files of all shards, in any order, or the one file of the whole.
        part: write all of them as one part of the whole, a .safetensors file.

    Returns:
        What the study gives: ``HeadStatistics`` of ``head_statistics``, ``CorpusDifference`` of ``diff_models``.

    Raises:
        ArgumentError: there is no file.
        MhavizError: a file cannot be read or is no part; they are of several models, texts, options or versions; a
            shard is there twice, is missing or is not complete; none has a sentence that the model can read.

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
    """The result of a part. Raises MhavizError if its arrays cannot be."""
    with as_one_line(f"{part.study}: the part's numbers cannot be read"):
        return study_of(part).result(source_of(part.source, part.shard, part.progress), part.progress.too_long)


def study_of(part: CorpusPart) -> Study:
    """What a part has added up. Raises MhavizError for a name that no study has, ValueError for arrays of none."""
    if part.study not in STUDIES:
        raise MhavizError(f"expected a part of {' or '.join(STUDIES)}, got one of {quoted(part.study)}")
    study: Study = resolve_name(STUDIES[part.study]).of_options(part.options)
    return study.restore(part.arrays)


def source_of(source: Source, shard: Shard, progress: Progress) -> Source:
    """Where the numbers of a part come from, which shard they are of, if it is not all, and how many texts were cut."""
    footnote, details, n_cut = source.footnote, dict(source.details), progress.cut
    if not shard.is_whole:
        footnote, details["shard"] = f"{footnote}, shard {shard}", [shard.number, shard.count]
    if n_cut:
        footnote, details["cut"] = f"{footnote}, {n_cut:,} text{'s' * (n_cut != 1)} cut into pieces", n_cut
    return replace(source, footnote=footnote, details=details)


def merge_parts(paths: Sequence[Path]) -> CorpusPart:
    """One part of the whole corpus, of those in these files. Raises as ``merge``."""
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
    """One part of the whole corpus, of those of all its shards, each with the name that errors give it.

    The sums are joined in the order of the shards, so that the order of the parts does not matter to any bit.

    Raises:
        MhavizError: they do not belong together, or are not all.
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
    if missing := list(islice(lacking, _LISTED + 1)):  # a file may say that there are any number
        raise MhavizError(f"{_listed(missing, first.shard.count)}; give all {first.shard.count:,} shards")
    in_order = [by_shard[number] for number in sorted(by_shard)]
    for name, part in in_order:
        if not part.progress.is_all:
            raise MhavizError(
                f"{name}, shard {part.shard}, is not complete: it has come to sentence {part.progress.read:,}; go on "
                f"with {parameter('resume')}"
            )
    (name, whole), *others = in_order
    with as_one_line(f"cannot read {name}"):
        study = study_of(whole)
    progress = whole.progress
    for name, part in others:
        with as_one_line(f"cannot join {name}"):
            study.join(study_of(part))
        progress = progress.joined(part.progress)
    if (counted := progress.taken + progress.too_long + progress.empty) != progress.read:
        raise MhavizError(
            f"expected all {progress.read:,} sentences of the text in the parts, got {counted:,}; read it again"
        )
    return replace(whole, shard=Shard(), progress=progress, arrays=study.arrays())


def require_same_study(part: CorpusPart, name: str, other: CorpusPart, other_name: str) -> None:
    """Raise MhavizError unless both are of this version, and of the same study, models, options, text and division.

    The text, and how it was divided, are known of parts that are complete.
    """
    require_version(part, name)
    mine, theirs = _made_from(part), _made_from(other)
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


def _made_from(part: CorpusPart) -> dict[str, tuple[object, str]]:
    """What parts have in common: by its name what is compared, and how an error says it."""
    fingerprints = [model.fingerprint for model in part.models]
    models = " and ".join(f"{model.name[-30:]} ({model.fingerprint})" for model in part.models)
    count, read, digest, block = part.shard.count, part.progress.read, part.progress.digest, part.progress.block
    return {
        "study": (part.study, part.study),
        "model": (fingerprints, models),
        "number of shards": (count, f"{count:,}"),
        **{option: (value, quoted(value)) for option, value in sorted(part.options.items())},
        "text": ((read, digest), f"{read:,} sentences with the digest {digest[:12]}"),
        "block": (block, f"{block:,} sentences"),
    }


def _listed(missing: Sequence[int], count: int) -> str:
    named = ", ".join(f"{number}/{count}" for number in missing[:_LISTED])
    more = ", …" if len(missing) > _LISTED else ""
    return f"shard {named} is missing" if len(missing) == 1 else f"shards {named}{more} are missing"
