"""Page for the browser as one HTML file: its contents, and the JavaScript and CSS that show them.

The page fetches nothing: its Content-Security-Policy allows only the script and style in the file, each by its hash.
The script stands after the thumbnails, so that the overview is drawn while the browser reads all other numbers.
"""

import html
import json
from importlib import resources
from typing import Any, BinaryIO

from mhaviz.pages.registry import page_of
from mhaviz.results.relevance import Relevance
from mhaviz.views.html.contents import contents_of
from mhaviz.views.html.policy import hash_of
from mhaviz.views.html.text_page import write_text_page
from mhaviz.views.style import Style

_BROKEN = (
    "This page cannot be shown: it was cut off while it was saved or copied, or JavaScript is switched off in this "
    "browser. If it was cut off, save or copy it again."
)


def write_html(result: object, style: Style, stream: BinaryIO, **details: Any) -> None:
    """Write the page of a result; ``details``: see ``contents_of``.

    Raises:
        MhavizError: the result has no maps, or its page would be too large.
    """
    if isinstance(result, Relevance):
        page = page_of(result, **details)
        stream.write(write_text_page(page, style).encode("utf-8", "replace"))
        return
    contents = contents_of(result, style, **details)
    script, styles = page_assets()
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {hash_of(script)}",
            f"style-src {hash_of(styles)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )

    def write(text: str) -> None:
        stream.write(text.encode("utf-8", "replace"))

    title = html.escape(f"{contents.document['title']} · mhaviz")
    write(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{styles}</style>\n</head>\n<body>\n"
        f'<p id="broken">{_BROKEN}</p>\n<main id="page" hidden></main>\n'
    )
    written = [chunk.written() for chunk in contents.chunks.chunks]
    document = contents.document | {"chunks": [described for _, described in written]}
    write(f'<script id="document" type="application/json">{_json(document)}</script>\n')
    for number, (text, _) in enumerate(written):
        write(f'<script id="chunk-{number}" type="application/octet-stream">{text}</script>\n')
        if number == 0:  # it has the thumbnails
            write(f'<script id="script">{script}</script>\n')
    write('<p id="end" hidden></p>\n</body>\n</html>\n')


def page_assets() -> tuple[str, str]:
    """Return the script and the style sheet of every page, as ``npm run build`` in ``mhaviz/web`` makes them."""
    built = resources.files("mhaviz").joinpath("web", "dist")
    script, styles = (built.joinpath(name).read_text(encoding="utf-8") for name in ("main.js", "page.css"))
    return script, styles


def _json(document: object) -> str:
    """Return JSON in which no text can end the script element around it."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
