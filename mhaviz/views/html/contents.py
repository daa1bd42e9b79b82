"""Contents of a page for the browser: one JSON document, and the numbers that it refers to.

``mhaviz/web/contents.js`` reads them.
"""

import base64
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz._version import __version__
from mhaviz.errors import MhavizError, counted, parameter
from mhaviz.inputs.patches import WHOLE, PatchGrid
from mhaviz.inputs.tokens import KIND_NAMES, Tokens
from mhaviz.pages.attention import attention_page
from mhaviz.pages.blocks import Drawn, Page, Table, Text, heads, leaves
from mhaviz.pages.colormaps import DIVERGING, HEADS, INK, SINK
from mhaviz.pages.corpus_difference import corpus_difference_page
from mhaviz.pages.difference import difference_page, heading
from mhaviz.pages.head_numbers import Measure, Order, known_measures
from mhaviz.pages.head_statistics import (
    MEASURES,
    USUAL_ORDER,
    head_statistics_page,
    measure_scales,
)
from mhaviz.pages.head_statistics import title as averages_title
from mhaviz.pages.image import SCALE, image_page, query_name
from mhaviz.pages.labels import bare, count_text, cut, harmless, title_text, visible
from mhaviz.pages.map_words import layers_text, map_title, passes_text, reading_text
from mhaviz.pages.pooling import pool_map
from mhaviz.pages.registry import entry_of
from mhaviz.pages.scaling import statistics_table
from mhaviz.pages.span_difference import are_by_span
from mhaviz.pages.trace import steps_table
from mhaviz.pages.words import one_text, rule_text, unnamed_text
from mhaviz.results.attention import Attention, AttentionMap, head_name
from mhaviz.results.axis import Axis
from mhaviz.results.corpus_difference import CorpusDifference
from mhaviz.results.difference import Difference
from mhaviz.results.head_statistics import HeadStatistics
from mhaviz.results.image import ImageAttention
from mhaviz.results.module_names import calls_text, common_name
from mhaviz.results.queries_and_keys import QueriesAndKeys
from mhaviz.results.report import Report
from mhaviz.results.result import Source
from mhaviz.views.colours import at_night, palette, sink_at_night
from mhaviz.views.html.codes import Chunks, Reference
from mhaviz.views.html.numbers import numbers_of_map
from mhaviz.views.html.photos import photo_address
from mhaviz.views.html.size import MapBytes, PageSize, needs_codes
from mhaviz.views.ink import diverging_at_night, ink_at_night
from mhaviz.views.scales import DrawnCells, Scales, resolve_maps
from mhaviz.views.style import Style

_DIVERGENCE = Measure(
    "divergence",
    "the mean Jensen–Shannon divergence of a head's rows before and after, in bits",
    "divergence, bits",
    4,
)
_FEW_FAMILIES = 4  # patterns of module names that each have a grid of their own, however few layers it has
_LABEL, _TITLE = 200, 200  # most characters

Part = tuple[str, AttentionMap]
"""Name of one part of a map in the page, such as "before", "after" and "change", and the map of its numbers."""


@dataclass(frozen=True)
class Contents:
    """Contents of a page.

    Attributes:
        document: JSON document.
        chunks: the numbers that it refers to.
        bytes: approximate size of the page.
    """

    document: dict[str, Any]
    chunks: Chunks
    bytes: int


@singledispatch
def contents_of(result: object, style: Style, **details: Any) -> Contents:
    """Return the contents of a result's page; ``details``: further arguments of the function that makes its blocks.

    Raises:
        MhavizError: the result has no maps, or the page would be too large; the message says how large.
    """
    raise MhavizError(f"expected maps for a page for the browser, got {type(result).__name__}; save .png or .json")


@contents_of.register
def _(result: Attention, style: Style) -> Contents:
    return _of_attention(result, style, entry_of(result).formats)


@contents_of.register
def _(result: Difference, style: Style) -> Contents:
    page, changes = difference_page(result), [m.change for m in result.maps]
    said = str(page.title) if are_by_span(result) else ""
    title = style.title or said or f"{heading(result)}; {_title(changes, '', style)}"
    return _of_difference(result, style, title, [m.divergence for m in result.maps], page)


