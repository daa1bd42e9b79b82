"""Programs run as Python runs them: what they see and print, how they end, and what is put back."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile

import pytest

from mhaviz.errors import MhavizError
from mhaviz.observe.program import Program

pytestmark = pytest.mark.usefixtures("default_signals")

DRIVER = """import sys
from mhaviz.observe.program import Program
kind, name, *arguments = sys.argv[1:]
before = sys.argv, list(sys.path), sys.modules["__main__"]
ending = Program(name, arguments, kind == "module").run()
assert (sys.argv, sys.path, sys.modules["__main__"]) == before
sys.exit(ending.status)
"""

SEES = """import os, pickle, sys
class Thing: pass
main = sys.modules["__main__"]
assert main.__dict__ is globals() and type(pickle.loads(pickle.dumps(Thing()))) is Thing
for name in sorted(globals()):
    if name.startswith("__"):
        value = globals()[name]
        print(name, type(value).__name__ if name == "__loader__" else getattr(value, "name", value))
print(sys.argv, sys.path, os.getcwd(), __name__ == "__main__", sys.stdin.read())
"""

WORKERS = """import multiprocessing, os, sys
class Thing:
    def __init__(self, number): self.number = number
def work(thing):
    return thing.number + 1
if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(work, [Thing(1), Thing(2)]), flush=True)
    worker = multiprocessing.get_context("fork").Process(target=sys.exit, args=(4,))
    worker.start(); worker.join(); print(worker.exitcode)
    worker = multiprocessing.get_context("fork").Process(target=__import__("time").sleep, args=(60,))
    worker.start(); worker.terminate(); worker.join(); print(worker.exitcode, flush=True)
