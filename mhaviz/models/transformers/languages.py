"""Languages of a model that translates between many: its tokenizer marks each text by the code of its language."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.models.transformers.read import asks_the_tokenizer

_CODE = re.compile(r"[A-Za-z]{2,4}([_-][A-Za-z]{2,4})?")
_LISTED = 4  # codes that an error lists


@dataclass(frozen=True)
class Languages:
    """The codes of the languages that a text is in, and that the model is to write; None: as its tokenizer has it."""

    source: str | None = None
    target: str | None = None

    def require_known(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        """Raise ArgumentError if the tokenizer of the model ``name`` knows no languages, or not these."""
        for option, code in (("source_language", self.source), ("target_language", self.target)):
            if code is None:
                continue
            codes = codes_of(tokenizer)
            if not codes:
                raise ArgumentError(
                    f"{parameter(option)} is for a model of many languages; {name} knows no codes of any"
                )
            if code not in codes:
                some = ", ".join(sorted(codes)[:_LISTED])
                raise ArgumentError(
                    f"{parameter(option)}: expected one of {len(codes)} codes that {name} knows ({some}), got "
                    f"{quoted(code)}"
                )

    def require_target(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        """Raise ArgumentError if a target is given of which nothing says what language it is in."""
        if self.target is None and codes_of(tokenizer) and _languages_of(tokenizer).target is None:
            raise ArgumentError(
                f"{name} marks what it writes by the code of its language; say which by {parameter('target_language')}"
            )

    @contextmanager
    def applied_to(self, tokenizer: PreTrainedTokenizerBase) -> Iterator[None]:
        """Within it the tokenizer marks texts as of these languages."""
        if self == AS_IT_IS:
            yield
            return
        before = _languages_of(tokenizer)
        try:
            _speak(tokenizer, Languages(self.source or before.source, self.target or before.target))
            yield
        finally:
            _speak(tokenizer, before)

    def first_tokens(self, tokenizer: PreTrainedTokenizerBase) -> tuple[int | None, int | None]:
        """What a decoder reads first, and what it is then made to write first; None: as for any target.

        A tokenizer that puts the target's code before the text (NLLB, M2M100, mBART-50) has it written after the
        usual start. One that puts it after the text (mBART) is of a model whose decoder begins with it, as the last
        token is what stands before the first one: Liu et al. 2020, arXiv 2001.08210, section 2.2.
        """
        if self.target is None:
            return None, None
        code = codes_of(tokenizer)[self.target]
        return (None, code) if _marks_before(tokenizer, self.target, code) else (code, None)


AS_IT_IS = Languages()
"""Those that the tokenizer has been set to, if it knows any."""


@asks_the_tokenizer
def codes_of(tokenizer: PreTrainedTokenizerBase) -> Mapping[str, int]:
    """The token of each language that the tokenizer has a code for."""
    if not hasattr(tokenizer, "set_src_lang_special_tokens"):
        return {}
    known = getattr(tokenizer, "lang_code_to_id", None)
    if not isinstance(known, Mapping):
        special = filter(_CODE.fullmatch, map(str, tokenizer.all_special_tokens))
        known = {token: tokenizer.convert_tokens_to_ids(token) for token in special}
    return {code: number for code, number in known.items() if number != tokenizer.unk_token_id}


@asks_the_tokenizer
def _languages_of(tokenizer: Any) -> Languages:
    return Languages(tokenizer.src_lang, tokenizer.tgt_lang)


@asks_the_tokenizer
def _speak(tokenizer: Any, languages: Languages) -> None:
    tokenizer.tgt_lang = languages.target
    tokenizer.src_lang = languages.source  # which writes its template anew


@asks_the_tokenizer
def _marks_before(tokenizer: Any, language: str, code: int) -> bool:
    """Whether the tokenizer puts a target's code before its text."""
    try:
        tokenizer.set_tgt_lang_special_tokens(language)
        return code in tokenizer.prefix_tokens
    finally:
        tokenizer.set_src_lang_special_tokens(tokenizer.src_lang)
