"""Results as data: JSON, CSV, SARIF, and safetensors or .npz for arrays. ``formats`` writes them to files."""

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
from mhaviz.results.result import RowsResult
from mhaviz.results.saved_form import METADATA, METADATA_FILE, describe, describe_source, tensor_names
from mhaviz.views.sarif import sarif


def document(result: Any) -> dict[str, Any]:
    """Return the result as a JSON document, in which arrays and dataclasses are left for ``write_json`` to convert."""
    found: dict[str, Any] = result.to_dict()
    return describe_source(result.source) | found


def write_data(result: Any, suffix: str, stream: BinaryIO) -> None:
    """Write the result in the data format of this suffix."""
    if suffix in (".safetensors", ".npz"):
        stream.write(safetensors_bytes(result) if suffix == ".safetensors" else npz_bytes(result))
        return
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")  # lone surrogates, too
    if suffix == ".csv":
        write_csv(result, text)
    elif suffix == ".sarif":
        write_json(sarif(result), text)
    else:
        write_json(document(result), text)
    text.detach()  # flushes, and leaves the stream open


def write_json(document: dict[str, Any], stream: IO[str]) -> None:
    """Write the document with its arrays as nested lists, one row at a time, so that large maps are not copied.

    NaN and infinity, such as hidden scores, become null. Numbers have as few digits as identify them in their
    precision: 0.1, not 0.10000000149011612.
    """
    for piece in _pieces(document):
        stream.write(piece)
    stream.write("\n")


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        # Not for texts: orjson does not escape control characters of terminals, and refuses lone surrogates.
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
    """Return a safetensors file: the weights of each map as a tensor, all else as JSON in the metadata ``mhaviz``."""
    from safetensors.numpy import save

    tensors, metadata = _tensors(attention)
    return save(tensors, {METADATA: metadata})


def npz_bytes(attention: Attention) -> bytes:
    """Return a .npz file of the arrays of ``safetensors_bytes``, with the metadata as a text file beside them."""
    arrays, metadata = _tensors(attention)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(METADATA_FILE, "w") as member:
        member.write(metadata.encode())  # ``writestr`` would store the time, too
    return stream.getvalue()


def _tensors(attention: Attention) -> tuple[dict[str, Any], str]:
    """Return the weights of each map by the name of its tensor, and all else as JSON."""
    maps = [describe(m) for m in attention.maps]
    arrays = dict(zip(tensor_names(maps), (np.ascontiguousarray(m.weights) for m in attention.maps), strict=True))
    return arrays, "".join(_pieces(describe_source(attention.source) | {"maps": maps}))


def write_csv(result: Attention | RowsResult, stream: IO[str]) -> None:
    """Write all numbers in long form, one a line, with the columns of the result's ``to_dataframe``, head by head."""
    lines = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")  # an unquoted \r would split a line
    if not isinstance(result, Attention):
        for number, row in enumerate(result.rows()):
            if not number:
                lines.writerow(row)
            lines.writerow("" if isinstance(value, float) and math.isnan(value) else value for value in row.values())
        return
    for number, m in enumerate(result.maps):
        for head in m.heads:
            columns = m.select((head,)).columns_of_weights(result.further_columns)
            if not number and head == m.heads[0]:
                lines.writerow(columns)
            short = columns["weight"].astype(str)  # in as few digits as identify it
            columns["weight"] = short.astype(float)
            if "chance" in columns:
                columns["chance"] = np.where(np.isnan(columns["chance"]), "", columns["chance"].astype(str))
            lines.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
