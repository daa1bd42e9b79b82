"""What a smaller key-value cache keeps of a model's attention, over texts that are read one at a time."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from mhaviz.analyses.cache_budget import BudgetStudy
from mhaviz.attention.model import CorpusModel, Inputs, SiteCall
from mhaviz.corpus.batches import added_around, cut
from mhaviz.errors import ArgumentError, counted, parameter, quoted
from mhaviz.inputs.tokens import Text
from mhaviz.models.load import Notice
from mhaviz.results.cache_budget import POLICY_NAMES, CacheBudget, Policy


@dataclass(frozen=True)
class _Read:
    """A text, and the piece of it that is read; None: all of it."""

    text: str
    piece: Text | None
    length: int


def cache_budget(
    model: CorpusModel,
    texts: str | Iterable[str],
    keep: int | Collection[int],
    policies: str | Collection[str],
    on_notice: Notice,
    on_progress: Callable[[float, int], None],
) -> CacheBudget:
    """Run ``LoadedModel.budget`` for the attentions that see no later keys, to which ``model`` is restricted."""
    budgets, names = _budgets(keep), _policies(policies)
    if not model.sites():
        raise ArgumentError(
            f"{parameter('layer')}: expected a layer whose queries see no later keys, got none; choose others"
        )
    read = [_read(model, text, on_notice) for text in ([texts] if isinstance(texts, str) else texts)]
    if not read:
        raise ArgumentError("expected at least one text, got none")
    if all(site.kind == "masked" for site in model.all_sites):  # else a decoder has yet to write what it reads
        for number, one in enumerate(read):
            _require_fits(budgets, one.length, number, len(read))
    study, done, whole = BudgetStudy(budgets, names), 0, sum(one.length**2 for one in read)
    for number, one in enumerate(read):
        inputs = model.encode_unnamed([one.text], [one.piece])
        length = len(inputs.texts[0].sides("masked")[0])
        _require_fits(budgets, length, number, len(read))
        study.begin(length)

        def on_share(share: float, before: int = done, cost: int = one.length**2, number: int = number) -> None:
            on_progress((before + share * cost) / whole, number)

        _run(model, inputs, study, on_share)
        done += one.length**2
    return study.result(model.describe())


def _run(model: CorpusModel, inputs: Inputs, study: BudgetStudy, on_progress: Callable[[float], None]) -> None:
    """Run the model on a text, and add its attentions to the study."""
    n_sites, n_seen = len(model.sites(inputs)), 0

    def on_attention(seen: SiteCall) -> None:
        nonlocal n_seen
        study.add(seen, lambda share: on_progress((n_seen + share) / n_sites))
        n_seen += 1

    model.run(inputs, on_attention)


def _budgets(keep: int | Collection[int]) -> tuple[int, ...]:
    """Return the budgets, increasing, each once. Raises ArgumentError if they are none."""
    given = (keep,) if isinstance(keep, int) else tuple(keep)
    wrong = [one for one in given if isinstance(one, bool) or not isinstance(one, int) or one < 1]
    if wrong or not given:
        got = quoted(wrong[0]) if wrong else "none"
        raise ArgumentError(f"{parameter('keep')}: expected numbers of keys from 1 on, such as 64 and 256, got {got}")
    return tuple(sorted(set(given)))


def _policies(policies: str | Collection[str]) -> tuple[Policy, ...]:
    """Return the policies, in order, each once. Raises ArgumentError if one is not known."""
    given = (policies,) if isinstance(policies, str) else tuple(policies)
    unknown = [one for one in given if one not in POLICY_NAMES]
    if unknown or not given:
        got = quoted(unknown[0]) if unknown else "none"
        raise ArgumentError(f"{parameter('policies')}: expected some of {', '.join(POLICY_NAMES)}, got {got}")
    return cast(tuple[Policy, ...], tuple(dict.fromkeys(given)))


def _read(model: CorpusModel, text: str, on_notice: Notice) -> _Read:
    """Return what is read of a text: its first tokens, if it has more than the model is built for."""
    (tokens,) = model.read_unnamed([text])
    most = model.max_length
    if not tokens.of_text:
        raise ArgumentError(f"expected a text with at least one token, got {quoted(text)}")
    if most is None or len(tokens) <= most:
        return _Read(text, None, len(tokens))
    piece, *_ = cut(tokens, most, added_around(tokens), overlap=0, is_masked=True)
    on_notice(f"read the first {most:,} of {len(tokens):,} tokens, as many as the model is built for")
    return _Read(text, piece, len(piece.source))


def _require_fits(budgets: Sequence[int], length: int, number: int, n_texts: int) -> None:
    """Raise ArgumentError unless a text has more tokens than the largest budget, so that there is something to lose."""
    if budgets[-1] >= length:
        of = f"text {number + 1} has" if n_texts > 1 else "the text has"
        raise ArgumentError(
            f"{parameter('keep')}: expected fewer keys than {of} tokens, {length:,}, got {counted(budgets[-1])}; keep "
            f"fewer, or give a longer text"
        )
