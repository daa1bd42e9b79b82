"""Tokens as people read them: joined, they are the text again, whatever the tokenizer."""

import copy

import families
import pytest
from families import bytes_and_words, sentence_pieces, word_pieces
from hostile import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from mhaviz.errors import ArgumentError
from mhaviz.models.transformers.read import name_tokens, read, read_without_names, usual_ids

TOKENIZERS = {
    "bytes": bytes_and_words(),
    "words": word_pieces(),
    "sentences": sentence_pieces(),
    "many": families.sentence_pieces_of_many(),
    "fallback": families.sentence_pieces_and_bytes(),
    "blanks": families.bytes_joined_to_blanks(),
}


def joined(reading):
    """The text, with each character that is spread over several tokens once, and what is unknown as it stands."""
    text = ""
    for i, token in enumerate(reading.texts):
        token = token.removesuffix(" [UNK]").removesuffix(" <unk>")
        piece, _, part = token.rpartition(" ")
        if part and "/" in part and part.split("/")[0].isdigit() and piece:
            token = piece if part.startswith("1/") else ""
        text += "" if i in reading.special else token
    return text


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", ["the cat sat", "playing", "naïve cat 😀 ran", "  the  cat", "the\ncat", "猫 the"])
def test_joined_they_are_the_text(name, text):
    tokenizer = TOKENIZERS[name]
    shown = joined(read(tokenizer, text))
    assert "".join(shown.split()) == "".join(text.split())
    assert shown.strip().startswith(text.split()[0][:1])


def test_words_begin_with_their_blank():
    assert read(TOKENIZERS["words"], "the cat playing").texts == ("[CLS]", "the", " cat", " play", "ing", "[SEP]")
    assert read(TOKENIZERS["words"], "the cat").special == (0, 3)
    assert read(TOKENIZERS["sentences"], "the cat").texts == ("the", " cat", "</s>")
    assert read(TOKENIZERS["bytes"], "a the cat").texts == ("a", " the", " cat")


CAT = ("猫 1/3", "猫 2/3", "猫 3/3")
SMILE = ("😀 1/4", "😀 2/4", "😀 3/4", "😀 4/4")
UNKNOWN_SMILE = (" ", "😀😀 <unk>", "</s>")

EXACTLY = [
    ("sentences", "猫猫", (" ", "猫猫 <unk>", "</s>")),
    ("sentences", "The cat", (" ", "T <unk>", "h", "e", " cat", "</s>")),
    ("sentences", "the  cat", ("the", " ", " cat", "</s>")),
    ("sentences", "the\tcat", ("the", "\t <unk>", "c", "a", "t", "</s>")),
    ("sentences", "e\u0301", (" ", "e", "\u0301 <unk>", "</s>")),
    ("sentences", "😀😀", UNKNOWN_SMILE),
    ("many", "ﬁne ㎏ cat", ("<s>", " ", "f", "i", "n", "e", " ", "k", "g", " cat", "</s>")),
    ("many", "½ a", ("<s>", " ", "½ <unk>", " a", "</s>")),
    ("many", "猫 the", ("<s>", " ", "猫 <unk>", " the", "</s>")),
    ("many", "the 😀\n", ("<s>", "the", " ", "😀\n <unk>", "</s>")),
    ("many", "e\u0301", ("<s>", " ", "e\u0301 <unk>", "</s>")),
    ("many", "Ġa", ("<s>", " ", "Ġ", "a", "</s>")),
    ("fallback", "猫猫", ("<s>", " ", *CAT, *CAT)),
    ("fallback", "the😀cat", ("<s>", "the", *SMILE, "c", "a", "t")),
    ("fallback", "the\ncat", ("<s>", "the", "\n", "c", "a", "t")),
    ("fallback", "a\t", ("<s>", " ", "a", "\t")),
    ("fallback", "the  cat", ("<s>", "the", " ", " cat")),
    ("fallback", "  the", ("<s>", "  ", " the")),
    ("fallback", "ﬁ", ("<s>", " ", "ﬁ 1/3", "ﬁ 2/3", "ﬁ 3/3")),
    ("fallback", "e\u0301", ("<s>", " ", "e", "\u0301 1/2", "\u0301 2/2")),
    ("bytes", "猫猫", (*CAT, *CAT)),
    ("bytes", "ﬁ", ("ﬁ 1/3", "ﬁ 2/3", "ﬁ 3/3")),
    ("bytes", "e\u0301", ("e", "\u0301 1/2", "\u0301 2/2")),
    ("bytes", "a  the\t\n\nb", ("a", " ", " the", "\t", "\n", "\n", "b")),
    ("bytes", "a\u3000", ("a", "\u3000 1/3", "\u3000 2/3", "\u3000 3/3")),
    ("bytes", "a\ufffd", ("a", "\ufffd 1/3", "\ufffd 2/3", "\ufffd 3/3")),
    ("blanks", "a 😀", ("a", *(f" {part}" for part in SMILE))),
    ("blanks", "😀😀", (*SMILE, *SMILE)),
    ("blanks", "a   b", ("a", "  ", " ", "b")),
    ("words", "猫 the", ("[CLS]", "猫 [UNK]", " the", "[SEP]")),
    ("words", "The\n\ncat 😀", ("[CLS]", "The", " cat", " 😀 [UNK]", "[SEP]")),
    ("words", "thé cat", ("[CLS]", "thé", " cat", "[SEP]")),
    ("words", "the\u0301\u0301 cat", ("[CLS]", "the\u0301\u0301", " cat", "[SEP]")),
    ("words", "[UNK] a", ("[CLS]", "[UNK]", " a", "[SEP]")),
]


