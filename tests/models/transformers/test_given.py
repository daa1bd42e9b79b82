"""Pairs, chats, ids and languages: what a model reads of them is what transformers makes of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as hf
from families import CHATML, FAMILIES, of_chats, word_pieces
from rounding import rounding
from tokenizers import processors

import mhaviz
from mhaviz.api import long_inputs
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.given import Given
from mhaviz.inputs.tokens import Segment, segments_text
from mhaviz.models.transformers import confinement
from mhaviz.models.transformers.model import model_in_memory
from mhaviz.models.transformers.segments import read_chat
from mhaviz.models.transformers.texts import Texts

CLOSE = rounding(depth=2)

CHAT = (
    {"role": "system", "content": "the mat"},
    {"role": "user", "content": "hello cat"},
    {"role": "assistant", "content": "hello"},
)


def of_pairs():
    """As BERT's, with its template for pairs: [CLS] the cat [SEP] a dog [SEP], of types 0 and 1."""
    words = word_pieces()
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 1), ("[SEP]", 2)]
    )
    words.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return words


def in_memory(name, words):
    """A family's model with random weights, as Python and as transformers itself run it."""
    kind, config, _ = FAMILIES[name]
    torch.manual_seed(0)
    model = kind._from_config(config(), attn_implementation="eager").eval()
    return model, mhaviz.load(model, words)


@pytest.fixture(scope="module")
def compared():
    return in_memory("bert", of_pairs())


@pytest.fixture(scope="module")
def chatting():
    return in_memory("gpt2", of_chats())


def eager(model, **fields):
    with torch.no_grad():
        return model(**fields, output_attentions=True).attentions


@pytest.mark.parametrize(("first", "second"), [("the cat sat", "a dog"), ("hello playing", "the mat!"), ("[SEP]", "a")])
def test_a_pair_is_read_as_transformers_reads_it(compared, first, second):
    model, loaded = compared
    attention = loaded.attend(first, pair=second)
    fields = of_pairs()(first, second, return_tensors="pt")
    assert attention.maps[0].rows.tokens.ids == tuple(fields["input_ids"][0].tolist())
    for m, expected in zip(attention.maps, eager(model, **fields), strict=True):
        np.testing.assert_allclose(m.weights, expected[0], atol=CLOSE)
    fields["token_type_ids"] *= 0
    without = eager(model, **fields)[-1][0].numpy()
    assert np.abs(attention.maps[-1].weights - without).max() > 1e-5, "the types of tokens make a difference"


def test_tokens_of_a_pair(compared):
    attention = compared[1].attend("the cat playing", pair="a dog")
    tokens = attention.maps[0].rows.tokens
    assert tokens.texts == ("[CLS]", "the", " cat", " play", "ing", "[SEP]", "a", " dog", "[SEP]")
    assert tokens.special == (0, 5, 8)
    assert attention.source.details["segments"] == [
        [{"name": "first", "start": 1, "end": 5}, {"name": "second", "start": 6, "end": 8}]
    ]
    assert attention.source.remark == "tokens 1 to 4 are of the first text, 6 to 7 of the second"


@pytest.mark.parametrize(
    ("study", "options"),
    [
        ("explain", {"token": 6}),
        ("matrices", {}),
        ("masks", {}),
        ("report", {}),
        ("compare_scaling", {}),
        ("trace_shapes", {}),
        ("embeddings", {}),
    ],
)
def test_every_study_reads_pairs_and_ids(compared, study, options):
    loaded = compared[1]
    read = of_pairs()("the cat", "a dog")["input_ids"]
    texts = [()] * (study == "explain")
    pair = getattr(loaded, study)("the cat", pair="a dog", **options)
    ids = getattr(loaded, study)(*texts, ids=read, **options)
    pair, ids = (one.attention if study == "report" else one for one in (pair, ids))
    assert pair.source.remark == "tokens 1 to 2 are of the first text, 4 to 5 of the second"
    assert not ids.source.remark


