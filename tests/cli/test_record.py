"""mhaviz record as a user types it, with programs of a few lines."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from forked import COMMAND_LINE, run_forked

pytestmark = pytest.mark.usefixtures("default_signals")

PROGRAM = """import os, sys
import torch
import torch.nn.functional as F

class Attention(torch.nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(9, 24)
        self.blocks = torch.nn.ModuleList(Attention() for _ in range(2))
    def forward(self, ids):
        x = self.embedding(ids).unflatten(-1, (3, 8)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return x

torch.manual_seed(0)
model = Model()
for step in range(3):
    model(torch.randint(9, (2, 4)))
print("printed", sys.argv[1:])
"""

WHOLE = """import atexit, gc, os, signal, sys, time

class Data:
    def __len__(self):
        return 2
    def __getitem__(self, i):
        return f"{type(self).__module__} {i}"

if __name__ == "__main__":
    import torch
    import torch.nn.functional as F
    from torch.utils.data import DataLoader
    for how in ("fork", "spawn"):
        print(how, *DataLoader(Data(), 2, num_workers=1, multiprocessing_context=how))
    print("set", os.environ.get("MPLBACKEND"), os.environ.get("MATPLOTLIBRC"), gc.get_threshold())
    atexit.register(print, "at exit", flush=True)
    x = torch.ones(1, 2, 3, 4)
    F.scaled_dot_product_attention(x, x, x)
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        sys.exit(7)
    print("forked", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.path.exists("run.json"))
    os.system("echo from a process >&1")
    os.chdir("/")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""


@pytest.fixture
def record(mhaviz, tmp_path, monkeypatch):
    """Record a program; what follows its code comes before its name, and ``words`` after."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mhaviz.api.recorded_tokens.tokenizer_of_program", lambda: None)  # of other tests

    def run(code, *options, words=()):
        (tmp_path / "program.py").write_text(code)
        return mhaviz("record", *options, "program.py", *words)

    return run


def test_a_program_is_recorded_and_keeps_its_arguments(record, tmp_path):
    result = record(PROGRAM, "-o", "run.json", "-o", "run.html", words=("--epochs", "1", "-o", "x", "--", "-q"))
    assert result.status == 0
    assert result.out.startswith("printed ['--epochs', '1', '-o', 'x', '--', '-q']\n")
    assert "L0 H2" in result.out
    assert [line for line in result.err.splitlines() if "saved" in line] == [
        "mhaviz: saved run.json",
        "mhaviz: saved run.html",
    ]
    assert "1 of up to 2 examples" in result.err or "--examples" in result.err
    maps = json.loads((tmp_path / "run.json").read_text())["maps"]
    assert [(m["layer"], m["kind"], np.shape(m["weights"])) for m in maps] == [
        (0, "masked", (3, 4, 4)),
        (1, "masked", (3, 4, 4)),
    ]
    assert "<html" in (tmp_path / "run.html").read_text()[:1000]


def test_json_and_nothing_else(record, tmp_path):
    code = PROGRAM + "os.system('echo from a process')\nos.write(1, b'from C')\nsys.stdout.buffer.write(b'bytes')\n"
    result = record(code, "--json", "--examples", "all", "--passes", "0,2-")
    maps = json.loads(result.out)["maps"]
    assert len(maps) == 2 * 2 * 2
    for text in ("printed []", "from a process", "from C", "bytes"):
        assert text in result.err


def test_what_is_chosen(record, tmp_path):
    (tmp_path / "labels.txt").write_text("the\ncat\nsat\n€\n", encoding="utf-8")
    options = ("--module", "*.1", "--module", "nothing", "--layer", "0-1", "--tokens", "labels.txt", "--size", "4")
    (one,) = json.loads(record(PROGRAM, "--json", *options).out)["maps"]
    assert one["queries"] == ["the", "cat", "sat", "€"]


def test_heads_and_rollout(record, tmp_path):
    result = record(PROGRAM, "--show", "heads", "-o", "heads.json", "-o", "heads.png", "--width", "3.3in")
    assert result.status == 0
    assert "entr" in result.out
    document = json.loads((tmp_path / "heads.json").read_text())
    assert document["kinds"]
    assert document["source"]["passes"] == [0, 2]
    assert (tmp_path / "heads.png").is_file()
    (first, second) = json.loads(record(PROGRAM, "--show", "rollout", "--json").out)["maps"]
    assert np.shape(first["weights"]) == np.shape(second["weights"]) == (1, 4, 4)


def test_modules_and_folders_are_programs(mhaviz, tmp_path, monkeypatch):
    (tmp_path / "recorded_package").mkdir()
    (tmp_path / "recorded_package" / "__init__.py").touch()
    (tmp_path / "recorded_package" / "beside.py").write_text("VALUE = 3")
    (tmp_path / "recorded_package" / "__main__.py").write_text("from .beside import VALUE\n" + PROGRAM + "print(VALUE)")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    result = mhaviz("record", "-q", "-o", "a.npz", "-m", "recorded_package", "-m", "--help")
    assert (result.status, result.out, result.err) == (0, "printed ['-m', '--help']\n3\n", "")
    result = mhaviz("record", "-q", "-o", "b.npz", str(tmp_path), "x")
    assert (result.status, result.out) == (0, "printed ['x']\n")
    assert (tmp_path / "a.npz").is_file()
    assert (tmp_path / "b.npz").is_file()


@pytest.mark.parametrize(
    ("end", "status", "how", "said"),
    [
        ("sys.exit(3)", 3, "exit status 3", ""),
        ("sys.exit('bye')", 1, "exit status 1", "bye"),
        ("F.softmax(torch.ones(2), dim=7)", 1, "IndexError", "Dimension out of range"),
        ("raise KeyboardInterrupt", 130, "Ctrl-C", "KeyboardInterrupt"),
        ("os.kill(os.getpid(), 15); import time; time.sleep(60)", 143, "SIGTERM", ""),
    ],
)
def test_what_was_recorded_is_saved_however_a_program_ends(record, tmp_path, end, status, how, said):
    result = record(PROGRAM + end, "-o", "run.safetensors")
    assert result.status == status
    assert f"mhaviz: the program ended with {how}; saved what was recorded until then\n" in result.err
    assert (tmp_path / "run.safetensors").is_file()
    assert said in result.err
    assert ("Traceback" in result.err) == (how in ("IndexError", "Ctrl-C"))
    assert f"{os.sep}mhaviz{os.sep}recording" not in result.err
    assert f"torch{os.sep}overrides.py" not in result.err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("import torch\ntorch.ones(2) + 1", 1, ["and no attention"]),
        ("import torch, sys\ntorch.ones(2)\nsys.exit(4)", 4, ["and no attention"]),
        ("import sys\nsys.exit('bye')", 1, ["bye"]),
        ("1 / 0", 1, ["Traceback", "ZeroDivisionError"]),
        ("x = (", 1, ["program.py", "SyntaxError"]),
    ],
)
def test_a_program_without_attention(record, tmp_path, code, status, said):
    result = record(code, "-o", "run.json")
    assert result.status == status
    for text in said:
        assert text in result.err
    assert ("mhaviz: saw" in result.err) == ("attention" in said[0])
    assert "Traceback" not in result.err or said[0] == "Traceback"
    assert not (tmp_path / "run.json").exists()


def test_all_that_looks_like_attention_is_said_where_nothing_is_drawn(record):
    code = "import torch\nq = torch.randn(2, 5, 4)\n" + "".join(
        f"def {name}():\n    return torch.{name}(q @ q.mT) @ q\n{name}()\n" for name in ("sigmoid", "exp2", "relu")
    )
    result = record(code)
    assert result.status == 1
    for name in ("sigmoid", "exp2", "relu"):
        assert f"multiplied by {name} and no softmax, which looks like attention and is not drawn" in result.err


def test_paths_are_those_of_the_folder_in_which_the_program_began(record, tmp_path):
    (tmp_path / "other").mkdir()
    result = record(PROGRAM + "os.chdir('other')", "-o", "run.json")
    assert result.err.endswith("mhaviz: saved run.json\n")
    assert (tmp_path / "run.json").is_file()
    assert record(PROGRAM + "os.mkdir('x'); os.chdir('x'); os.rmdir('../x')", "-q", "-o", "run.csv").status == 0
    assert (tmp_path / "run.csv").is_file()


def test_what_is_saved_elsewhere_outlives_the_folder(mhaviz, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    (tmp_path / "run.py").write_text(PROGRAM + "import os; os.rmdir(os.getcwd())")
    monkeypatch.chdir(tmp_path / "gone")
    assert mhaviz("record", "-q", "-o", str(tmp_path / "run.csv"), str(tmp_path / "run.py")).status == 0
    assert (tmp_path / "run.csv").exists()


def test_a_program_may_close_and_replace_its_streams(record, tmp_path):
    code = PROGRAM + "import io; sys.stdout = io.StringIO(); print('lost'); del sys.argv[:], sys.path[:]"
    result = record(code, "-o", "run.json")
    assert result.status == 0
    assert "lost" not in result.out
    assert "L0 H2" in result.out


def test_heads_are_averaged_over_examples_of_the_layers_that_are_wanted(record):
    result = record(PROGRAM, "--show", "heads", "--layer", "1")
    assert result.status == 0
    words = " ".join(result.out.split())
    assert "masked self-attention: 3 heads" in words
    assert "means over 6 examples, 24 tokens" in words
    assert "standard deviation between examples" in words
    assert "of 7 tokens in 4 examples that have an earlier copy" in words
    assert "sentence" not in words
    assert "cpu, passes 0 to 2" in words
    assert "kept" not in result.err, "statistics are of all examples"
    assert "first of" not in result.err
    missing = record(PROGRAM, "--show", "heads", "--layer", "5")
    assert missing.status == 2
    assert missing.err == "mhaviz: --layer: there is no layer 5; the recording has layers 0 to 1\n"
    beside = record(PROGRAM, "--show", "heads", "--module", "blocks.1", "--layer", "0")
    assert beside.err == "mhaviz: --layer: there is no layer 0; the recording has layer 1 only\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--module", "encoder.*"), "--module: expected a pattern of these names, got encoder.*"),
        (("--passes", "7-"), "--passes: expected some of 0 to 2"),
        (("--examples", "2"), "--examples: expected some of 0 to 1"),
    ],
)
def test_a_choice_that_fits_nothing_is_named(record, options, why):
    result = record(PROGRAM, *options)
    assert result.status == 1
    assert result.err.endswith(f" 2 attentions (blocks.0, blocks.1), and none that was asked for: {why}\n")


def test_an_output_that_is_the_programs_is_pointed_out(record):
    result = record(PROGRAM, words=("-o", "run.html"))
    assert "mhaviz: -o run.html comes after the program and goes to it; put options of mhaviz before it" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "run.xyz"), "cannot tell the format of run.xyz"),
        (("--show", "heads", "-o", "run.npz"), "cannot tell the format of run.npz"),
        (
            ("--show", "heads", "--passes", "0-", "--columns", "3"),
            "--show heads averages over all passes and examples, and draws no maps; leave out --passes, --columns",
        ),
        (
            ("--show", "rollout", "--pool", "max"),
            "a rollout needs single tokens, and --pool joins them to cells",
        ),
        (("--show", "rollout", "--head", "0"), "a rollout goes through all modules and all heads; leave out --head"),
        (
            ("--layer", "3-1"),
            "--layer: expected layers such as 0, 3-5 (the smaller first, at most 9,999) or all, got '3-1'",
        ),
        (
            ("--examples", "x"),
            "--examples: expected examples such as 0, 3-5 (the smaller first, at most 9,999) or all, got 'x'",
        ),
        (("--passes", "x"), "--passes: expected numbers"),
        (("--size", "0"), "--size: expected at least 1 cell, got 0"),
        (("--grid", "14"), "--grid: expected rows and columns"),
        (("--width", "x"), "--width: expected a length"),
        (("--output", "labels.html", "--tokens", "labels.html"), "labels.html is read"),
    ],
)
def test_options_are_checked_before_the_program_runs(record, tmp_path, options, message):
    (tmp_path / "labels.html").touch()
    result = record("open('has_run', 'w')", *options)
    assert result.status == 2
    assert result.err.startswith(f"mhaviz: {message}")
    assert result.err.count("\n") == 1
    assert not (tmp_path / "has_run").exists()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "Missing argument 'SCRIPT|MODULE'; see mhaviz record --help"),
        (("progam.py",), 1, "there is no script progam.py"),
        (("-m", "progam"), 1, "No module named progam"),
        (("-m", "program.x"), 1, "Error while finding module specification for 'program.x'"),
        (("folder",), 1, "expected a script, or a folder with a __main__.py; folder is a folder without"),
        (("--tokens", "none.txt", "program.py"), 1, "cannot read none.txt: No such file or directory"),
        (("-o", "none/run.json", "program.py"), 1, "cannot write none/run.json"),
    ],
)
def test_what_cannot_be_run(mhaviz, tmp_path, monkeypatch, words, status, message):
    (tmp_path / "program.py").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    result = mhaviz("record", *words)
    sys.modules.pop("program", None)
    assert (result.status, result.out) == (status, "")
    assert result.err.startswith(f"mhaviz: {message}")
    assert result.err.count("\n") == 1


def test_a_layer_that_is_not_there(record):
    result = record(PROGRAM + "sys.exit(5)", "--layer", "9")
    assert result.status == 5
    assert "mhaviz: --layer: there is no layer 9; the recording has layers 0 to 1\n" in result.err


@pytest.mark.slow
def test_a_program_under_the_installed_command(tmp_path):
    """Workers, forks, settings, functions at exit and a signal, in one run."""
    (tmp_path / "whole.py").write_text(WHOLE)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MPL", "MATPLOTLIB"))}
    command = [sys.executable, "-m", "mhaviz", "record", "--json", "-o", "run.json", "whole.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=100
    )
    assert done.returncode == 143, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "run.json").read_text())
    lines = done.stderr.splitlines()
    assert lines.count("at exit") == 2
    assert "set None None (700, 10, 10)" in lines
    assert "fork ['__main__ 0', '__main__ 1']" in lines
    assert "spawn ['__mp_main__ 0', '__mp_main__ 1']" in lines
    assert "forked 7 False" in lines
    assert "from a process" in lines
    assert "mhaviz: the program ended with SIGTERM; saved what was recorded until then" in lines
    assert "mhaviz: saved run.json" in lines
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "end",
    [
        "os.close(2)",
        "os.closerange(0, 3)",
        "os.close(2); taken = open('taken', 'w')",
        "os.closerange(3, 200); print('after'); sys.stdout.write('unfinished'); sys.stdout = None",
        "os.closerange(0, 200); taken = open('taken', 'w')",
    ],
)
def test_results_are_there_whatever_a_program_closes(tmp_path, end):
    (tmp_path / "program.py").write_text(f"{PROGRAM}\n{end}\n")
    command = ["record", "--json", "-o", "run.json", "program.py"]
    ((status, out, err),) = run_forked(COMMAND_LINE, *command, folder=tmp_path)
    assert status == 0, err
    assert json.loads(out) == json.loads((tmp_path / "run.json").read_text())
    assert err.endswith("mhaviz: saved run.json\n")
    assert not (tmp_path / "taken").exists() or not (tmp_path / "taken").read_text()


@pytest.mark.parametrize(("first", "shows"), [(3, ()), (3, ["--json"]), (1, ["--json"])])
def test_nothing_is_written_into_a_file_that_a_program_opens_in_place_of_what_it_closed(tmp_path, first, shows):
    """It closes all descriptors that there may be, as daemons do. JSON goes to standard output or nowhere."""
    last = "os.sysconf('SC_OPEN_MAX')"
    taken = f"os.closerange({first}, {last}); taken = [open(f'taken {{i}}', 'w') for i in range(9)]"
    (tmp_path / "program.py").write_text(f"{PROGRAM}\n{taken}\n")
    command = ["record", *shows, "-o", "run.json", "program.py"]
    ((status, out, err),) = run_forked(COMMAND_LINE, *command, folder=tmp_path)
    has_stdout = first == 3 and not shows
    assert (status, "L0 H2" in out) == (0 if has_stdout else 1, has_stdout), err
    assert "printed" in (err if shows else out)
    assert "{" not in out + err
    if first == 3:
        (line,) = [line for line in err.splitlines() if line.startswith("mhaviz: cannot")] if shows else [""]
        assert not line or line.endswith("the program has closed standard output, and each copy of it; save it with -o")
    assert (tmp_path / "run.json").exists()
    assert [(tmp_path / f"taken {i}").read_text() for i in range(9)] == [""] * 9


def test_an_environment_that_contradicts_itself_is_found_before_the_program_runs(mhaviz, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "2")
    script, ran = tmp_path / "script.py", tmp_path / "ran"
    script.write_text(f"open({str(ran)!r}, 'w')")
    result = mhaviz("record", "-o", str(tmp_path / "x.png"), str(script))
    assert (result.status, ran.exists()) == (1, False)
    assert "RANK, WORLD_SIZE and LOCAL_RANK are not as torchrun sets them" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--as lines", "lines: expected at most 8 heads"),
        ("--as answer --query 2", "--query: expected at least 4 positions"),
        ("--query zebra", "--query: expected a token"),
    ],
)
def test_a_recording_is_saved_before_what_is_made_of_it_fails(record, options, message, tmp_path):
    wide = PROGRAM.replace("9, 24", "9, 36").replace("(3, 8)", "(9, 4)")
    result = record(wide, *options.split(), "-o", "maps.npz", "-o", "lines.png")
    assert result.status == 2
    assert message in result.err
    assert "maps.npz is saved" in result.err
    assert "--by word" not in result.err  # which would not help
    assert np.load(tmp_path / "maps.npz").files
    assert not (tmp_path / "lines.png").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--as lines --vmax 0.5", "--vmax is for maps; leave it out, or add --as map"),
        ("--query 2 --vmax 0.5", "--vmax is for maps; leave it out, or add --as map"),
        ("--show rollout --as lines", "a rollout goes through all heads, and --as lines is of single heads"),
    ],
)
def test_looks_that_a_form_lacks_are_refused_before_the_program_runs(record, options, message):
    result = record("print('ran')", *options.split(), "-o", "maps.npz")
    assert result.status == 2
    assert message in result.err
    assert "ran" not in result.out


def test_lines_of_few_heads_of_each_text_are_drawn(record):
    code = """import torch
torch.manual_seed(0)
for length in (5, 6):
    torch.nn.MultiheadAttention(10, 5)(*[torch.randn(length, 1, 10)] * 3)
"""
    result = record(code, "--as", "lines", "--head", "0-4", "--layer", "0,1", "--json")
    assert result.status == 0, result.err
    assert [len(text["queries"]) for text in json.loads(result.out)["lines"]] == [5, 6]


DIVERGES = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.factor = nn.Linear(16, 48), torch.ones(4, 1, 1)
    def forward(self, x):
        q, k, v = (y.unflatten(-1, (4, 4)).transpose(1, 2) for y in self.project(x).chunk(3, dim=-1))
        return nn.functional.scaled_dot_product_attention(q * self.factor, k, v).transpose(1, 2).flatten(2)

torch.manual_seed(0)
model = nn.Sequential(Attention(), Attention())
for step in range(21):
    if step > 8:
        model[1].factor[3] *= 4
    model(torch.randn(2, 6, 16))
print("printed")
"""


def test_when_a_head_collapses_is_answered_by_one_command(record, tmp_path):
    result = record(DIVERGES, "--watch", "2", "-o", "h.png", "-o", "h.csv")
    assert result.status == 0
    assert "printed" in result.out
    said = next(line for line in result.err.splitlines() if "collapsed" in line)
    when = int(said.split("since pass ")[1].split(":")[0])
    assert said.startswith(f"mhaviz: pass {when + 2}: L1 H3 has collapsed since pass {when}: entropy ")
    assert f"L1 H3 collapses at pass {when}: entropy" in " ".join(result.out.split())
    assert (tmp_path / "h.png").stat().st_size > 10_000
    lines = (tmp_path / "h.csv").read_text().splitlines()
    assert len(lines) == 1 + 11 * 2 * 4
    assert [line for line in lines[1:] if "entropy" in line and line.startswith(f"{when},")]
    document = json.loads(record(DIVERGES, "--watch", "2", "--json").out)
    assert next((one["sign"], one["layer"], one["head"]) for one in document["collapses"])[1:] == (1, 3)
    assert document["passes"] == 21


def test_a_watched_program_that_ends_early_or_has_no_attention(record, tmp_path):
    result = record(DIVERGES.replace('print("printed")', "raise SystemExit(3)"), "--watch", "5", "-o", "h.json")
    assert result.status == 3
    assert "the program ended with exit status 3; saved what was recorded until then" in result.err
    assert json.loads((tmp_path / "h.json").read_text())["every"] == 5
    result = record("print('nothing')", "--watch", "5")
    assert result.status == 1
    assert "mhaviz: no module was called, so that there was no pass to watch" in result.err
    result = record(DIVERGES, "--watch", "10", "--module", "nope")
    assert result.status == 1
    assert "and none that was asked for: --module: expected a pattern of these names, got nope" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--watch", "0"], "--watch: Input should be greater than or equal to 1"),
        (["--watch", "many"], "--watch: "),
        (["--watch", "5", "--passes", "0,3"], "--watch keeps numbers of each head, and no maps; leave out --passes"),
        (["--watch", "5", "--query", "2"], "leave out --query"),
        (["--watch", "5", "--image", "-"], "leave out --image"),
        (["--watch", "5", "--vmax", "1"], "leave out --vmax"),
        (["--watch", "5", "--show", "heads"], "leave out --show"),
        (["--watch", "5", "--mean", "heads", "--by", "word"], "leave out --by, --mean"),
        (["--watch", "5", "-o", "h.html"], "expected a name ending in .png, .svg, .pdf, .json, .csv"),
    ],
)
def test_what_does_not_go_with_a_watch_is_refused_before_the_program_runs(record, options, message):
    result = record("print('ran')", *options)
    assert result.status == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert "ran" not in result.out


def test_a_terminal_is_told_now_and_then_how_the_heads_are(record, monkeypatch):
    from mhaviz.cli.commands import record as command

    monkeypatch.setattr(command, "_BETWEEN_LINES", 0.0)
    assert "least entropy" not in record(DIVERGES, "--watch", "10", "--quiet").err
    monkeypatch.setattr(command.sys, "stderr", Terminal())
    record(DIVERGES, "--watch", "10")
    told = [line for line in command.sys.stderr.getvalue().splitlines() if "least entropy" in line]
    assert [line.split(":")[1] for line in told] == [" pass 0", " pass 10", " pass 20"]
    assert told[0].endswith(", heads that have collapsed 0")


class Terminal(io.StringIO):
    def isatty(self):
        return True
