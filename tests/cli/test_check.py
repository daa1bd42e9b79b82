"""mhaviz check as a user types it, with layers of a few lines: what they are, and what goes wrong in their programs."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from mhaviz.api import checking
from mhaviz.api.checked_file import check_file
from mhaviz.checks.registry import codes
from mhaviz.cli.shared import child
from mhaviz.cli.shared.parsing import parse_arguments
from mhaviz.errors import MhavizError
from mhaviz.results.check import Check, Contrast, Finding, Line, Unprobed
from mhaviz.results.result import Source

MODEL = """import torch
from torch import nn
from dataclasses import dataclass

@dataclass
class Sizes:
    dim: int
    heads: int = 2

class MyAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True):
        super().__init__()
        self.Wq, self.n_heads, self.bias = nn.Linear(d_model, d_model), n_heads, bias
    def forward(self, x):
        return self.Wq(x)

class Configured(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.Wq = nn.Linear(config.n_embd, config.n_embd)
        self.n_heads, self.dropout = config.n_head, config.dropout
    def forward(self, x):
        return self.Wq(x)

class Dated(Configured):
    def __init__(self, args: "Sizes"):
        nn.Module.__init__(self)
        self.Wq, self.heads = nn.Linear(args.dim, args.dim), args.heads

class OnCuda(MyAttention):
    def forward(self, x):
        raise RuntimeError("Found no NVIDIA driver on your system")

class Slot: pass

def attend(q, k, v, mask=None, scale=1.0):
    return q

def on_heads(q, k, v, n_heads):
    return q

def make(d_model, kind="self"):
    return MyAttention(d_model, 2)

layer = MyAttention(8, 2)
stack = nn.Sequential(nn.Identity(), MyAttention(6, 3))
number = 3
"""


ONE = "model.py:MyAttention"


def finding(code="scale", severity="error", **more):
    return Finding(code, severity, "tried", "found", "a mistake", "a remedy", **more)


class Calls(list):
    """What the probes are called with, and what they find."""

    found = ()

    def check(self, attend, **options):
        options.pop("on_progress")("causal")
        self.append(options | {"attend": attend})
        if isinstance(attend, torch.nn.Module):
            attend(torch.ones(1, 2, options["d_model"] or 8))
        return Check(Source("of a test", {"kind": "test"}), self.found, ("causal",))


@pytest.fixture
def calls(monkeypatch):
    made = Calls()
    monkeypatch.setattr(checking, "check", made.check)
    return made


@pytest.fixture
def check(mhaviz, calls, tmp_path, monkeypatch):
    """Check with the user's code in this process, which has PyTorch already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    (tmp_path / "model.py").write_text(MODEL)

    def here(job, kind, on_progress, on_notice):
        return check_file(**job.arguments, on_progress=on_progress, on_notice=on_notice)

    monkeypatch.setattr(child, "run_in_child", here)
    states = random.getstate(), np.random.get_state()
    yield lambda *words: mhaviz("check", *words)
    random.setstate(states[0])
    np.random.set_state(states[1])
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("words", "kind", "d_model", "n_heads"),
    [
        (f"{ONE} --with d_model=16,n_heads=4", "MyAttention", 16, 4),
        (f"{ONE} --with d_model=16 --with n_heads=4,bias=False", "MyAttention", 16, 4),
        (f"{ONE} --d-model 16 --n-heads 4", "MyAttention", 16, 4),
        ("model.py:layer", "MyAttention", None, None),
        ("./model.py:layer --d-model 8", "MyAttention", 8, None),
        ("model:layer", "MyAttention", None, None),
        ("model.py:stack.1 --d-model 6", "MyAttention", 6, None),
        ("model.py:attend", "function", None, None),
        ("model.py:attend --with scale=2.0 --n-heads 2", "partial", None, 2),
        ("model.py:on_heads --n-heads 2", "partial", None, 2),
        ("model.py:make --with d_model=8", "MyAttention", 8, None),
        ("model.py:Configured --with n_embd=16,n_head=4,dropout=0.1", "Configured", 16, 4),
        ("model.py:Configured --with dropout=0.1,n_head=4 --d-model 16", "Configured", 16, 4),
        ("model.py:Dated --with dim=16", "Dated", 16, 2),
        ("torch.nn:MultiheadAttention --with embed_dim=16,num_heads=4", "MultiheadAttention", 16, 4),
    ],
)
def test_a_layer_is_built_as_its_program_would(check, calls, monkeypatch, words, kind, d_model, n_heads):
    if kind == "MultiheadAttention":
        monkeypatch.setattr(torch.nn.MultiheadAttention, "__call__", lambda layer, x: x)
    result = check(*words.split(), "--seed", "3", "--ignore", "scale")
    assert result.status == 0, result.err
    (call,) = calls
    assert type(call["attend"]).__name__ == kind
    assert (call["d_model"], call["n_heads"], call["seed"], call["ignore"]) == (d_model, n_heads, 3, ["scale"])
    assert 50 < call["time_limit"] <= 60
    assert "bias=False" not in words or call["attend"].bias is False


