"""The fields of a config.json: what a model reads of them, and which of them cannot be.

transformers checks few of them. What is wrong with another shows far from its cause, as a division by zero or as
weights that are no numbers, and in words that name no field.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import fields as fields_of
from types import NoneType
from typing import Any, get_args, get_origin

from huggingface_hub.dataclasses import type_validator
from transformers import PreTrainedConfig
from transformers import __version__ as version
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from mhaviz.errors import MhavizError, is_out_of_memory, quoted

LAYERS = re.compile(r"(layers?|blocks?|repeats|loops|cycles)$")
_SIZE = re.compile(r"^(num|n|d|dim)_|_(sizes?|dims?|width|rank|labels|heads|experts)$|^(n|d|dim|width|hidden|vocab)$")
_NO_SIZE = re.compile(
    r"position|context|ctx|length|len_|window|token|_ids?$|theta|bucket|frames|steps|samples|rate|factor"
)
_NEVER_0 = re.compile(r"^(hidden_size|vocab_size|n_heads?|num_heads|(\w+_)?(attention|key_value)_heads)$")
_EPSILON = re.compile(r"(^|_)eps(ilon)?$")

_OF_ALL: Mapping[str, Any] = {
    "architectures": list[str] | None,
    "dtype": str | dict | None,
    "id2label": dict | None,
    "is_encoder_decoder": bool | None,
    "num_labels": int | None,
    "quantization_config": dict | None,
}
"""Types of fields of every model, which transformers declares in a form that cannot be checked, or not at all."""

_IN_JSON = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "a text",
    tuple: "a list",
    NoneType: "null",
}
"""What is called what in JSON."""


@dataclass(frozen=True)
class Field:
    """What a configuration reads of a config.json.

    Attributes:
        path: its name, after those of the parts that it is in: "text_config.hidden_size".
        names: what else it is called.
        value: what stands there.
        declared: its type, or Any.
        default: what it is by itself, if that is known.
    """

    path: str
    names: frozenset[str]
    value: Any
    declared: Any
    default: Any

    @property
    def name(self) -> str:
        """Without the parts that it is in."""
        return self.path.rpartition(".")[2]

    @property
    def is_size(self) -> bool:
        """Whether it says how many there are of something, or how wide something is."""
        return bool(_SIZE.search(self.name) or LAYERS.search(self.name)) and not _NO_SIZE.search(self.name)


def kind_of(fields: Mapping[str, object]) -> type[PreTrainedConfig] | None:
    """Which configuration a config.json is of, by its model_type; None: transformers knows none."""
    model_type = fields.get("model_type")
    return CONFIG_MAPPING[model_type] if isinstance(model_type, str) and model_type in CONFIG_MAPPING else None


def read_by_model(fields: Mapping[str, object]) -> Iterator[Field]:
    """The fields that the kind of configuration declares, and its parts; all, if it is of none that is known.

    Any other is kept, and nothing reads it.
    """
    waiting = [("", fields, kind_of(fields))]
    while waiting:
        path, document, kind = waiting.pop()
        parts = kind.sub_configs if kind else {}
        declared = {field.name: field for field in fields_of(kind)} if kind else {}
        aliases = kind.attribute_map if kind else {}
        for name, value in document.items():
            own = aliases.get(name, name)
            if kind and own not in declared and name not in _OF_ALL:
                continue
            if isinstance(value, dict) and (name in parts or not kind):
                waiting.append((f"{path}{name}.", value, _kind_of_part(parts.get(name), value)))
            field = declared.get(own)
            names = frozenset({own, *(alias for alias, other in aliases.items() if other == own)})
            expected = _OF_ALL.get(name, field.type if field else Any)
            yield Field(f"{path}{name}", names, value, expected, field.default if field else None)


def require_sound(fields: Mapping[str, object], name: str) -> None:
    """Raise MhavizError for a number that no model can have: NaN, heads of which there are none, −3 layers.

    What is 0 or below in a kind's own defaults has another meaning there, and may be.
    """
    for field in read_by_model(fields):
        path, number = _not_a_number(field.path, field.value)
        if path:
            raise wrong_field(name, path, "a number", number)
        if isinstance(field.value, bool) or not isinstance(field.value, int | float):
            continue
        if _EPSILON.search(field.name) and not 0 <= field.value < float("inf"):
            raise wrong_field(name, field.path, "a finite number from 0 on", field.value)
        if not field.is_size:
            continue
        never_0 = any(map(_NEVER_0.search, {field.name, *field.names}))
        least = 1 if never_0 or LAYERS.search(field.name) else 0
        is_usual = isinstance(field.default, int) and field.default >= least
        if (is_usual or (never_0 and field.default is None)) and field.value < (1 if never_0 else 0):
            raise wrong_field(name, field.path, f"at least {least}", field.value)


@contextmanager
def naming_the_field(fields: Mapping[str, object], name: str) -> Iterator[None]:
    """Name the field that explains what a library raises, if there is one: a wrong type, or what it has looked up."""
    try:
        yield
    except (MhavizError, OSError):
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        for field in read_by_model(fields):
            if not _fits(field):
                expected = _in_words(field.declared)
                if isinstance(field.value, int) and not isinstance(field.value, bool) and "a number" in expected:
                    expected = f"written with a decimal point, as {field.value}.0"
                raise wrong_field(name, field.path, expected, field.value) from error
        sought = _sought(error)
        if sought and (path := _path_of(sought, fields)):
            raise wrong_field(name, path, f"one that transformers {version} knows", sought) from error
        raise


def wrong_field(name: str, path: str, expected: str, got: object) -> MhavizError:
    """An error that names a field of the config.json of the model ``name``."""
    shown = json.dumps(got) if got is None or isinstance(got, bool | float) else quoted(got)
    return MhavizError(
        f"{name}: expected {path} in its config.json to be {expected}, got {shown}; correct it, or take another copy "
        f"of the model"
    )


def _sought(error: Exception) -> str:
    """The name that was looked up and is not there; "" if that is not what an error says."""
    name = error.name if isinstance(error, AttributeError) else next(iter(error.args), "")
    return name if isinstance(error, AttributeError | KeyError) and isinstance(name, str) else ""


def _kind_of_part(declared: Any, fields: Mapping[str, object]) -> type[PreTrainedConfig] | None:
    """Of a configuration within another, which may leave it to its model_type."""
    if isinstance(declared, type) and issubclass(declared, PreTrainedConfig):
        return declared
    return kind_of(fields)


def _not_a_number(path: str, value: Any) -> tuple[str, float]:
    """Where NaN stands in a value, which may hold others; "" if nowhere."""
    if isinstance(value, float) and value != value:
        return path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((found for key, one in inner if (found := _not_a_number(f"{path}.{key}", one))[0]), ("", 0.0))


def _path_of(sought: str, value: Any, path: str = "") -> str:
    """Where a text stands in a value; "" if nowhere."""
    if value == sought:
        return path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((found for key, one in inner if (found := _path_of(sought, one, f"{path}.{key}".lstrip(".")))), "")


def _fits(field: Field) -> bool:
    try:
        type_validator(field.name, field.value, field.declared)
    except TypeError:
        return not _in_words(field.declared)
    return True


def _in_words(declared: Any) -> str:
    """ "a whole number or null" of ``int | None``; "" of what has no word in JSON."""
    kinds = (
        get_args(declared) if not isinstance(declared, type) and get_origin(declared) not in _IN_JSON else [declared]
    )
    words = [_IN_JSON[kind] for one in kinds if (kind := get_origin(one) or one) in _IN_JSON]
    if "a number" in words and "a whole number" in words:
        words.remove("a whole number")
    words = list(dict.fromkeys(words))
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