@pytest.mark.parametrize(("name", "text", "tokens"), EXACTLY)
def test_each_token_is_shown_as_what_it_is(name, text, tokens):
    assert read(TOKENIZERS[name], text).texts == tokens


def test_what_is_unknown_is_of_the_text():
    words = TOKENIZERS["words"]
    assert name_tokens(words, words("the 猫")["input_ids"]).special == (0, 3)
    assert read(words, "猫").special == (0, 2)
    ends = bytes_and_words()
    ends.unk_token = ends.eos_token  # as GPT-2 has it
    assert name_tokens(ends, [5, ends.eos_token_id]).special == (1,)


MARKED = "<|im_start|>the cat<|im_end|><|im_start|>the cat @sat"


@pytest.mark.parametrize("name", ["bytes", "words", "sentences"])
def test_markers_that_a_text_brings_are_special(name):
    """As the tokenizers library has it, which leaves out what is special where it decodes."""
    tokenizer = copy.deepcopy(TOKENIZERS[name])
    tokenizer.add_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    tokenizer.add_tokens(["@sat"])  # ordinary
    reading, ends = read(tokenizer, MARKED), len(tokenizer("")["input_ids"])
    decode = tokenizer.backend_tokenizer.decode
    kept, without = ([decode([number], skip_special_tokens=skips) for number in reading.ids] for skips in (False, True))
    expected = [i for i, texts in enumerate(zip(kept, without, strict=True)) if texts[0] != texts[1]]
    assert [*reading.special] == expected
    assert len(expected) == 3 + ends
    assert [reading.texts[i] for i in expected if "|" in reading.texts[i]] == [
        "<|im_start|>",
        "<|im_end|>",
        "<|im_start|>",
    ]
    assert "".join(joined(reading).split()) == "thecatthecat@sat"
    (unnamed,) = read_without_names(tokenizer, [MARKED])
    assert unnamed.special == name_tokens(tokenizer, reading.ids).special == reading.special
    assert not {*usual_ids(tokenizer, None)} & {reading.ids[i] for i in expected}
    assert read_without_names(tokenizer, ["<|im_start|><|im_end|>"])[0].texts == (), "no text"


