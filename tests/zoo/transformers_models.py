"""Models of transformers, with at most a few layers of a few dozen dimensions."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import transformers as hf
from families import EAGER, ENDS, FAMILIES, GROUPED, OTHERS, SEE_PADDING, SIZES, V, with_encoder
from rounding import rounding
from torch import Tensor

from zoo.program import Entry, Program, Weights, spread
from zoo.softmaxes import Softmaxes

CLOSE = rounding(depth=2)

hf.utils.logging.set_verbosity_error()

LENGTH = 9
IDS = torch.tensor([[5, 17, 42, 8, 99, 23, 61, 12, 7], [6, 81, 24, 13, 37, 90, 11, 55, 10]])
OTHER_IDS = torch.tensor([[4, 31, 77, 9, 15], [8, 16, 64, 32, 12]])


def text(**more):
    return lambda: {"input_ids": IDS, **more}


def both(**more):
    return lambda: {"input_ids": IDS, "decoder_input_ids": OTHER_IDS, **more}


def numbers(*shape, scale=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)) * scale


def image(size=32, channels=3):
    return lambda: {"pixel_values": numbers(2, channels, size, size)}


def both_of(*inputs):
    return lambda: {name: value for each in inputs for name, value in each().items()}


def attentions_of(output: Mapping[str, Any], prefix: str = "") -> list[Weights]:
    """Every tensor in a field whose name ends in "attentions", and in the outputs inside the output."""
    found: list[Weights] = []
    for name, value in output.items():
        if name.endswith("attentions"):
            found += [(f"{prefix}{name} {i}", x) for i, x in enumerate(_flat(value))]
        elif isinstance(value, hf.utils.ModelOutput):
            found += attentions_of(value, f"{prefix}{name} ")
    return found


def _flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [] if value is None else [x for item in value for x in _flat(item)]


def _are_weights(A: Tensor) -> bool:
    """Not scores before their softmax, as SqueezeBERT shows; nor a product of several softmaxes (Nyströmformer), nor
    averages over heads (WavLM)."""
    averaged = A.dim() == 4 and A.shape[1] > 1 and torch.equal(A[:, :1].expand_as(A), A)
    return not averaged and bool((A >= 0).all()) and float(A.sum(dim=-1).max()) < 1 + 1e-3


def _same(A: Tensor, shown: Tensor) -> bool:
    """Whether a softmax has made what the model shows, whatever became of its axes, or of its sink."""
    cut = A[..., : shown.shape[-1]]
    return any(
        one.numel() == shown.numel() and torch.allclose(one.flatten().sort()[0], shown.flatten().sort()[0], atol=CLOSE)
        for one in (A, cut)
    )


def program(
    model_class: Any, config: Callable[[], Any], inputs: Callable[[], dict[str, Any]], shown_alone: bool = False
) -> Program:
    """The model as it is by default; its own weights are those of an eager one with the same parameters.

    What it does not show of them, of a second tower or a pooling layer, is what its other softmaxes return, unless
    ``shown_alone``.
    """

    def build(**options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            return spread(model_class._from_config(config(), **options))

    model = build()

    def run() -> Any:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            return model(**inputs())

    def own() -> list[Weights]:
        eager = build(attn_implementation="eager")
        eager.load_state_dict(model.state_dict())
        with torch.no_grad(), warnings.catch_warnings(), Softmaxes() as softmaxes:
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            output = eager(**inputs(), output_attentions=True, return_dict=True)
        shown = [(name, A) for name, A in attentions_of(output) if _are_weights(A)]
        others = [] if shown_alone else enumerate(softmaxes.kept)
        return shown + [(f"softmax {i}", A) for i, A in others if not any(_same(A, own) for _, own in shown)]

    return Program(model, run, own, "output_attentions=True")


def entry(name, kind, config, inputs=None, shown_alone=False, model_class=None, **known) -> Entry:
    model_class = model_class or getattr(hf, name)
    return Entry(name, kind, partial(program, model_class, config, inputs or text(), shown_alone), **known)


def of_families(name, kind, inputs=None, **known) -> Entry:
    model_class, config, _ = (FAMILIES | EAGER | SEE_PADDING | OTHERS)[name]
    return entry(model_class.__name__, kind, config, inputs, model_class=model_class, **known)


def small(config_class: str, *sizes: dict[str, Any], **more: Any) -> Callable[[], Any]:
    """A configuration made when it is needed."""
    known = {name: value for each in sizes for name, value in each.items()} | more
    return lambda: getattr(hf, config_class)(**known)


WORDS = {"vocab_size": V}
BERT = WORDS | SIZES
VISION = SIZES | {"image_size": 32, "patch_size": 8}
LLAMA = WORDS | GROUPED | ENDS
DECODER = WORDS | {k: v for k, v in GROUPED.items() if k != "head_dim"} | ENDS
SEQ2SEQ = with_encoder()
EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 1}
SPEECH = {
    **SIZES,
    "conv_dim": (16, 16),
    "conv_stride": (4, 4),
    "conv_kernel": (8, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "vocab_size": V,
}
TOWERS = {"text_config": {**SIZES, **WORDS, **ENDS}, "vision_config": VISION}


def sound(length=320):
    return lambda: {"input_values": numbers(2, length)}


E, D, B, I, S, M = "text encoder", "text decoder", "encoder-decoder", "vision", "audio", "multimodal"

BANDS = "a window's scores are stored as bands: no tensor has queries and keys"

TRANSFORMERS = [
    # text encoders
    of_families("bert", E),
    of_families("roberta", E),
    entry("AlbertModel", E, small("AlbertConfig", BERT, embedding_size=16)),
    of_families("distilbert", E),
    entry("ElectraModel", E, small("ElectraConfig", BERT, embedding_size=16)),
    entry("DebertaModel", E, small("DebertaConfig", BERT, relative_attention=True, pos_att_type=["c2p", "p2c"])),
    entry(
        "DebertaV2Model",
        E,
        small("DebertaV2Config", BERT, relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=4),
    ),
    of_families("xlnet", E),
    entry("XLMModel", E, small("XLMConfig", WORDS, emb_dim=32, n_layers=2, n_heads=4)),
    entry("MPNetModel", E, small("MPNetConfig", BERT)),
    of_families("modernbert", E),
    entry(
        "LongformerModel",
        E,
        small("LongformerConfig", BERT, attention_window=4, max_position_embeddings=64),
        shown_alone=True,
        missed=2,
        why=BANDS,
    ),
    of_families("bigbird", E),
    entry(
        "ReformerModel",
        E,
        small(
            "ReformerConfig",
            WORDS,
            hidden_size=32,
            feed_forward_size=48,
            num_attention_heads=2,
            attention_head_size=16,
            attn_layers=["local", "lsh"],
            axial_pos_shape=[2, 8],
            axial_pos_embds_dim=[16, 16],
            local_attn_chunk_length=4,
            lsh_attn_chunk_length=4,
            num_buckets=2,
            is_decoder=False,
            hash_seed=0,
        ),
        lambda: {"input_ids": torch.arange(32).view(2, 16) + 3},
    ),
    entry(
        "FunnelModel",
        E,
        small(
            "FunnelConfig", WORDS, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4, d_head=8, d_inner=48
        ),
    ),
    of_families("mobilebert", E),
    entry(
        "SqueezeBertModel",
        E,
        small(
            "SqueezeBertConfig",
            BERT,
            embedding_size=32,
            q_groups=2,
            k_groups=2,
            v_groups=2,
            post_attention_groups=1,
            intermediate_groups=2,
            output_groups=2,
        ),
    ),
    of_families("convbert", E),
    of_families(
        "nystromformer",
        E,
        lambda: {"input_ids": torch.arange(128).view(2, 64) + 3},
        missed=4,
        why="three softmaxes each; two are multiplied before they meet values",
    ),
    entry(
        "CanineModel",
        E,
        small("CanineConfig", SIZES, local_transformer_stride=4, num_hash_buckets=64, num_hash_functions=4),
        lambda: {"input_ids": torch.arange(32).view(2, 16) + 60},
    ),
    entry("RoFormerModel", E, small("RoFormerConfig", BERT, embedding_size=32)),
    entry("EsmModel", E, small("EsmConfig", BERT, pad_token_id=0, position_embedding_type="rotary")),
    entry("XLMRobertaModel", E, small("XLMRobertaConfig", BERT)),
    entry(
        "FNetModel",
        E,
        small("FNetConfig", {k: v for k, v in BERT.items() if "heads" not in k}),
        why="Fourier transforms, no attention",
    ),
    # text decoders
    of_families("gpt2", D),
    of_families("gptj", D),
    entry(
        "GPTNeoForCausalLM",
        D,
        small(
            "GPTNeoConfig",
            WORDS,
            hidden_size=32,
            num_layers=2,
            attention_types=[[["global", "local"], 1]],
            num_heads=4,
            window_size=4,
            intermediate_size=48,
            **ENDS,
        ),
    ),
    entry("GPTNeoXForCausalLM", D, small("GPTNeoXConfig", BERT, **ENDS)),
    entry(
        "CodeGenForCausalLM",
        D,
        small("CodeGenConfig", WORDS, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_ctx=64, n_positions=64, **ENDS),
    ),
    entry("CTRLModel", D, small("CTRLConfig", WORDS, n_embd=32, n_layer=2, n_head=4, dff=48)),
    entry("OpenAIGPTModel", D, small("OpenAIGPTConfig", WORDS, n_embd=32, n_layer=2, n_head=4)),
    entry("GPTBigCodeForCausalLM", D, small("GPTBigCodeConfig", WORDS, n_embd=32, n_layer=2, n_head=4, **ENDS)),
    of_families("bloom", D),
    entry("MptForCausalLM", D, small("MptConfig", WORDS, d_model=32, n_heads=4, n_layers=2, max_seq_len=64)),
    of_families("falcon", D),
    entry(
        "OPTForCausalLM",
        D,
        small(
            "OPTConfig",
            WORDS,
            hidden_size=32,
            ffn_dim=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            word_embed_proj_dim=32,
            **ENDS,
        ),
    ),
    of_families("llama", D),
    of_families("mistral", D),
    entry("MixtralForCausalLM", D, small("MixtralConfig", DECODER, num_local_experts=2, num_experts_per_tok=1)),
    of_families("gemma2", D),
    entry(
        "Gemma3ForCausalLM",
        D,
        small(
            "Gemma3TextConfig",
            LLAMA,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention"],
            query_pre_attn_scalar=8,
        ),
    ),
    entry("Qwen2ForCausalLM", D, small("Qwen2Config", DECODER)),
    of_families("qwen3", D),
    entry(
        "Qwen3NextForCausalLM",
        D,
        small(
            "Qwen3NextConfig",
            LLAMA,
            num_experts=2,
            shared_expert_intermediate_size=16,
            layer_types=["linear_attention", "full_attention"],
            linear_num_value_heads=2,
            linear_num_key_heads=2,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            **EXPERTS,
        ),
    ),
    entry("PhiForCausalLM", D, small("PhiConfig", DECODER)),
    entry("Phi3ForCausalLM", D, small("Phi3Config", DECODER)),
    entry("StableLmForCausalLM", D, small("StableLmConfig", DECODER)),
    entry("OlmoForCausalLM", D, small("OlmoConfig", DECODER)),
    entry("Olmo2ForCausalLM", D, small("Olmo2Config", DECODER)),
    entry("CohereForCausalLM", D, small("CohereConfig", DECODER)),
    of_families("gpt_oss", D),
    entry(
        "DeepseekV3ForCausalLM",
        D,
        small(
            "DeepseekV3Config",
            WORDS,
            SIZES,
            ENDS,
            moe_intermediate_size=16,
            n_routed_experts=4,
            n_group=2,
            topk_group=1,
            num_experts_per_tok=2,
            first_k_dense_replace=1,
            num_key_value_heads=4,
            q_lora_rank=12,
            kv_lora_rank=8,
            qk_rope_head_dim=4,
            qk_nope_head_dim=4,
            v_head_dim=8,
        ),
    ),
    entry("Starcoder2ForCausalLM", D, small("Starcoder2Config", DECODER)),
    entry("GraniteForCausalLM", D, small("GraniteConfig", DECODER)),
    entry(
        "XGLMForCausalLM",
        D,
        small("XGLMConfig", WORDS, d_model=32, ffn_dim=48, num_layers=2, attention_heads=4, **ENDS),
    ),
    entry("BioGptForCausalLM", D, small("BioGptConfig", BERT, **ENDS)),
    of_families("jamba", D),
    of_families("zamba2", D),
    entry(
        "MambaForCausalLM",
        D,
        small("MambaConfig", WORDS, hidden_size=32, num_hidden_layers=2, state_size=4, **ENDS),
        why="a state space, no attention",
    ),
    # encoders with decoders
    of_families("t5", B, both()),
    entry("MT5Model", B, small("MT5Config", WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4), both()),
    entry(
        "LongT5Model",
        B,
        small("LongT5Config", WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, local_radius=2),
        both(),
    ),
    entry(
        "SwitchTransformersModel",
        B,
        small(
            "SwitchTransformersConfig",
            WORDS,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_decoder_layers=2,
            num_heads=4,
            num_experts=2,
        ),
        both(),
    ),
    of_families("bart", B, both()),
    entry("PegasusModel", B, small("PegasusConfig", SEQ2SEQ), both()),
    entry("MarianModel", B, small("MarianConfig", SEQ2SEQ), both()),
    entry("M2M100Model", B, small("M2M100Config", SEQ2SEQ), both()),
    entry(
        "ProphetNetModel",
        B,
        small(
            "ProphetNetConfig",
            WORDS,
            hidden_size=32,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            num_encoder_layers=1,
            num_decoder_layers=1,
            num_encoder_attention_heads=4,
            num_decoder_attention_heads=4,
            max_position_embeddings=64,
        ),
        both(),
    ),
    of_families("led", B, both(), shown_alone=True, missed=1, why=BANDS),
    of_families("bigbird_pegasus", B, both()),
    # sound
    entry(
        "WhisperModel",
        S,
        small("WhisperConfig", dict(SEQ2SEQ.items()), num_mel_bins=8, max_source_positions=16, max_target_positions=16),
        lambda: {"input_features": numbers(2, 8, 32), "decoder_input_ids": OTHER_IDS},
    ),
    entry("Wav2Vec2Model", S, small("Wav2Vec2Config", SPEECH), sound()),
    entry("HubertModel", S, small("HubertConfig", SPEECH), sound()),
    entry("WavLMModel", S, small("WavLMConfig", SPEECH), sound()),
    entry(
        "ASTModel",
        S,
        small("ASTConfig", SIZES, num_mel_bins=16, max_length=32, patch_size=8, time_stride=8, frequency_stride=8),
        lambda: {"input_values": numbers(2, 32, 16)},
    ),
    # vision
    entry("ViTModel", I, small("ViTConfig", VISION), image()),
    entry("DeiTModel", I, small("DeiTConfig", VISION), image()),
    entry("BeitModel", I, small("BeitConfig", VISION, use_relative_position_bias=True), image()),
    entry(
        "SwinModel",
        I,
        small("SwinConfig", image_size=32, patch_size=4, embed_dim=16, depths=[2], num_heads=[2], window_size=4),
        image(),
    ),
    entry(
        "Swinv2Model",
        I,
        small("Swinv2Config", image_size=32, patch_size=4, embed_dim=16, depths=[2], num_heads=[2], window_size=4),
        image(),
    ),
    entry("Dinov2Model", I, small("Dinov2Config", VISION), image()),
    entry("Dinov2WithRegistersModel", I, small("Dinov2WithRegistersConfig", VISION), image()),
    entry("DINOv3ViTModel", I, small("DINOv3ViTConfig", VISION, num_register_tokens=2), image()),
    entry(
        "HieraModel",
        I,
        small(
            "HieraConfig",
            embed_dim=16,
            image_size=[32, 32],
            patch_kernel=[7, 7],
            patch_stride=[4, 4],
            patch_padding=[3, 3],
            depths=[1, 1],
            num_heads=[1, 2],
            num_query_pool=1,
            masked_unit_size=[4, 4],
            masked_unit_attention=[True, False],
        ),
        image(),
    ),
    entry(
        "PvtV2Model",
        I,
        small(
            "PvtV2Config",
            image_size=32,
            depths=[1, 1],
            hidden_sizes=[8, 16],
            num_attention_heads=[1, 2],
            sr_ratios=[2, 1],
            patch_sizes=[7, 3],
            strides=[4, 2],
            mlp_ratios=[2, 2],
            num_encoder_blocks=2,
        ),
        image(),
    ),
    entry(
        "SegformerModel",
        I,
        small(
            "SegformerConfig",
            depths=[1, 1],
            hidden_sizes=[8, 16],
            num_attention_heads=[1, 2],
            sr_ratios=[2, 1],
            patch_sizes=[7, 3],
            strides=[4, 2],
            mlp_ratios=[2, 2],
            num_encoder_blocks=2,
        ),
        image(),
    ),
    entry(
        "LevitModel",
        I,
        small(
            "LevitConfig",
            image_size=64,
            hidden_sizes=[16, 16, 16],
            num_attention_heads=[2, 2, 2],
            depths=[1, 1, 1],
            key_dim=[8, 8, 8],
            attention_ratio=[2, 2, 2],
            mlp_ratio=[2, 2, 2],
        ),
        image(64),
    ),
    entry(
        "VideoMAEModel",
        I,
        small("VideoMAEConfig", VISION, num_frames=2),
        lambda: {"pixel_values": numbers(2, 2, 3, 32, 32)},
    ),
    entry(
        "TimesformerModel",
        I,
        small("TimesformerConfig", VISION, num_frames=2),
        lambda: {"pixel_values": numbers(2, 2, 3, 32, 32)},
    ),
    entry("YolosModel", I, small("YolosConfig", VISION | {"image_size": [32, 32]}, num_detection_tokens=3), image()),
    entry(
        "DetrModel",
        I,
        small(
            "DetrConfig",
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            num_queries=5,
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
            backbone_config={
                "model_type": "resnet",
                "embedding_size": 8,
                "hidden_sizes": [8, 16],
                "depths": [1, 1],
                "layer_type": "basic",
                "out_features": ["stage2"],
            },
        ),
        image(32),
    ),
    entry(
        "SamModel",
        I,
        small(
            "SamConfig",
            vision_config={
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "mlp_dim": 48,
                "image_size": 32,
                "patch_size": 8,
                "window_size": 2,
                "global_attn_indexes": [1],
                "output_channels": 16,
                "num_pos_feats": 8,
            },
            mask_decoder_config={
                "hidden_size": 16,
                "mlp_dim": 24,
                "num_attention_heads": 2,
                "iou_head_hidden_dim": 16,
                "num_hidden_layers": 1,
            },
            prompt_encoder_config={"hidden_size": 16, "image_size": 32, "patch_size": 8, "mask_input_channels": 4},
        ),
        lambda: {
            "pixel_values": numbers(2, 3, 32, 32),
            "input_points": torch.tensor([[[[8.0, 9.0]]], [[[20.0, 3.0]]]]),
        },
    ),
    # several kinds of inputs
    entry("CLIPModel", M, small("CLIPConfig", TOWERS), both_of(text(), image())),
    entry("SiglipModel", M, small("SiglipConfig", TOWERS), both_of(text(), image())),
    entry("BlipModel", M, small("BlipConfig", TOWERS), both_of(text(), image())),
    entry("ViltModel", M, small("ViltConfig", BERT, image_size=32, patch_size=8), both_of(text(), image())),
    entry(
        "LlavaForConditionalGeneration",
        M,
        lambda: hf.LlavaConfig(
            vision_config=hf.CLIPVisionConfig(**VISION),
            text_config=hf.LlamaConfig(**LLAMA),
            image_token_id=V - 1,
            vision_feature_layer=-1,
        ),
        both_of(image(), lambda: {"input_ids": torch.cat([IDS, torch.full((2, 16), V - 1), OTHER_IDS], 1)}),
    ),
    entry(
        "PaliGemmaForConditionalGeneration",
        M,
        lambda: hf.PaliGemmaConfig(
            vision_config=hf.SiglipVisionConfig(**VISION),
            text_config=hf.GemmaConfig(**LLAMA),
            image_token_id=V - 1,
            projection_dim=32,
        ),
        both_of(
            image(),
            lambda: {
                "input_ids": torch.cat([torch.full((2, 16), V - 1), IDS], 1),
                "token_type_ids": torch.zeros(2, 25, dtype=torch.long),
            },
        ),
    ),
    entry(
        "LxmertModel",
        M,
        small(
            "LxmertConfig",
            WORDS,
            hidden_size=32,
            intermediate_size=48,
            num_attention_heads=4,
            l_layers=1,
            x_layers=1,
            r_layers=1,
            visual_feat_dim=8,
        ),
        lambda: {"input_ids": IDS, "visual_feats": numbers(2, 4, 8), "visual_pos": numbers(2, 4, 4)},
    ),
    entry(
        "PerceiverModel",
        M,
        small(
            "PerceiverConfig",
            num_latents=4,
            d_latents=16,
            d_model=12,
            num_blocks=1,
            num_self_attends_per_block=1,
            num_self_attention_heads=2,
            num_cross_attention_heads=2,
        ),
        lambda: {"inputs": numbers(2, 6, 12)},
    ),
    entry(
        "TimeSeriesTransformerModel",
        "time series",
        small(
            "TimeSeriesTransformerConfig",
            prediction_length=3,
            context_length=6,
            lags_sequence=[1],
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            num_time_features=1,
        ),
        lambda: {
            "past_values": numbers(2, 7),
            "past_time_features": numbers(2, 7, 1),
            "past_observed_mask": torch.ones(2, 7),
            "future_values": numbers(2, 3),
            "future_time_features": numbers(2, 3, 1),
        },
    ),
]
