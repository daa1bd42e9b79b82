"""Names of the attention modules of a recorded program: a pattern for several layers, and the number of a call."""

import re
from collections.abc import Sequence

_REPEAT = re.compile(r"(.*) #(\d+)", re.DOTALL)  # "attn #2" is the second call of a module in one pass


def common_name(names: Sequence[str]) -> str | None:
    """Return the pattern of several names, as ``mhaviz.record(module=…)`` takes it: "blocks.*.attn" for "blocks.0.attn"
    and "blocks.1.attn".

    For several calls of one module it is "attn #1 to #12". None: the names differ in more than one number.
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
    """Return "call 2" for "a.0.attn #2" and "a.1.attn #2", "calls 1 to 3" for three calls of one module; "" where no
    module runs again.

    The names do not say whether calls are layers, or the same layer on other tokens.
    """
    split = [_split_repeat(name) for name in names]
    calls = sorted({call for _, call in split})
    if calls == [1] or (len(calls) > 1 and len({base for base, _ in split}) > 1):
        return ""
    return f"call {calls[0]}" if len(calls) == 1 else f"calls {calls[0]} to {calls[-1]}"


def _split_repeat(name: str) -> tuple[str, int]:
    found = _REPEAT.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 1)
