"""The page of attention over images: the photo is in it, and what stands out is what Python says."""

import base64
import json
import re
import shutil
import subprocess
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mhaviz
from mhaviz.errors import MhavizError
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.patch_shares import ImageMap, PatchView
from mhaviz.results.result import Source
from mhaviz.views.html.contents import contents_of
from mhaviz.views.html.photos import MOST_BYTES, photo_address
from mhaviz.views.style import Style

WEB = Path(mhaviz.__file__).parent / "web"
PHOTO = np.uint8(np.random.default_rng(1).integers(0, 256, (12, 18, 3)).repeat(10, 0).repeat(10, 1))
BOX = (0.0, 0.25, 1.0, 0.75)


def attention_of(name="", n_layers=2, box=BOX):
    """A class token, then 5 × 6 patches, then a word."""
    grid = PatchGrid(5, 6, tuple(range(1, 31)), name, 0, box)
    texts = ("[CLS]", *(grid.label(row, column) for row in range(5) for column in range(6)), "cat")
    axis = Axis(Tokens(texts, (0,), images=(grid,)))
    rng = np.random.default_rng(0)
    maps = tuple(
        AttentionMap(rng.dirichlet(np.full(32, 0.2), (2, 32)).astype(np.float32), axis, axis, layer=layer)
        for layer in range(n_layers)
    )
    return Attention(Source("by hand"), maps)


def document_of(result):
    return contents_of(result, Style()).document


def test_the_photo_is_in_the_page_and_nothing_else_is_asked_for():
    images = document_of(attention_of().over_image(PHOTO, "[CLS]"))["images"]
    (photo,) = images["photos"]
    kind, written = photo.split(",")
    assert kind == "data:image/jpeg;base64"
    shown = np.asarray(Image.open(BytesIO(base64.b64decode(written))), float)
    assert shown.shape == PHOTO.shape
    assert np.abs(shown - PHOTO).mean() < 10
    assert images["asked"] == [[0], [0]]
    assert document_of(attention_of().over_image(PHOTO))["images"]["asked"][0] == list(range(32))


@pytest.mark.parametrize("size", [(40, 60), (2048, 1500)])
def test_a_photo_takes_few_bytes_whatever_it_shows(size):
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    address = photo_address(noise)
    assert len(base64.b64decode(address.split(",")[1])) <= MOST_BYTES
    assert address == photo_address(noise)


def test_maps_without_a_photo_and_means_have_a_page():
    assert document_of(attention_of().over_image())["images"]["photos"] == []
    mean = document_of(attention_of().over_image(PHOTO, "0,1", mean=("heads", "layers")))
    assert len(mean["maps"]) == len(mean["maps"][0]["heads"]) == 1
    assert mean["images"]["asked"] == [[2]]


