"""The command line: parse, call, show. Exit codes live in ``app`` and nowhere else."""

from mhaviz.cli.app import main, run

__all__ = ["main", "run"]