@contents_of.register
def _(result: CorpusDifference, style: Style) -> Contents:
    page, of_kind, shown = corpus_difference_page(result), {kind.kind: kind for kind in result.kinds}, result.examples
    if shown is None:
        raise MhavizError(
            "expected sentences as examples for a page for the browser, got none; compare the models again"
        )
    numbers = []
    for m in (one.change for one in shown.maps):
        kind = of_kind[m.kind]
        numbers.append(kind.divergence.mean[kind.layers.index(m.layer), list(m.heads)])
    n_sentences = counted(max(kind.divergence.sentences for kind in result.kinds), "sentence")
    about = f"the divergences are means over {n_sentences}, of which the maps are examples"
    return _of_difference(shown, style, style.title or str(page.title), numbers, page, [about])


def _of_difference(
    result: Difference,
    style: Style,
    title: str,
    divergences: Sequence[NDArray[np.float64]],
    page: Page,
    notices: Sequence[str] = (),
) -> Contents:
    """Return the page of changes of weights.

    Args:
        result: the changes.
        style: look of the page.
        title: title of the page.
        divergences: divergence of each head, for each map.
        page: page whose tables are shown, such as the ranking of all heads.
        notices: lines above the maps.
    """
    maps: list[list[Part]] = []
    for m in result.maps:
        sides = [] if m.sides is None else list(zip(("before", "after"), m.sides, strict=True))
        maps.append([*sides, ("change", m.change)])
    numbers = [{"means": {"divergence": _numbers(own)}, "spreads": {}} for own in divergences]
    about = {"title": title, "measures": [vars(_DIVERGENCE)], "numbers": numbers, "notices": list(notices)}
    words = _words(difference_page(result), result.source, style)
    return _contents(maps, style, about | words | {"tables": _tables(page)}, entry_of(result).formats)


@contents_of.register
def _(result: HeadStatistics, style: Style, order: Order = USUAL_ORDER) -> Contents:
    examples = () if result.examples is None else result.examples.maps
    measures = known_measures(result.kinds, MEASURES)
    known = [measure.name for measure in measures]
    statistics = [
        {
            "kind": kind.kind,
            "layers": list(kind.layers),
            "sentences": kind.sentences,
            "title": averages_title(result, kind),
            **{
                f"{part}s": {name: list(map(_numbers, getattr(kind.number(name), part))) for name in known}
                for part in ("mean", "spread", "low", "high", "chance")
            },
        }
        for kind in result.kinds
    ]
    page = head_statistics_page(result, order)
    words = _words(page, result.source, style)
    if result.examples is not None:
        of_maps = _words(_page_of(result.examples), result.source, style)
        words["reading"] = f"tables: {words['reading']}; maps: {of_maps['reading']}"
    about: dict[str, Any] = {
        "title": cut(harmless(style.title or str(page.title)), _TITLE),
        "statistics": statistics,
        **words,
    }
    about["tables"] = _tables(page)
    about["numbers"] = [_numbers_of(m, result, known) for m in examples]
    about["measures"] = [
        vars(measure) | {"meaning": measure.described, "high": scale.high}
        for measure, scale in zip(measures, measure_scales(result).values(), strict=True)
    ]
    if order.column != USUAL_ORDER.column:
        about["sort"] = order.column
    n_sentences = max(kind.sentences for kind in result.kinds)
    if examples and n_sentences > (n_shown := len({m.sentence for m in examples})):
        shown = f"the maps are those of {counted(n_shown, 'sentence')}, as examples"
        about["notices"] = [f"the numbers are means over {counted(n_sentences, 'sentence')}; {shown}"]
    if result.examples is not None:
        examples = result.examples.with_sinks().maps
    return _contents([[("weights", m)] for m in examples], style, about, entry_of(result).formats)


@contents_of.register
def _(result: ImageAttention, style: Style) -> Contents:
    if not result.sources:
        raise MhavizError(
            f"expected layers with the same patches for a page for the browser, got a mean of others; leave out "
            f"{parameter('mean')}, or save .png or .json"
        )
    page = image_page(result)
    maps, asked = zip(*result.sources, strict=True)
    scale, ends = SCALE, SCALE.ends
    images = {
        "photos": [photo_address(photo) for photo in result.photos],
        "photoBoxes": [list(map(float, box)) for box in result.photo_boxes or [WHOLE] * len(result.photos)],
        "numbers": list(result.numbers),
        "ofKey": result.is_key,
        "asked": [list(places) for places in asked],
        "name": cut(harmless(query_name(result)), _LABEL),
        "scale": {"low": scale.low, "high": scale.high, "ends": ends, "ratios": True, "signed": False}
        | {"name": scale.name, "isOfPatches": True},
    }
    about = {
        "title": cut(harmless(style.title or str(page.title)), _TITLE),
        "reading": harmless(page.reading(Drawn())),
        "footnote": harmless(result.source.footnote),
        "images": images,
    }
    contents = _contents([[("weights", m)] for m in maps], style, about, entry_of(result).formats)
    contents.document["palettes"]["patches"] = _palettes(SCALE.colormap)
    return contents