def test_embeddings_of_a_pair_have_those_of_its_types(compared):
    model, loaded = compared
    table = model.embeddings.token_type_embeddings.weight.detach().numpy()
    embedded = loaded.embeddings("the cat", pair="a dog")
    np.testing.assert_allclose(embedded["T"], table[[0, 0, 0, 0, 1, 1, 1]], atol=CLOSE)
    assert any("T = token_type_embeddings(types)" in part.equation for part in embedded.parts)


def test_a_model_without_types_gets_none():
    model, loaded = in_memory("distilbert", of_pairs())
    attention = loaded.attend("the cat", pair="a dog")
    ids = of_pairs()("the cat", "a dog", return_tensors="pt")["input_ids"]
    np.testing.assert_allclose(attention.maps[0].weights, eager(model, input_ids=ids)[0][0], atol=CLOSE)


def test_a_chat_is_read_through_the_template(chatting):
    model, loaded = chatting
    attention = loaded.attend(chat=CHAT)
    ids = of_chats().apply_chat_template(list(CHAT), return_tensors="pt")["input_ids"]
    tokens = attention.maps[0].rows.tokens
    assert tokens.ids == tuple(ids[0].tolist())
    for m, expected in zip(attention.maps, eager(model, input_ids=ids), strict=True):
        np.testing.assert_allclose(m.weights, expected[0], atol=CLOSE)
    starts = [i for i, text in enumerate(tokens.texts) if text == "<s>"]
    assert set(starts) < set(tokens.special), "what the template has written"
    segments = [Segment(**one) for one in attention.source.details["segments"][0]]
    assert [s.name for s in segments] == ["system", "user", "assistant"]
    assert [s.start for s in segments] == starts
    assert segments[-1].end == len(tokens)


@pytest.mark.parametrize(("messages", "last"), [(CHAT[:2], "generation prompt"), (CHAT, "assistant")])
def test_an_answer_is_written_after_the_chat(messages, last):
    words = of_chats()
    model = hf.GPT2LMHeadModel(FAMILIES["gpt2"][1]()).eval()
    found = model_in_memory(model, words).writing(2).read(Given(chat=messages))
    ends = {"continue_final_message": True} if messages == CHAT else {"add_generation_prompt": True}
    prompt = words.apply_chat_template(list(messages), **ends)["input_ids"]
    (text,) = found.texts
    assert text.prompt == len(prompt)
    assert text.source.ids[: len(prompt)] == tuple(prompt)
    assert text.segments[-1].name == last
    assert text.segments[-1].end == len(prompt)


def test_messages_that_a_template_says_otherwise_alone_are_one_segment():
    """Such as of templates that put a system's message into the first of the user."""
    template = (
        "{% if messages[-1].role == 'system' %}{{ raise_exception('no user') }}{% endif %}"
        "{% for m in messages %}<s>{{ m.content }}{% endfor %}"
    )
    loaded = in_memory("gpt2", of_chats(template))[1]
    (segments,) = loaded.attend(chat=CHAT).source.details["segments"]
    assert [s["name"] for s in segments] == ["system + user", "assistant"]


