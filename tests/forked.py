"""Processes forked of one that has imported, once a session, what would take each most of its time."""

import atexit
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

FORKS = """
import gc, json, os, signal, sys
import mhaviz, mhaviz.cli, torch
sys.path.append(sys.argv[1])
for line in sys.stdin:
    first, code, said, folder, arguments, surroundings = json.loads(line)
    exec(first)
    gc.freeze()  # or each child, when it ends, looks through all that is imported, and has a copy of it made for that
    children = []
    for number, own in enumerate(surroundings):
        child = os.fork()
        if child == 0:
            signal.alarm(240)
            os.chdir(folder)
            os.environ |= own
            sys.argv[1:] = arguments
            for stream, name in enumerate([os.devnull, f"{said}/out-{number}", f"{said}/err-{number}"]):
                os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), stream)
            exec(code, {"__name__": "__main__"})
            sys.exit()
        children.append(child)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]), flush=True)
"""

READS_MODELS = """
import torch.distributed.tensor, transformers.generation.utils, transformers.modeling_utils
mhaviz.load
"""

COMMAND_LINE = "import sys, mhaviz.cli; sys.exit(mhaviz.cli.run())"


@functools.cache
def forking():
    command, pipe = [sys.executable, "-c", FORKS, Path(__file__).parent], subprocess.PIPE
    surroundings = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}  # freed memory goes back
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=surroundings)
    atexit.register(process.communicate)  # it ends when nothing more can come
    return process


def run_forked(code, *arguments, folder=None, surroundings=({},), first=""):
    """Run code with these arguments in a process for each of the surroundings: (status, output, errors) of each.

    ``first``: imports, which the process that forks does, once.
    """
    process = forking()
    with tempfile.TemporaryDirectory() as said:
        job = first, code, said, str(folder or Path.cwd()), list(map(str, arguments)), surroundings
        print(json.dumps(job), file=process.stdin, flush=True)
        statuses = json.loads(process.stdout.readline())
        return [
            (status, *(Path(said, f"{name}-{number}").read_text(encoding="utf-8") for name in ("out", "err")))
            for number, status in enumerate(statuses)
        ]


def run_two(code, *arguments, folder=None):
    """``run_forked`` as torchrun starts two processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [shared | {"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    return run_forked(code, *arguments, folder=folder, surroundings=ranks, first=READS_MODELS)
