"""What a program calls its attentions: one name for all layers of a block."""

import re
from collections.abc import Sequence

_REPEAT = re.compile(r"(.*) #(\d+)", re.DOTALL)  # the second call of a module in one pass is "attn #2"


def common_name(names: Sequence[str]) -> str | None:
    """ "blocks.*.attn" of "blocks.0.attn" and "blocks.1.attn", which is what ``module`` of ``mhaviz.record`` takes.

    A module that runs several times in one pass is "attn #1 to #12". None: the names differ in more than one number.
    """
    several = list(dict.fromkeys(names))
    if len(several) == 1:
        return several[0]
    split = [_split_repeat(name) for name in several]
    bases, repeats = list(dict.fromkeys(base for base, _ in split)), [repeat for _, repeat in split]
    if len(bases) == 1:
        return f"{bases[0]} #{min(repeats)} to #{max(repeats)}"
    if len(set(repeats)) > 1:
        return None
    parts = [base.split(".") for base in bases]
    if len(set(map(len, parts))) > 1:
        return None
    differing = [place for place, column in enumerate(zip(*parts, strict=True)) if len(set(column)) > 1]
    if len(differing) != 1 or not all(part[differing[0]].isdecimal() for part in parts):
        return None
    common = [*parts[0][: differing[0]], "*", *parts[0][differing[0] + 1 :]]
    return ".".join(common) + (f" #{repeats[0]}" if repeats[0] > 1 else "")


def calls_text(names: Sequence[str]) -> str:
    """ "call 2" of "a.0.attn #2" and "a.1.attn #2", "calls 1 to 3" of one module: whether these are layers, or the same
    layer on other tokens, names do not tell. Nothing where no module runs again."""
    split = [_split_repeat(name) for name in names]
    calls = sorted({call for _, call in split})
    if calls == [1] or (len(calls) > 1 and len({base for base, _ in split}) > 1):
        return ""
    return f"call {calls[0]}" if len(calls) == 1 else f"calls {calls[0]} to {calls[-1]}"


def _split_repeat(name: str) -> tuple[str, int]:
    found = _REPEAT.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 1)