@pytest.mark.parametrize(
    ("template", "status", "message"),
    [
        (None, MhavizError, "has no chat template; take a model that is made for chats$"),
        (
            "{{ raise_exception('roles must alternate') }}",
            MhavizError,
            r"refuses these messages \(roles must alternate",
        ),
        ("{% for %}", MhavizError, "refuses these messages"),
        ("{{ messages[9].content.x }}", MhavizError, "refuses these messages"),
        ("{{ ''.__class__.__mro__ }}", MhavizError, "refuses these messages"),
        ("{{ 1 / 0 }}", MhavizError, r"\(division by zero\)"),
        ("{{ 'a' * 10**9 }}", MhavizError, "takes more than 256.0 MiB of memory; give fewer or shorter messages"),
        ("{{ 'a'.center(10**9) }}", MhavizError, "takes more than 256.0 MiB of memory"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", MhavizError, "recursion"),
        ("{% for i in range(9**5) %}{% for j in range(9**5) %}{% endfor %}{% endfor %}", MhavizError, "0.1 seconds"),
        ("{{ 'a' * 100000 }}", MhavizError, "makes 100,000 characters of 3 messages; take another copy of its files"),
        ("", ArgumentError, "gives no token for these messages"),
        (" {#- nothing -#} ", ArgumentError, "gives no token for these messages"),
    ],
)
def test_templates_that_do_not_work(chatting, monkeypatch, template, status, message):
    if "seconds" in message:
        monkeypatch.setattr(confinement, "MOST_SECONDS", 0.1)
    words = of_chats(template)
    with pytest.raises(status, match=message) as raised:
        Texts(replace(chatting[1]._whole.loaded, tokenizer=words)).read(Given(chat=CHAT))
    assert "\n" not in str(raised.value)


def test_special_tokens_inside_a_pair_share_no_cells(compared, monkeypatch):
    """Where [SEP] stands inside the text nothing is pooled that nobody asked to be."""
    monkeypatch.setattr(long_inputs, "_MANY_CELLS", 1)
    monkeypatch.setattr(long_inputs, "_DRAWN_CELLS", 8 * 2**2)
    monkeypatch.setattr(long_inputs, "_LEAST_DRAWN", 2)
    _, loaded = compared
    assert loaded.attend("the cat", hide_special=True).maps[0].weights.shape == (4, 2, 2)
    paired = loaded.attend("the cat sat", pair="a dog", hide_special=True).maps[0]
    assert (paired.weights.shape, paired.is_pooled) == ((4, 5, 5), False)
    assert loaded.attend("the cat sat", pair="a dog").maps[0].weights.shape == (4, 2, 2)
    with pytest.raises(ArgumentError, match="share cells with it; leave this out"):
        loaded.attend("the cat sat", pair="a dog", hide_special=True, size=2, show="norms")


BRINGS = "</s>the cat</s>a mat</s>"  # of_chats adds <s> before it


def test_what_goes_to_markers_that_a_text_brings(chatting):
    """Cropped from the map, and counted as separators, as the numbers of eager attention are."""
    model, loaded = chatting
    ids = of_chats()(BRINGS, return_tensors="pt")["input_ids"]
    special = [i for i, number in enumerate(ids[0].tolist()) if number in (1, 2)]
    others = [i for i in range(ids.shape[1]) if i not in special]
    assert len(special) == 4
    weights = torch.stack(eager(model, input_ids=ids))[:, 0].numpy()  # layers heads q_length k_length
    whole, cropped = loaded.attend(BRINGS), loaded.attend(BRINGS, hide_special=True)
    assert [*whole.maps[0].rows.tokens.special] == special
    for m, A in zip(cropped.maps, weights, strict=True):
        np.testing.assert_allclose(m.weights, A[:, others][:, :, others], atol=CLOSE)
        np.testing.assert_allclose(m.to_special, A[:, others][:, :, special].sum(2).mean(1), atol=CLOSE)
    share = weights[..., special].sum(-1).mean(-1)
    np.testing.assert_allclose(loaded.head_statistics(BRINGS).kinds[0].separators.mean, share, atol=CLOSE)


def test_a_prompt_ends_as_the_text_does():
    """Only the ends that the tokenizer adds are left out, as the text goes on."""
    model, words = hf.GPT2LMHeadModel(FAMILIES["gpt2"][1]()).eval(), of_chats()
    ending = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 1), ("</s>", 2)])
    for added in (0, 1):
        words.backend_tokenizer.post_processor = ending if added else words.backend_tokenizer.post_processor
        (text,) = model_in_memory(model, words).writing(1).read(Given(("the cat</s>",))).texts
        prompt = words("the cat</s>")["input_ids"]
        assert [*text.source.ids[: text.prompt]] == prompt[: len(prompt) - added]