@contents_of.register
def _(result: Report, style: Style) -> Contents:
    scaling = result.scaling
    tables = [
        _table(f"scaling of {head_name(scaling.layer, head)}", statistics_table(scaling, place, rule_text(scaling)))
        for place, head in enumerate(scaling.heads)
    ]
    tables.append(_table("shapes", steps_table(result.trace)))
    return _of_attention(result.attention, style, entry_of(result).formats, tables=tables)


def _of_attention(
    attention: Attention, style: Style, formats: Collection[str], tables: Sequence[dict[str, Any]] = ()
) -> Contents:
    """Return the page of an attention; ``tables``: described tables after its own; others as in ``_contents``."""
    page = _page_of(attention)
    attention = attention.with_sinks()
    told = cut(harmless(page.title), _TITLE) if isinstance(page.title, str) else ""
    about = {
        "title": (not style.title and told) or _title(attention.maps, attention.source.model, style),
        **_words(page, attention.source, style),
        "tables": [*_tables(page), *tables],
    }
    return _contents([[("weights", m)] for m in attention.maps], style, about, formats)


def _contents(
    maps: Sequence[Sequence[Part]], style: Style, about: dict[str, Any], formats: Collection[str]
) -> Contents:
    """Return the page of these maps, each of one or several parts of one shape.

    Args:
        maps: the parts of each map.
        style: look of the page.
        about: further items of the document, which replace the usual ones.
        formats: suffixes of the files that the result can be saved in.
    """
    size = PageSize.of(_bytes_of_each(maps))
    size.require_fit(formats)
    families = _families([m for *_, (_, m) in maps if not m.quantity.of_all_heads])
    writer = _Writer(size, families, [m for parts in maps for _, m in parts], style)
    described = [writer.map(parts) for parts in maps]
    are_changes = any(m.quantity.is_signed or m.quantity.is_ratio for *_, (_, m) in maps)
    weights, changes = (INK, style.diverging) if are_changes else (style.cmap, DIVERGING)
    if "numbers" not in about:
        means = [numbers_of_map(m) for *_, (_, m) in maps]
        known = {name for of_map in means for name in of_map}
        about = about | {
            "numbers": [{"means": of_map, "spreads": {}} for of_map in means],
            "measures": [vars(one) | {"meaning": one.described} for one in MEASURES if one.name in known],
        }
    document = {
        "mhaviz": __version__,
        "notices": [],
        "statistics": None,
        "tables": [],
        "sort": None,
        **about,
        "palettes": {"weights": _palettes(weights), "changes": _palettes(changes), "sinks": _palettes(SINK)},
        "headColours": [HEADS, tuple(map(at_night, HEADS))],
        "scales": writer.described_scales,
        "tokens": writer.tokens,
        "maps": described,
    }
    return Contents(document, writer.chunks, size.bytes)


def _bytes_of_each(maps: Sequence[Sequence[Part]]) -> list[MapBytes]:
    """Return the sizes of the maps; queries and keys that several maps share count once."""
    counted_once, sizes = set[int](), list[MapBytes]()
    for parts in maps:
        m = parts[-1][1]
        kept, needed = m.queries_and_keys, _needs_codes(m)
        numbers = 0 if needed and not m.is_pooled else sum(one.weights.size for _, one in parts)
        codes = 0 if kept is None or id(kept) in counted_once else _bytes_of_call(kept)
        counted_once.add(id(kept))
        sizes.append(MapBytes(len(m.heads), numbers, codes, needed, len(parts)))
    return sizes


