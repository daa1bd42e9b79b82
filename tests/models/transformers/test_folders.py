"""Folders of models that are broken, hostile or not whole: one line is said, and nothing of the libraries."""

import ast
import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import ProphetNetConfig, ProphetNetModel

from mhaviz.errors import MhavizError
from mhaviz.models.transformers import growth, sizes
from mhaviz.models.transformers import load as loading
from mhaviz.models.transformers.silence import silence

TEXT = "the cat sat"
COMMANDS = (
    ("heatmap", TEXT),
    ("explain", TEXT, "--token", "#0"),
    ("heads", TEXT, "the cat"),
    ("compare-scaling", TEXT),
    ("trace-shapes", TEXT),
    ("report", TEXT),
)
CONFIG, WORDS, WRITING = "config.json", "tokenizer_config.json", "generation_config.json"


@pytest.fixture
def folder(model_folder, tmp_path):
    """Copy a family's folder, which a test may change."""
    return lambda name="bert": Path(shutil.copytree(model_folder(name), tmp_path / name))


def change(folder, file, **fields):
    """Set fields of a JSON file; what is made by a function is text that stands there as it is."""
    path = folder / file
    document = json.loads(path.read_text()) if path.is_file() else {}
    raw = {key: value() for key, value in fields.items() if callable(value)}
    text = json.dumps(document | {key: f"RAW {key}" if key in raw else value for key, value in fields.items()})
    for key, value in raw.items():
        text = text.replace(f'"RAW {key}"', value)
    path.write_text(text)


def refused(result):
    """The one line of an error."""
    assert (result.status, result.out) == (1, ""), result.err
    assert re.fullmatch(r"mhaviz: [^\n]+\n", result.err)
    assert len(result.err) < 600
    return result.err


def nested():
    return "[" * 100_000 + "]" * 100_000


