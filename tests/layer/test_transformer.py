"""The blocks against PyTorch's own encoder and decoder layers, which were written by others from the same paper."""

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import nn

from mhaviz.layer.attention import causal_mask, padding_mask
from mhaviz.layer.steps import only, within
from mhaviz.layer.transformer import Translator

CLOSE = rounding(depth=2, dtype=np.float64)
D_MODEL, N_HEADS, D_FF = 12, 3, 20


@pytest.fixture
def translator():
    torch.manual_seed(0)
    return Translator(7, 9, D_MODEL, N_HEADS, D_FF, dropout=0.1).double().eval()


def copy_attention(theirs, ours):
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.Wq.weight, ours.Wk.weight, ours.Wv.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.Wq.bias, ours.Wk.bias, ours.Wv.bias]))
    theirs.out_proj.load_state_dict(ours.Wo.state_dict())


def copy_forward(theirs, ours):
    theirs.linear1.load_state_dict(ours.W1.state_dict())
    theirs.linear2.load_state_dict(ours.W2.state_dict())


def test_the_encoder_is_pytorchs(translator):
    theirs = nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, batch_first=True, dtype=torch.float64).eval()
    copy_attention(theirs.self_attn, translator.encoder_self.attention)
    copy_forward(theirs, translator.encoder_forward)
    theirs.norm1.load_state_dict(translator.encoder_self.norm.state_dict())
    theirs.norm2.load_state_dict(translator.encoder_forward.norm.state_dict())
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])
    mask = padding_mask([4, 2])
    memory, weights = translator.encode(ids, mask)
    x = translator.position(translator.source_embeddings(ids))
    expected = theirs(x, src_key_padding_mask=~mask[:, 0, 0])
    torch.testing.assert_close(memory[0], expected[0], atol=CLOSE, rtol=0)
    torch.testing.assert_close(memory[1, :2], expected[1, :2], atol=CLOSE, rtol=0)
    assert weights.shape == (2, N_HEADS, 4, 4)
    assert (weights[1, ..., 2:] == 0).all()


def test_the_decoder_is_pytorchs(translator):
    theirs = nn.TransformerDecoderLayer(D_MODEL, N_HEADS, D_FF, batch_first=True, dtype=torch.float64).eval()
    copy_attention(theirs.self_attn, translator.decoder_self.attention)
    copy_attention(theirs.multihead_attn, translator.decoder_source.attention)
    copy_forward(theirs, translator.decoder_forward)
    theirs.norm1.load_state_dict(translator.decoder_self.norm.state_dict())
    theirs.norm2.load_state_dict(translator.decoder_source.norm.state_dict())
    theirs.norm3.load_state_dict(translator.decoder_forward.norm.state_dict())
    torch.manual_seed(1)
    ids, memory = torch.tensor([[1, 8, 3], [2, 2, 5]]), torch.randn(2, 4, D_MODEL, dtype=torch.float64)
    mask = padding_mask([4, 2])
    decoded = translator.decode(ids, memory, mask)
    expected = theirs(
        translator.position(translator.target_embeddings(ids)),
        memory,
        tgt_mask=~causal_mask(3)[0, 0],
        memory_key_padding_mask=~mask[:, 0, 0],
    )
    torch.testing.assert_close(decoded.logits, translator.output(expected), atol=CLOSE, rtol=0)
    assert decoded.masked.shape == (2, N_HEADS, 3, 3)
    assert decoded.cross.shape == (2, N_HEADS, 3, 4)


def test_no_word_is_told_of_those_after_it(translator):
    memory = torch.randn(1, 2, D_MODEL, dtype=torch.float64)
    one, other = (translator.decode(torch.tensor([[1, 2, last]]), memory).logits for last in (3, 4))
    torch.testing.assert_close(one[:, :2], other[:, :2], atol=0, rtol=0)


def test_the_steps_of_one_part_have_their_plain_names(translator):
    heard = []

    def listen(definition, tensor, axes):
        heard.append(definition.split(" = ")[0])
        return tensor

    memory, _ = translator.encode(torch.tensor([[1, 2]]), step=only("cross", listen))
    translator.decode(torch.tensor([[1, 2, 3]]), memory, step=only("cross", listen))
    assert heard[:3] == ["X source", "X target", "Q"]
    assert heard[-1] == "O"
    assert heard.count("Q heads") == 1


def test_parts_are_named():
    heard = []

    def listen(definition, tensor, axes):
        heard.append((definition, axes))
        return tensor

    tensor = torch.zeros(1)
    assert within("cross", listen)("Q = X Wq", tensor, "a") is tensor
    assert heard == [("cross Q = X Wq", "a")]
