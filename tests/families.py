"""Small models of every family with random weights, as folders such as save_pretrained makes them."""

from pathlib import Path

import pytest
import torch
import transformers as hf
from by_hand import ByHandConfig, ByHandForCausalLM
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = ("the", "cat", "sat", "on", "mat", "a", "dog", "ran", "izer", "token", "s", "ing", "play", "hello", "world")
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = SIZES | {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 5000}
BERT_LIKE = SIZES | {"max_position_embeddings": 5000}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def word_pieces():
    """As BERT's: [CLS] the cat play ##ing [SEP]."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    vocabulary = [*special, *WORDS, *(f"##{word}" for word in WORDS), ".", "!", "'"]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 1), ("[SEP]", 2)])
    tokenizer.decoder = decoders.WordPiece()
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    )


def bytes_and_words():
    """As GPT-2's: byte pieces, some of them joined to words that begin with a blank."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<pad>", "<s>", "</s>"]
    merged = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", "t"), ("c", "at"), ("Ġ", "cat"), ("i", "ng"), ("n", "g")]
    pieces = [*special, *letters, *("".join(pair) for pair in merged)]
    merges = [pair for pair in merged if pair != ("i", "ng")] + [("i", "ng")]
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>")


CHATML = (
    "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def of_chats(template=CHATML):
    """As Llama's, which begin every text with <s>, unless a chat template has written it."""
    words = bytes_and_words()
    words.backend_tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", 1)])
    words.add_special_tokens({"bos_token": "<s>"})
    words.chat_template = template
    return words


def sentence_pieces():
    """As T5's: ▁the ▁cat s </s>."""
    letters = [(letter, -9.0) for letter in "abcdefghijklmnopqrstuvwxyz.'!▁"]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((f"▁{w}", -3.0) for w in WORDS), *letters]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", 1)])
    tokenizer.decoder = decoders.Metaspace()
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def sentence_pieces_of_many():
    """As XLM-R's: <s> ▁the ▁cat </s>, where a normalizer may make several characters of one."""
    letters = [(letter, -9.0) for letter in "abcdefghijklmnopqrstuvwxyz.'!▁Ġ"]
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((f"▁{w}", -3.0) for w in WORDS), *letters]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 0), ("</s>", 2)])
    tokenizer.decoder = decoders.Metaspace()
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def sentence_pieces_and_bytes():
    """As Llama 2's: <s> ▁the ▁cat, and bytes of what has no piece."""
    bytes_of_text = [(f"<0x{i:02X}>", -20.0) for i in range(256)]
    words = [("▁the", -1.0), ("▁cat", -1.0), ("▁", -2.0), ("▁▁", -2.5), ("a", -5.0)]
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *bytes_of_text, *words]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def bytes_joined_to_blanks():
    """As Llama 3's: byte pieces whose places hold their blanks; one is a blank and the first byte of an emoji."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<pad>", "<s>", "</s>", *letters, "Ġð", "ĠĠ"]
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(pieces)}, [("Ġ", "ð"), ("Ġ", "Ġ")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>")


V = 300

FAMILIES = {
    "gpt2": (
        hf.GPT2LMHeadModel,
        lambda: hf.GPT2Config(vocab_size=V, n_positions=5000, n_embd=32, n_layer=2, n_head=4, **ENDS),
        bytes_and_words,
    ),
    "llama": (hf.LlamaForCausalLM, lambda: hf.LlamaConfig(vocab_size=V, **GROUPED, **ENDS), bytes_and_words),
    "mistral": (
        hf.MistralForCausalLM,
        lambda: hf.MistralConfig(vocab_size=V, sliding_window=4, **GROUPED, **ENDS),
        bytes_and_words,
    ),
    "qwen3": (hf.Qwen3ForCausalLM, lambda: hf.Qwen3Config(vocab_size=V, **GROUPED, **ENDS), bytes_and_words),
    "gemma2": (
        hf.Gemma2ForCausalLM,
        lambda: hf.Gemma2Config(
            vocab_size=V, sliding_window=4, attn_logit_softcapping=0.5, query_pre_attn_scalar=4, **GROUPED, **ENDS
        ),
        bytes_and_words,
    ),
    "gpt_oss": (
        hf.GptOssForCausalLM,
        lambda: hf.GptOssConfig(
            vocab_size=V, sliding_window=4, num_local_experts=2, num_experts_per_tok=1, **GROUPED, **ENDS
        ),
        bytes_and_words,
    ),
    "bert": (hf.BertModel, lambda: hf.BertConfig(vocab_size=V, **BERT_LIKE), word_pieces),
    "roberta": (
        hf.RobertaModel,
        lambda: hf.RobertaConfig(vocab_size=V, **BERT_LIKE | {"max_position_embeddings": 4200}),
        word_pieces,
    ),
    "distilbert": (
        hf.DistilBertModel,
        lambda: hf.DistilBertConfig(
            vocab_size=V, max_position_embeddings=5000, n_layers=2, n_heads=4, dim=32, hidden_dim=48
        ),
        word_pieces,
    ),
    "modernbert": (
        hf.ModernBertModel,
        lambda: hf.ModernBertConfig(
            vocab_size=V, local_attention=6, cls_token_id=1, sep_token_id=2, **BERT_LIKE, **ENDS
        ),
        word_pieces,
    ),
    "t5": (
        hf.T5ForConditionalGeneration,
        lambda: hf.T5Config(
            vocab_size=V,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            pad_token_id=0,
            eos_token_id=1,
            decoder_start_token_id=0,
        ),
        sentence_pieces,
    ),
    "bart": (
        hf.BartForConditionalGeneration,
        lambda: hf.BartConfig(
            vocab_size=V,
            max_position_embeddings=5000,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            d_model=32,
            decoder_start_token_id=2,
            **ENDS,
        ),
        word_pieces,
    ),
    "jamba": (
        hf.JambaForCausalLM,
        lambda: hf.JambaConfig(
            vocab_size=V,
            attn_layer_period=2,
            attn_layer_offset=1,
            expert_layer_period=2,
            num_experts=2,
            mamba_d_state=4,
            **{name: size for name, size in GROUPED.items() if name != "head_dim"} | {"num_hidden_layers": 4},
            **ENDS,
        ),
        bytes_and_words,
    ),
}
"""Those that go through transformers' attention interface."""

