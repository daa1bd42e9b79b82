"""The strip of one query in all heads of a layer, and what the page makes of sinks."""

import re

import numpy as np
import pytest
from made import made_map

from mhaviz.pages.colormaps import HEADS
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source

pytestmark = pytest.mark.browser

QUERY, LAYER = 5, 4
LINES = """() => {
  window.lines = [];
  const { stroke } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.stroke = function () {
    if (this.canvas.parentElement?.className === "lines") window.lines.push(this.strokeStyle);
    stroke.call(this);
  };
}"""


def word(page, where, position):
    """The place of a word."""
    box = page.box(f"{where} .word[data-piece='{position}']")
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def largest(attention, layer, query, sinks):
    """ "H3 animal 0.31": the head and the key of the largest weight, of another word than a sink."""
    weights = attention[layer].weights[:, query].copy()
    weights[:, [query, *sinks]] = 0
    head, key = np.unravel_index(weights.argmax(), weights.shape)
    return f"largest: H{head} “\u2068{attention[layer].keys[key].strip()}\u2069” {float(f'{weights[head, key]:.2g}'):g}"


def is_told(page, attention, layer, query):
    (sink,) = attention.sinks[layer].keys
    expected = [f"“\u2068{attention[layer].queries[query].strip()}\u2069” ({query}) in layer {layer}, self"]
    expected.append(largest(attention, layer, query, [sink]))
    told = "document.querySelector('.strip h2').textContent + '|' + document.querySelector('.reading').textContent"
    page.until(f"({told}).startsWith({'|'.join(expected)!r})")


def test_two_actions_lead_to_what_a_word_looks_at_in_a_layer(opened, minilm):
    path, attention = minilm
    page = opened(path).ready()
    page.note_what_is_written()
    page.tab.click(f".layer[data-map='{LAYER}']")
    page.tab.mouse.move(*word(page, ".strip", QUERY))
    is_told(page, attention, LAYER, QUERY)
    (sink,) = attention.sinks[LAYER].keys
    share = attention[LAYER].weights[:, QUERY, sink].mean()
    page.until(f"window.written.includes('[CLS] {share:.0%}')")