HOSTILE = [
    ("bert", CONFIG, {"model_type": ["bert"]}),
    ("bert", CONFIG, {"architectures": 5}),
    ("bert", CONFIG, {"hidden_act": ["gelu"]}),
    ("bert", CONFIG, {"layer_norm_eps": "x"}),
    ("bert", CONFIG, {"hidden_size": -5}),
    ("bert", CONFIG, {"num_attention_heads": 0}),
    ("bert", CONFIG, {"id2label": nested}),
    ("bert", CONFIG, {"quantization_config": 5}),
    ("bert", CONFIG, {"vocab_size": lambda: "9" * 5000}),
    ("llama", CONFIG, {"rope_parameters": {"rope_type": "yarn", "factor": "x"}}),
    ("llama", CONFIG, {"sub_configs": [1]}),
    ("llama", CONFIG, {"dtype": "no such"}),
    ("llama", CONFIG, {"num_key_value_heads": 3}),
    ("bert", WORDS, {"model_max_length": "x"}),
    ("bert", WORDS, {"padding_side": 3}),
    ("bert", WORDS, {"model_input_names": 5}),
    ("bert", WORDS, {"added_tokens_decoder": {"x": 1}}),
    ("bert", WORDS, {"cls_token": {"a": [1]}}),
    ("bert", WORDS, {"tokenizer_class": nested}),
    ("bert", "tokenizer.json", {"model": {"type": "WordPiece", "vocab": [1]}}),
    ("bert", "tokenizer.json", {"truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 5}}),
    ("bart", WRITING, {"eos_token_id": [{"a": 1}]}),
    ("bart", WRITING, {"sequence_bias": 3}),
]


@pytest.mark.parametrize(("number", "name", "file", "fields"), [(i, *case) for i, case in enumerate(HOSTILE)])
def test_values_of_the_wrong_type(mhaviz, folder, number, name, file, fields):
    model = folder(name)
    change(model, file, **fields)
    refused(mhaviz(*COMMANDS[number % len(COMMANDS)], "--model", str(model)))


def test_a_tokenizer_that_panics(mhaviz, folder):
    """Its regular expression backtracks without end; the library writes to standard error before it raises."""
    model = folder()
    pattern = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "x"}
    change(model, "tokenizer.json", normalizer=pattern)
    for command in ("heatmap", "heads"):
        err = refused(mhaviz(command, "a" * 40 + "!", "--model", str(model)))
        assert "the model's tokenizer cannot read this (" in err


def multiplying():
    """What of a tokenizer.json would make 100 ** 9 characters of one "a", or 2 ** 40 of a blank."""
    many = [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}] * 9
    empty = [{"type": "Replace", "pattern": {"Regex": "x*"}, "content": " "}] * 40
    blanks = [{"type": "BPEDecoder", "suffix": ""}, {"type": "CTC", "pad_token": "", "word_delimiter_token": ""}]
    bytes_of_bytes = [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}] * 40
    added = {"id": 900, "content": "aa", "single_word": False, "lstrip": False, "rstrip": False, "normalized": True}
    nested = {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": many}]}
    yield {"normalizer": nested}
    yield {"normalizer": nested, "added_tokens": [added | {"special": False}]}  # which loading normalises
    yield {"normalizer": {"type": "Sequence", "normalizers": empty}}
    yield {"normalizer": {"type": "Sequence", "normalizers": [empty[0] | {"pattern": {"String": ""}}] * 40}}
    yield {"pre_tokenizer": {"type": "Sequence", "pretokenizers": bytes_of_bytes}}
    yield {"decoder": {"type": "Sequence", "decoders": many}}
    yield from ({"decoder": {"type": "Sequence", "decoders": [blank | {"cleanup": True}] * 40}} for blank in blanks)


@pytest.mark.parametrize("fields", list(multiplying()))
def test_a_tokenizer_that_multiplies_a_text(mhaviz, folder, fields):
    model = folder()
    change(model, "tokenizer.json", **fields)
    err = refused(mhaviz("heatmap", "a cat", "--model", str(model)))
    assert "the model's tokenizer may make 1,099,511,627,776 or more characters of one" in err


def template(*pieces, names=("[CLS]",)):
    """A post-processor: A stands for a text, and a for a special token of these names."""
    kinds = {"A": {"Sequence": {"id": "A", "type_id": 0}}, "a": {"SpecialToken": {"id": "[CLS]", "type_id": 0}}}
    single = [kinds[piece] for piece in pieces]
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    special = {"[CLS]": {"id": "[CLS]", "ids": [1] * len(names), "tokens": names}}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (template(*"A" * 10_000), "writes each text 10,000 times, with 0 special tokens"),
        (template("A", *"a" * 10_000), "writes each text 1 time, with 10,000 special tokens"),
        (template("A", *"a" * 1000, names=["x"] * 1000), "writes each text 1 time, with 1,000,000 special tokens"),
        ({"type": "Sequence", "processors": [template("A", "A")] * 60}, "times, with 0 special tokens"),
        (template("A", *"a" * 4000, names=["x" * 10**7]), "may make 468,750 characters of one, and of 4,005 a text"),
    ],
)
def test_a_tokenizer_that_multiplies_tokens(mhaviz, folder, monkeypatch, processor, message):
    monkeypatch.setattr(growth, "free_main_memory", lambda: 2**30)
    model = folder()
    change(model, "tokenizer.json", post_processor=processor)
    for command in ("heatmap", "heads"):
        assert message in refused(mhaviz(command, "a cat", "--model", str(model)))


def test_a_long_name_of_what_a_tokenizer_does_not_know(mhaviz, folder, monkeypatch):
    """It stands for every such word."""
    monkeypatch.setattr(growth, "free_main_memory", lambda: 2**30)
    model, name = folder(), "x" * 10**7
    vocabulary = {"a": 0, name: 1, "[PAD]": 2}
    change(model, "tokenizer.json", model={"type": "WordLevel", "vocab": vocabulary, "unk_token": name})
    err = refused(mhaviz("heatmap", "no " * 1000, "--model", str(model)))
    assert "may make 468,750 characters of one, and of 3,002 a text that needs about 83.9 GiB" in err


def test_a_tokenizer_that_makes_texts_a_little_longer(mhaviz, folder):
    """As those of SentencePiece do, and expressions that join blanks."""
    model = folder()
    steps = [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}] * 6
    steps += [{"type": "Prepend", "prepend": " "}, {"type": "Replace", "pattern": {"String": "``"}, "content": '"'}]
    change(model, "tokenizer.json", normalizer={"type": "Sequence", "normalizers": steps})
    assert mhaviz("heatmap", "the  cat", "--model", str(model)).status == 0