EAGER = {
    "by_hand": (ByHandForCausalLM, lambda: ByHandConfig(vocab_size=V, **ENDS), bytes_and_words),
    "gptj": (
        hf.GPTJForCausalLM,
        lambda: hf.GPTJConfig(
            vocab_size=V, n_positions=512, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, bos_token_id=1, eos_token_id=2
        ),
        bytes_and_words,
    ),
    "falcon": (
        hf.FalconForCausalLM,
        lambda: hf.FalconConfig(
            vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, bos_token_id=1, eos_token_id=2
        ),
        bytes_and_words,
    ),
    "bloom": (
        hf.BloomForCausalLM,
        lambda: hf.BloomConfig(vocab_size=V, hidden_size=32, n_layer=2, n_head=4, **ENDS),
        bytes_and_words,
    ),
    "deberta": (
        hf.DebertaV2Model,
        lambda: hf.DebertaV2Config(vocab_size=V, **SIZES),
        word_pieces,
    ),
}
"""Those that do not, and are recorded; GPT-J's does from transformers 5.24 on."""


SEE_PADDING = {
    "convbert": (
        hf.ConvBertModel,
        lambda: hf.ConvBertConfig(vocab_size=V, embedding_size=32, **BERT_LIKE),
        word_pieces,
    ),
    "mobilebert": (
        hf.MobileBertModel,
        lambda: hf.MobileBertConfig(
            vocab_size=V, embedding_size=32, intra_bottleneck_size=32, num_feedforward_networks=1, **BERT_LIKE
        ),
        word_pieces,
    ),
}
"""Those whose convolutions run over padding too; MobileBERT's see zeros there, as before and after a text."""


MAMBA = SIZES | {"mamba_d_state": 4, "n_mamba_heads": 4, "num_key_value_heads": 4}


def zamba2(*layers):
    return hf.Zamba2Config(
        vocab_size=V,
        mamba_headdim=16,
        adapter_rank=4,
        **MAMBA | {"num_hidden_layers": len(layers), "layers_block_type": list(layers)},
        **ENDS,
    )


def with_encoder(**sizes):
    sides = ("layers", 1), ("attention_heads", 4), ("ffn_dim", 48)
    both = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sides}
    return {"vocab_size": V, "d_model": 32, "decoder_start_token_id": 2, **both, **ENDS, **sizes}