def test_the_same_seed_builds_the_same_layer(check, calls):
    for seed in "112":
        check(ONE, "--with", "d_model=4,n_heads=2", "--seed", seed)
    first, again, other = (call["attend"].Wq.weight for call in calls)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_what_is_run_is_said(check):
    result = check("model.py:Configured", "--with", "n_embd=16,n_head=4,dropout=0.1")
    assert result.err.splitlines() == [
        "mhaviz: importing model.py, which runs its code",
        "mhaviz: Configured(config): config is a SimpleNamespace with n_embd=16, n_head=4, dropout=0.1",
    ]
    assert "args is Sizes(dim=16, heads=2)" in check("model.py:Dated", "--with", "dim=16").err
    assert check("model.py:layer", "-q").err == ""


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("", 2, "expected a layer, as FILE.py:NAME, or a model of transformers, as --model FOLDER, got none"),
        ("none.py:X", 1, "there is no file none.py; give FILE.py:NAME, or MODULE:NAME"),
        (".:X", 2, "expected FILE.py:NAME or MODULE:NAME, got the folder ."),
        ("a-b:X", 1, "there is no file a-b;"),
        (":X", 2, "expected FILE.py:NAME or MODULE:NAME, got ':X'"),
        ("no_such.module:X", 1, "No module named 'no_such'); give FILE.py:NAME, or a module that is installed or lies"),
        ("torch.nothing:X", 1, "cannot import torch.nothing (ModuleNotFoundError"),
        ("model.py", 2, "expected a name after model.py, as model.py:NAME; it has MyAttention, attend, Configured"),
        ("model.py:MyAtention", 2, "there is no MyAtention in model.py; it has MyAttention, attend, Configured"),
        ("model.py:layer.Wk", 2, "model.py: layer, MyAttention, has no Wk; give the name of a layer in it"),
        ("model.py:number", 2, "expected a class, a function or an instance of a layer, got int; it has MyAtt"),
        ("model.py:torch", 2, "expected a class, a function or an instance of a layer, got a module torch"),
        ("model.py:Slot", 2, "expected Slot to be an attention, or to make one, got Slot from it, which cannot be c"),
        (ONE, 2, "MyAttention needs d_model and n_heads; give --with d_model=…,n_heads=…"),
        (f"{ONE} --d-model 4", 2, "MyAttention needs n_heads; give --with n_heads=…"),
        (f"{ONE} --with d_model=4,heads=2", 2, "MyAttention has no argument heads; it takes d_model, n_heads, bias"),
        ("model.py:layer --with d_model=4,x=1", 2, "an instance, and takes no arguments; leave out --with; give --d-m"),
        ("model.py:attend --with d_model=4", 2, "attend has no argument d_model; it takes q, k, v, mask, scale; give"),
        ("model.py:on_heads", 2, "on_heads needs n_heads; give --with n_heads=…"),
        ("model.py:make", 2, "make needs d_model; give --with d_model=…"),
        ("model.py:Configured", 2, "Configured needs config; give --with n_embd=…,n_head=…,dropout=…"),
        ("model.py:Configured --with n_embd=4", 1, "no attribute 'n_head'); give --with n_head=…,dropout=…"),
        ("model.py:Dated --with n_embd=4", 2, "Sizes has no argument n_embd; it takes dim, heads"),
        ("model.py:OnCuda --with d_model=4,n_heads=2", 1, "needs CUDA, and is checked on the CPU: expected tensors on"),
        (f"{ONE} --with d_model", 2, "--with: expected arguments such as d_model=64,n_heads=4,bias=False, each of th"),
        (f"{ONE} --with d_model=4,d_model=5", 2, "--with: expected arguments such as"),
        (f"{ONE} --with d_model=4 --with d_model=5", 2, "--with: expected each argument once, got d_model twice"),
        (f"{ONE} --ignore scales", 2, "there is no code 'scales'; did you mean scale?"),
        (f"{ONE} --time-limit 0", 2, "--time-limit: expected seconds above 0, got 0.0"),
        (f"{ONE} --time-limit inf", 2, "--time-limit: expected seconds above 0, got inf"),
        (
            f"{ONE} -o x.csv",
            2,
            "cannot tell the format of x.csv: expected a name ending in .png, .svg, .pdf, .json, .sarif",
        ),
        ("--explain scales", 2, "there is no code 'scales'; did you mean scale?"),
        (f"{ONE} --explain scale", 2, "--explain explains a code, and checks nothing; leave out model.py:MyAttention"),
        ("--explain scale -o x.png", 2, "--explain explains a code, and checks nothing; leave out -o"),
    ],
)
def test_what_cannot_be_checked(check, calls, words, status, message):
    result = check(*words.split())
    assert (result.status, result.out) == (status, "")
    assert message in result.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ny = foo\n", "cannot import bad.py (NameError in bad.py:2: name 'foo' is not defined); mend it first"),
        ("def f(:\n", "cannot import bad.py (SyntaxError in bad.py:1: "),
        ("x = '\0'", "cannot import bad.py (SyntaxError"),
        ("import flash_attn_9", "'flash_attn_9'); install flash_attn_9 beside mhaviz, for "),
        ("from .beside import x", "it is part of a package: give "),
        ("import torch\ntorch.ones(1, device='cuda')", "it needs CUDA, and is checked on the CPU"),
        ("import sys\nsys.exit(3)", "bad.py: the program ended the process with status 3 in bad.py:2; expected it to"),
        ("raise SystemExit('bye')", "ended the process with status 1 in bad.py:1, saying 'bye'; expected it to return"),
        ("raise SystemExit", "ended the process with status 0 in bad.py:1"),
        ("raise KeyboardInterrupt", "cannot import bad.py (KeyboardInterrupt in bad.py:1: raise KeyboardInterrupt)"),
        ("raise MemoryError", "cannot import bad.py (out of memory in bad.py:1); give smaller sizes by --with"),
        ("x = 1", "there is no X in bad.py; it has no class of torch.nn.Module, no instance of such, and no function"),
        ("def X(): return 3", "expected X to be an attention, or to make one, got int from it, which cannot be called"),
        ("class X:\n def __init__(self):\n  1 / 0", "cannot build X (ZeroDivisionError in bad.py:3: division by zero)"),
        (
            "class X:\n def __init__(self):\n  assert 1 == 2",
            "(AssertionError in bad.py:3: assert 1 == 2); mend it, or g",
        ),
        ("def __getattr__(name): raise OSError('gone')", "cannot find bad.py:X (OSError in bad.py:1: gone)"),
    ],
)
def test_a_program_that_fails(check, tmp_path, code, message):
    if "device='cuda'" in code and torch.cuda.device_count():
        pytest.skip("there is CUDA")
    (tmp_path / "bad.py").write_text(code)
    result = check("bad.py:X")
    assert result.status in (1, 2)
    assert message in result.err.splitlines()[-1]