def test_few_places_ask_the_tokenizer():
    """Nobody who reads a text can forget that a foreign tokenizer may raise anything."""
    package = Path(sys.modules[loading.__name__].__file__).parent
    asks = re.compile(r"tokenizer[.(]|getattr\([^,]*tokenizer")
    guarded = {path for path in package.glob("*.py") if "@asks_the_tokenizer" in path.read_text()}
    assert {path.name for path in guarded} == {"read.py", "segments.py", "languages.py"}
    for path in package.glob("*.py"):
        if path not in guarded and path.name not in ("load.py", "growth.py"):  # which guarded functions ask
            assert not asks.search(path.read_text()), path
    for path in guarded:
        for part in ast.parse(path.read_text()).body:
            is_inner = getattr(part, "name", "_").startswith("_") and path.name != "languages.py"
            if is_inner or isinstance(part, ast.Expr) or not asks.search(ast.unparse(part)):
                continue  # inner functions are called by those that are guarded
            decorators = [ast.unparse(decorator) for decorator in getattr(part, "decorator_list", ())]
            assert "asks_the_tokenizer" in decorators or part.name in ("asks_the_tokenizer", "named", "pieces_shown"), (
                path,
                part.name,
            )


def test_what_libraries_print_is_not_seen(capfd):
    with silence(1, 2):
        sys.stdout.write("a\n")
        sys.stderr.write("b\n")
        os.write(1, b"c")
        os.write(2, b"d")
        with silence(2):
            os.write(2, b"e")
    assert capfd.readouterr() == ("", "")
    with silence(2):
        sys.stdout.write("a\n")
    os.write(2, b"b")
    assert capfd.readouterr() == ("a\n", "b")


def test_nothing_that_is_printed_while_a_model_is_loaded_is_seen(model_folder, monkeypatch, capfd):
    load = loading._tokenizer

    def load_and_print(*arguments):
        os.write(1, b"printed")
        return load(*arguments)

    monkeypatch.setattr(loading, "_tokenizer", load_and_print)
    loading.load_checkpoint(str(model_folder("bert")), torch.device("cpu"))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_hidden_layers": 1_000_000}, r"num_hidden_layers 1,000,000, and its weight files hold 39 tensors"),
        (
            {"num_hidden_layers": 120},
            r"expected weights for all 1927 parameters of BertModel, got none for 1888 of them",
        ),
        ({"num_labels": 10_000_000}, r"num_labels 10,000,000, and its weight files hold 39 tensors"),
        ({"num_labels": 1e12}, r"cannot be loaded \("),
        ({"vocab_size": 10**9}, r"asks for more than [\d.]+ M numbers"),
        ({"hidden_size": 10**30}, r"cannot be loaded \("),
        ({"max_position_embeddings": 10**9}, r"asks for more than [\d.]+ M numbers"),
        (
            {"hidden_size": 64},
            r"'embeddings\.LayerNorm\.bias' has the shape \(32,\) in the files, and \(64,\) by",
        ),
        ({"intermediate_size": 96}, r"intermediate\.dense\.bias' has the shape \(48,\) .*; so do 5 others"),
    ],
)
def test_sizes_that_the_files_do_not_have(mhaviz, folder, fields, message):
    model = folder()
    change(model, CONFIG, **fields)
    if "39 tensors" in message:
        message = message.replace("39 tensors", f"{len(load_file(model / 'model.safetensors'))} tensors")
    assert re.search(message, refused(mhaviz("heatmap", TEXT, "--model", str(model))))


@pytest.mark.parametrize("part", [{"num_hidden_layers": 10**9}, {"num_labels": 10**9}])
def test_sizes_of_a_part_that_the_files_do_not_have(mhaviz, folder, part):
    model = folder("clip")
    change(model, CONFIG, text_config=part)
    assert f"{list(part)[-1]} 1,000,000,000, and its" in refused(mhaviz("heatmap", TEXT, "--model", str(model)))


