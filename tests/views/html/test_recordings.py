"""A page of a program that ran: which attention each grid and each map is, and in which pass."""

import json
from dataclasses import replace

import numpy as np
import pytest
from made import made_map

import mhaviz
from mhaviz.inputs.tokens import patch_tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import ROLLOUT
from mhaviz.results.result import Source
from mhaviz.views.html.contents import contents_of
from mhaviz.views.style import Style


def recorded(modules, lengths=(4,), **more):
    maps = []
    for layer, module in enumerate(modules):
        length = lengths[layer % len(lengths)]
        tokens = tuple(map(str, range(length)))
        weights = np.random.default_rng(layer).dirichlet(np.ones(length), (2, length)).astype(np.float32)
        maps.append(made_map(tokens, tokens, weights, layer=layer, module=module, **more))
    return Attention(Source("recorded: a test"), tuple(maps))


def film(passes=(0, 100), examples=(0, 1), modules=("b.0.attn", "b.1.attn")):
    maps = [m for p in passes for e in examples for m in recorded(modules, pass_number=p, sentence=e)]
    return Attention(Source("recorded: a test"), tuple(maps))


def document(attention):
    return json.loads(json.dumps(contents_of(attention, Style()).document))


def test_maps_have_the_name_of_their_module_and_of_its_layers():
    described = document(recorded(["enc.0.attn", "enc.1.attn", "dec.0.attn"]))["maps"]
    assert [m["module"] for m in described] == ["enc.0.attn", "enc.1.attn", "dec.0.attn"]
    assert [m["family"] for m in described] == ["enc.*.attn", "enc.*.attn", "dec.0.attn"]


def test_modules_of_many_names_stay_in_one_grid():
    described = document(recorded([f"train.py:{line}" for line in range(9)]))["maps"]
    assert {m["family"] for m in described} == {""}


def test_maps_that_nobody_recorded_say_nothing_of_modules():
    plain = recorded(["", ""])
    assert {(m["module"], m["family"], m["pass"]) for m in document(plain)["maps"]} == {("", "", None)}


@pytest.mark.parametrize(
    ("attention", "title"),
    [
        (recorded(["b.0", "b.1"]), "self-attention, recorded, layers 0 to 1: 4 tokens"),
        (recorded(["b.0", "b.1"], (4, 2)), "self-attention, recorded, layers 0 to 1"),
        (recorded(["b.0"], pass_number=100), "self-attention, recorded, pass 100: 4 tokens"),
        (film(), "self-attention, recorded, layers 0 to 1, passes 0, 100 of 2 examples"),
    ],
)
def test_titles_say_what_all_maps_have_in_common(attention, title):
    assert document(attention)["title"] == title


@pytest.mark.browser
def test_passes_and_examples_are_chosen(opened, tmp_path):
    film().save(tmp_path / "film.html")
    page = opened(tmp_path / "film.html", "#view=map").ready()
    labels = "[...document.querySelectorAll('.controls label')].filter(l => !l.hidden)"
    assert page.ask(f"{labels}.map(label => label.firstChild.textContent.trim())")[:4] == [
        "pass",
        "example",
        "map",
        "head",
    ]
    assert page.ask("[...document.querySelectorAll('.controls select')[1].options].map(o => o.text)") == [
        "0: 4 tokens",
        "1: 4 tokens",
    ]
    page.tab.keyboard.press("}")
    page.tab.locator(".controls select").nth(1).select_option("1")
    page.tab.locator(".controls select").nth(0).select_option("100")
    heading = "document.querySelector('#panel-map h2, #panel-map h3')?.textContent ?? document.body.innerText"
    page.until(f"({heading}).includes('pass 100, example 1, self L1 H0')")
    assert page.ask("[...document.querySelectorAll('.overview .thumb')].length") == 4
    page.tab.keyboard.press("{")
    page.until("document.body.innerText.includes('pass 100, example 1, self L0 H0')")
    api = "window.mhaviz.maps.map(m => [m.pass, m.sentence, m.module])"
    assert page.ask(api)[-1] == [100, 1, "b.1.attn"]


@pytest.mark.browser
def test_each_family_has_a_grid_and_keys_lead_through_all(opened, tmp_path):
    recorded(["enc.0.attn", "enc.1.attn", "dec.0.attn", "dec.1.attn"]).save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    assert page.ask("[...document.querySelectorAll('.overview h3')].map(h => h.textContent)") == [
        "self-attention enc.*.attn · layers × heads",
        "self-attention dec.*.attn · layers × heads",
    ]
    assert page.ask("[...document.querySelectorAll('.overview [role=rowheader]')].map(r => r.title)")[2] == "dec.0.attn"
    for _ in range(2):
        page.tab.keyboard.press("}")
    page.until("document.querySelector('.overview .named').textContent.startsWith('self L2 H0 dec.0.attn')")


@pytest.mark.browser
def test_hostile_names_are_text(opened, tmp_path):
    names = ["<img src=x onerror=hacked()>", "a\u202eb", "x" * 5000]
    recorded(names).save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", "#view=map", width=420).ready()
    assert page.ask("document.querySelectorAll('img').length") == 0
    assert "<img src=x onerror=hacked()>" in page.ask("document.body.innerText")
    for _ in range(2):
        page.tab.keyboard.press("}")
    page.until("document.body.innerText.includes('xxx…')")
    assert page.ask("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.browser
def test_crowded_patches_are_named_whole_and_positions_once(opened, tmp_path):
    patches = Axis(patch_tokens(9, 9, 1))
    weights = np.full((2, 82, 82), 1 / 82, np.float32)
    (named,) = recorded(["b.0"], lengths=(82,))
    maps = (AttentionMap(weights, patches, patches, module="a.0"), replace(named, layer=1))
    Attention(Source("recorded: a test"), maps).save(tmp_path / "page.html")
    for number, label in enumerate(("50 5,4", "50")):
        page = opened(tmp_path / "page.html", f"#view=map&map={number}").ready()
        page.note_what_is_written()
        page.tab.keyboard.press("]")
        page.until(f"window.written.includes({label!r})")
        assert not [text for text in page.ask("window.written") if "…" in text or text == "50 50"]


def test_a_difference_of_recordings_has_a_page():
    before = recorded(["b.0"])
    after = replace(before, maps=tuple(replace(m, weights=m.weights[::-1]) for m in before))
    assert "b.0" in mhaviz.diff(before, after).to_html()


def test_a_rollout_through_several_modules_is_one_grid():
    one = recorded(["enc.0.attn", "dec.0.attn"])
    maps = tuple(replace(m.select((0,)), quantity=ROLLOUT) for m in one.maps)
    assert {m["family"] for m in document(replace(one, maps=maps))["maps"]} == {""}