def test_a_file_is_imported_anew_and_beside_its_own(check, tmp_path, calls):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "beside_it.py").write_text("def x_of(x): return x\n")
    (tmp_path / "folder" / "json.py").write_text("from beside_it import *\ndef attend(x): return x_of(x)\n")
    assert check("folder/json.py:attend").status == 0
    assert sys.modules["json"] is json
    (tmp_path / "folder" / "json.py").write_text("from beside_it import *\ndef ascend(x): return x_of(x)\n")
    assert check("folder/json.py").status == 0
    assert calls[-1]["attend"].__name__ == "ascend"
    assert not list((tmp_path / "folder" / "__pycache__").glob("json*"))


@pytest.mark.parametrize("place", ["linked/model.py", "../here/linked/model.py", "folder/model.py"])
def test_a_line_of_a_linked_file_has_the_path_that_was_given(check, tmp_path, calls, monkeypatch, place):
    """An absolute path would tell in a picture, and in SARIF, where the program lies on this machine."""
    (tmp_path / "here" / "folder").mkdir(parents=True)
    (tmp_path / "model.py").rename(tmp_path / "here" / "folder" / "model.py")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "model.py").write_text(MODEL)
    (tmp_path / "here" / "linked").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "here")
    calls.found = (finding(severity="notice", line=Line(str(Path(place).resolve()), 3)),)
    document = json.loads(check(f"{place}:layer", "--json").out)
    assert document["findings"][0]["line"]["file"] == place


