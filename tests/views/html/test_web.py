"""The page's own source: its types, its own tests, and that what is committed is what it builds."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import mhaviz

WEB = Path(mhaviz.__file__).parent / "web"
TESTS = Path(__file__).parents[2] / "web"
TOOLS = WEB / "node_modules" / ".bin"


def run(*command):
    done = subprocess.run(list(map(str, command)), cwd=WEB, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


needs_tools = pytest.mark.skipif(
    not (TOOLS / "esbuild").exists() and not os.environ.get("MHAVIZ_TESTS_NEED_NODE"),
    reason="needs what the page is built with: npm install in mhaviz/web",
)


@needs_tools
def test_the_bundle_is_what_the_source_builds(tmp_path):
    run("npm", "run", "build", "--", f"--outdir={tmp_path}")
    for name in ("main.js", "page.css"):
        assert (tmp_path / name).read_bytes() == (WEB / "dist" / name).read_bytes(), f"npm run build in {WEB}: {name}"


@needs_tools
def test_types_agree_and_the_linter_is_content():
    run("npm", "run", "check")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_source_passes_its_own_tests():
    run("node", "--test", *sorted(TESTS.glob("*.test.js")))


def test_the_bundle_fits_a_page():
    """And ends no element early."""
    built = "".join((WEB / "dist" / name).read_text(encoding="utf-8") for name in ("main.js", "page.css"))
    assert "</script" not in built
    assert len(built) < 128 * 1024
