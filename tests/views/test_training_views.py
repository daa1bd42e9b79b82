import json
import re
from dataclasses import replace
from functools import cache
from io import BytesIO, StringIO

import matplotlib
import numpy as np
import pytest
import torch
from drawn import texts
from hostile import ACTING
from matplotlib.colors import ListedColormap, to_hex
from PIL import Image

from mhaviz.pages.registry import page_of
from mhaviz.pages.training import evenly, training_page
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.results.training import AlignmentErrors, Evaluation, LearningPoint, Training
from mhaviz.training.corpus import Pair
from mhaviz.training.loading import load_checkpoint
from mhaviz.views import animation
from mhaviz.views.animation import write_gif
from mhaviz.views.colours import palette
from mhaviz.views.data import document, write_json
from mhaviz.views.figure.sheet import ACCENT, Sheet
from mhaviz.views.showing import figure_of, view_of
from mhaviz.views.style import Style


def training(n_points=4, footnote="made by a test"):
    points = tuple(LearningPoint(10 * (i + 1), 4.0 / (i + 1), i / n_points) for i in range(n_points))
    return Training(Source(footnote), "translation", "exact match", points, 10 * n_points, 7500, 500, 50, 105_213)


def evaluation(alignment=True, footnote="made by a test"):
    errors = AlignmentErrors((0.5, 0.25), 0.125, 40) if alignment else None
    return Evaluation(Source(footnote), "translation", "exact match", 0.75, 1.5, 20, True, errors)


@pytest.mark.parametrize(("scores", "title"), [
    ((0.5, 1.0, 0.98, 1.0, 1.0), "All of 50 held-out sentences are right from step 40 on"),
    ((0.5, 1.0, 0.98), "exact match 0.98 on held-out sentences at step 30"),
    ((), "No step of training yet"),
])  # fmt: skip
def test_the_title_of_a_training_says_from_when_on_all_is_right(scores, title):
    points = tuple(LearningPoint(10 * (i + 1), 1.0, score) for i, score in enumerate(scores))
    assert training_page(replace(training(), points=points)).title == title


def test_a_training_in_the_terminal(show):
    shown = show(view_of(training()))
    assert shown.startswith("exact match 0.75 on held-out sentences at step 40\n")
    about = " ".join(shown.split())
    assert "a translator of 105,213 parameters, trained on 7,500 sentences; scored on 50 of the 500 held out" in about
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert lines["10"].split()[:3] == ["10", "4.000", "█" * 20]
    assert lines["20"].split()[1:4] == ["2.000", "█" * 10, "0.25"]
    assert "made by a test" in shown
    assert max(map(len, show(view_of(training()), width=40).splitlines())) <= 40
    assert show(view_of(training()), encoding="ascii").isascii()


def test_a_long_training_is_thinned(show):
    shown = show(view_of(training(400)))
    steps = [int(line.split()[0].replace(",", "")) for line in shown.splitlines() if line.strip()[:1].isdigit()]
    assert len(steps) == 20
    assert steps[-1] == 4000


@pytest.mark.parametrize("most", [2, 3, 20])
@pytest.mark.parametrize("length", [1, 2, 19, 20, 21, 57, 400])
def test_evenly(length, most):
    chosen = evenly(range(length), most)
    assert len(chosen) == min(length, most)
    assert chosen[-1] == length - 1
    assert chosen[0] == 0
    assert len(set(np.diff(chosen))) <= 2


def test_a_training_as_a_figure():
    sheet = figure_of(training())
    loss, score = sheet.axes[1:]
    np.testing.assert_array_equal(loss.lines[0].get_xydata(), [[10, 4], [20, 2], [30, 4 / 3], [40, 1]])
    np.testing.assert_array_equal(score.lines[0].get_ydata(), [0, 0.25, 0.5, 0.75])
    assert loss.get_yscale() == "log"
    assert score.get_ylim() == (0, 1)
    assert loss.lines[0].get_marker() != score.lines[0].get_marker()
    assert loss.xaxis.get_major_formatter()(1200.0) == "1,200", "as in the terminal"
    assert "exact match, 50 held-out sentences" in score.get_title(loc="left")
    assert "made by a test" in texts(sheet)