OTHERS = {
    "chat": (
        hf.GPT2LMHeadModel,
        lambda: hf.GPT2Config(vocab_size=V, n_positions=200, n_embd=32, n_layer=2, n_head=4, **ENDS),
        of_chats,
    ),
    "zamba2": (hf.Zamba2ForCausalLM, lambda: zamba2("mamba", "hybrid", "mamba", "hybrid"), bytes_and_words),
    "zamba2_with_one": (hf.Zamba2ForCausalLM, lambda: zamba2("mamba", "hybrid"), bytes_and_words),
    "zamba": (
        hf.ZambaForCausalLM,
        lambda: hf.ZambaConfig(
            vocab_size=V,
            layers_block_type=["mamba", "hybrid", "hybrid"],
            **MAMBA | {"num_hidden_layers": 3, "n_mamba_heads": 2},
            **ENDS,
        ),
        bytes_and_words,
    ),
    "led": (
        hf.LEDForConditionalGeneration,
        lambda: hf.LEDConfig(attention_window=[4], **with_encoder()),
        word_pieces,
    ),
    "bigbird": (
        hf.BigBirdModel,
        lambda: hf.BigBirdConfig(vocab_size=V, block_size=4, num_random_blocks=1, **BERT_LIKE),
        word_pieces,
    ),
    "bigbird_pegasus": (
        hf.BigBirdPegasusForConditionalGeneration,
        lambda: hf.BigBirdPegasusConfig(block_size=4, num_random_blocks=1, **with_encoder()),
        word_pieces,
    ),
    "nystromformer": (
        hf.NystromformerModel,
        lambda: hf.NystromformerConfig(vocab_size=V, num_landmarks=4, segment_means_seq_len=64, **SIZES),
        word_pieces,
    ),
    "xlnet": (
        hf.XLNetModel,
        lambda: hf.XLNetConfig(vocab_size=V, d_model=32, n_layer=1, n_head=4, d_inner=48),
        word_pieces,
    ),
    "clip": (
        hf.CLIPModel,
        lambda: hf.CLIPConfig(
            text_config=SIZES | {"vocab_size": V}, vision_config=SIZES | {"image_size": 8, "patch_size": 4}
        ),
        word_pieces,
    ),
    "hy_v4": (
        getattr(hf, "HYV4ForCausalLM", None),  # the oldest transformers that mhaviz takes has none
        lambda: hf.HYV4Config(
            vocab_size=V,
            moe_intermediate_size=16,
            n_routed_experts=2,
            num_experts_per_tok=1,
            index_head_dim=8,
            index_n_heads=2,
            index_topk=5,
            q_lora_rank=12,
            kv_lora_rank=8,
            qk_rope_head_dim=4,
            qk_nope_head_dim=4,
            v_head_dim=8,
            **SIZES | {"head_dim": 4},
            **ENDS,
        ),
        bytes_and_words,
    ),
    "laguna": (
        hf.LagunaForCausalLM,
        lambda: hf.LagunaConfig(
            vocab_size=V,
            num_attention_heads_per_layer=[4, 4],
            num_experts=2,
            num_experts_per_tok=1,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
            **GROUPED,
            **ENDS,
        ),
        bytes_and_words,
    ),
}
"""Those that have something that others have not, and tests of their own."""


def save(name, folder):
    """Make the model's folder, if it is not there, and return it."""
    hf.utils.logging.disable_progress_bar()
    folder = Path(folder) / name
    if not folder.exists():
        model_class, config, tokenizer = (FAMILIES | EAGER | SEE_PADDING | OTHERS)[name]
        if model_class is None:
            pytest.skip(f"this transformers has no {name}")
        torch.manual_seed(0)
        model = model_class(config())
        for parameter_name, parameter in model.named_parameters():  # far from uniform weights; biases, sinks not zero
            if "norm" not in parameter_name.lower() and "ln" not in parameter_name:
                torch.nn.init.normal_(parameter, std=0.3)
        if name == "mobilebert":
            torch.nn.init.zeros_(model.get_input_embeddings().weight[config().pad_token_id].data)
        model.save_pretrained(folder)
        tokenizer().save_pretrained(folder)
    return folder
