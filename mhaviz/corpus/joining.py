"""Joining the parts of a study over a corpus, after checks that they belong together."""

from collections.abc import Sequence
from dataclasses import replace

from mhaviz.analyses.sums import Study
from mhaviz.errors import MhavizError, as_one_line, counted, quoted, shortened
from mhaviz.files.parts import require_version
from mhaviz.results.corpus_part import CorpusPart, Progress, Shard
from mhaviz.results.result import Source


def join_others(study: Study, parts: Sequence[CorpusPart]) -> Progress:
    """Add the parts of the other processes to the study of the first one, and return the progress of all.

    The parts are those of all processes in order, so that no bit depends on which is ready first.

    Raises:
        MhavizError: the processes have read other texts, as from other files, with other models or options.
    """
    first, *others = parts
    progress = first.progress
    for number, part in enumerate(others, start=2):
        require_same_study(part, f"process {number}", first, "process 1")
        with as_one_line(f"cannot join process {number}"):
            study.join(part.arrays)
        progress = progress.joined(part.progress)
    return progress


def source_of(source: Source, shard: Shard, progress: Progress) -> Source:
    """Return the source with the shard, if it is not the whole corpus, and with the number of texts that were cut."""
    footnote, details, n_cut = source.footnote, dict(source.details), progress.cut
    if not shard.is_whole:
        footnote, details["shard"] = f"{footnote}, shard {shard}", [shard.number, shard.count]
    if n_cut:
        footnote, details["cut"] = f"{footnote}, {counted(n_cut, 'text')} cut into pieces", n_cut
    return replace(source, footnote=footnote, details=details)


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
    read, digest, block = part.progress.read, part.progress.digest, part.progress.block
    return {
        "study": (part.study, part.study),
        "model": (fingerprints, models),
        **{option: (value, quoted(value)) for option, value in sorted(part.options.items())},
        "text": ((read, digest), f"{counted(read, 'sentence')} with the digest {digest[:12]}"),
        "block": (block, counted(block, "sentence")),
    }
