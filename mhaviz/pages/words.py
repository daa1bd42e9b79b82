"""Words that several pages have in common."""

from mhaviz.pages.blocks import Quote
from mhaviz.records import Kind

KINDS: dict[Kind, str] = {
    "self": "self-attention",
    "masked": "masked self-attention",
    "cross": "source-target attention",
}

_TOKEN_CELLS = 16  # a token beside its position is cut to so many


def position_text(position: int, token: str, quote: Quote) -> str:
    """12,345 and "whale" → "12,345 whale"; a token that is its own position, for want of labels, is not said twice."""
    return f"{position:,}" if token == str(position) else f"{position:,} {quote(token, _TOKEN_CELLS)}"


def counted(number: int, thing: str) -> str:
    """ "1 token", "21,400 tokens"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
