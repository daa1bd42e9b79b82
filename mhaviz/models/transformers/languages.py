"""Languages of a multilingual translation model, whose tokenizer marks each text by the code of its language."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError, is_accepted, parameter, quoted
from mhaviz.models.transformers.read import asks_the_tokenizer

_CODE = re.compile(r"[A-Za-z]{2,4}([_-][A-Za-z]{2,4})?")
_LISTED = 4  # codes that an error lists


@dataclass(frozen=True)
class Languages:
    """Language codes of the texts and of the generated text; None: the tokenizer's setting."""

    source: str | None = None
    target: str | None = None

    def require_known(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        """Raise ArgumentError if the tokenizer of the model ``name`` does not know these languages."""
        for option, code in (("source_language", self.source), ("target_language", self.target)):
            if code is None:
                continue
            codes = codes_of(tokenizer)
            if not codes:
                raise ArgumentError(f"{parameter(option)} is for multilingual models; {name} knows no language codes")
            if code not in codes:
                some = ", ".join(sorted(codes)[:_LISTED])
                raise ArgumentError(
                    f"{parameter(option)}: expected one of {len(codes)} codes that {name} knows ({some}), got "
                    f"{quoted(code)}"
                )

    def require_target(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        """Raise ArgumentError if the language of a given target is not known, and the tokenizer would mark it."""
        if self.target is None and codes_of(tokenizer) and _languages_of(tokenizer).target is None:
            advice = f"give it by {parameter('target_language')}" if is_accepted("target_language") else "leave it out"
            raise ArgumentError(f"{name} marks a target by the code of its language; {advice}")

    @contextmanager
    def applied_to(self, tokenizer: PreTrainedTokenizerBase) -> Iterator[None]:
        """Set the tokenizer to these languages within the context, then restore its own."""
        if self == AS_IT_IS:
            yield
            return
        before = _languages_of(tokenizer)
        try:
            _set_languages(tokenizer, Languages(self.source or before.source, self.target or before.target))
            yield
        finally:
            _set_languages(tokenizer, before)

    def first_tokens(self, tokenizer: PreTrainedTokenizerBase) -> tuple[int | None, int | None]:
        """Return the decoder's start token, and the token that it is forced to generate first; None: the defaults.

        If the tokenizer puts the target's code before the text (NLLB, M2M100, mBART-50), the decoder is forced to
        generate the code first. If the code comes after the text (mBART), it is the start token, as the last token is
        moved before the first one: Liu et al. 2020, arXiv 2001.08210, section 2.2.
        """
        if self.target is None:
            return None, None
        code = codes_of(tokenizer)[self.target]
        return (None, code) if _marks_before(tokenizer, self.target, code) else (code, None)


AS_IT_IS = Languages()
"""The tokenizer's own settings."""


@asks_the_tokenizer
def codes_of(tokenizer: PreTrainedTokenizerBase) -> Mapping[str, int]:
    """Return the id of each language code of the tokenizer; empty: it has none."""
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
def _set_languages(tokenizer: Any, languages: Languages) -> None:
    tokenizer.tgt_lang = languages.target
    tokenizer.src_lang = languages.source  # this also updates the tokenizer's template


@asks_the_tokenizer
def _marks_before(tokenizer: Any, language: str, code: int) -> bool:
    """Return whether the tokenizer puts a target's code before its text."""
    try:
        tokenizer.set_tgt_lang_special_tokens(language)
        return code in tokenizer.prefix_tokens
    finally:
        tokenizer.set_src_lang_special_tokens(tokenizer.src_lang)
