"""Two processes as torchrun starts them, forked of one that has imported what would take each most of its time."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

FORKS = """
import os, sys
import mhaviz, mhaviz.cli, torch.distributed.tensor, transformers.generation.utils, transformers.modeling_utils
mhaviz.load  # with what reads models
code, said = sys.argv[1:3]
del sys.argv[1:3]
children = []
for rank in "01":
    child = os.fork()
    if child == 0:
        os.environ |= {"RANK": rank, "LOCAL_RANK": rank}
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{said}/{name}-{rank}", os.O_WRONLY | os.O_CREAT), stream)
        exec(code, {"__name__": "__main__"})
        sys.exit()
    children.append(child)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def run_two(code, *arguments, folder=None):
    """Run code in both, with these arguments and in this folder: (status, output, errors) of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as said:
        command = [sys.executable, "-c", FORKS, code, said, *map(str, arguments)]
        done = subprocess.run(
            command, cwd=folder, env=os.environ | shared, stdout=subprocess.PIPE, text=True, check=True, timeout=240
        )
        statuses = map(int, done.stdout.split())
        return [
            (status, *(Path(said, f"{name}-{rank}").read_text(encoding="utf-8") for name in ("out", "err")))
            for rank, status in enumerate(statuses)
        ]