def _bytes_of_call(kept: QueriesAndKeys) -> int:
    sides = sum(side.codes.size * side.bits // 8 + 2 * side.lows.nbytes for side in (kept.query, kept.key))
    if kept.bias is None:
        return sides
    return sides + (kept.bias.values.size // 8 if kept.bias.form == "visible" else kept.bias.values.nbytes)


def _needs_codes(m: AttentionMap) -> bool:
    """Return whether a map has queries and keys, from which the browser computes weights; see ``needs_codes``."""
    kept = m.queries_and_keys
    return kept is not None and needs_codes(m.is_pooled, kept.query.codes.shape[2], kept.key.codes.shape[1])


def _precision(kept: QueriesAndKeys) -> float:
    """Return the largest error of the numbers that are computed from queries and keys."""
    return kept.precision * (1.0 if kept.value_norms is None else float(kept.value_norms.max()))


@dataclass(frozen=True)
class _PageScales:
    """Scales of the maps of a page, which has a linear and a logarithmic one of each.

    Attributes:
        linear, log: the scales.
        begins_log: whether the logarithmic one is shown at first.
    """

    linear: Scales
    log: Scales
    begins_log: bool

    @classmethod
    def of(cls, maps: Sequence[AttentionMap], style: Style, cells: DrawnCells | None = None) -> "_PageScales":
        """Return the scales of these maps; arguments as in ``resolve_maps``."""
        linear, log = (resolve_maps(maps, replace(style, log=is_log), cells) for is_log in (False, True))
        return cls(linear, log, style.log)

    def described(self, m: AttentionMap) -> dict[str, Any]:
        """Return the description of a map's scale, with all texts that the page writes at its ends."""
        linear, log = self.linear.of(m), self.log.of(m)
        return {
            "low": linear.low,
            "high": linear.high,
            "ends": linear.ends,
            "logLow": log.low,
            "logHigh": log.high,
            "logEnds": log.ends,
            "name": linear.name,
            "decimals": linear.decimals,
            "signed": linear.signed,
            "ratios": linear.ratios,
            "log": self.begins_log and log.log and not log.ratios,
        }


class _Writer:
    """Describes maps one by one, and collects the tokens, scales and numbers that they refer to."""

    def __init__(self, size: PageSize, families: dict[str, str], maps: Sequence[AttentionMap], style: Style) -> None:
        self._families, self._positions = families, style.positions
        self._has_sinks_apart = style.has_sinks_apart
        self._scales = _PageScales.of(maps, style)
        cells = {id(m): (size.thumb, size.thumb) for m in maps if m.is_pooled}
        self._scales_of_thumbs = _PageScales.of(maps, style, cells) if cells else self._scales
        self.chunks, self.tokens = Chunks(), list[dict[str, Any]]()
        self.described_scales = list[dict[str, Any]]()
        self._size, self._first = size, self.chunks.new()
        self._numbers_of_tokens = dict[Tokens, int]()
        self._calls = dict[int, dict[str, Any]]()  # maps by mass and of largest weights share one

    def map(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Return the description of one map, and add the numbers of its parts to the chunks."""
        m = parts[-1][1]
        kept = m.queries_and_keys
        needed = _needs_codes(m)
        if not (needed or self._size.keeps_all_codes):
            kept = None
        module, family = (cut(harmless(name), _LABEL) for name in (m.module, self._families.get(m.module, "")))
        described = [self._part(name, one, not needed or m.is_pooled) for name, one in parts]
        are_in_order = all(one.chance is None for _, one in parts)  # sinks stand behind the spans
        precisions = [part["values"]["precision"] for part in described if part["values"]]
        if kept and needed:
            precisions.append(_precision(kept))
        return {
            "module": module,
            "family": family,
            "pass": m.pass_number,
            "isRecorded": m.is_recorded,
            "title": m.quantity.key if m.quantity.of_all_heads else KIND_NAMES[m.kind],
            "label": replace(m, sentence=None, pass_number=None).shown_name,
            "name": m.shown_name,
            "layer": m.layer,
            "layerText": m.layer_text,
            "kind": m.kind,
            "sentence": m.sentence,
            "heads": list(m.heads),
            "names": list(map(m.name_of, m.heads)),
            "shortNames": list(map(m.short_name_of, m.heads)),
            "quantity": vars(m.quantity),
            "queries": self._side(m.rows),
            "keys": self._side(m.columns),
            "reach": None if m.quantity.through_layers or m.has_spans else m.reach,
            "hiddenLater": m.kind == "masked" and are_in_order and (kept is None or kept.causal),
            "weighedBeyond": self._weighed_beyond(m),
            "begins": m.begins,
            "sinks": list(m.sinks.keys) if m.sinks and self._has_sinks_apart else [],
            "parts": described,
            "precision": max(precisions),
            "call": kept and self._call(kept),
        }

    def _part(self, name: str, m: AttentionMap, has_values: bool) -> dict[str, Any]:
        signed, thumb = m.quantity.is_signed, pool_map(m, self._size.thumb, self._size.thumb)
        thumbs = self.chunks.roots(self._first, thumb.weights, 8, signed)
        values = self.chunks.weights(m.weights, self._size.bits, signed) if has_values else None
        return {
            "name": name,
            "scale": self._scale(self._scales.described(m)),
            "thumbScale": self._scale(self._scales_of_thumbs.described(m)),
            "thumbs": thumbs,
            "values": values,
        }

    def _scale(self, described: dict[str, Any]) -> int:
        """Return the number of a scale in the page."""
        if described not in self.described_scales:
            self.described_scales.append(described)
        return self.described_scales.index(described)

    def _weighed_beyond(self, m: AttentionMap) -> Reference | None:
        """Add which cells have weight beyond what a mask lets their queries see; None if there are none."""
        cells = m.weighed_beyond
        return self.chunks.bits(self._first, cells[None]) if cells is not None and cells.any() else None

    def _side(self, axis: Axis) -> dict[str, Any]:
        tokens = axis.tokens
        if tokens not in self._numbers_of_tokens:
            self._numbers_of_tokens[tokens] = len(self.tokens)
            self.tokens.append(
                {
                    "labels": [
                        cut(visible(bare(text)), _LABEL) + count_text(n)
                        for text, n in zip(tokens.texts, tokens.counts or [1] * len(tokens), strict=True)
                    ],
                    "joined": _joined(tokens),
                    "special": list(tokens.special),
                    "unnamed": unnamed_text(tokens),
                    "positions": self._positions,
                    **({"images": [_described(image) for image in tokens.images]} if tokens.images else {}),
                }
            )
        edges = None if axis.cells is None else axis.edges.tolist()
        return {"tokens": self._numbers_of_tokens[tokens], "edges": edges}

    def _call(self, kept: QueriesAndKeys) -> dict[str, Any]:
        if id(kept) not in self._calls:
            chunk = self.chunks.new()
            self._calls[id(kept)] = {
                "scale": kept.scale,
                "rule": kept.rule,
                "causal": kept.causal,
                "reach": kept.reach,
                "softcap": kept.softcap,
                "sinks": None if kept.sinks is None else kept.sinks.tolist(),
                "keyHeads": list(kept.key_heads),
                "query": self.chunks.features(chunk, kept.query),
                "key": self.chunks.features(chunk, kept.key),
                "bias": kept.bias and {"form": kept.bias.form, "values": self._bias(chunk, kept)},
                "precision": kept.precision,
                "norms": None if kept.value_norms is None else self.chunks.floats(chunk, kept.value_norms),
            }
        return self._calls[id(kept)]

    def _bias(self, chunk: int, kept: QueriesAndKeys) -> Reference:
        assert kept.bias is not None
        add: Callable[[int, NDArray[Any]], Reference] = (
            self.chunks.bits if kept.bias.form == "visible" else self.chunks.floats
        )
        return add(chunk, kept.bias.values)


def _described(image: PatchGrid) -> dict[str, Any]:
    name, box = cut(harmless(image.name), _LABEL), list(map(float, image.box))
    places = list(map(int, image.places))
    return {
        "rows": image.rows,
        "columns": image.columns,
        "places": places,
        "name": name,
        "image": image.image,
        "box": box,
    }


def _families(maps: Sequence[AttentionMap]) -> dict[str, str]:
    """Return the pattern that each module's name shares with others, "blocks.*.attn", as each has a grid of its own.

    Empty where there are nearly as many patterns as attentions.
    """
    groups: list[list[str]] = []
    kinds: dict[str, str] = {m.module: m.kind for m in maps if m.module}
    for module, kind in kinds.items():
        found = next((g for g in groups if kinds[g[0]] == kind and common_name([*g, module]) is not None), None)
        if found is None:
            groups.append([module])
        else:
            found.append(module)
    if len(groups) > max(_FEW_FAMILIES, len(kinds) / 2):
        return {}
    return {module: common_name(group) or "" for group in groups for module in group}


def _joined(tokens: Tokens) -> list[int]:
    """Return the positions of tokens that continue the word before them, if tokens begin with their blanks.

    A token of blanks alone is written as such.
    """
    outside = set(tokens.special)
    texts = tokens.texts
    if not any(text[:1].isspace() for text in texts):
        return []
    begins, ends = ([text[end : end + 1 or None].isspace() and text.strip(" ") for text in texts] for end in (0, -1))
    return [
        i
        for i in range(1, len(texts))
        if not begins[i] and i not in outside and i - 1 not in outside and not ends[i - 1]
    ]


def _palettes(colormap: str) -> list[str]:
    """Return the 256 colours of a colormap for light and for dark pages, in Base64."""
    light = palette(colormap)
    dark = {INK: ink_at_night, DIVERGING: diverging_at_night, SINK: sink_at_night}.get(colormap, lambda: light)()
    return [base64.b64encode(colours.tobytes()).decode("ascii") for colours in (light, dark)]


def _title(maps: Sequence[AttentionMap], model: str, style: Style) -> str:
    """Return the user's title, or else "self-attention, minilm, layers 0 to 5: The …", or the number of sentences.

    Raises MhavizError if there are no maps.
    """
    if not maps:
        raise MhavizError("expected at least one map for a page for the browser, got none")
    if style.title:
        return cut(harmless(style.title), _TITLE)
    first = maps[0]
    of_first = [
        m for m in maps if (m.pass_number, m.sentence, m.kind) == (first.pass_number, first.sentence, first.kind)
    ]
    layers = list(dict.fromkeys(m.layer for m in of_first if m.layer is not None))
    calls = calls_text([m.module for m in of_first])
    sentences, passes = len({m.sentence for m in maps}), list(dict.fromkeys(m.pass_number for m in maps))
    kinds = list(dict.fromkeys(m.kind for m in maps))
    last = next(m for m in maps if m.kind == kinds[-1])  # of a model with several kinds it has both texts
    if sentences > 1:
        last = replace(last, sentence=None)
    if len(passes) > 1:
        last = replace(last, pass_number=None)
    which = [calls or layers_text(layers) if len(layers) > 1 else "", passes_text(passes) if len(passes) > 1 else ""]
    title = map_title(last, model, ", ".join(filter(None, which)))
    if len(kinds) > 1:
        title = replace(title, head=", ".join(filter(None, [*(KIND_NAMES[kind] for kind in kinds), harmless(model)])))
    if sentences > 1:
        return f"{title.head} of {counted(sentences, one_text(is_recorded=first.is_recorded))}"
    sides = {axis.tokens for m in maps for axis in (m.rows, m.columns)}
    if last.is_recorded and len(sides) > len({last.rows.tokens, last.columns.tokens}):
        return title.head  # stages of other lengths
    return title_text(title, _TITLE)


def _page_of(attention: Attention) -> Page:
    """Return the attention's page with the remark for its own maps. The blocks may hold others: in figures the heads of
    a single query are the rows of one matrix, in the browser they are shown one by one."""
    return replace(attention_page(attention), remark=partial(reading_text, attention))


def _words(page: Page, source: Source, style: Style) -> dict[str, str]:
    """Return how to read the maps, and where they come from."""
    cells = tuple(m.cells for block in heads(page.blocks) for m in block.maps)
    reading = page.reading(Drawn(cells, sinks="in grey, from 0 to 1" * style.has_sinks_apart))
    return {"reading": harmless(reading), "footnote": harmless(source.footnote)}


def _tables(page: Page) -> list[dict[str, Any]]:
    """Return the tables of all blocks of a page that the browser has no picture of; those of heads of maps it has.
    Where the page has several headings, such as of texts, each table begins with its own."""
    blocks = list(leaves(page.blocks))
    several = sum(isinstance(block, Text) and block.style == "heading" for block in blocks) > 1
    tables, before = list[dict[str, Any]](), ""
    for block in blocks:
        if several and isinstance(block, Text) and block.style == "heading":
            before = f"{'; '.join(block.lines)}; "
        if not block.n_heads and (table := block.as_table) is not None:
            tables.append(_table(harmless(f"{before}{table.heading}"), table))
    return tables


def _table(heading: str, table: Table) -> dict[str, Any]:
    columns = [
        {"heading": name, "align": column.align} for name, column in zip(table.headings(), table.columns, strict=True)
    ]
    rows = [list(map(harmless, row)) for row in table.texts()]
    return {"heading": heading, "columns": columns, "rows": rows, "notes": table.notes}


def _numbers_of(m: AttentionMap, result: HeadStatistics, names: Sequence[str]) -> dict[str, Any]:
    """Return the statistics over all sentences for the heads of an example's map."""
    kind = next(kind for kind in result.kinds if kind.kind == m.kind)
    row, heads = kind.layers.index(m.layer), list(m.heads)
    parts = {"means": "mean", "spreads": "spread"}
    return {
        several: {name: _numbers(getattr(kind.number(name), one)[row, heads]) for name in names}
        for several, one in parts.items()
    }


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Return the numbers as a list for JSON, with None for NaN."""
    return [None if np.isnan(value) else float(value) for value in values]