def test_what_stands_below_main_does_not_run(check, tmp_path, calls):
    (tmp_path / "main.py").write_text("def attend(x): return x\nif __name__ == '__main__': raise SystemExit(3)\n")
    assert check("main.py:attend").status == 0


@pytest.mark.parametrize("words", [(), ("-q",), ("--json",), ("-o", "x.json")])
def test_errors_among_the_findings_are_the_exit_status(check, calls, tmp_path, words):
    calls.found = (finding(line=Line(str(tmp_path / "model.py"), 3)), finding("uniform-row", "notice"))
    result = check("model.py:layer", *words)
    assert result.status == 1
    assert result.err.splitlines()[-1] == (
        "mhaviz: model.py:layer: expected no errors, got scale; --explain scale says more, and --ignore leaves out "
        "what is on purpose"
    )
    if "--json" in words or "-o" in words:
        document = json.loads(result.out if "--json" in words else (tmp_path / "x.json").read_text())
        assert [one["code"] for one in document["findings"]] == ["scale", "uniform-row"]
        assert document["findings"][0]["line"]["file"] == "model.py"
        assert document["source"]["program"] == "model.py:layer"


def test_notices_are_no_errors(check, calls):
    calls.found = (finding("uniform-row", "notice"),)
    result = check(ONE, "--with", "d_model=4,n_heads=2", "--json")
    assert result.status == 0
    assert json.loads(result.out)["source"]["arguments"] == {"d_model": 4, "n_heads": 2}


def test_a_code_is_explained(check, calls):
    result = check("--explain", "scale")
    assert (result.status, result.err, calls) == (0, "", [])
    assert result.out.startswith("scale: ")
    assert codes()["scale"].explanation in result.out
    document = json.loads(check("--explain", "scale", "--json").out)
    assert (document["code"], document["explanation"]) == ("scale", codes()["scale"].explanation)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("a=1,b=0.5,c=True,d=None,e=true", {"a": 1, "b": 0.5, "c": True, "d": None, "e": True}),
        ("kind=rope, path=a/b.c", {"kind": "rope", "path": "a/b.c"}),
        ("x=[1,(2,3)],y='a,b',z=\"it's\"", {"x": [1, (2, 3)], "y": "a,b", "z": "it's"}),
        ("x={'a': ']'},y=", {"x": {"a": "]"}, "y": ""}),
    ],
)
def test_arguments(text, arguments):
    assert parse_arguments(text) == arguments


@pytest.mark.parametrize("text", ["", "a", "=1", "a=1,", "a=1,,b=2", "1=a", "a=1,a=2", "a=[1", "a='x"])
def test_no_arguments(text):
    with pytest.raises(ValueError):  # noqa: PT011  # the option says what is expected
        parse_arguments(text)


def test_a_result_comes_through_a_pipe_whole():
    weights = np.array([[[0.25, np.nan], [np.inf, -1]]], np.float32)
    drawn = Contrast("weight", weights, weights[:, :, ::-1], ("query", "key"), ("a", "\ud800"), ("[b]", "\x1b"))
    found = Check(
        Source("x", {"seed": np.int64(3), "sizes": [1, 2.5, None]}),
        (finding(line=Line("a.py", 3, "x = 'ü'"), contrast=drawn), finding("uniform-row", "notice")),
        ("causal",),
        (Unprobed("padding", "no mask"),),
        ("nan",),
    )
    same = child._result(child._answered(lambda: found, {}), Check)
    assert same[0].contrast.found.dtype == np.float32
    assert repr(same.to_dict()) == repr(found.to_dict())
    assert same.source == found.source
    with pytest.raises(MhavizError, match="gone"):
        child._result(child._answered(lambda: (_ for _ in ()).throw(MhavizError("gone")), {}), Check)


def test_a_line_of_a_program_is_found_whatever_its_name(tmp_path):
    folder = tmp_path / 'Zürich €𝄞 "a"'
    code = "import faulthandler\n\nfaulthandler.dump_traceback(stream)"
    with (tmp_path / child._WHERE).open("w") as stream:
        exec(compile(code, str(folder / "x.py"), "exec"), {"stream": stream})
    job = child.Job("", {}, "", folder, 1, ())
    assert child._place(tmp_path, job) == f" at {folder}/x.py:3"