def test_numbers_that_no_model_reads(mhaviz, folder, model_folder):
    """They may be of any size: how many examples it was trained on, or what another model of its family has."""
    model = folder()
    change(
        model,
        CONFIG,
        num_params=110_000_000,
        dataset_size=10**12,
        num_examples_seen=5_000_000,
        task_specific_params={"x": {"num_docs": 21_000_000, "vocab_size": 10**9}},
    )
    expected = mhaviz("heatmap", TEXT, "--model", str(model_folder("bert")), "--json")
    assert maps(mhaviz("heatmap", TEXT, "--model", str(model), "--json")) == maps(expected)


@pytest.mark.parametrize("fields", [{"text_config": [1]}, {"decoder": {"a": 1}}])
def test_what_is_called_as_the_configuration_of_a_part_and_is_none(mhaviz, folder, model_folder, fields):
    model = folder()
    change(model, CONFIG, **fields)
    expected, shown = (
        mhaviz("embeddings", TEXT, "--model", str(path), "--json") for path in (model_folder("bert"), model)
    )
    assert (shown.status, shown.err) == (0, "")
    assert json.loads(shown.out)["parts"] == json.loads(expected.out)["parts"]


NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("bert", {"num_attention_heads": 0}, "by zero"),
        ("bert", {"num_attention_heads": -4}, "cannot be run"),
        ("bert", {"num_hidden_layers": 0}, "has no attention that can be shown"),
        ("llama", {"num_key_value_heads": 0}, "by zero"),
        ("bert", {"hidden_act": "no such"}, "'no such'"),
        ("bert", {"dtype": "no such"}, "'no such'"),
        ("bert", {"layer_norm_eps": NAN}, "layer 0, self: expected queries that are numbers, got NaN"),
        ("bert", {"layer_norm_eps": {"__float__": "NaN"}}, "layer 0, self: expected queries that are numbers, got NaN"),
        ("bert", {"layer_norm_eps": -1.0}, "layer 0, self: expected queries that are numbers, got NaN"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "default", "rope_theta": NAN}},
            "layer 0, masked: expected queries",
        ),
        ("bert", {"num_hidden_layers": [2]}, "'num_hidden_layers' expected int, got list"),
        ("bert", {"hidden_act": None}, "'hidden_act' expected str, got NoneType"),
    ],
)
def test_a_field_that_cannot_be(mhaviz, folder, name, fields, message):
    model = folder(name)
    change(model, CONFIG, **fields)
    assert message in refused(mhaviz("heatmap", TEXT, "--model", str(model)))


@pytest.mark.parametrize(
    ("value", "message"), [(lambda: "9" * 5000, "Exceeds the limit"), (nested, "maximum recursion depth exceeded")]
)
def test_a_config_that_python_does_not_read(mhaviz, folder, value, message):
    model = folder()
    change(model, CONFIG, vocab_size=value)
    assert f"its config.json cannot be read ({message}" in refused(mhaviz("heatmap", TEXT, "--model", str(model)))


@pytest.mark.parametrize(("name", "field"), [("bert", "attn_implementation"), ("t5", "_attn_implementation")])
def test_an_implementation_that_is_not_on_this_machine(mhaviz, folder, model_folder, name, field):
    """It changes no weight, and another one draws them."""
    model = folder(name)
    change(model, CONFIG, **{field: "flash_attention_2"})
    expected = mhaviz("heatmap", TEXT, "--model", str(model_folder(name)), "--json")
    assert maps(mhaviz("heatmap", TEXT, "--model", str(model), "--json")) == maps(expected)


def test_what_another_thread_builds_meanwhile_is_no_part_of_the_model():
    def build():
        with torch.device("meta"):
            return torch.nn.Linear(20_000, 10_000)

    with ThreadPoolExecutor(1) as other, sizes._at_most(sizes.FileSizes(), "m"):
        assert other.submit(build).result().out_features == 10_000
        with pytest.raises(MhavizError, match="asks for more than"):
            build()


def test_shapes_with_as_many_numbers(mhaviz, folder):
    model = folder()
    tensors = load_file(model / "model.safetensors")
    name = "encoder.layer.1.intermediate.dense.weight"
    tensors[name] = tensors[name].T.contiguous()
    save_file(tensors, model / "model.safetensors", {"format": "pt"})
    err = refused(mhaviz("heatmap", TEXT, "--model", str(model)))
    assert f"'{name}' has the shape (32, 48) in the files, and (48, 32) by the config.json; take both" in err


