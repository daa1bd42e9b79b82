"""Pairs of words from files: JSON Lines, a JSON list, or a table of text, query and key."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from mhaviz.errors import ArgumentError, counted, reason
from mhaviz.files.errors import name_of
from mhaviz.files.json_lines import objects_of, of_a_file
from mhaviz.files.texts import read_text
from mhaviz.inputs.pairs import EXAMPLE, FIELDS, WordPair, word_pairs

_TABLES = {".tsv": "\t", ".csv": ","}


def read_pairs(path: Path) -> list[WordPair]:
    """Read pairs of words from a file; "-" is standard input.

    A .tsv or .csv file has a text, a query and a key in each line, or has these names in its first line, in any order.
    In a .tsv file quotes have no meaning. Any other file is JSON: an object in each line, or a list of them.

    Raises:
        MhavizError: the file cannot be read, or has no pair; a line is no pair.
    """
    text, of = read_text(path), name_of(path)
    with of_a_file():
        delimiter = _TABLES.get(path.suffix.lower())
        if delimiter is not None:
            return word_pairs(_of_table(text, of, delimiter), of)
        expected = f"{EXAMPLE}, or a .tsv or .csv file of text, query and key"
        return word_pairs((WordPair.of(one, where) for one, where in objects_of(text, of, "pair", expected)), of)


def _of_table(text: str, of: str, delimiter: str) -> Iterator[WordPair]:
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)
    order: list[str] | None = None
    try:
        for row in rows:
            if not any(map(str.strip, row)):
                continue
            where = f"{of}, line {rows.line_num}"
            if len(row) != len(FIELDS):
                raise ArgumentError(f"{where}: expected {', '.join(FIELDS)}, got {counted(len(row), 'column')}")
            names = [name.strip().lower() for name in row]
            if order is None and sorted(names) == sorted(FIELDS):
                order = names
                continue
            order = order or [*FIELDS]
            yield WordPair.of(dict(zip(order, row, strict=True)), where)
    except csv.Error as error:
        raise ArgumentError(f"{of}, line {rows.line_num}: expected {', '.join(FIELDS)} ({reason(error)})") from error