PROCESS = """import atexit, os, signal, sys, threading, time
import torch
where = os.getcwd()
print("printed")
os.write(1, b"from C\\n")
os.system("echo from a process")
atexit.register(print, "at exit")

class Layer(torch.nn.Module):
    calls = 0
    def forward(self, x):
        Layer.calls += 1
        if Layer.calls == 1:
            {}
        return x
layer = Layer()
"""

ENDS = {
    "os._exit(3)": "layer: the program ended the process with status 3 while checking p.py:layer",
    "os._exit(0)": "layer: the program ended the process with status 0 while checking p.py:layer",
    "sys.exit(3)": "the program ended the process with status 3 in p.py:14; expected it to return",
    "os.kill(os.getpid(), signal.SIGSEGV)": "the process crashed by SIGSEGV while checking p.py:layer",
    "os.kill(os.getpid(), signal.SIGKILL)": "the process was killed by SIGKILL while checking p.py:layer",
    "os.kill(os.getpid(), signal.SIGTERM)": "the process was ended by SIGTERM while checking p.py:layer",
}
HARMLESS = """
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
            threading.Thread(target=time.sleep, args=(600,)).start()
            os.chdir("/"); sys.stdout.close(); os.close(1); input_is = os.read(0, 9); assert not input_is
            if os.fork() == 0: return x
"""
PARENT = """import sys, mhaviz.cli
status = mhaviz.cli.main(sys.argv[1:])
print(sorted({"torch", "matplotlib"} & set(sys.modules)), status, file=sys.stderr)
sys.exit(status)
"""


@pytest.fixture
def program(tmp_path, default_signals):
    """Check a layer whose call does this, as a user does, in processes."""

    def start(does, *options, code=PARENT):
        (tmp_path / "p.py").write_text(PROCESS.replace("{}", does))
        pipe, surroundings = subprocess.PIPE, os.environ | {"TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
        words = [sys.executable, "-c", code, "check", "p.py:layer", "--d-model", "8", *options]
        started.append(
            subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=surroundings, cwd=tmp_path)
        )
        return started[-1]

    started = []
    yield start
    for process in started:
        process.kill()
        process.communicate()
    assert [path.name for path in tmp_path.glob("mhaviz-*")] == []


def ended(process):
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_how_a_program_ends_is_said(program, end):
    status, out, err = ended(program(end, "--json"))
    assert (status, out, err[-1]) == (1, "", "[] 1")
    assert ENDS[end] in err[-2]
    assert err[0] == "mhaviz: importing p.py, which runs its code"
    assert {"printed", "from C", "from a process"} < set(err)


@pytest.mark.slow
@pytest.mark.parametrize("does", ["pass", HARMLESS])
def test_a_program_that_changes_its_process_changes_nothing_else(program, does):
    """This process gets the result, without PyTorch and matplotlib."""
    status, out, err = ended(program(does, "--json"))
    document = json.loads(out)
    has_errors = any(one["severity"] == "error" for one in document["findings"])
    assert (status, err[-1]) == (has_errors, f"[] {status}")
    assert document["source"]["program"] == "p.py:layer"
    assert document["probed"]


@pytest.mark.slow
@pytest.mark.parametrize("does", ["time.sleep(600)", "while True: pass"])
def test_a_program_that_takes_too_long_is_killed(program, tmp_path, does):
    begun = time.monotonic()
    (tmp_path / "pid").touch()
    writes = "open('pid', 'w').write(str(os.getpid())); signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    status, out, err = ended(
        program(f"os.system('sleep 600 &')\n            {writes}\n            {does}", "--time-limit", "1")
    )
    assert (status, out, err[-1]) == (1, "", "[] 1")
    expected = "mhaviz: p.py:layer: expected an end within 1 s, got none while checking p.py:layer"
    assert err[-2].startswith(expected)
    assert err[-2].endswith(" at p.py:16; raise --time-limit, or give smaller sizes")
    assert time.monotonic() - begun < 60
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_the_program_ends_with_mhaviz(program, tmp_path, number, status):
    process = program("open('pid', 'w').write(str(os.getpid()) + '\\n'); time.sleep(600)")
    deadline = time.monotonic() + 60
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert ended(process)[0] == status
    pid = int((tmp_path / "pid").read_text())
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if number == signal.SIGKILL:  # nobody can remove what a killed process has made
        for folder in tmp_path.glob("mhaviz-*"):
            folder.rename(tmp_path / "left")


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or " Z " not in state.read_text()  # a zombie waits for the first process of all