@pytest.mark.parametrize(("method", "message"), [("gptq", "gptq"), ("torchao", "torchao"), ("x", "knows no")])
def test_quantised_weights_need_what_transformers_says(mhaviz, folder, method, message):
    model = folder()
    change(model, CONFIG, quantization_config={"quant_method": method, "bits": 4})
    err = refused(mhaviz("heatmap", TEXT, "--model", str(model)))
    assert message in err.lower()


def test_words_in_a_file_of_its_own_kind(mhaviz, tmp_path):
    """ProphetNet's are neither in a tokenizer.json nor in a vocab.txt."""
    sizes = {f"num_{part}coder_{of}": 2 for part in ("en", "de") for of in ("layers", "attention_heads")}
    config = ProphetNetConfig(
        vocab_size=8, hidden_size=16, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32, **sizes
    )
    ProphetNetModel(config).save_pretrained(tmp_path)
    words = "[PAD] [CLS] [SEP] [UNK] [MASK] the cat sat"
    (tmp_path / "prophetnet.tokenizer").write_text("\n".join(words.split()))
    drawn = mhaviz("heatmap", TEXT, "--model", str(tmp_path), "--target", TEXT, "--json")
    assert {"the", "cat", "sat"} <= set(maps(drawn)[0]["keys"])


def test_gguf(mhaviz, folder, tmp_path):
    (tmp_path / "some.GGUF").write_bytes(b"GGUF")
    assert "cannot tell what model" in refused(mhaviz("heatmap", TEXT, "--model", str(tmp_path / "some.GGUF")))
    model = folder()
    (model / "model.safetensors").rename(model / "model.gguf")
    said = "got 'model.gguf'; save the whole model with save_pretrained"
    assert said in refused(mhaviz("heatmap", TEXT, "--model", str(model)))


def test_pickles_are_never_named_as_safetensors(mhaviz, folder):
    model = folder()
    shutil.copy(model / "model.safetensors", model / "pytorch_model.bin")
    change(model, CONFIG, transformers_weights="pytorch_model.bin")
    assert "expected safetensors as its transformers_weights" in refused(mhaviz("heatmap", TEXT, "--model", str(model)))
    change(model, CONFIG, transformers_weights=None)
    (model / "model.safetensors").unlink()
    change(model, "model.safetensors.index.json", weight_map={"a": "pytorch_model.bin"})
    assert "lacks 'pytorch_model.safetensors': expected" in refused(mhaviz("heatmap", TEXT, "--model", str(model)))


@pytest.mark.parametrize(
    ("file", "auto_map", "message"),
    [
        (
            CONFIG,
            {"AutoModelForCausalLM": "modeling_x.X"},
            "code for its model is not run: what is shown is transformers'",
        ),
        (CONFIG, {"AutoConfig": "configuration_x.X"}, "code for its model is not run: what is shown is transformers'"),
        (WORDS, {"AutoTokenizer": ["tokenization_x.X", None]}, "code for its tokenizer is not run"),
        (CONFIG, {"AutoProcessor": "processing_x.X"}, None),
    ],
)
def test_code_that_is_left_out_is_told(mhaviz, folder, file, auto_map, message):
    model = folder("llama")
    change(model, file, auto_map=auto_map)
    drawn = mhaviz("heatmap", TEXT, "--model", str(model), "--json")
    explained = mhaviz("explain", TEXT, "--token", "#0", "--model", str(model), "--json")
    for result in (drawn, explained):
        remark = json.loads(result.out)["source"].get("remark", "")
        assert (message in result.err and message in remark) if message else (result.err, remark) == ("", "")


def maps(result):
    assert result.status == 0, result.err
    return json.loads(result.out)["maps"]


def test_an_adapter_is_refused(mhaviz, folder):
    """Whether peft would have applied it: attention with and without are two answers."""
    model = folder("llama")
    (model / "adapter_config.json").write_text("{}")
    err = refused(mhaviz("heatmap", TEXT, "--model", str(model)))
    assert "holds an adapter beside its weights: load it with peft, and save what merge_and_unload() returns" in err