def test_markers_inside_a_pair_are_special(compared):
    tokens = compared[1].attend("the [SEP] cat", pair="a [SEP]").maps[0].rows.tokens
    assert tokens.texts == ("[CLS]", "the", "[SEP]", " cat", "[SEP]", "a", "[SEP]", "[SEP]")
    assert tokens.special == (0, 2, 4, 6, 7)


def test_exactly_these_ids(compared):
    model, loaded = compared
    attention = loaded.attend(ids=[[7, 5, 6], np.array([1, 9, 2])])
    assert [m.rows.tokens.ids for m in attention.maps[::2]] == [(7, 5, 6), (1, 9, 2)]
    expected = eager(model, input_ids=torch.tensor([[7, 5, 6]]))
    np.testing.assert_allclose(attention.maps[0].weights, expected[0][0], atol=CLOSE)
    assert loaded.attend(ids=torch.tensor([7, 5])).maps[0].rows.tokens.ids == (7, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": [300]}, "expected tokens below 300, as it has embeddings, got number 300"),
        ({"ids": [-1]}, "`ids`: expected numbers from 0 on, got -1"),
        ({"ids": []}, "`ids`: expected at least one token, got none"),
        ({"ids": [[1], []]}, "`ids`: expected at least one token, got none"),
        ({"ids": "12"}, "`ids`: expected whole numbers, or several lists of them, got '12'"),
        ({"ids": [1.5]}, "`ids`: expected whole numbers"),
        ({"ids": 3}, "`ids`: expected whole numbers"),
        ({"ids": [1], "chat": CHAT}, "`chat` and `ids` are two inputs; leave out one"),
        ({"texts": "a", "ids": [1]}, "`ids` takes the place of a sentence; leave out one of them"),
        ({"texts": "a", "chat": CHAT}, "`chat` takes the place of a sentence"),
        ({"ids": [1], "pair": "a"}, "`pair` goes with a sentence, got `ids`"),
        ({"texts": ["a", "b"], "pair": "a"}, "`pair` goes with one sentence, got 2"),
        ({"texts": "a", "pair": " "}, "`pair`: expected a text, got an empty one"),
        ({"texts": "the", "pair": "\u200d"}, "expected a text with at least one token"),
        ({"chat": ()}, "`chat`: expected a list of messages .*: Expected `array` of length >= 1"),
        ({"chat": "hello"}, "`chat`: expected a list of messages .*got `str`"),
        ({"chat": ["hello"]}, "`chat`: expected a list of messages .*got `str`"),
        ({"chat": [{"role": "user"}]}, "missing required field `content`"),
        ({"chat": [{"role": 1, "content": "a"}]}, "Expected `str`, got `int`"),
        (
            {"texts": "a", "target_language": "fr"},
            "`target_language` is for multilingual models; ",
        ),
        ({"texts": Given(("a",)), "pair": "b"}, "expected only a Given"),
    ],
)
def test_what_cannot_be_read(compared, options, message):
    with pytest.raises(MhavizError, match=message):
        compared[1].attend(**options)


def test_a_tokenizer_without_a_template_for_pairs(chatting):
    with pytest.raises(ArgumentError, match="has no template for pairs, and puts no token between two texts"):
        chatting[1].attend("the cat", pair="a dog")


@pytest.mark.parametrize("model", ["random", "translation"])
def test_models_that_read_words_alone(model):
    for options in ({"chat": CHAT}, {"ids": [1]}, {"texts": "a cat", "pair": "b"}):
        with pytest.raises(ArgumentError, match="is for a transformers model; name one with `model`"):
            mhaviz.load(model).attend(**options)


CODES = ["eng_Latn", "fra_Latn", "en_XX", "ro_RO"]
LETTERS = ["<s>", "<pad>", "</s>", "<unk>", "▁", *"thecas"]


