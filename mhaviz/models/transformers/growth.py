"""Bounds on how much longer a tokenizer may make a text, as its files can exhaust all memory.

The bounds follow from the steps in tokenizer.json. No step is tried out, as a single character may grow too long.
"""

import json
from base64 import b64decode
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from transformers import PreTrainedTokenizerBase

from mhaviz.errors import MhavizError, counted
from mhaviz.memory import free_main_memory, shortage

_BYTES = 64  # bytes of a character and its offset
_NAME = 2**10  # characters of a token's name up to which it is not counted, as few of a text's tokens have such a name
_MOST = 2**40
_MOST_COPIES, _MOST_ADDED = 16, 2**12
"""Most copies of a text that a post-processor may make, and most special tokens that it may add; usually 1, and 1 to 4.
"""
_TEXT_STEPS, _TOKEN_STEPS = ("normalizer", "pre_tokenizer"), ("decoder",)
_KNOWN = {"BertNormalizer": 3, "ByteLevel": 4, "Metaspace": 2}
_BLANKED = {"BPEDecoder": "suffix", "CTC": "word_delimiter_token"}  # what a blank replaces, even where it is empty
_OF_UNICODE = 18  # characters of U+FDFA in NFKD, which is left out of products, as a second NFKD changes nothing

_of_texts: WeakKeyDictionary[PreTrainedTokenizerBase, tuple[int, int]] = WeakKeyDictionary()


def require_room(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    """Raise MhavizError if a text may not fit into memory as tokens, or is multiplied by the post-processor."""
    if tokenizer not in _of_texts:
        _of_texts[tokenizer] = _growth_of_texts(tokenizer) if tokenizer.is_fast else (1, 0)
    growth, added = _of_texts[tokenizer]
    _require_room(growth, len(text) + added)


def _growth_of_texts(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """Return the most characters that one becomes, by normalisation, in long names of tokens and in copies of the text,
    and the number of special tokens that are added.

    Raises MhavizError if post-processing makes more of a text than a model reads.
    """
    backend = tokenizer.backend_tokenizer
    steps = [getattr(backend, name) for name in (*_TEXT_STEPS, "post_processor")]
    *text_steps, last = [None if step is None else json.loads(step.__getstate__()) for step in steps]
    added = max(backend.num_special_tokens_to_add(is_pair) for is_pair in (False, True))
    names = [token.content for token in backend.get_added_tokens_decoder().values()]
    names.append(getattr(backend.model, "unk_token", None) or "")  # names of other tokens are pieces of the text
    copies = 1
    for template in _templates(last):
        names += chain.from_iterable(token["tokens"] for token in template["special_tokens"].values())
        sides = [[part["Sequence"]["id"] for part in template[of] if "Sequence" in part] for of in ("single", "pair")]
        copies = min(copies * max(1, *(side.count(text) for side in sides for text in ("A", "B"))), _MOST)
    if copies > _MOST_COPIES or added > _MOST_ADDED:
        written = f"{counted(copies, 'time')}, with {counted(added, 'special token')}"
        raise MhavizError(f"the model's tokenizer writes each text {written}; take another copy of its files")
    longest = max(map(len, names))
    return min(_growth(text_steps) * copies * (longest // _BYTES if longest > _NAME else 1), _MOST), added


def _templates(step: Any) -> Iterator[dict[str, Any]]:
    """Yield the templates of a post-processor, which say where a text and special tokens stand."""
    if step and step["type"] == "TemplateProcessing":
        yield step
    for part in step["processors"] if step and step["type"] == "Sequence" else ():
        yield from _templates(part)


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
        text, content = step["pattern"].get("String"), step["content"]
        if text:
            return max(1, -(-len(content) // len(text)))
        return 1 + len(
            content
        )  # an expression may match the empty text between any two characters, as the empty one does
    if kind in _BLANKED:
        return 1 if step[_BLANKED[kind]] else 2
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