def test_a_mean_of_layers_with_other_patches_has_none():
    few = Axis(Tokens(tuple(map(str, range(4))), images=(PatchGrid.run(2, 2),)))
    many = Axis(Tokens(tuple(map(str, range(16))), images=(PatchGrid.run(4, 4),)))
    maps = [AttentionMap(np.full((1, n, n), 1 / n, np.float32), a, a, layer=n) for n, a in ((4, few), (16, many))]
    over = Attention(Source("by hand"), tuple(maps)).over_image(PHOTO, mean="layers")
    with pytest.raises(MhavizError, match=r"a mean of others; leave out `mean`, or save \.png"):
        contents_of(over, Style())


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("is_key", [False, True])
@pytest.mark.parametrize("concentration", [0.1, 1.0, 100.0])
def test_the_browser_finds_what_python_finds(is_key, concentration):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(60, concentration), 20) * rng.random((20, 1))
    seen = rng.random(60) < 0.8
    chance = np.where(seen, rng.random(60) + 0.1, 0.0)
    chance = np.where(seen, 1 / seen.sum(), 0.0) if is_key else chance / chance.sum()
    views = (PatchView(np.where(seen, weights, np.nan).reshape(20, 6, 10), chance.reshape(6, 10)),)
    m = ImageMap(views, heads=tuple(range(20)), is_key=is_key)
    script = f"""import {{ sharesOf }} from {json.dumps((WEB / "shares.js").as_uri())};
        const {{ weights, chance, isKey }} = JSON.parse(process.argv[1]);
        const shown = weights.map((own) => sharesOf(own, chance, isKey));
        const plain = ({{ times, outlined, ...rest }}) => ({{ times: [...times], outlined: [...outlined], ...rest }});
        console.log(JSON.stringify(shown.map(plain)));"""
    given = json.dumps({"weights": weights.tolist(), "chance": chance.tolist(), "isKey": is_key})
    ran = subprocess.run(["node", "--input-type=module", "-e", script, given], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    for head, found in enumerate(json.loads(ran.stdout)):
        assert found["spread"] == m.spread(head)
        assert found["half"] == m.half[head]
        assert found["inside"] == pytest.approx(m.inside[head])
        assert found["outlined"] == m.outlined(head)[0].ravel().astype(int).tolist()
        times = np.array([np.nan if x is None else x for x in found["times"]])
        assert times == pytest.approx(m.times_uniform(head)[0].ravel(), nan_ok=True)


def told(page):
    return page.ask("document.querySelector('.image-view [role=status]').textContent")


@pytest.mark.browser
def test_a_patch_becomes_the_query(opened, tmp_path):
    attention = attention_of()
    attention.over_image(PHOTO, "[CLS]").save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    assert page.ask("document.querySelector('[role=tab][aria-selected=true]').textContent") == "Image"
    first = attention.over_image(PHOTO, "[CLS]").maps[0]
    page.until("document.querySelector('.image-view [role=status]').textContent")
    assert f"half in {first.half[0]} of 30 patches" in told(page)
    # the middle of the photo lies between patches; a little to the right and below is the patch 2,3
    box = page.box(".image-view canvas.photo")
    page.tab.mouse.click(box["x"] + 0.52 * box["width"], box["y"] + 0.52 * box["height"])
    page.until("document.querySelector('.image-view [role=status]').textContent.includes('2,3')")
    chosen = attention.over_image(PHOTO, "2,3").maps[0]
    assert f"half in {chosen.half[0]} of 30 patches" in told(page)
    assert page.ask("location.hash") == "#query=16"
    page.tab.keyboard.press("Tab")
    page.tab.locator(".image-view canvas.photo").focus()
    page.tab.keyboard.press("ArrowLeft")
    page.until("document.querySelector('.image-view [role=status]').textContent.includes('2,2')")
    outside = page.tab.mouse.click(box["x"] + 0.1 * box["width"], box["y"] + 0.5 * box["height"])
    assert outside is None
    assert page.ask("location.hash") == "#query=15"


@pytest.mark.browser
def test_patches_that_stand_out_are_lit_and_others_dark(opened, tmp_path):
    photo = np.full((100, 200, 3), 200, np.uint8)
    over = attention_of(box=(0.0, 0.0, 1.0, 1.0)).over_image(photo, "[CLS]")
    over.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    lit = over.maps[0].outlined(0)[0]
    script = """() => {
        const canvas = document.querySelector(".image-view canvas.photo");
        const context = canvas.getContext("2d");
        const at = (row, column) => context.getImageData(
            Math.floor((column + 0.5) * canvas.width / 6), Math.floor((row + 0.5) * canvas.height / 5), 1, 1).data[0];
        return Array.from({ length: 30 }, (_, i) => at(Math.floor(i / 6), i % 6));
    }"""
    page.until(f"Math.max(...({script})()) > 190")
    shown = np.array(page.ask(script)).reshape(5, 6)
    assert (np.abs(shown[lit] - 200) < 8).all()
    assert (shown[~lit] < 100).all()
    assert 0 < lit.sum() < 30


@pytest.mark.browser
def test_hostile_names_and_several_views(opened, tmp_path):
    name = '<img src=x onerror="window.bad=1"> \u202e'
    grids = (PatchGrid(2, 2, (0, 1, 2, 3), name), PatchGrid(2, 2, (4, 5, 6, 7), "frame 1", 1))
    axis = Axis(Tokens(tuple(f"t{i}" for i in range(8)), images=grids))
    weights = np.random.default_rng(0).dirichlet(np.ones(8), (1, 8)).astype(np.float32)
    over = Attention(Source("by hand"), (AttentionMap(weights, axis, axis),)).over_image([PHOTO, PHOTO])
    over.save(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").ready()
    page.until("document.querySelectorAll('.image-view figure').length === 2")
    assert page.ask("window.bad === undefined")
    assert "\\u202e" in page.ask("document.querySelector('.image-view figcaption').textContent")


def test_a_text_has_no_images_in_its_page(tmp_path):
    mhaviz.attend("random", "a b c").save(tmp_path / "page.html")
    written = (tmp_path / "page.html").read_text(encoding="utf-8")
    document = re.search(r'<script id="document"[^>]*>(.*?)</script>', written)[1]
    assert "images" not in json.loads(document)


def test_no_patch_is_before_another():
    of_map = document_of(attention_of().over_image(PHOTO, "[CLS]"))["numbers"][0]["means"]
    assert "itself" in of_map
    assert not {"previous", "next", "distance", "copies", "induction"} & {*of_map}
