"""Small models that read images, with random weights, as folders such as save_pretrained makes them."""

from contextlib import contextmanager

import numpy as np
import torch
import transformers as hf
from families import bytes_and_words, word_pieces
from PIL import Image

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
OF_TEXT = {name: SIZES[name] for name in list(SIZES)[:4]}
SQUARE = {"height": 32, "width": 32}


def stretched(kind=hf.ViTImageProcessor):
    return kind(size=SQUARE)


def cut():
    return hf.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=SQUARE)


def dual():
    text = OF_TEXT | {"vocab_size": 300, "max_position_embeddings": 64}
    return hf.CLIPModel(hf.CLIPConfig(vision_config=SIZES, text_config=text))


def detector():
    backbone = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], out_features=["stage2"])
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "num_queries": 5}
    sizes |= {f"{part}_{name}": 4 for part in ("encoder", "decoder") for name in ("attention_heads", "ffn_dim")}
    return hf.DetrModel(hf.DetrConfig(use_timm_backbone=False, backbone_config=backbone, **sizes))


_IMAGE = "<image>"


def of_words_and_images():
    words = bytes_and_words()
    words.add_special_tokens({"additional_special_tokens": [_IMAGE]})
    return words


def language_model():
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    text = hf.LlamaConfig(**OF_TEXT, **ends, vocab_size=300, num_key_value_heads=2, max_position_embeddings=512)
    token = of_words_and_images().convert_tokens_to_ids(_IMAGE)
    return hf.LlavaForConditionalGeneration(
        hf.LlavaConfig(
            vision_config=hf.CLIPVisionConfig(**SIZES),
            text_config=text,
            image_token_id=token,
            image_seq_length=16,
            vision_feature_layer=-1,
        )
    )


def of_language(template=None):
    return hf.LlavaProcessor(
        image_processor=cut(),
        tokenizer=of_words_and_images(),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token=_IMAGE,
        chat_template=template,
    )


_NO_REGISTERS = {name: SIZES[name] for name in SIZES if name != "intermediate_size"}
SEEING = {
    "vit": (lambda: hf.ViTForImageClassification(hf.ViTConfig(**SIZES)), stretched),
    "deit": (lambda: hf.DeiTModel(hf.DeiTConfig(**SIZES)), cut),
    "dinov2": (
        lambda: hf.Dinov2WithRegistersModel(hf.Dinov2WithRegistersConfig(**_NO_REGISTERS, num_register_tokens=2)),
        lambda: hf.BitImageProcessor(size={"shortest_edge": 40}, crop_size=SQUARE),
    ),
    "beit": (lambda: hf.BeitModel(hf.BeitConfig(**SIZES)), stretched),
    "swin": (
        lambda: hf.SwinModel(
            hf.SwinConfig(image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
        ),
        stretched,
    ),
    "clip_vision": (lambda: hf.CLIPVisionModel(hf.CLIPVisionConfig(**SIZES)), cut),
    "clip": (dual, lambda: (cut(), word_pieces())),
    "siglip": (
        lambda: hf.SiglipVisionModel(hf.SiglipVisionConfig(**SIZES)),
        lambda: stretched(hf.SiglipImageProcessor),
    ),
    "detr": (detector, lambda: hf.DetrImageProcessor(size={"shortest_edge": 32, "longest_edge": 64})),
    "yolos": (
        lambda: hf.YolosModel(hf.YolosConfig(**SIZES | {"image_size": [32, 48]}, num_detection_tokens=5)),
        lambda: hf.YolosImageProcessor(size={"shortest_edge": 32, "longest_edge": 48}),
    ),
    "llava": (language_model, of_language),
}


@contextmanager
def in_silence():
    before = hf.logging.get_verbosity()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    try:
        yield
    finally:
        hf.logging.set_verbosity(before)
        hf.logging.enable_progress_bar()


def save(name, folder, with_processor=True):
    """Write the folder of a model, with large weights, so that its heads differ."""
    with in_silence():
        make, processor = SEEING[name]
        torch.manual_seed(0)
        model = make().eval()
        for weights in model.parameters():
            if weights.dim() > 1 and weights.std() < 0.05:
                weights.data.mul_(6)
        model.save_pretrained(folder)
        processors = processor() if with_processor else ()
        for one in processors if isinstance(processors, tuple) else (processors,):
            one.save_pretrained(folder)
    return folder


def photo_of(width=60, height=40):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8))
