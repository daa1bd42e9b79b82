"""Attention layers and whole models of transformers, tiny and random, called as the library itself calls them."""

import torch
import transformers as hf
from checks.right_base import right
from torch import nn
from transformers import masking_utils as masks

ENDS = {"vocab_size": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BERT = ENDS | {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
GROUPED = BERT | {"num_key_value_heads": 2, "head_dim": 8}
GPT2 = ENDS | {"n_embd": 32, "n_head": 4, "n_layer": 1}
NEO = ENDS | {"hidden_size": 32, "num_heads": 4, "num_layers": 1, "window_size": 3}
T5 = ENDS | {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
BART = ENDS | {"decoder_start_token_id": 1, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
BART |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
MPT = {"vocab_size": 50, "d_model": 32, "n_heads": 4, "n_layers": 1, "max_seq_len": 256}
VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 12, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 6}


class Causal(nn.Module):
    """One attention layer of a decoder, with its rotary embedding, where it has one, and its mask."""

    def __init__(self, model, attention, make_mask=masks.create_causal_mask):
        super().__init__()
        self.attention, self.rotary = attention, getattr(model, "rotary_emb", None)
        self.config, self.make_mask = model.config, make_mask

    def forward(self, x, keep=None):
        positions = torch.arange(x.shape[1])[None]
        mask = self.make_mask(self.config, x, keep, None, position_ids=positions)
        return self.attend(x, mask, positions)

    def attend(self, x, mask, positions):
        rotary = {} if self.rotary is None else {"position_embeddings": self.rotary(x, positions)}
        output, weights = self.attention(x, attention_mask=mask, **rotary)
        return output if weights is None else (output, weights)


class CausalGPTJ(Causal):
    def attend(self, x, mask, positions):
        return self.attention(x, attention_mask=mask, position_ids=positions)


class CausalMPT(Causal):
    def __init__(self, model, attention):
        super().__init__(model, attention)
        self.alibi = model.build_mpt_alibi_tensor(model.config.n_heads, model.config.max_seq_len)

    def attend(self, x, mask, positions):
        return self.attention(x, self.alibi, attention_mask=mask.bool())


class CausalT5(Causal):
    def attend(self, x, mask, positions):
        return self.attention(x, mask=mask)[0]


class Bidirectional(Causal):
    """One attention layer of an encoder, and its mask."""

    def forward(self, x, keep=None):
        return self.attend(x, masks.create_bidirectional_mask(self.config, x, keep), None)


class BidirectionalT5(Bidirectional, CausalT5):
    pass


class Disentangled(Bidirectional):
    """DeBERTa's, whose encoder makes the mask and the distances."""

    def __init__(self, model, attention):
        super().__init__(model, attention)
        self.distances = model.encoder.rel_embeddings
        self.mask_of, self.distances_of = model.encoder.get_attention_mask, model.encoder.get_rel_pos

    def forward(self, x, keep=None):
        keep = torch.ones(x.shape[:2], dtype=torch.bool) if keep is None else keep
        distances = {"relative_pos": self.distances_of(x), "rel_embeddings": self.distances.weight}
        return self.attention(x, self.mask_of(keep), **distances)[0]


class Cross(Causal):
    """A decoder's attention over what its encoder gives."""

    def forward(self, x, memory, keep=None):
        mask = masks.create_bidirectional_mask(self.config, x, keep, encoder_hidden_states=memory)
        return self.attention(x, key_value_states=memory, attention_mask=mask)[0]


class Unmasked(nn.Module):
    def __init__(self, model, attention):
        super().__init__()
        self.attention = attention

    def forward(self, x):
        return self.attention(x)


class Whole(nn.Module):
    """A model, from embeddings to its last hidden state."""

    def __init__(self, model, whole):
        super().__init__()
        self.model = whole
        whole.set_input_embeddings(None)

    def forward(self, x, keep=None):
        return self.model(inputs_embeds=x, attention_mask=None if keep is None else keep.long()).last_hidden_state


class WholePlaced(Whole):
    """With positions that count real tokens, as generate gives them."""

    def forward(self, x, keep=None):
        if keep is None:
            return super().forward(x)
        places = (keep.cumsum(dim=-1) - 1).clamp(min=0)
        return self.model(inputs_embeds=x, attention_mask=keep.long(), position_ids=places).last_hidden_state


def layer(name, kind, path, sizes, adapter=Causal, by="sdpa", **more):
    def make():
        model_class = getattr(hf, kind)
        model = model_class(model_class.config_class(**sizes, attn_implementation=by))
        return adapter(model, model.get_submodule(path), **more)

    right(f"transformers-{name}")(make)


SELF, SLIDING = "layers.0.self_attn", {"make_mask": masks.create_sliding_window_causal_mask}

layer("llama", "LlamaModel", SELF, GROUPED, by="eager")
layer("llama-sdpa", "LlamaModel", SELF, GROUPED)
layer("mistral-sliding", "MistralModel", SELF, GROUPED | {"sliding_window": 3}, **SLIDING)
layer("qwen2", "Qwen2Model", SELF, GROUPED)
layer("qwen3", "Qwen3Model", SELF, GROUPED, by="eager")
GEMMA2 = GROUPED | {"attn_logit_softcapping": 5.0, "layer_types": ["full_attention"], "query_pre_attn_scalar": 16}
layer("gemma2", "Gemma2Model", SELF, GEMMA2, by="eager")
GEMMA2_SLIDING = GEMMA2 | {"layer_types": ["sliding_attention"], "query_pre_attn_scalar": 8, "sliding_window": 3}
layer("gemma2-sliding", "Gemma2Model", SELF, GEMMA2_SLIDING, by="eager", **SLIDING)
GPT_OSS = GROUPED | {"layer_types": ["full_attention"], "num_local_experts": 2, "num_experts_per_tok": 1}
layer("gpt-oss", "GptOssModel", SELF, GPT_OSS, by="eager")
layer("cohere", "CohereModel", SELF, GROUPED | {"use_qk_norm": True})
layer("olmo2", "Olmo2Model", SELF, GROUPED)
layer("granite", "GraniteModel", SELF, GROUPED | {"attention_multiplier": 0.125})
layer("phi", "PhiModel", SELF, BERT, by="eager")
layer("gpt-neox", "GPTNeoXModel", "layers.0.attention", BERT)
layer("deepseek-v3", "DeepseekV3Model", SELF, BERT | LATENT | {"num_key_value_heads": 4})
layer("gpt-j", "GPTJModel", "h.0.attn", GPT2 | {"rotary_dim": 4}, CausalGPTJ, by="eager")
layer("mpt", "MptModel", "blocks.0.attn", MPT, CausalMPT, by="eager")
layer("falcon-alibi", "FalconModel", "", BERT | {"alibi": True, "multi_query": False}, Whole, by="eager")
layer("falcon-multi-query", "FalconModel", "", BERT, Whole)
layer("gpt2", "GPT2Model", "h.0.attn", GPT2, by="eager")
layer("gpt2-sdpa", "GPT2Model", "h.0.attn", GPT2)
layer("gpt2-whole", "GPT2Model", "", GPT2 | {"n_layer": 2}, WholePlaced)
layer("gpt-neo", "GPTNeoModel", "h.0.attn.attention", NEO | {"attention_types": [[["global"], 1]]}, by="eager")
layer("gpt-neo-local", "GPTNeoModel", "h.0.attn.attention", NEO | {"attention_types": [[["local"], 1]]}, by="eager")
layer("t5", "T5EncoderModel", "encoder.block.0.layer.0.SelfAttention", T5, BidirectionalT5, by="eager")
layer("t5-decoder", "T5Model", "decoder.block.0.layer.0.SelfAttention", T5, CausalT5)
layer("bert", "BertModel", "encoder.layer.0.attention.self", BERT, Bidirectional, by="eager")
layer("bert-sdpa", "BertModel", "encoder.layer.0.attention.self", BERT, Bidirectional)
layer("bert-whole", "BertModel", "", BERT | {"num_hidden_layers": 2}, Whole)
layer("bart", "BartModel", "encoder.layers.0.self_attn", BART, Bidirectional, by="eager")
layer("bart-cross", "BartModel", "decoder.layers.0.encoder_attn", BART, Cross)
layer("whisper", "WhisperModel", "encoder.layers.0.self_attn", BART, Unmasked)
layer("whisper-cross", "WhisperModel", "decoder.layers.0.encoder_attn", BART, Cross, by="eager")
layer("vit", "ViTModel", "layers.0.attention", VISION, Unmasked)
layer("clip", "CLIPVisionModel", "encoder.layers.0.self_attn", VISION, Unmasked, by="eager")
layer("clip-text", "CLIPTextModel", "encoder.layers.0.self_attn", BERT, by="eager")
DEBERTA = BERT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 16}
layer("deberta", "DebertaModel", "encoder.layer.0.attention.self", DEBERTA, Disentangled, by="eager")