def test_the_keyboard_does_the_same_and_says_it(opened, minilm):
    path, attention = minilm
    page = opened(path).ready()
    press = page.tab.keyboard.press
    page.ask("document.querySelector('.layer[tabindex=\"0\"]').focus()")
    for key in ["ArrowDown"] * LAYER + ["Enter"]:
        press(key)
    page.ask("document.querySelector('.strip .word').focus()")
    for key in ["ArrowRight"] * QUERY:
        press(key)
    is_told(page, attention, LAYER, QUERY)
    (sink,) = attention.sinks[LAYER].keys
    said = largest(attention, LAYER, QUERY, [sink])
    page.until(f"document.querySelector('[aria-live]').textContent.includes({said!r})")
    page.ask("document.querySelector('.strip canvas').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        press(key)
    page.until(f"location.hash.includes('view=map&map={LAYER}&head=1&query={QUERY}&key=1')")


@pytest.mark.parametrize("layout", ["text", "lines"])
@pytest.mark.parametrize("role", ["key", "query"])
def test_a_word_of_the_text_has_its_strip_and_nothing_moves(opened, minilm, layout, role):
    path, attention = minilm
    page = opened(path, f"#view=text&map={LAYER}&textLayout={layout}", width=700, height=1400).ready()
    page.until("document.querySelector('.reading').textContent.length > 0")
    parts = (".strip", ".strip canvas", ".texts", ".links")
    page.until("document.querySelector('.links table')")
    before = [page.box(part) for part in parts]
    for query in (QUERY, 2):
        page.tab.mouse.move(*word(page, f".text.{role}", query))
        is_told(page, attention, LAYER, query)
        assert [page.box(part) for part in parts] == before


def test_a_row_of_the_map_has_its_strip_also_by_its_label(opened, minilm):
    path, attention = minilm
    page = opened(path, f"#view=map&map={LAYER}").ready()
    page.until("document.querySelector('.stage').getAttribute('aria-busy') === 'false'")
    box, rows = page.box("canvas.map"), len(attention[LAYER].queries)
    height = (box["height"] - 72) * 0.8  # less than that of the rows, which begin below the two colour bars
    for x in (0.5 * box["width"], 40):
        told = set()
        for step in range(rows):
            page.tab.mouse.move(box["x"] + x, box["y"] + 74 + height * (step + 0.5) / rows)
            told.add(page.ask("document.querySelector('.strip h2').textContent"))
        assert len(told) > rows / 2
    page.tab.mouse.click(box["x"] + 40, box["y"] + 80)
    page.until("location.hash.endsWith('query=0')")


def test_a_finger_reads_a_cell_before_it_opens_the_head(chromium, minilm):
    path, attention = minilm
    context = chromium.new_context(viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True)
    tab = context.new_page()
    tab.goto(f"file://{path}")
    tab.tap(f".strip .word[data-piece='{QUERY}']")
    assert tab.evaluate("location.hash") == f"#query={QUERY}"
    box = tab.locator(".strip canvas").first.bounding_box()
    place = box["x"] + box["width"] / 2, box["y"] + 80
    tab.touchscreen.tap(*place)
    read = re.match(r"self L0 H(\d+): \u2068\S+ \((\d+)\)\u2069 ([\d.e-]+)$", tab.text_content(".reading"))
    head, key = int(read[1]), int(read[2])
    assert abs(float(read[3]) - attention[0].weights[head, QUERY, key]) < 1e-3
    assert "view=map" not in tab.evaluate("location.hash")
    tab.touchscreen.tap(*place)
    assert tab.evaluate("location.hash").endswith(f"head={head}&query={QUERY}&key={key}")
    context.close()


def test_before_a_word_is_pointed_at_the_strip_is_of_that_of_the_text(opened, minilm):
    page = opened(minilm[0], "#view=text&map=1&head=8").ready()
    for hash in ("view=text&map=1&head=8", "view=text&map=3&head=1"):
        page.ask(f"location.hash = '{hash}'")
        text, strip = (f"document.querySelector('{name}').textContent" for name in (".text.key h3", ".strip h2"))
        said = f"{text}.endsWith(' looks at') && {strip}"
        page.until(f"{said}.startsWith({text}.replace(' looks at', ' in layer '))")


def test_all_heads_of_all_layers_are_a_strip(opened, minilm):
    path, attention = minilm
    page = opened(path, f"#strip=all&query={QUERY}").ready()
    sinks = attention.sinks[0].keys
    weights = np.concatenate([m.weights[:, QUERY] for m in attention.maps])
    weights[:, [QUERY, *sinks]] = 0
    row = int(weights.max(axis=1).argmax())
    page.until(f"document.querySelector('.reading').textContent.startsWith('largest: L{row // 12} H{row % 12} ')")
    assert "in all 72 heads" in page.ask("document.querySelector('.strip h2').textContent")


def test_each_head_has_the_colour_of_its_lines_in_figures_and_sinks_have_none(opened, minilm):
    path, attention = minilm
    page = opened(path, "#view=text&map=1").ready()
    page.ask(LINES)
    page.ask("location.hash = 'view=text&map=1&textLayout=lines&heads=2-5-8'")
    m, sinks = attention[1], attention.sinks[1].keys
    high = page.ask("JSON.parse(document.getElementById('document').textContent).scales[0].high")
    others = np.delete(m.weights[[2, 5, 8]], sinks, axis=2)
    expected = {colour: int((head / high >= 0.02).sum()) for colour, head in zip(HEADS, others, strict=False)}
    page.until(f"window.lines.length >= {sum(expected.values())}")
    drawn = page.ask("window.lines")[-sum(expected.values()) :]
    assert {colour: drawn.count(colour) for colour in drawn} == expected
    share = m.weights[[2, 5, 8]][..., sinks[0]].mean()
    assert f"[CLS]\u2069 {share:.0%} of the weight" in page.ask("document.querySelector('.bound').textContent")
    page.ask("window.lines.length = 0")
    page.tab.mouse.move(*word(page, ".text.key", sinks[0]))  # which is pointed at
    page.until("window.lines.length > 0")


def test_a_marked_label_has_its_position_where_those_around_it_have(opened, tmp_path):
    path = tmp_path / "long.html"
    words = [f"w{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(200)]
    Attention(Source("made", {}), (made_map(words, words, np.eye(200, dtype=np.float32)[None]),)).save(path)
    page = opened(path, "#view=map&query=13&key=44").ready()
    page.note_what_is_written()
    page.tab.set_viewport_size({"width": 1200, "height": 900})
    page.until(f"['13 {words[13]}', '44 {words[44]}'].every((label) => window.written.includes(label))")
