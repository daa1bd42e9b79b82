"""Page of relevance: what decides a prediction in a line, its text shaded by relevance, and words with what happens
without them."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.spans import unit_of
from mhaviz.pages.blocks import Block, Column, Page, Shaded, Table, Text, Word
from mhaviz.pages.image import CLASS_TOKENS
from mhaviz.pages.labels import in_quotes, places, quoted
from mhaviz.pages.numbers import fixed, percent
from mhaviz.pages.panels import Scale
from mhaviz.pages.registry import HEAD_SUFFIXES, shown
from mhaviz.results.relevance import MOST_REMOVED, Explained, Relevance, WordRelevance

_NAME = 24  # most cells of a word
_CHOICE = 32  # most cells of what is explained
_UPPER = 0.98  # quantile of the words' shares that gets the darkest colour
_LITTLE = 0.05  # fall of y as a share of |y|, below which a word alone decides nothing
_MUCH = 0.5  # share of the largest relevance, or of the largest fall, from which a word is as good as the first
_MOST = 0.5  # share of all relevance that is most of it
_LISTED = 10  # most words in the table
_LEAST_ASIDE = 0.005  # least share of a special token that is listed
_MOST_ASIDE = 4  # most special tokens that are listed


@shown(Relevance, HEAD_SUFFIXES)
def relevance_page(relevance: Relevance) -> Page:
    """Return the page: the title says what estimate and removal say together."""
    text = relevance.text
    has_both = relevance.written is not None
    blocks: list[Block] = [
        Text(tuple(subtitles(relevance)), "subtitle"),
        *_side(text, "source" * has_both, " of the source" * has_both),
    ]
    if relevance.removal == "all" and text.removed:
        blocks.append(_shaded(text, text.falls, "y falls without it by", partial(_number, relevance)))
    if text.ranked:
        blocks.append(removal_table(relevance))
    if relevance.written is not None:
        blocks += _side(relevance.written, "read by the decoder", " that the decoder reads")
        if relevance.written.ranked:
            blocks.append(_strongest(relevance.written))
    return Page(title_text(relevance), tuple(blocks), relevance.source.footnote, _reading(relevance), True)


def explained_text(explained: Explained) -> str:
    """Return what is explained: "the logit of “ Paris”", with the blank before a token."""
    blank = " " * (explained.kind == "token" and explained.choice[:1].isspace())
    return explained.named(f"{blank}{quoted(explained.choice, _CHOICE)}")


def y_text(relevance: Relevance) -> str:
    """Return what y is, as ``explained_text``."""
    return explained_text(relevance.explained)


def title_text(relevance: Relevance) -> str:
    """Return what estimate and removal say together:

    - "“terrible” decides: without it the logit of NEGATIVE falls from 6.3 to 1.2", if the model then predicts something
      else; "“terrible” counts most: …", if it does not;
    - "no single word decides: …", if no removal changes much;
    - "removal contradicts the estimate: …", if another word has by far the largest fall;
    - "no single word decides, but they do together: …", "nor do they together", if words were removed together as well.
    """
    said = _said(relevance)
    return f"{said}, by chance: the weights are random" if relevance.source.is_random else said


def _said(relevance: Relevance) -> str:
    text, falls, unit = relevance.text, relevance.text.falls, _unit(relevance.text)
    if not text.removed:
        return _without_removal(relevance)
    first, best = text.removed[0], max(text.removed, key=lambda j: float(falls[j]))
    changed = [j for j in text.removed if _changes(relevance, text.without[j])]
    n, little = len(text.removed), little_of(relevance)
    among = f" of the {n} most relevant" * (n < len(text.ranked))
    is_against = min(falls[text.removed]) <= -little
    if not changed and (together := relevance.together) is not None:
        begin, they = f"no single {unit}{among} decides", "they" if among else f"the {together.count} most relevant"
        how = f"together: without them {_goes(relevance, relevance.y - together.fall)}"
        if _changes(relevance, together.without):
            return f"{begin}, but {they} do {how}"
        if falls[best] < little and not is_against:
            return f"{begin}, nor do {they} {how}" if together.fall < little else f"{begin}; {they} count {how}"
    if not changed and falls[best] < little:
        return (
            _against(relevance)
            if is_against
            else (f"no single {unit}{among} decides: without {_named(text, best)} {_falls(relevance, best)}")
        )
    is_alike = text.relevance[best] >= _MUCH * text.relevance[first] or falls[first] >= _MUCH * falls[best]
    if first not in changed and not is_alike:
        return (
            f"removal contradicts the estimate: {_named(text, first)} has the most relevance, but without "
            f"{_named(text, best)} {_falls(relevance, best)}, and without {_named(text, first)} to "
            f"{_number(relevance, _after(relevance, first))}"
        )
    deciding = sorted((j for j in changed if falls[j] > 0), key=lambda j: -falls[j])
    if len(deciding) > 1:
        return _several(relevance, deciding)
    if changed:
        (word,) = deciding or changed[:1]
        return f"{_named(text, word)} decides: without it {_changed_text(relevance, word)}"
    return f"{_named(text, best)} counts most{among}: without it {_falls(relevance, best)}"


def _against(relevance: Relevance) -> str:
    """Return that no removal lowers y, and that some raise it: "removal contradicts the estimate: …"."""
    text, falls = relevance.text, relevance.text.falls
    least = min(text.removed, key=lambda j: float(falls[j]))
    others = ", and no removal lowers it much" * (len(text.removed) > 1)
    return f"removal contradicts the estimate: without {_named(text, least)} {_falls(relevance, least)}{others}"


def little_of(relevance: Relevance) -> float:
    """Return the fall below which a word alone decides nothing: a share of |y|, and of logits the same share of 1 or
    more, as a logit that falls by 0.05 changes odds by 5%."""
    is_logit = relevance.explained.kind in ("token", "label", "written")
    return _LITTLE * max(abs(relevance.y), 1.0 if is_logit else 0.0)


def _changed_text(relevance: Relevance, word: int) -> str:
    """Return "the logit of NEGATIVE falls from 6.3 to 1.2" of a word without which the model predicts something else;
    what it predicts, if the logit does not fall."""
    falls = _falls(relevance, word)
    if relevance.text.falls[word] > 0 and "falls" in falls:
        return falls
    return f"the model predicts {_choice(relevance, relevance.text.without[word])}, though {falls}"


def _without_removal(relevance: Relevance) -> str:
    """Return what is said where no word was removed: "“terrible” has most of the relevance for y, 75%", or that no word
    stands out."""
    text = relevance.text
    if not text.ranked:
        return f"nothing has relevance for {y_text(relevance)}; no {_unit(text)} can be removed"
    if len(text.ranked) == 1 and relevance.removal != "none":
        return f"{_named(text, text.ranked[0])} is the only {_unit(text)} that could have made {y_text(relevance)}"
    shares = [float(text.shares[j]) for j in text.ranked[:2]]
    end = "" if relevance.removal == "none" else f"; no {_unit(text)} can be removed"
    if not shares[0]:
        return f"no {_unit(text)} has relevance for {y_text(relevance)}{end}"
    named, amount = _named(text, text.ranked[0]), percent(shares[0])
    if shares[0] <= _MOST and len(shares) > 1 and shares[1] > _MUCH * shares[0]:
        return f"no {_unit(text)} stands out: {named} has {amount} of the relevance for {y_text(relevance)}{end}"
    most = "all" if amount == "100%" else "most" if shares[0] > _MOST else "the largest part"
    return f"{named} has {most} of the relevance for {y_text(relevance)}, {amount}{end}"


def _several(relevance: Relevance, words: Sequence[int]) -> str:
    """Return what is said of words without each of which the model predicts something else, the largest fall first."""
    text, more = relevance.text, len(words) - 2
    named = [_named(text, j) for j in words[:2]] + [f"{more:,} more"] * (more > 0)
    listed = f"{', '.join(named[:-1])} and {named[-1]}"
    after = sorted(_after(relevance, j) for j in words)
    ends = list(dict.fromkeys(_number(relevance, one) for one in (after[0], after[-1])))
    to = f"between {' and '.join(ends)}" if len(ends) > 1 else ends[0]
    either = "either one" if len(words) == 2 else "any one"
    goes = "falls" if after[-1] < relevance.y else "goes"
    y = _number(relevance, relevance.y)
    return f"{listed} decide: without {either} of them {y_text(relevance)} {goes} from {y} to {to}"


def _changes(relevance: Relevance, without: str) -> bool:
    """Return whether the model chooses what is explained, and something else, ``without``, after a removal."""
    return relevance.chosen == relevance.explained.choice != "" and without not in ("", relevance.chosen)


def _falls(relevance: Relevance, word: int) -> str:
    """Return "the logit of NEGATIVE falls from 6.3 to 1.2"."""
    return _goes(relevance, _after(relevance, word))


def _goes(relevance: Relevance, after: float) -> str:
    y = relevance.y
    texts = _number(relevance, y), _number(relevance, after)
    if texts[0] == texts[1]:
        return f"{y_text(relevance)} stays {texts[0]}"
    return f"{y_text(relevance)} {'falls' if after < y else 'rises'} from {texts[0]} to {texts[1]}"


def _after(relevance: Relevance, word: int) -> float:
    return relevance.y - float(relevance.text.falls[word])


def _number(relevance: Relevance, number: float) -> str:
    return fixed(number, _decimals(relevance))


def _decimals(relevance: Relevance) -> int:
    """Return the decimals that show three digits of y, or of the largest fall, and at least one."""
    largest = max(abs(relevance.y), float(np.nanmax(np.abs(relevance.text.falls), initial=0.0)))
    return min(max(2 - math.floor(math.log10(largest)), 1), 6) if largest else 1


def subtitles(relevance: Relevance) -> Iterator[str]:
    """Yield what y is, and how estimate and removal agree."""
    explained, y = relevance.explained, y_text(relevance)
    top = ""
    if relevance.chosen:
        is_chosen = relevance.chosen == explained.choice
        top = ", its top prediction" if is_chosen else f"; its top prediction is {_choice(relevance, relevance.chosen)}"
    yield f"y is {f'{y}, ' * (y != 'y')}{_number(relevance, relevance.y)}{top}"
    agreement, n = relevance.text.agreement, len(relevance.text.removed)
    if agreement is not None:
        which, units = "all" if relevance.removal == "all" else "the", _units(relevance.text)
        yield f"ranks by relevance and by removal of {which} {n} {units} correlate by {fixed(agreement, 2)}"


def _choice(relevance: Relevance, choice: str) -> str:
    name = quoted(choice, _CHOICE)
    return in_quotes(name) if relevance.explained.kind == "token" else name


def _side(side: WordRelevance, heading: str, of: str) -> Iterator[Block]:
    if heading:
        yield Text((heading,), "subheading")
    if side.ranked:
        yield _shaded(side, side.shares, f"share of the relevance of all {_units(side)}{of}", _share_text)
    if aside := aside_text(side):
        yield Text((aside,), "quiet")


def _share_text(share: float) -> str:
    """Return a share, "47%"; with more digits where it is below 1%, as in long texts."""
    return percent(share) if share >= 0.01 or not share else f"{share:.2%}"


def aside_text(side: WordRelevance) -> str:
    """Return "not in the scale: [CLS] 36%, [SEP] 12% of all relevance" of special tokens; "" without any."""
    whole = float(side.relevance.sum()) or 1.0
    listed = sorted(np.flatnonzero(side.aside).tolist(), key=lambda j: -side.relevance[j])
    told = [j for j in listed if side.relevance[j] >= _LEAST_ASIDE * whole]
    names = ", ".join(f"{_named(side, j)} {percent(side.relevance[j] / whole)}" for j in told[:_MOST_ASIDE])
    more = f", {len(told) - _MOST_ASIDE} more" * (len(told) > _MOST_ASIDE)
    return f"not in the scale: {names}{more} of all relevance" if told else ""


def _shaded(side: WordRelevance, numbers: NDArray[np.float64], name: str, text_of: Callable[[float], str]) -> Shaded:
    """Return the text without its special tokens, shaded by numbers; those below 0 are as pale as 0."""
    texts, special = side.words.texts, set(side.words.special)
    have_blanks = any(text[:1].isspace() for text in texts)
    words = tuple(
        Word(
            quoted(text, _NAME),
            None if np.isnan(numbers[j]) else max(float(numbers[j]), 0.0),
            not have_blanks or text[:1].isspace() or j - 1 in special,
        )
        for j, text in enumerate(texts)
        if j not in special
    )
    known = np.array([word.share for word in words if word.share is not None])
    high = float(np.quantile(known, _UPPER, method="higher")) or 1.0
    scale = Scale(high=high, above=bool(known.max() > high))
    rows = tuple((word.text, word.share) for word in words)
    columns = Column(_unit(side), align="left", is_key=True), Column(name, text_of)
    ends = f"{'≤ ' * bool((numbers < 0).any())}0", f"{'≥ ' * scale.above}{text_of(high)}"
    return Shaded(Table(columns, rows), words, scale, name, ends)


def _strongest(side: WordRelevance) -> Table:
    """Return the words with the largest relevance, none of which is removed."""
    words = side.ranked[:MOST_REMOVED]
    most = float(side.shares[words[0]]) or 1.0
    bar = Column("", bar=12, align="left")
    columns = Column(_unit(side), align="left", is_key=True), Column("relevance", percent), bar
    shares = side.shares[words].tolist()
    rows = ((name, share, share / most) for name, share in zip(_names(side, words), shares, strict=True))
    return Table(columns, tuple(rows))


def removal_table(relevance: Relevance) -> Table:
    """Return the words that were removed, or without removal those with the largest relevance; last, those that were
    removed together."""
    text, shares = relevance.text, relevance.text.shares
    words = text.removed or text.ranked[:MOST_REMOVED]
    most = float(shares[words[0]]) or 1.0
    columns = [
        Column(_unit(text), align="left", is_key=True),
        Column("relevance", percent),
        Column("", bar=12, align="left"),
    ]
    names = [quoted(text.words.texts[j], _NAME) for j in words] if text.words.images else _names(text, words)
    rows: list[tuple[object, ...]] = [
        (name, float(shares[j]), float(shares[j]) / most) for name, j in zip(names, words, strict=True)
    ]
    if text.removed:
        columns.append(Column("y falls by", partial(_number, relevance)))
        rows = [(*row, float(text.falls[j])) for row, j in zip(rows, words, strict=True)]
    if any(text.without):
        columns.append(Column("it then predicts", align="left"))
        rows = [(*row, _choice(relevance, text.without[j])) for row, j in zip(rows, words, strict=True)]
    if (together := relevance.together) is not None:
        share = float(shares[text.ranked[: together.count]].sum())
        choice = (_choice(relevance, together.without),) * any(text.without)
        rows = [*rows[: _LISTED - 1], (f"first {together.count} together", share, 0.0, together.fall, *choice)]
    return Table(tuple(columns), tuple(rows), most=_LISTED)


ESTIMATE = (
    "relevance is an estimate: attention × gradient of y (Chefer et al. 2021), positive parts only, through attention "
    "weights only; it proves no cause"
)
"""What relevance is, in small print."""


def _reading(relevance: Relevance) -> str:
    if relevance.removal == "none":
        mixing = "that tokens mix in attention alone is known as far as gradients tell"
        return f"{ESTIMATE}, and what y is without a {_unit(relevance.text)} was not computed; {mixing}"
    if not relevance.text.removed:
        return ESTIMATE
    return f"{ESTIMATE}. y falls by: when the word is deleted from the text; mhaviz ablate measures heads"


def _unit(side: WordRelevance) -> str:
    return "patch" if side.words.images else unit_of(side.words)


def _units(side: WordRelevance) -> str:
    return "patches" if side.words.images else f"{unit_of(side.words)}s"


def _named(side: WordRelevance, word: int) -> str:
    """Return a word in quotes, with its position where the text has it more than once; or "patch 7,5"."""
    if side.words.images:
        text = side.words.texts[word]
        return CLASS_TOKENS.get(text, quoted(text, _NAME)) if side.aside[word] else f"patch {quoted(text, _NAME)}"
    (name,) = _names(side, [word])
    return name


def _names(side: WordRelevance, words: Sequence[int]) -> list[str]:
    """Return words of a text as ``_named``."""
    of_each = places(side.words, False)
    names = [quoted(side.words.texts[j], _NAME - len(of_each[j])) + of_each[j] for j in words]
    return [name if j in side.words.special else f"“{name}”" for j, name in zip(words, names, strict=True)]
