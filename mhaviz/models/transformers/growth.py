"""Bounds on how much longer a tokenizer's normalisation may make a text, as its files can exhaust all memory.

The bounds follow from the steps in tokenizer.json. No step is tried out, as a single character may grow too long.
"""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from transformers import PreTrainedTokenizerBase

from mhaviz.errors import MhavizError
from mhaviz.memory import free_main_memory, shortage

_BYTES = 64  # bytes of a character and its offset
_MOST = 2**40
_TEXT_STEPS, _TOKEN_STEPS = ("normalizer", "pre_tokenizer"), ("decoder",)
_KNOWN = {"BertNormalizer": 3, "ByteLevel": 4, "Metaspace": 2}
_OF_UNICODE = 18  # characters of U+FDFA in NFKD, which is left out of products, as a second NFKD changes nothing

_of_texts: WeakKeyDictionary[PreTrainedTokenizerBase, int] = WeakKeyDictionary()


def require_room(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    """Raise MhavizError if a text may not fit into memory after normalisation."""
    if tokenizer not in _of_texts:
        steps = [getattr(tokenizer.backend_tokenizer, name) for name in _TEXT_STEPS] if tokenizer.is_fast else []
        _of_texts[tokenizer] = _growth([json.loads(step.__getstate__()) for step in steps if step is not None])
    _require_room(_of_texts[tokenizer], len(text))


def require_sound_steps(folder: Path) -> None:
    """Raise MhavizError if a tokenizer.json may exhaust memory when it is loaded, or when it decodes a token.

    Added tokens are normalised when they are loaded. A file of another format may raise any exception.
    """
    for path in folder.glob("tokenizer*.json"):  # there may be others, for versions of transformers
        held = orjson.loads(path.read_bytes())
        if not isinstance(held.get("model"), dict):
            continue
        vocabulary = held["model"].get("vocab", ())  # names, or pairs of a name and a score
        added = max((len(token["content"]) for token in held.get("added_tokens") or ()), default=0)
        longest = max((len(one if isinstance(one, str) else one[0]) for one in vocabulary), default=0)
        _require_room(_growth([held.get(name) for name in _TEXT_STEPS]), added)
        _require_room(_growth([held.get(name) for name in _TOKEN_STEPS]), max(added, longest))


def _require_room(growth: int, length: int) -> None:
    if short := shortage(growth * length * _BYTES, free_main_memory()):
        most = f"{growth:,}{' or more' * (growth == _MOST)}"
        raise MhavizError(
            f"the model's tokenizer may make {most} characters of one, and of {length:,} a text that needs {short}; "
            f"take another copy of its files"
        )


def _growth(step: Any) -> int:
    """Return the most characters that one becomes by a step, or by a list of steps."""
    if isinstance(step, list):
        product = 1
        for one in step:
            product = min(product * _growth(one), _MOST)
        return product
    if not isinstance(step, dict):
        return 1
    kind = str(step.get("type"))
    if kind == "Replace":
        pattern, content = step["pattern"], step["content"]
        if "String" in pattern:
            return max(1, -(-len(content) // max(1, len(pattern["String"]))))
        return 1 + len(content)  # an expression may match the empty text between any two characters
    if kind == "Prepend":
        return 1 + len(step["prepend"])
    if kind == "Precompiled":
        return _of_precompiled(b64decode(step["precompiled_charsmap"]))
    return min(_KNOWN.get(kind, 1) * _growth(list(step.values())), _MOST)


def _of_precompiled(charsmap: bytes) -> int:
    """Return the growth of a SentencePiece table: the size of its index, the index, and NUL-terminated replacements."""
    texts = charsmap[4 + int.from_bytes(charsmap[:4], "little") :].split(b"\0")
    longest = max(len(text.decode(errors="replace")) for text in texts)
    return longest if longest > _OF_UNICODE else 1