def test_a_plot_has_letters_of_the_size_that_is_wanted_and_the_width_of_the_page():
    plain, large = (figure_of(training(), Style(width=7, font_size=size)) for size in (None, 16))
    for one, other in zip(plain.axes[1:], large.axes[1:], strict=True):
        texts_of = [(axes.xaxis.label, *axes.get_xticklabels()) for axes in (one, other)]
        assert {2 * text.get_fontsize() for text in texts_of[0]} == {text.get_fontsize() for text in texts_of[1]}
    assert plain.axes[-1].get_position().x1 * 7 == pytest.approx(7 - 0.05 - 0.15, abs=0.05)


def test_one_point_is_a_picture():
    assert figure_of(training(1)).axes[1].lines[0].get_xydata().tolist() == [[10, 4]]


def test_an_evaluation_in_the_terminal(show):
    shown = show(view_of(evaluation()))
    assert "20 held-out sentences: exact match 0.75, perplexity 1.50" in shown
    assert "L0 H0" in shown
    assert "50.0%" in shown
    (mean,) = (line for line in shown.splitlines() if "heads averaged" in line)
    assert "87.5%" in mean
    assert "L0 H0" not in show(view_of(evaluation(alignment=False)))
    assert show(view_of(evaluation()), encoding="ascii").isascii()
    assert max(map(len, show(view_of(evaluation()), width=40).splitlines())) <= 40


def test_an_evaluation_as_a_figure():
    """The best head is first and has the longest bar; then the heads averaged. A bar is as long as the number says."""
    sheet = figure_of(evaluation())
    widths = [bar.get_width() for bar in sheet.page.patches]
    np.testing.assert_allclose(np.array(widths) / widths[0], np.array([0.75, 0.5, 0.875]) / 0.75)
    heads = {text.get_text(): text.get_position()[1] for text in sheet.page.texts}
    assert heads["L0 H1"] < heads["L0 H0"] < heads["heads averaged"]
    assert to_hex(sheet.page.patches[-1].get_facecolor()) == ACCENT
    printed = [float(text.rstrip("%")) / 100 for text in texts(sheet) if re.fullmatch(r"[\d.]+%", text)]
    np.testing.assert_allclose(printed, [0.75, 0.5, 0.875])
    assert {"L0 H0", "heads averaged"} <= set(texts(sheet))
    assert not any("\\x0a" in text for text in texts(sheet)), "notes are lines"
    assert not figure_of(evaluation(alignment=False)).page.patches


@pytest.mark.parametrize(
    ("errors", "links", "title"),
    [
        (
            (0.4, 0.013, 0.023),
            4426,
            "Of the heads, L0 H1 aligns words best: 98.7% of its and the gold links agree; of the next, 97.7%",
        ),
        ((0.4, 0.013, 0.02), 44, "No head aligns words best: of L0 H1 and L0 H2, 98.0% to 98.7% of the links agree"),
        ((0.5, 0.5), 10**6, "No head aligns words best: of L0 H0 and L0 H1, 50.0% of the links agree"),
        ((0.25,), 40, "L0 H0 aligns words: 75.0% of its and the gold links agree"),
        (
            (0.0, 1.0),
            1,
            "Of the heads, L0 H0 aligns words best: 100.0% of its and the gold links agree; of the next, 0.0%",
        ),
    ],
)
def test_the_title_says_which_head_aligns_best_or_that_none_does(errors, links, title):
    assert page_of(replace(evaluation(), alignment=AlignmentErrors(errors, 0.1, links))).title == title


def test_scores_are_written_alike():
    """With two decimals, and with more where these would be 1 and the score is not."""
    shares = {1.0: "1.00", 0.75: "0.75", 0.998: "0.998", 0.99999: "0.99999", 0.0: "0.00", 0.004: "0.004"}
    for share, text in shares.items():
        said = page_of(replace(evaluation(alignment=False), score=share)).title
        assert said.endswith(f"exact match {text}, perplexity 1.50")
        milestones = (LearningPoint(10, 1.0, share),)
        source = replace(translation(), milestones=milestones).source(torch.device("cpu"), [Pair(("a",), ("b",))])
        assert f"exact match {text} on 50 of 500 held out" in source.footnote


