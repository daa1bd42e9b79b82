"""The step of the GitHub action that compares, as its runner starts it, with this mhaviz."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

STEP = yaml.safe_load((Path(__file__).parents[1] / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"][1]


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ({}, 0, ""),
        ({"before": "b.npy"}, 3, "expected a divergence of at most 0.1 bits"),
        ({"before": "b.npy", "options": "--fail-above 1 -q"}, 3, "expected a divergence of at most 0.1 bits"),
        ({"before": "--help"}, 1, "cannot read --help: No such file"),
        ({"after": "--fail-above=1"}, 1, "cannot read --fail-above=1: No such file"),
        ({"fail-above": "--help"}, 2, "--fail-above"),
        ({"options": "--kind self --help"}, 1, "mhaviz diff has compared nothing: expected change.json to be written"),
        ({"options": "-- *"}, 2, "unexpected extra argument"),
    ],
)
def test_only_what_was_compared_passes(tmp_path, given, status, message):
    np.save(tmp_path / "a.npy", np.eye(2))
    np.save(tmp_path / "b.npy", np.eye(2)[::-1])
    (tmp_path / "change.json").write_text("of another run")
    program = tmp_path / "mhaviz" / "bin" / "mhaviz"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mhaviz "$@"\n')
    program.chmod(0o755)
    inputs = {"before": "a.npy", "after": "a.npy", "fail-above": "0.1", "options": "", "output": "change.json"} | given
    variables = {name: inputs[text[len("${{ inputs.") : -len(" }}")]] for name, text in STEP["env"].items()}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEP["run"]]
    surroundings = os.environ | {"RUNNER_TEMP": str(tmp_path)} | variables
    done = subprocess.run(shell, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
    assert (done.returncode, message in done.stderr) == (status, True)
