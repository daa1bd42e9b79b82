"""Page of an answer: what a word looks at in a line, its text shaded by its mean weights, and a bar for each head."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.spans import unit_of
from mhaviz.inputs.tokens import KIND_NAMES, Tokens
from mhaviz.pages.blocks import NOTHING, Bar, Bars, Block, Column, Page, Shaded, Slice, Table, Text, Word
from mhaviz.pages.labels import in_quotes, places, quoted
from mhaviz.pages.panels import Scale
from mhaviz.pages.registry import RESULT_SUFFIXES, shown
from mhaviz.results.answer import LEAST_OTHERS, LEAST_SHOWN, STRONG, Answer, HeadLook, LeftOut, Look, in_text
from mhaviz.results.attention import head_name, text_name
from mhaviz.results.lines import TextLinks
from mhaviz.results.means import mean_text as mean_over_text

_OF_FIRST = 0.5  # least weight of the second word that it names / that of the first
_MOST_NOT_RANKED, _MOST_WORDS = 3, 3
_SLICES = 6  # most words with a name in a bar
_NAME, _LONGEST = 24, 100  # most cells of a word in a text, and of one that a picture shortens
_LEAST_IN_SUM = 0.005  # least weight of a sink that has its name beside a sum
_LEAST_STATED = 0.01  # least mean weight of a sink, and share of a second word, that is stated
_USUALLY = "usually"
_UPPER = 0.98  # quantile of the words' shares that gets the darkest colour


@shown(Answer, RESULT_SUFFIXES)
def answer_page(answer: Answer) -> Page:
    """Return the page of an answer; of several texts, each has a heading."""
    is_random = answer.source.is_random
    names = texts_names([*answer.looks, *answer.left_out])
    if len(names) == 1:
        (look,) = answer.looks
        title = title_text(look, is_random, in_text(look))
        return Page(title, tuple(_blocks(look)), answer.source.footnote, _reading(answer), True)
    texts = (
        (name, title_text(look, is_random), _blocks(look)) for name, look in zip(names, answer.looks, strict=False)
    )
    blocks = texts_blocks(texts, zip(names[len(answer.looks) :], answer.left_out, strict=True))
    return Page("", blocks, answer.source.footnote, _reading(answer), True)


def texts_blocks(
    texts: Iterable[tuple[str, str, Sequence[Block]]], left_out: Iterable[tuple[str, LeftOut]]
) -> tuple[Block, ...]:
    """Return the blocks of several texts, each of which has its name, its title and its blocks, and the reasons why
    others, by their names, are left out."""
    blocks = list[Block]()
    for name, title, of_text in texts:
        apart = [Text(("",))] * bool(blocks)
        blocks += [*apart, Text((f"{name}: {title}",), "heading"), *of_text]
    return (*blocks, *(Text((f"left out: {name}: {one.reason}",), "quiet") for name, one in left_out))


def _reading(answer: Answer) -> str:
    """Return how to read bars, and which heads are ranked."""
    are_ranked = any(look.telling for look in answer.looks)
    query, key = unit_of(answer.looks[0].queries), unit_of(answer.looks[0].keys)
    none = f"no head gives its {key} {LEAST_SHOWN} or more and"
    heads = f"ranked: heads that give their {key}" if are_ranked else none
    are_of_one_text = any(look.itself is not None for look in answer.looks)
    usual = f"what other {query}s give it" + f", or the {key} at the same distance, whichever is more" * are_of_one_text
    said = f"a bar is all weight of the {query}; {heads} more than 2 × its usual weight: {usual}"
    are_unknown = any(one.others is None for look in answer.looks for one in look.shown)
    unknown = [f"{NOTHING}: fewer than {LEAST_OTHERS} of them"] * are_unknown
    return "; ".join([said, *unknown, *texts_remarks(answer.looks)])


def texts_remarks(texts: "Iterable[Look | TextLinks]") -> list[str]:
    """Return what maps are means over, and "masked: no word sees a later one" if some texts have masked self-attention,
    in which none does."""
    texts = list(texts)
    means = filter(None, dict.fromkeys(mean_over_text(text.mean_over) for text in texts))
    masked = [text for text in texts if text.kind == "masked"]
    units = [] if any(text.weighs_later for text in masked) else [unit_of(text.queries) for text in masked]
    return [*means, *(f"masked: no {unit} sees a later one" for unit in dict.fromkeys(units))]


def title_text(look: Look, is_random: bool = False, where: str = "") -> str:
    """Return "“it” looks at “tired” (L2 H1 0.71) and “animal” (L3 H1 0.68)": the strongest distinct words of ranked
    heads, or if none is strong, of heads that are not ranked and why they are not, or that none of these is strong.

    ``where``: the text, " in sentence 2", where no heading names it.
    """
    return by_chance(f"{query_text(look, look.query)}{where} looks {_where_text(look)}", is_random)


def query_text(text: "Look | TextLinks", query: int) -> str:
    """Return "“it”", or "position “5”" where the text is unknown, for a word of the queries."""
    named, unit = f"“{query_names(text)[query]}”", unit_of(text.queries)
    return named if unit == "word" else f"{unit} {named}"


def by_chance(said: str, is_random: bool) -> str:
    """Return what is said of weights, and that it is so by chance if they are random."""
    return f"{said}, by chance: the weights are random" if is_random else said


def _where_text(look: Look) -> str:
    if strong := [one for one in look.ranked if one.weight >= STRONG]:
        return _at(look, strong)
    if not (strong := [one for one in look.not_ranked if one.weight >= STRONG]):
        best, unit = look.heads[0], unit_of(look.keys)
        return f"at no other {unit} strongly: at most {best.weight:.2f}, at “{_target(look, best)}” in {_head(best)}"
    if unknown := [one for one in strong if one.others is None]:
        return f"{_at(look, unknown)}; {_too_few(look)}"
    return f"strongly only where other {unit_of(look.queries)}s look, too: {_at(look, strong)}"


def _too_few(look: Look) -> str:
    return f"too few other {unit_of(look.queries)}s to compare it with"


def _at(look: Look, strong: Sequence[HeadLook]) -> str:
    """Return "at “tired” (L2 H1 0.71) and “animal” (L3 H1 0.68)": the distinct targets of the strongest heads."""
    named = dict[str, HeadLook]()
    for one in strong:
        if one.weight >= _OF_FIRST * strong[0].weight:
            named.setdefault(_target(look, one), one)
    return "at " + " and ".join(f"“{word}” ({_head(one)} {one.weight:.2f})" for word, one in [*named.items()][:2])


def _target(look: Look, one: HeadLook) -> str:
    return key_names(look)[one.target]


def mean_text(look: Look) -> str:
    """Return "mean of 72 heads, of the weight on words: “tired” 15%, …; [CLS] takes 36% of all their weight"."""
    order = np.argsort(-look.shares, kind="stable")[:_MOST_WORDS]
    strong = [int(j) for j in order if look.shares[j] >= _LEAST_STATED or j == order[0]]
    words = ", ".join(f"{_quoted(look, j)}{_pieces(look, j)} {look.shares[j]:.0%}" for j in strong)
    aside = [int(j) for j in np.flatnonzero(look.aside) if look.mean[j] >= _LEAST_STATED]
    taken = ", ".join(f"{in_quotes(key_names(look)[j])} takes {look.mean[j]:.0%}" for j in aside[:_MOST_WORDS])
    n_heads = len(look.heads)
    heads = (
        f"{f'mean of {n_heads} heads' if n_heads > 1 else _head(look.heads[0])}, of the weight on {unit_of(look.keys)}s"
    )
    whose = "their" if n_heads > 1 else "its"
    return f"{heads}: {words}" + f"; {taken} of all {whose} weight" * bool(taken)


def not_ranked_text(look: Look) -> str:
    """Return "not ranked: L0 H2 “because” 1.00 (previous word, usually 0.94), …" of strong heads; "" without any."""
    strong = _strong_elsewhere(look)
    each = (f"{_head(one)} {_quoted(look, one.target)} {one.weight:.2f} ({_why(look, one)})" for one in strong)
    return f"not ranked: {', '.join(each)}" if strong else ""


def query_names(text: "Look | TextLinks") -> tuple[str, ...]:
    """Return a name for each word of the queries; see ``key_names``."""
    return _word_names(text.queries, text.has_spans, _NAME)


def key_names(text: "Look | TextLinks", cells: int = _NAME) -> tuple[str, ...]:
    """Return a name for each word of the keys, escaped and shortened; those of a text that has it more than once have
    their position, "the #28", as an option takes it."""
    return _word_names(text.keys, text.has_spans, cells)


@lru_cache(maxsize=8)
def _word_names(words: Tokens, have_spans: bool, cells: int) -> tuple[str, ...]:
    named = zip(words.texts, places(words, have_spans), strict=True)
    return tuple(quoted(text, cells - len(place)) + place for text, place in named)


def texts_names(looks: "Sequence[Look | TextLinks | LeftOut]") -> list[str]:
    """Return what tells texts apart: "sentence 2", "pass 3", "source-target attention"."""
    of_each = [
        (
            "" if look.pass_number is None else f"pass {look.pass_number}",
            "" if look.sentence is None else f"{text_name(look.is_recorded)} {look.sentence}",
            KIND_NAMES[look.kind],
        )
        for look in looks
    ]
    tells = [len(set(names)) > 1 for names in zip(*of_each, strict=True)]
    tells = tells if any(tells) else [False, False, True]
    return [
        ", ".join(name for name, tell in zip(names, tells, strict=True) if tell and name) or names[-1]
        for names in of_each
    ]


def _blocks(look: Look) -> list[Block]:
    not_ranked = not_ranked_text(look)
    return [
        Text((mean_text(look),), "subtitle"),
        _shaded(look),
        _bars(look),
        *[Text((not_ranked,), "quiet")] * bool(not_ranked),
    ]


def _shaded(look: Look) -> Shaded:
    """Return the text of the keys, without its special tokens; sinks are not shaded."""
    texts, special, itself = look.keys.texts, set(look.keys.special), look.itself
    named = {one.target for one in (*look.shown, *_strong_elsewhere(look))}
    names = key_names(look)
    have_blanks = any(text[:1].isspace() for text in texts)
    words = tuple(
        Word(
            names[j] if j in named else quoted(text, _NAME),
            None if look.aside[j] else float(look.shares[j]),
            not have_blanks or text[:1].isspace() or j - 1 in special,
            j == itself,
        )
        for j, text in enumerate(texts)
        if j not in special
    )
    shares = look.shares[[j for j in np.flatnonzero(~look.aside) if j != itself]]  # or it might leave the others pale
    high = float(np.quantile(shares, _UPPER, method="higher")) or 1.0
    drawn = [word.share for word in words if word.share is not None]
    scale = Scale(high=high, above=max(drawn) > high)
    digits = 0 if high >= 0.02 else 1
    rows = tuple((word.text, word.share) for word in words)
    unit = unit_of(look.keys)
    columns = Column(unit, align="left", is_key=True), Column("share", "{:.1%}".format)
    ends = "0", f"{'≥ ' * scale.above}{high:.{digits}%}"
    return Shaded(Table(columns, rows), words, scale, f"share of the weight on {unit}s", ends)


def _bars(look: Look) -> Bars:
    heads = look.shown
    mean = Bar("mean", _slices(look, look.mean), is_mean=True)
    bars = (_bar(look, one) for one in heads)
    columns = (
        Column("head", align="left", is_key=True),
        Column("looks at", align="left"),
        Column("weight", "{:.2f}".format),
        Column("", bar=20, align="left"),
        Column(_USUALLY, "{:.2f}".format),
    )
    rows = tuple((_head(one), _named(look, one.target), one.weight, one.weight, one.others) for one in heads)
    every = (*[mean] * (len(look.heads) > 1), *bars)
    words = f"{unit_of(look.keys)}s"
    return Bars(Table(columns, rows), every, words, "the rest", "special tokens and sinks", "weight 1", _USUALLY)


def _bar(look: Look, one: HeadLook) -> Bar:
    others = NOTHING if one.others is None else f"{one.others:.2f}"
    return Bar(_head(one), _slices(look, one.weights, one.target), others)


def _slices(look: Look, weights: NDArray[np.float64], target: int | None = None) -> tuple[Slice, ...]:
    """Return the target of a head, the words with the largest weights, the rest of the words, and what is aside."""
    on_words = np.where(look.aside, 0.0, weights)
    order = sorted(np.flatnonzero(~look.aside).tolist(), key=lambda j: (j != target, -on_words[j]))[:_SLICES]
    named = [Slice(_quoted(look, j, _LONGEST), float(on_words[j]), _kind(look, j, target)) for j in order]
    rest = Slice("", max(float(on_words.sum()) - sum(one.share for one in named), 0.0))
    total = float(weights[look.aside].sum())
    aside = sorted(np.flatnonzero(look.aside).tolist(), key=lambda j: -weights[j])
    stated = sorted(j for j in aside[:_MOST_WORDS] if weights[j] >= _LEAST_IN_SUM)
    are_all = f"{total:.2f}" == f"{float(weights[stated].sum()):.2f}"
    listed = " + ".join([*(in_quotes(key_names(look)[j]) for j in stated), *["…"] * (not are_all)])
    return (*named, rest, Slice(listed, total, "aside"))


def _strong_elsewhere(look: Look) -> list[HeadLook]:
    """Return the strongest heads that look at a word from any word; without others, these have the bars."""
    strong = [one for one in look.not_ranked if one.weight >= STRONG]
    return strong[:_MOST_NOT_RANKED] if look.telling else []


def _kind(look: Look, key: int, target: int | None) -> Literal["word", "target", "itself"]:
    return "itself" if key == look.itself else "target" if key == target else "word"


def _named(look: Look, key: int) -> str:
    return "itself" if key == look.itself else key_names(look)[key]


def _quoted(look: Look, key: int, cells: int = _NAME) -> str:
    return "itself" if key == look.itself else in_quotes(key_names(look, cells - len("“”"))[key])


def _pieces(look: Look, key: int) -> str:
    counts = look.keys.counts
    return f" ({counts[key]} pieces)" if counts and counts[key] > 1 and key != look.itself else ""


def _head(one: HeadLook) -> str:
    return head_name(one.layer, one.head)


def _why(look: Look, one: HeadLook) -> str:
    if one.others is None:
        return _too_few(look)
    if one.others != one.same_offset:
        return f"other {unit_of(look.queries)}s give it {one.others:.2f}"
    distance, unit = one.target - look.query, unit_of(look.keys)
    adjacent = {-1: f"previous {unit}", 1: f"next {unit}"}
    where = adjacent.get(distance) or f"{abs(distance)} {unit}s {'back' if distance < 0 else 'on'}"
    return f"{where}, usually {one.others:.2f}"
