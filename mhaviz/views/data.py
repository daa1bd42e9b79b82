"""Records as data: JSON for people and scripts, safetensors for arrays; ``formats`` writes them to files."""

import csv
import io
import json
import math
import zipfile
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import IO, Any, BinaryIO

import numpy as np
import orjson

from mhaviz.results.attention import Attention
from mhaviz.results.head_numbers import HeadTable
from mhaviz.results.saved_form import METADATA, METADATA_FILE, describe, describe_source, tensor_names


def document(result: Any) -> dict[str, Any]:
    """The result as one JSON document. Arrays and dataclasses stay what they are: ``write_json`` writes them."""
    found: dict[str, Any] = result.to_dict()
    return describe_source(result.source) | found


def write_data(result: Any, suffix: str, stream: BinaryIO) -> None:
    """Write the result in the format of a suffix that is neither a picture nor a page."""
    if suffix in (".safetensors", ".npz"):
        stream.write(safetensors_bytes(result) if suffix == ".safetensors" else npz_bytes(result))
        return
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")  # half characters, too
    if suffix == ".csv":
        write_csv(result, text)
    else:
        write_json(document(result), text)
    text.detach()  # what has been written, too


def write_json(document: dict[str, Any], stream: IO[str]) -> None:
    """Write the document with its arrays as nested lists, a row at a time: large maps need no second copy.

    A number that JSON does not have, such as a hidden score, becomes null. Numbers have as few digits as tell them from
    all others of their precision: 0.1, not 0.10000000149011612.
    """
    for piece in _pieces(document):
        stream.write(piece)
    stream.write("\n")


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        # Not of texts: orjson neither escapes what a terminal obeys nor takes half characters.
        yield orjson.dumps(np.ascontiguousarray(value), option=orjson.OPT_SERIALIZE_NUMPY).decode()
    elif isinstance(value, dict) or is_dataclass(value):
        yield "{"
        for i, (key, item) in enumerate((value if isinstance(value, dict) else vars(value)).items()):
            yield f"{', ' if i else ''}{json.dumps(key)}: "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, (list, tuple, np.ndarray)):
        yield "["
        for i, item in enumerate(value):
            yield ", " if i else ""
            yield from _pieces(item)
        yield "]"
    else:
        yield json.dumps(None if isinstance(value, float) and not math.isfinite(value) else value)


def safetensors_bytes(attention: Attention) -> bytes:
    """One float32 tensor a map; all but the weights as JSON text under the metadata key ``mhaviz``."""
    from safetensors.numpy import save

    tensors, metadata = _tensors(attention)
    return save(tensors, {METADATA: metadata})


def npz_bytes(attention: Attention) -> bytes:
    """The same arrays by the same names as a .npz file, with the metadata as a text file among them."""
    arrays, metadata = _tensors(attention)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(METADATA_FILE, "w") as member:
        member.write(metadata.encode())  # ``writestr`` would write the time too
    return stream.getvalue()


def _tensors(attention: Attention) -> tuple[dict[str, Any], str]:
    """The weights of each map by the name of its tensor, and all else as JSON."""
    maps = [describe(m) for m in attention.maps]
    arrays = dict(zip(tensor_names(maps), (np.ascontiguousarray(m.weights) for m in attention.maps), strict=True))
    return arrays, "".join(_pieces(describe_source(attention.source) | {"maps": maps}))


def write_csv(result: Attention | HeadTable, stream: IO[str]) -> None:
    """All numbers in long form, a line each, with the columns of the result's ``to_dataframe``; a head at a time."""
    lines = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")  # a lone \r would tear a line
    if not isinstance(result, Attention):
        for number, row in enumerate(result.rows()):
            if not number:
                lines.writerow(row)
            lines.writerow("" if isinstance(value, float) and math.isnan(value) else value for value in row.values())
        return
    for number, m in enumerate(result.maps):
        for head in m.heads:
            columns = m.select((head,)).columns_of_weights(result.recorded_columns)
            if not number and head == m.heads[0]:
                lines.writerow(columns)
            short = columns["weight"].astype(str)  # in as few digits as tell it from all others
            columns["weight"] = short.astype(float)
            lines.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