def nllb():
    pieces = {piece: i for i, piece in enumerate(dict.fromkeys([*LETTERS, *CODES]))}
    return hf.NllbTokenizer(vocab=pieces, merges=[], src_lang="eng_Latn"), "eng_Latn", "fra_Latn"


def mbart():
    pieces = [(piece, -float(i)) for i, piece in enumerate(dict.fromkeys([*LETTERS, *CODES]))]
    return hf.MBartTokenizer(vocab=pieces, src_lang="en_XX"), "en_XX", "ro_RO"


@pytest.fixture(scope="module", params=[nllb, mbart])
def many_languages(request):
    words, source, target = request.param()
    torch.manual_seed(0)
    config = FAMILIES["bart"][1]()
    config.vocab_size = max(len(words), config.vocab_size)
    return hf.BartForConditionalGeneration(config).eval(), words, source, target


def test_languages_are_those_that_are_asked_for(many_languages):
    """Beside transformers' own way: the tokenizer's languages, and a first token that is forced."""
    model, words, source, target = many_languages
    loaded = mhaviz.load(model, words, predicts=True)
    before = words("the cat")["input_ids"]
    (text,) = loaded._whole.read(Given(("the cat",), source_language=target, target_language=source)).texts
    assert words("the cat")["input_ids"] == before, "the tokenizer is as it was"
    code = words.convert_tokens_to_ids(source)

    words.src_lang = target
    expected = words("the cat", return_tensors="pt")
    words.src_lang = source
    assert text.source.ids == tuple(expected["input_ids"][0].tolist())
    is_first = words("the")["input_ids"][0] == words.convert_tokens_to_ids(source)
    ways = {"forced_bos_token_id": code} if is_first else {"decoder_start_token_id": code}
    written = model.generate(**expected, do_sample=False, num_beams=1, max_new_tokens=64, **ways)[0].tolist()
    assert text.target.ids == tuple(written[: len(text.target)])
    assert text.produced.ids == tuple(written[1 : len(text.produced) + 1])
    assert code in text.produced.ids[:1] + text.target.ids[:1]


def test_a_target_in_a_language(many_languages):
    model, words, source, target = many_languages
    whole = mhaviz.load(model, words)._whole
    (text,) = whole.read(Given(("the cat",), "a cat", target_language=target)).texts
    words.tgt_lang = target
    labels = words(text_target="a cat")["input_ids"]
    words.tgt_lang = None
    assert text.produced.ids == tuple(labels)
    code = words.convert_tokens_to_ids(target)
    assert (text.target.ids[0] == code) != (text.produced.ids[0] == code)
    with pytest.raises(ArgumentError, match="marks a target by the code of its language; give it by `target_l"):
        whole.read(Given(("the cat",), "a cat"))
    assert words.src_lang == source


def test_a_language_that_the_model_does_not_know(many_languages):
    model, words, source, _ = many_languages
    with pytest.raises(ArgumentError, match=r"`source_language`: expected one of \d+ codes that .*got 'e"):
        mhaviz.load(model, words).attend("the cat", source_language=source[:-1] + "Y")


def test_roles_are_hostile(mhaviz, tmp_path):
    """They stand under the picture, in every view."""
    roles = ["$x$ [bold]", "<script>alert(1)</script>", "\x1b[31m\u202e\x00", "a\nb", "\ud800", "r" * 5000]
    chat = [{"role": role, "content": "the cat"} for role in roles]
    attention = in_memory("gpt2", of_chats("{% for m in messages %}<s>{{ m.content }}{% endfor %}"))[1].attend(
        chat=chat
    )
    for suffix in ("html", "svg", "json"):
        attention.save(tmp_path / f"chat.{suffix}")
    assert "<script>alert" not in (tmp_path / "chat.html").read_text()
    drawn = (tmp_path / "chat.svg").read_text()
    shown = mhaviz("show", str(tmp_path / "chat.json"))
    assert shown.status == 0
    for text in (drawn, shown.out):
        assert "$x$ [bold]" in text
        assert not {"\x1b", "\u202e", "\x00", "\ud800"} & set(text)