"""

ENDS = """import atexit, os, sys, threading, warnings
from concurrent.futures import ThreadPoolExecutor
atexit.register(print, "at exit", sys.argv)
warnings.warn("old", DeprecationWarning)
main_is_done = threading.Event()
threading.Thread(target=lambda: (main_is_done.wait(), print("thread"))).start()
ThreadPoolExecutor().submit(print, "executor", flush=True).result()
if (child := os.fork()) == 0:
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os.chdir("/")
main_is_done.set()
"""

ERRORS = {
    "chained": "def f(x):\n    try: 1 / x\n    except ZeroDivisionError as e: raise ValueError('é') from e\nf(0)",
    "context": "try: {}[1]\nexcept KeyError: int('x')",
    "group": "raise ExceptionGroup('all', [ValueError(1), TypeError(2)])",
    "imported": "import broken_module",
    "hook": "import sys\nsys.excepthook = lambda *error: print('hook', error[0].__name__)\n1 / 0",
    "broken hook": "import sys\ndef hook(*error): {}[0]\nsys.excepthook = hook\n1 / 0",
    "name": "nothing_here",
    "library": "import json\njson.loads('{')",
    "not an Exception": "raise GeneratorExit('done')",
}
EXITS = ["", "None", "0", "3", "-1", "True", "256 + 7", "'bye é'", "('a', 1)", "2.5"]


def run(words, folder, stdin=""):
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, input=stdin, encoding="utf-8", timeout=60
    )
    frames = re.compile(r'  File "<frozen runpy>", line \d+, in \w+\n')
    return done.returncode, done.stdout, frames.sub("", done.stderr)


def assert_alike(folder, *words, stdin=""):
    """Python and Program print the same and end the same."""
    kind, name = ("module", words[1]) if words[0] == "-m" else ("script", words[0])
    rest = words[words.index(name) + 1 :]
    expected = run(words, folder, stdin)
    assert run(["-c", DRIVER, kind, name, *rest], folder, stdin) == expected
    return expected


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for name in ("package", "folder", "elsewhere"):
        (folder / name).mkdir()
    (folder / "package" / "__init__.py").write_text("print('package', __name__, __import__('sys').argv)")
    (folder / "package" / "__main__.py").write_text("from .beside import VALUE\nprint(VALUE)\n" + SEES)
    (folder / "package" / "beside.py").write_text("VALUE = 3\nif __name__ == '__main__': 1 / 0")
    for name in ("sees.py", "folder/__main__.py", "elsewhere/real.py"):
        (folder / name).write_text(SEES)
    (folder / "link.py").symlink_to("elsewhere/real.py")
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SEES)
    (folder / "workers.py").write_text(WORKERS)
    (folder / "ends.py").write_text(ENDS)
    (folder / "broken_module.py").write_text("x = (\n")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("sees.py", "--epochs", "1", "--", "-o", "x", ""),
        ("elsewhere/real.py",),
        ("link.py",),
        ("folder", "a"),
        ("archive.zip", "-m"),
        ("-m", "sees", "-m", "x"),
        ("-m", "package", "--help"),
        ("-m", "elsewhere.real"),
    ],
    ids=" ".join,
)
def test_a_program_sees_what_it_would_see(programs, words):
    status, out, err = assert_alike(programs, *words, stdin="typed")
    assert (status, err) == (0, "")
    assert "typed" in out


def test_compiled_scripts_run(programs):
    run(["-m", "compileall", "-b", "-q", "elsewhere"], programs)
    assert assert_alike(programs, "elsewhere/real.pyc")[0] == 0


@pytest.mark.slow
def test_workers_find_the_program(programs):
    status, out, _ = assert_alike(programs, "workers.py")
    assert status == 0
    assert out.splitlines() == ["spawn [2, 3]", "forkserver [2, 3]", "fork [2, 3]", "4", "-15"]
    assert assert_alike(programs, "-m", "workers")[1] == out


def test_a_program_ends_as_it_would(programs):
    status, out, err = assert_alike(programs, "ends.py", "x")
    assert status == 0
    assert "thread" in out
    assert "DeprecationWarning: old" in err


@pytest.mark.parametrize("code", ERRORS.values(), ids=ERRORS)
def test_an_error_is_the_programs_own(programs, code):
    (programs / "error.py").write_text(code)
    status, out, err = assert_alike(programs, "error.py")
    assert status == 1
    assert out or "Error" in err or "Exit" in err


def test_an_error_of_a_module_is_the_programs_own(programs):
    assert "ZeroDivisionError" in assert_alike(programs, "-m", "package.beside")[2]


def ending(tmp_path, code, *arguments):
    (tmp_path / "program.py").write_text(code)
    return Program(str(tmp_path / "program.py"), arguments).run()


@pytest.mark.parametrize("code", EXITS)
def test_exit_status(tmp_path, capfd, code):
    got = ending(tmp_path, f"import sys\nsys.exit({code})")
    printed = capfd.readouterr().err
    expected = run(["-c", f"import sys\nsys.exit({code})"], tmp_path)
    assert (got.status, "", printed) == expected
    assert got.said_why == bool(printed)
    assert (got.how is None) == (got.status == 0)


def test_what_ended_a_program(tmp_path, capfd):
    for code, status, how in (
        ("", 0, None),
        ("raise KeyError", 1, "KeyError"),
        ("raise KeyboardInterrupt", 130, "Ctrl-C"),
        ("import signal, time; signal.raise_signal(signal.SIGTERM); time.sleep(9)", 143, "SIGTERM"),
        ("import signal, time; signal.raise_signal(signal.SIGHUP); time.sleep(9)", 129, "SIGHUP"),
        ("import signal, time; signal.raise_signal(signal.SIGINT); time.sleep(9)", 130, "Ctrl-C"),
    ):
        got = ending(tmp_path, code)
        assert (got.status, got.how, got.is_fork) == (status, how, False)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert "mhaviz" not in capfd.readouterr().err


def test_a_program_may_handle_signals_itself(tmp_path, monkeypatch, capfd):
    code = "import signal; signal.signal(15, lambda *_: print('mine')); signal.raise_signal(15)"
    assert ending(tmp_path, code).how is None
    assert capfd.readouterr().out == "mine\n"


def test_a_program_goes_on_after_signals_that_are_ignored(tmp_path):
    """As under nohup, and in the background of a shell script."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
        got = ending(tmp_path, f"import signal, sys; signal.raise_signal({number:d}); sys.exit(3)")
        assert (got.status, signal.getsignal(number)) == (3, signal.SIG_IGN)