def test_what_is_unknown_to_the_vocabulary_alone():
    """Nothing beside the vocabulary says which of its words stands for all others."""
    words = Tokenizer(models.WordLevel({"w1": 0, "w2": 1}, "w1"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    assert read(tokenizer, "w2 hello w1").texts == ("w2", " hello w1", " w1")


def test_tokens_that_the_tokenizer_does_not_have():
    assert name_tokens(TOKENIZERS["bytes"], [9999, 5]).texts[0] == "#9999"
    assert name_tokens(TOKENIZERS["words"], [9999]).texts == ("#9999",)


def test_written_ideographs_have_no_blank(monkeypatch):
    monkeypatch.setattr(families, "WORDS", ("猫", "кот"))
    words = word_pieces()
    assert name_tokens(words, words.convert_tokens_to_ids(["猫", "猫", "кот"])).texts == ("猫", "猫", " кот")


def test_hashes_mark_pieces_of_words_alone():
    headings = bytes_and_words()
    headings.add_tokens(["###"])
    assert name_tokens(headings, headings("### a")["input_ids"]).texts == ("###", " ", "a")


def test_bytes_that_are_no_character():
    first = TOKENIZERS["fallback"].convert_tokens_to_ids("<0xF0>")
    assert name_tokens(TOKENIZERS["fallback"], [first, first]).texts == ("<0xF0>", "<0xF0>")


def test_written_words_begin_with_a_blank():
    words = TOKENIZERS["words"]
    ids = words.convert_tokens_to_ids(["[CLS]", "on", "on", "##ing", "'", "s", ".", "cat", "[UNK]", "[SEP]"])
    assert name_tokens(words, ids).texts == (
        "[CLS]", " on", " on", "ing", "'", " s", ".", " cat", "[UNK]", "[SEP]",
    )  # fmt: skip


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts(name, text):
    tokenizer, text = TOKENIZERS[name], text[:300]
    (unnamed,) = read_without_names(tokenizer, [text])
    if not len(unnamed):
        with pytest.raises(ArgumentError, match="expected a text with at least one token"):
            read(tokenizer, text)
        return
    reading = read(tokenizer, text)
    assert (reading.ids, reading.special) == (unnamed.ids, unnamed.special)
    assert len(reading.texts) == len(reading.ids)
    assert all(reading.texts)


def test_lone_surrogates_are_read_as_what_cannot_be_read():
    bytes_ = TOKENIZERS["bytes"]
    assert read(bytes_, "a \udcff") == read(bytes_, "a \ufffd")
    assert read_without_names(bytes_, ["a", "\udcff"])[1].ids == read(bytes_, "\ufffd").ids
    assert read(bytes_, "\ud83d\ude00").texts == SMILE


def test_a_target_is_read_as_one():
    class Languages(PreTrainedTokenizerFast):
        def _switch_to_target_mode(self):
            self.backend_tokenizer.post_processor = processors.TemplateProcessing("</s> $A", None, [("</s>", 1)])

        def _switch_to_input_mode(self):
            self.backend_tokenizer.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", 1)])

    tokenizer = Languages(tokenizer_object=sentence_pieces().backend_tokenizer, unk_token="<unk>")
    assert read(tokenizer, "the cat").texts == ("the", " cat", "</s>")
    assert read(tokenizer, "the cat", as_target=True).texts == ("</s>", "the", " cat")


def test_bytes_of_one_character():
    assert read(TOKENIZERS["bytes"], "a 😀").texts == ("a", " ", "😀 1/4", "😀 2/4", "😀 3/4", "😀 4/4")
    assert read(TOKENIZERS["bytes"], "ï").texts == ("ï 1/2", "ï 2/2")


@pytest.mark.parametrize("name", TOKENIZERS)
def test_what_a_model_has_written(name):
    tokenizer = TOKENIZERS[name]
    reading = read(tokenizer, "the cat sat")
    named = name_tokens(tokenizer, reading.ids)
    assert "".join(joined(named).split()) == "thecatsat"
    assert set(reading.special) <= set(named.special)
    half = name_tokens(TOKENIZERS["bytes"], read(TOKENIZERS["bytes"], "😀").ids[:2])
    assert len(half.texts) == 2


@given(st.text(min_size=1, max_size=30), st.sampled_from(sorted(TOKENIZERS)))
def test_any_text(text, name):
    tokenizer = TOKENIZERS[name]
    if not len(read_without_names(tokenizer, [text])[0]):
        with pytest.raises(ArgumentError, match="expected a text with at least one token"):
            read(tokenizer, text)
        return
    reading = read(tokenizer, text)
    assert len(reading.texts) == len(reading.ids) == len(tokenizer(text)["input_ids"])
    assert all(token for token in reading.texts)
