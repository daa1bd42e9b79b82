"""What a checkpoint is read as where predictions are compared, and what its files then must hold."""

import pytest
import torch
import transformers as hf
from families import BERT_LIKE, ENDS, GROUPED, V, bytes_and_words, word_pieces

import mhaviz
from mhaviz.models.transformers.load import load_checkpoint
from mhaviz.models.transformers.model import TransformersModel

GPT2 = {"vocab_size": V, "n_positions": 64, "n_embd": 32, "n_layer": 1, "n_head": 4, **ENDS}
BERT = {"vocab_size": V, **BERT_LIKE, "num_hidden_layers": 1}
LLAMA = {"vocab_size": V, **GROUPED, **ENDS, "num_hidden_layers": 1}


def saved(folder, model, masks=True):
    model.save_pretrained(folder)
    tokenizer = word_pieces()
    if masks:
        tokenizer.mask_token = "[MASK]"
    (tokenizer if "Bert" in type(model).__name__ else bytes_and_words()).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("make", "name", "prediction"),
    [
        (lambda: hf.BertForMaskedLM(hf.BertConfig(**BERT)), "BertForMaskedLM", "masked token"),
        (lambda: hf.BertForPreTraining(hf.BertConfig(**BERT)), "BertForMaskedLM", "masked token"),
        (lambda: hf.BertModel(hf.BertConfig(**BERT)), "BertModel", "embedding"),
        (lambda: hf.BertForSequenceClassification(hf.BertConfig(**BERT)), "BertModel", "embedding"),
        (lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2)), "GPT2LMHeadModel", "next token"),
        (
            lambda: hf.GPT2Model(hf.GPT2Config(**GPT2)),
            "GPT2LMHeadModel",
            "next token",
        ),  # it reads and writes by a table
        (lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA)), "LlamaForCausalLM", "next token"),
        (lambda: hf.LlamaModel(hf.LlamaConfig(**LLAMA)), "LlamaModel", "embedding"),
    ],
)
def test_what_predicts_tokens_is_read_if_it_is_there(tmp_path, make, name, prediction):
    torch.manual_seed(0)
    folder = saved(tmp_path / "model", make())
    model = TransformersModel.of(load_checkpoint(str(folder), torch.device("cpu"), predicts=True))
    assert (type(model.loaded.model).__name__, model.predictor.prediction) == (name, prediction)
    assert not any(parameter.isnan().any() for parameter in model.loaded.model.parameters())


def test_without_a_token_that_masks_embeddings_are_compared(tmp_path):
    folder = saved(tmp_path / "model", hf.BertForMaskedLM(hf.BertConfig(**BERT)), masks=False)
    assert mhaviz.load(folder, predicts=True).ablate("the cat").prediction == "embedding"


def test_a_model_is_loaded_again_to_predict(tmp_path):
    loaded = mhaviz.load(saved(tmp_path / "model", hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2))))
    assert "GPT2Model" in str(loaded.head_statistics("the cat").source)
    assert loaded.ablate("the cat").prediction == "next token"
    assert mhaviz.ablate(tmp_path / "model", ["the cat"], head=0).prediction == "next token"
    assert mhaviz.load(tmp_path / "model", predicts=True).ablate("the cat").prediction == "next token"
