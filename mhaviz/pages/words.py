"""Words that several pages have in common."""

from mhaviz.inputs.probes import Needle, Probe, RandomRepeats
from mhaviz.inputs.tokens import KIND_NAMES, OF_ONE_TEXT, Kind, Tokens
from mhaviz.pages.blocks import Title
from mhaviz.pages.labels import quoted
from mhaviz.results.explanation import Explanation
from mhaviz.results.scaling import ScalingComparison

_TOKEN_CELLS = 16  # a token beside its position is cut to so many


def position_text(position: int, token: str) -> str:
    """12,345 and "whale" → "12,345 whale"; a token that is its own position, for want of labels, is not said twice."""
    return f"{position:,}" if token == str(position) else f"{position:,} {quoted(token, _TOKEN_CELLS)}"


def counted(number: int, thing: str) -> str:
    """ "1 token", "21,400 tokens"."""
    several = f"{thing}es" if thing.endswith("s") else f"{thing}s"
    return f"{number:,} {thing if number == 1 else several}"


_LEAST_BITS = 0.00005  # that four decimals can show


def bits_text(divergence: float) -> str:
    """ "0.1234", and "1.2e-05" of what four decimals would make nothing."""
    return f"{divergence:.1e}" if 0 < divergence < _LEAST_BITS else f"{divergence:.4f}"


def unnamed_text(tokens: Tokens) -> str:
    """ "17 tokens" where they are called by their positions, "13 rows" where they are called that, "14 × 14
    patches of an image"; else nothing."""
    if tokens.grid is not None:
        rows, columns = tokens.grid
        return f"{rows} × {columns} patches of an image"
    for name, called in (("row", "row"), ("fixed row", "fixed"), ("channel", "channel")):
        if tokens.texts[:1] == (f"{called} 0",) and all(
            text == f"{called} {place}" for place, text in enumerate(tokens.texts)
        ):
            return counted(len(tokens), name)
    return counted(len(tokens), "token") if tokens.are_positions else ""


def attention_title(kind: Kind, queries: Tokens, keys: Tokens, about: str = "", prefix: str = "") -> Title:
    """Which attention, and of which texts; a sentence that attends to itself is said once.

    ``about``: which layer, or which part; ``prefix``: what the numbers are, if they are no weights.
    """
    head, short = f"{prefix}{KIND_NAMES[kind]}{about}", f"{prefix}{'attention' if kind == 'other' else kind}{about}"
    if kind in OF_ONE_TEXT and queries.texts == keys.texts:
        return Title(head, (("", queries),), short)
    return Title(head, (("queries", queries), ("keys", keys)), short)


def head_name(layer: int | None, head: int) -> str:
    """ "L3 H5"; "head 5" of a layer that is the only one."""
    return f"head {head}" if layer is None else f"L{layer} H{head}"


def study_title(result: Explanation | ScalingComparison, model: str = "") -> Title:
    """Of a study of one layer, which it names if there are several."""
    layer = f", {model}" * bool(model) + ("" if result.layer is None else f", layer {result.layer}")
    queries, keys = Tokens(result.queries, result.special_queries), Tokens(result.keys, result.special_keys)
    return attention_title(result.kind, queries, keys, layer)


_RULE = 8  # characters, such as those of / √1024


def rule_text(result: Explanation | ScalingComparison) -> str:
    """What becomes of q·k before the softmax, where it is short enough to stand over a column: "/ √64"."""
    return result.rule if len(result.rule) <= _RULE else "scaled"


def one_text(probe: Probe | None = None, is_recorded: bool = False) -> str:
    """What one of several texts is called, as those that means are over.

    ``probe``: what the texts were made for; ``is_recorded``: whether a program has read them.
    """
    if isinstance(probe, RandomRepeats):
        return "sequence"
    return "example" if is_recorded else "sentence"


def texts_of(number: int, probe: Probe | None, is_recorded: bool = False) -> str:
    """ "1,000 sentences", "32 sequences of 16 random tokens, repeated"."""
    texts = counted(number, one_text(probe, is_recorded))
    if isinstance(probe, RandomRepeats):
        return f"{texts} of {counted(probe.n_tokens, 'random token')}, repeated"
    return f"{texts} with a needle at {counted(len(probe.depths), 'depth')}" if isinstance(probe, Needle) else texts


def left_out_text(too_long: int, reader: str = "model") -> str:
    """What is said of sentences that were not read; ``reader``: by whom."""
    if not too_long:
        return ""
    were = "was" if too_long == 1 else "were"
    return f"{counted(too_long, 'sentence')} {were} left out: longer than the {reader} can read"
