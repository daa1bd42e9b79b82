"""SVG and PDF, read by pypdf and by an XML parser as programs that find and edit texts would, and PNG."""

import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from made import made_map
from PIL import Image
from pypdf import PdfReader
from shown import heatmap_figure

from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.views.style import Style

SVG = "{http://www.w3.org/2000/svg}"
DC = "{http://purl.org/dc/elements/1.1/}"


def saved(sheet, suffix):
    stream = io.BytesIO()
    sheet.save(stream, suffix)
    stream.seek(0)
    return stream


def sheet_of(n_tokens, words=None, **style):
    words = words or tuple(f"word{i}" for i in range(n_tokens))
    weights = np.tril(np.full((n_tokens, n_tokens), 0.25, np.float32))[None]
    return heatmap_figure(Attention(Source("a source"), (made_map(words, words, weights),)), Style(**style))


def svg_texts(stream):
    return ["".join(text.itertext()) for text in ET.parse(stream).iter(f"{SVG}text")]


def test_texts_of_an_svg_are_texts():
    sheet = sheet_of(3, ("le", "chat<b>&", "$x$"), vmax=1)
    texts = svg_texts(saved(sheet, "svg"))
    assert {"le", "chat<b>&", "$x$", "L0 H0", "a source", "weight"} <= set(texts)
    assert texts.count("0.25") == 6, "the numbers of the cells too"


def test_texts_of_a_pdf_are_texts():
    page = PdfReader(saved(sheet_of(3, ("le", "chat", "Ünïcode"), vmax=1), "pdf")).pages[0]
    lines = page.extract_text().splitlines()
    assert {"le", "chat", "Ünïcode", "L0 H0", "a source"} <= {line.strip() for line in lines}
    assert sum(line.count("0.25") for line in lines if "rows" not in line) == 6


def test_a_pdf_and_an_svg_have_a_title():
    sheet = sheet_of(40)
    assert PdfReader(saved(sheet, "pdf")).metadata.title.endswith("word38 word39"), "all of it, however long"
    assert next(ET.parse(saved(sheet, "svg")).iter(f"{DC}title")).text.startswith(
        "self-attention, a source: word0 word1"
    )


@pytest.mark.parametrize("n_tokens", [3, 40])
def test_cells_of_an_svg_are_shapes_where_the_numbers_are(n_tokens):
    sheet = sheet_of(n_tokens, cmap="Blues", vmax=0.5)
    found = {}
    for path in ET.parse(saved(sheet, "svg")).iter(f"{SVG}path"):
        style = path.get("style", "")
        if "fill: #6aaed6" in style:  # the middle of Blues, the half of the scale
            points = [
                float(number) for number in path.get("d").replace("M", "").replace("L", "").split() if number != "z"
            ]
            found[round(min(points[::2]), 2), round(min(points[1::2]), 2)] = path
    assert len(found) == n_tokens * (n_tokens + 1) // 2, "a shape a cell that is not paper"


def test_many_cells_are_an_image():
    assert b"<image" in saved(sheet_of(150), "svg").getvalue()
    assert saved(sheet_of(30), "svg").getvalue().count(b"<image") == 1, "the scale alone"


def test_saving_changes_nothing_of_the_figure():
    sheet = sheet_of(4)
    before = saved(sheet, "png").getvalue()
    saved(sheet, "svg"), saved(sheet, "pdf")
    assert saved(sheet, "png").getvalue() == before


@pytest.mark.parametrize("font_size", [4, 8, 16])
def test_letters_of_another_size_make_the_page_larger(font_size):
    sheet, zoom = sheet_of(3, font_size=font_size), font_size / 8
    width, height = 72 * zoom * sheet.width, 72 * zoom * sheet.height
    page = PdfReader(saved(sheet, "pdf")).pages[0]
    assert (page.mediabox.width, page.mediabox.height) == pytest.approx((width, height), abs=1)
    root = ET.parse(saved(sheet, "svg")).getroot()
    assert float(root.get("width").removesuffix("pt")) == pytest.approx(width, abs=1)
    assert root.get("viewBox").startswith("0 0 ")
    label = next(text for text in root.iter(f"{SVG}text") if text.text == "word0")
    assert f"{font_size}px" in label.get("style")


def test_a_png_has_no_alpha_and_knows_its_size():
    picture = Image.open(saved(sheet_of(3, dpi=100), "png"))
    assert picture.mode == "RGB"
    assert picture.info["dpi"] == pytest.approx((100, 100), abs=0.1)
