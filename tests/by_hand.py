"""A model as transformers has them, which computes its weights by hand whatever release of transformers reads it."""

import torch
import transformers as hf
from torch import nn
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput


class ByHandConfig(hf.PreTrainedConfig):
    model_type = "by_hand"

    vocab_size: int = 300
    hidden_size: int = 32
    num_hidden_layers: int = 2
    num_attention_heads: int = 4


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, self.n_heads = config.hidden_size, config.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask):
        projections = self.q_proj, self.k_proj, self.v_proj
        output, weights = self.attend(
            *(p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in projections), mask
        )
        return self.out_proj(output.transpose(1, 2).flatten(2)), weights

    def attend(self, query, key, value, mask):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        return weights @ value, weights


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(config.hidden_size), Attention(config)
        self.mlp = nn.Sequential(nn.Linear(config.hidden_size, 48), nn.GELU(), nn.Linear(48, config.hidden_size))

    def forward(self, x, mask):
        output, weights = self.attn(self.norm(x), mask)
        x = x + output
        return x + self.mlp(x), weights


class ByHandModel(hf.PreTrainedModel):
    """Its loop over the layers holds the weights of a layer until it has those of the next."""

    config_class = ByHandConfig
    base_model_prefix = "transformer"

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.h = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids, attention_mask=None, output_attentions=False, **_):
        length = input_ids.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).tril()
        if attention_mask is not None:
            mask = mask & attention_mask[:, None, None].bool()
        x, attentions = self.wte(input_ids), ()
        hidden_states = (x,)
        for layer in self.h:
            x, weights = layer(x, mask)
            hidden_states += (x,)
            if output_attentions:
                attentions += (weights,)
        return BaseModelOutput(last_hidden_state=x, hidden_states=hidden_states, attentions=attentions or None)


class ByHandForCausalLM(hf.PreTrainedModel):
    config_class = ByHandConfig
    base_model_prefix = "transformer"

    def __init__(self, config):
        super().__init__(config)
        self.transformer = ByHandModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids, **given):
        out = self.transformer(input_ids, **given)
        logits = self.lm_head(out.last_hidden_state)
        return CausalLMOutput(logits=logits, hidden_states=out.hidden_states, attentions=out.attentions)


hf.AutoConfig.register(ByHandConfig.model_type, ByHandConfig)
hf.AutoModel.register(ByHandConfig, ByHandModel)
hf.AutoModelForCausalLM.register(ByHandConfig, ByHandForCausalLM)