def test_segments_in_words():
    roles = [Segment(f"role {i}" * 30, i, i + 1) for i in range(9)]
    text = segments_text(roles)
    assert text.startswith("tokens 0 role 0")
    assert text.endswith(", … 3 more")
    assert len(text) < 600


def test_on_the_command_line(mhaviz, model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "chatty"
    model = hf.GPT2LMHeadModel(FAMILIES["gpt2"][1]())
    model.save_pretrained(folder)
    of_chats().save_pretrained(folder)
    (tmp_path / "chat.json").write_text(json.dumps({"messages": CHAT}))
    (tmp_path / "ids.txt").write_text("5, 6,7\n\n8 9\n")
    model = ("--model", str(folder), "--json")
    chat = json.loads(mhaviz("heatmap", *model, "--chat", "chat.json").out)
    assert chat["source"]["segments"][0][1]["name"] == "user"
    ids = json.loads(mhaviz("heatmap", *model, "--ids", "ids.txt").out)
    assert [len(m["queries"]) for m in ids["maps"]] == [3, 3, 2, 2]
    for command in ("explain", "embeddings"):
        token = ["--token", "#1"] * (command == "explain")
        result = mhaviz(command, *model, "--ids", "5,6,7", *token)
        assert (result.status, result.err) == (0, ""), command


@pytest.mark.parametrize(
    ("arguments", "content", "status", "message"),
    [
        (["--chat", "chat.json"], "[", 1, "cannot read chat.json: "),
        (["--chat", "chat.json"], '{"a": 1}', 1, "chat.json: expected a list of messages"),
        (["--chat", "chat.json"], '[{"role": "user", "content": 1}]', 1, "Expected `str`, got `int`"),
        (["--chat", "chat.json"], r'[{"role": "a", "content": "b", "\ud800": 1}]', 1, r"character '\ud800'"),
        (["--chat", "nowhere.json"], "", 1, "cannot read nowhere.json"),
        (["--ids", "chat.json"], "1,a", 1, "chat.json, line 1: expected numbers such as 101,2023,102"),
        (["--ids", "chat.json"], "\n", 1, "chat.json is empty: expected the ids of one sequence a line\n"),
        (["--ids", "1,x"], "", 2, "--ids: expected numbers such as 101,2023,102, or a file of them, got 'x'"),
        (["--ids", "1", "a"], "", 2, "--ids takes the place of a sentence"),
        (["--pair", "a"], "", 2, "--pair goes with one sentence, got 0"),
        (["--pair", "a", "b", "--model", "random"], "", 2, "--pair is for a transformers model"),
        (["--ids", "9" * 18], "", 2, "expected tokens below 300, as it has embeddings, got"),
        (["--ids", "9" * 5000], "", 2, "--ids: expected numbers such as 101,2023,102"),
    ],
)
def test_errors_on_the_command_line(mhaviz, model_folder, tmp_path, monkeypatch, arguments, content, status, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat.json").write_text(content)
    result = mhaviz("heatmap", "--model", str(model_folder("gpt2")), *arguments)
    assert result.status == status
    assert message in result.err
    assert result.err.count("\n") == 1


def said(tokens, turn):
    return "".join(tokens.texts[turn.start : turn.end]).strip()


@pytest.mark.parametrize(
    "template",
    [
        CHATML,
        "{% for m in messages %}[{{ m.role }}]: {{ m.content | trim }} user \n{% endfor %}",  # its own words are roles
        "{{ messages[0].content }}{% for m in messages[1:] %}<s>{{ m.content }}{% endfor %}",
    ],
)
def test_turns_are_the_messages_alone(template):
    messages = [{"role": "system", "content": "user the mat "}, *CHAT[1:], {"role": "user", "content": "the"}]
    text = read_chat(of_chats(template), messages, "m")
    turns = text.source.turns
    assert [turn.name for turn in turns] == ["system", "user", "assistant", "user"]
    assert [said(text.source, turn) for turn in turns] == [m["content"].strip() for m in messages]


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}<s>{{ m.content | upper }}{% endfor %}",
        "{% for m in messages %}{{ m.content }} {{ m.content }}{% endfor %}",
        "{{ messages[1].content }}{{ messages[0].content }}",
        "{% for m in messages %}{% if 'placeholder' in m.content %}{{ raise_exception('no') }}{% endif %}"
        "{{ m.content }}{% endfor %}",
    ],
)
def test_a_template_that_changes_messages_leaves_them_without_tokens(template):
    loaded = in_memory("gpt2", of_chats(template))[1]
    with pytest.raises(ArgumentError, match="the chat template has changed it or a message before it"):
        loaded.attend(chat=CHAT[:2], by="turn")


