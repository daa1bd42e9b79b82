"""Models of timm, made small by their own arguments where they have such, with small images.

timm needs torchvision, and PyPI's torchvision needs CUDA: beside a torch without it, two of its operators are missing,
and then it cannot be imported. They are declared here, so that its Python code loads; no model here calls them. So::

    pip install --no-deps timm torchvision==0.28.0    # for torch 2.13; 10 MB, with or without CUDA
"""

import importlib
import sys
import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor

from zoo.program import Entry, Program, Weights, spread
from zoo.softmaxes import Softmaxes

_DECLARED: list[torch.library.Library] = []


def import_timm() -> Any:
    """The module. Raises ImportError where it, or torchvision, is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module("torchvision")
        except RuntimeError:  # "operator torchvision::nms does not exist"
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _DECLARED.append(library)
        return importlib.import_module("timm")


def program(name: str, size: int, has_blocks: bool = False, **options: Any) -> Program:
    """The model as timm makes it; its own weights are what its softmaxes return where ``fused_attn`` is False, or what
    ``get_attention`` makes of them where a module has it.

    ``has_blocks``: they are (batch · heads, blocks, …).
    """
    timm = import_timm()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = spread(timm.create_model(name, pretrained=False, num_classes=3, **options))
    picture = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))

    def run() -> Tensor:
        with torch.no_grad():
            output: Tensor = model(picture)
        return output

    def own() -> list[Weights]:
        fused = [module for module in model.modules() if getattr(module, "fused_attn", False)]
        mixing = [module for module in model.modules() if hasattr(module, "get_attention")]
        for module in fused:
            module.fused_attn = False
        try:
            with Softmaxes() as softmaxes:
                for module in mixing:
                    module.get_attention = partial(_mixed, softmaxes.kept, module.get_attention)
                run()
        finally:
            for module in fused:
                module.fused_attn = True
            for module in mixing:
                del module.get_attention
        kept = [x.unflatten(0, (2, -1)) if has_blocks else x for x in softmaxes.kept]
        return [(f"softmax {i}", x) for i, x in enumerate(kept)]

    return Program(model, run, own, "its softmaxes, fused_attn=False")


def _mixed(kept: list[Tensor], get_attention: Any, x: Tensor) -> Tensor:
    """Keep what is made of softmaxes in place of what these return."""
    before = len(kept)
    A: Tensor = get_attention(x)
    kept[before:] = [A.clone()]
    return A


def entry(name: str, size: int = 32, missed: int = 0, why: str = "", **options: Any) -> Entry:
    return Entry(name, "timm", partial(program, name, size, **options), missed=missed, why=why)


VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4}

TIMM = [
    entry("vit_tiny_patch16_224", **VIT),
    entry("vit_small_patch14_reg4_dinov2", **VIT),
    entry("vit_base_patch16_siglip_224", **VIT),
    entry("vit_relpos_small_patch16_224", **VIT),
    entry("vit_srelpos_small_patch16_224", **VIT),
    entry("vit_base_patch16_rope_224", **VIT),
    entry("vit_base_patch16_xp_224", **VIT),
    entry("aimv2_large_patch14_224", **VIT),
    entry("deit3_small_patch16_224", **VIT),
    entry("deit_tiny_distilled_patch16_224", **VIT),
    entry("beit_base_patch16_224", **VIT),
    entry("beitv2_base_patch16_224", **VIT),
    entry("eva02_tiny_patch14_224", **VIT),
    entry("naflexvit_base_patch16_gap", 32, embed_dim=32, depth=2, num_heads=4, patch_size=8),
    entry(
        "samvit_base_patch16",
        64,
        img_size=64,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=4,
        window_size=4,
        global_attn_indexes=(1,),
        neck_chans=16,
    ),
    entry(
        "swin_tiny_patch4_window7_224", 32, img_size=32, embed_dim=16, depths=(2, 1), num_heads=(2, 4), window_size=4
    ),
    entry("swinv2_tiny_window8_256", 32, img_size=32, embed_dim=16, depths=(2, 1), num_heads=(2, 4), window_size=4),
    entry("swinv2_cr_tiny_224", 32, img_size=32, embed_dim=16, depths=(2, 1), num_heads=(2, 4), window_size=4),
    entry("maxvit_tiny_rw_224", 64, img_size=64, embed_dim=(32, 32, 32, 32), depths=(1, 1, 1, 1), stem_width=8),
    entry("coatnet_0_rw_224", 64, img_size=64, embed_dim=(32, 32, 32, 32), depths=(1, 1, 1, 1), stem_width=(8, 8)),
    entry("xcit_nano_12_p16_224", 32, img_size=32, depth=2, embed_dim=32, num_heads=4, cls_attn_layers=1),
    entry(
        "cait_xxs24_224",
        32,
        img_size=32,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=4,
        missed=2,
        why="talking heads",
    ),
    entry("hiera_tiny_224", 64, img_size=(64, 64), embed_dim=16, num_heads=1, stages=(1, 1, 2, 1)),
    entry(
        "hieradet_small",
        64,
        embed_dim=16,
        num_heads=1,
        stages=(1, 1, 2, 1),
        global_att_blocks=(3,),
        window_spec=(4, 4, 4, 4),
    ),
    entry("levit_128s", 96, img_size=96),
    entry("mvitv2_tiny", 64, img_size=64),
    entry("pvt_v2_b0", 64, depths=(1, 1, 1, 1)),
    entry("twins_pcpvt_small", 64, img_size=64, depths=(1, 1, 1, 1)),
    entry("twins_svt_small", 64, img_size=64, depths=(1, 1, 1, 1)),
    entry(
        "coat_lite_tiny",
        64,
        img_size=64,
        why="factorised attention: a softmax of keys over all tokens, and no weights of a query",
    ),
    entry(
        "coat_tiny",
        64,
        img_size=64,
        parallel_depth=1,
        serial_depths=(1, 1, 1, 1),
        why="factorised attention: a softmax of keys over all tokens, and no weights of a query",
    ),
    entry(
        "convit_tiny",
        32,
        img_size=32,
        patch_size=8,
        embed_dim=16,
        depth=3,
        local_up_to_layer=2,
        num_heads=4,
    ),
    entry(
        "volo_d1_224",
        64,
        img_size=64,
        missed=4,
        why="outlook attention: its weights are made by a linear layer, not by queries and keys",
    ),
    entry("nest_tiny", 64, img_size=64),
    entry("crossvit_tiny_240", 240),
    entry(
        "tnt_s_patch16_224", 32, img_size=32, embed_dim=32, inner_dim=8, depth=2, num_heads_inner=2, num_heads_outer=4
    ),
    entry("pit_ti_224", 64, img_size=64, depth=(1, 1, 1)),
    entry("edgenext_xx_small", 64),
    entry("efficientformer_l1", 224, depths=(1, 1, 1, 2)),
    entry(
        "efficientformerv2_s0",
        224,
        depths=(1, 1, 1, 2),
        missed=3,
        why="talking heads",
    ),
    entry("efficientvit_m0", 192, img_size=192),
    entry("efficientvit_b0", 64, why="linear attention without a softmax: there are no weights"),
    entry("davit_tiny", 64, depths=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), num_heads=(2, 2, 2, 2)),
    entry("gcvit_xxtiny", 224),
    entry("fastvit_sa12", 64, layers=(1, 1, 1, 1)),
    entry("tiny_vit_5m_224", 64, depths=(1, 1, 1, 1)),
    entry("mobilevit_xxs", 128),
    entry("mobilevitv2_050", 128, missed=9, why="separable attention: a weight a token, made by a linear layer"),
    entry("nextvit_small", 64),
    entry("visformer_tiny", 64, img_size=64),
    entry("botnet26t_256", 256),
    entry("halonet26t", 256, has_blocks=True),
    entry(
        "lambda_resnet26t",
        128,
        missed=3,
        why="lambda layers: a softmax of keys over all tokens, and no weights of a query",
    ),
    entry("poolformerv2_s12", 64, why="pooling, no attention"),
    entry("caformer_s18", 64),
    entry("vitamin_small_224", 64, img_size=64),
    entry("mobilenetv4_hybrid_medium", 64),
    entry("swiftformer_xs", 64, why="additive attention: a number a token, and no softmax"),
    entry("resnet50_clip", 64),
    entry("shvit_s1", 160),
]