def test_data():
    stream = StringIO()
    write_json(document(evaluation()), stream)
    data = json.loads(stream.getvalue())
    assert data["alignment"] == {"heads": [0.5, 0.25], "mean": 0.125, "links": 40}
    assert (data["score"], data["perplexity"], data["sentences"]) == (0.75, 1.5, 20)
    assert document(training())["points"][1] == LearningPoint(20, 2.0, 0.25)


@cache
def translation():
    return load_checkpoint("translation")


@pytest.mark.parametrize("name", [ACTING, "x" * 5000])
def test_hostile_names_of_corpora(show, name):
    """The name of a file that was learnt from comes out of a checkpoint that somebody else may have made."""
    checkpoint = replace(translation(), corpus=name)
    history = checkpoint.record(torch.device("cpu"))
    assert history.source.details["corpus"] == name
    shown = show(view_of(history), width=400)
    assert len(shown.splitlines()) == len(show(view_of(training(20)), width=400).splitlines())
    assert not set(shown) & set("\x1b\x07\u202e\x00\u2028")
    sheet = figure_of(history, Style(dpi=40))
    for axes in sheet.axes[1:]:  # the curves are the same whatever the name is
        axes.set_visible(False)
    sheet.save(BytesIO(), "png")
    assert not any(set(text) & set("\x1b\u202e\x00\n") for text in texts(sheet))


def test_a_film_has_a_frame_a_record(random_map):
    frames = [Attention(Source(f"step {i}"), (random_map(seed=i),)) for i in range(3)]
    stream = BytesIO()
    write_gif(stream, frames, Style(dpi=40))
    film = Image.open(stream)
    assert (film.format, film.n_frames, film.info["loop"]) == ("GIF", 3, 0)
    pictures = []
    for i in range(3):
        film.seek(i)
        pictures.append(np.asarray(film.convert("RGB")))
    assert (pictures[0] != pictures[1]).any()
    assert (pictures[0] != pictures[2]).any()
    white = np.abs(pictures[0][:3].astype(int) - 255).max()
    assert white <= 8


def test_the_same_records_make_the_same_film(random_attention):
    films = [BytesIO(), BytesIO()]
    for film in films:
        write_gif(film, [random_attention()] * 2, Style(dpi=40))
    assert films[0].getvalue() == films[1].getvalue()


def test_a_film_of_many_frames_is_thinned(random_map, monkeypatch):
    assert animation._MOST_FRAMES == 40
    monkeypatch.setattr(animation, "_MOST_FRAMES", 4)
    frames = [Attention(Source(""), (random_map(seed=i),)) for i in range(9)]
    stream = BytesIO()
    write_gif(stream, frames, Style(dpi=20))
    assert Image.open(stream).n_frames == 4


@pytest.mark.parametrize("cmap", ["ink", "bone"])
def test_a_film_has_the_colours_of_the_scale(random_map, cmap):
    """Also those that are in one frame only."""
    even = random_map(queries=("a", "b"))
    even = replace(even, weights=np.full_like(even.weights, 0.5))
    sharp = replace(even, weights=np.stack([np.eye(2, dtype=np.float32)] * 2))
    stream = BytesIO()
    write_gif(stream, [Attention(Source(""), (m,)) for m in (even, sharp, even)], Style(cmap, dpi=60))
    film = Image.open(stream)
    chosen = matplotlib.colormaps[cmap] if cmap == "bone" else ListedColormap(palette(cmap) / 255)
    for frame, weights in enumerate(([0.5], [0.0, 1.0], [0.5])):
        film.seek(frame)
        pixels = np.asarray(film.convert("RGB")).astype(int).reshape(-1, 3)
        assert (pixels[0] == 255).all()
        for weight in weights:
            distance = np.abs(pixels - np.round(np.array(chosen(weight)[:3]) * 255)).max(axis=1)
            assert (distance <= 4).sum() > 500, (frame, weight)


def test_a_step_is_written_over_its_frame(random_map, monkeypatch):
    written = []
    write = Sheet.write
    monkeypatch.setattr(
        Sheet, "write", lambda self, x, y, text, *a, **k: written.append(text) or write(self, x, y, text, *a, **k)
    )
    write_gif(BytesIO(), [Attention(Source("", {"steps": 1200}), (random_map(),))], Style(dpi=20))
    assert "step 1,200" in written