def test_a_message_that_is_written_again_is_not_guessed():
    template = "{% for m in messages %}<s>{{ m.content }}{% endfor %}</s>{{ messages[0].content }}"
    turns = read_chat(of_chats(template), CHAT, "m").source.turns
    assert [turn.end > turn.start for turn in turns] == [False, False, False]


def test_what_is_behind_a_changed_message_is_not_guessed():
    template = "{% for m in messages %}<s>{{ m.content if loop.first else m.content | upper }}{% endfor %}"
    turns = read_chat(of_chats(template), CHAT, "m").source.turns
    assert [turn.end > turn.start for turn in turns] == [False, False, False]  # what follows it begins no message


def test_the_written_answer_is_a_turn():
    loaded = in_memory("gpt2", of_chats())[1]
    found = loaded.attend(chat=CHAT[:2], generate=3, by="turn")[0]
    assert found.queries == ("system", "user", "answer")
    assert found.rows.tokens.counts[2] == 3
    assert 0 < found.lookback[0, 2] < 1
    assert loaded.attend("the cat", generate=2, by="turn")[0].queries == ("prompt", "answer")


def test_texts_of_a_pair_are_turns():
    loaded = in_memory("bert", of_pairs())[1]
    found = loaded.attend("the cat", pair="a dog", by="turn")[0]
    assert found.queries == ("first", "second")
    spans = [{"name": "cat", "text": "cat"}, {"name": "dog", "text": "dog"}]
    assert loaded.attend("the cat", pair="a dog", by=spans)[0].rows.tokens.ranges == (((2, 3),), ((5, 6),))


def test_characters_are_those_of_the_text_that_the_model_reads():
    loaded = in_memory("bert", of_pairs())[1]
    text = "the cat sat. hello world."
    found = loaded.attend(text, by=[{"name": "b", "characters": [13, 25]}, {"name": "a", "characters": [4, 7]}])[0]
    assert [loaded.attend(text)[0].keys[a:b] for ((a, b),) in found.rows.tokens.ranges] == [
        (" cat",),
        (" hello", " world", "."),
    ]
    assert loaded.attend(text, by="sentence")[0].queries == ("the cat sat.", "hello world.")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"show": "norms"}, "uniform attention, beside which a sentence is shown, has weights alone"),
        ({"show": "rollout"}, "uniform attention, beside which a sentence is shown, has weights alone"),
        ({"size": 4}, "`size` makes cells of tokens, in place of a sentence"),
        ({"pool": "mass"}, "`pool` makes cells of tokens"),
        ({"hide_special": True}, "`hide_special`: special tokens are in no sentence, and stand apart"),
        ({"window": (0, 2, 0, 2)}, "`window` chooses single tokens, and may cut a sentence"),
        ({"query": "a mouse"}, "expected a token"),
    ],
)
def test_what_does_not_go_with_sentences(options, reason):
    with pytest.raises(ArgumentError, match=reason):
        in_memory("bert", of_pairs())[1].attend("the cat sat. a dog ran.", by="sentence", **options)