def test_what_was_replaced_is_put_back(tmp_path, monkeypatch):
    before = sys.argv, sys.path, list(sys.path), sys.modules["__main__"], sys.stdin, sys.stdout, sys.stderr
    code = (
        "import sys; sys.argv = sys.path = None; sys.stdout = sys.stderr = sys.stdin = None; del sys.modules[__name__]"
    )
    ending(tmp_path, code)
    ending(tmp_path, "import sys; sys.path.insert(0, 'x'); sys.argv.append('y'); 1 / 0")
    after = sys.argv, sys.path, list(sys.path), sys.modules["__main__"], sys.stdin, sys.stdout, sys.stderr
    assert after == before


def test_functions_of_a_program_outlive_it(tmp_path):
    kept = []
    sys.kept = kept
    try:
        ending(tmp_path, "import sys\nVALUE = 3\nsys.kept.append(lambda: VALUE)")
    finally:
        del sys.kept
    assert kept[0]() == 3


def test_threads_of_others_are_not_waited_for(tmp_path):
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    began = time.monotonic()
    ending(tmp_path, "")
    assert time.monotonic() - began < 5
    stop.set()
    other.join()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trian.py",), r"there is no script trian.py"),
        (("empty_folder",), r"expected a script, or a folder with a __main__.py; empty_folder is a folder without"),
        (("",), "there is no script"),
        (("nul\0.py",), "there is no script"),
        (("x" * 5000,), "there is no script"),
        (("-m", "trian"), "No module named trian"),
        (("-m", "train.py"), r"Error while .*Try using 'train' instead of 'train.py' as the module name"),
        (("-m", "nothing.at.all"), "Error while .*No module named 'nothing'"),
        (("-m", "train.x"), "Error while .*'train' is not a package|Error while .* 'train.x'"),
        (
            ("-m", "lone_package"),
            "No module named lone_package.__main__; 'lone_package' is a package and cannot be directly executed",
        ),
        (("-m", "lone_package.x.y"), "Error while .*No module named 'lone_package.x'"),
        (("-m", "empty_folder"), "No module named empty_folder.__main__; 'empty_folder' is a package"),
        (("-m", "math"), "No code object available for math"),
        (("-m", ".relative"), "Relative module names not supported"),
        (("-m", ""), "No module named|Error while finding module specification for ''"),
        (("-m", "__main__"), "Error while finding module specification for '__main__'"),
    ],
    ids=repr,
)
def test_what_is_no_program(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "empty_folder").mkdir()
    (tmp_path / "lone_package").mkdir()
    (tmp_path / "lone_package" / "__init__.py").touch()
    argv, path, main = sys.argv, list(sys.path), sys.modules["__main__"]
    with pytest.raises(MhavizError, match=f"^{message}"):
        Program(words[-1], (), words[0] == "-m").run()
    assert (sys.argv, sys.path, sys.modules["__main__"]) == (argv, path, main)
    for name in ("train", "lone_package", "empty_folder"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("content", [b"x = (\n", b"\xff = 1", b"a\0b", b"# coding: nothing\n"])
def test_what_cannot_be_parsed(tmp_path, content):
    (tmp_path / "wrong.py").write_bytes(content)
    with pytest.raises(SyntaxError):
        Program(str(tmp_path / "wrong.py"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read(tmp_path):
    (tmp_path / "secret.py").touch(mode=0)
    with pytest.raises(MhavizError, match=r"cannot read .*Permission denied"):
        Program(str(tmp_path / "secret.py"))
