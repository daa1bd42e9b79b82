"""What stands for characters that a terminal cannot print: the one place that knows of terminals without Unicode."""

import codecs

PLAIN = "mhaviz.plain"
"""The error handler of a text stream: what its encoding lacks is written in ASCII, and nothing of it is lost."""

_IN_ASCII = dict(zip("░▒▓▁▂▃▄▅▆▇█−×·–∘‖“”µ₀₁₂₃₄₅₆₇₈₉", ',;&:_~+=%#@-x.-*|""u0123456789', strict=True)) | {
    **dict.fromkeys("▏▎▍▌▋▊▉", "|"),
    **dict.fromkeys("\N{FIRST STRONG ISOLATE}\N{POP DIRECTIONAL ISOLATE}", ""),
    "√": "sqrt ",
    "ᵀ": "^T",
    "∞": "inf",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "²": "^2",
    "±": "+-",
    "Σ": "sum",
    "…": "...",
}


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in text), error.end


codecs.register_error(PLAIN, _in_ascii)
