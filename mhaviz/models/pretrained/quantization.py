"""Quantised checkpoints: names all libraries that must be installed before transformers can read one."""

from importlib.util import find_spec

import torch
from transformers import PreTrainedConfig
from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

from mhaviz.errors import MhavizError, quoted

_MODULES = {
    "amd-quark": "quark",
    "fbgemm-gpu-genai": "fbgemm_gpu",
    "flute-kernel": "flute",
    "optimum-quanto": "optimum.quanto",
}
"""What a package is called when it is installed, and when it is imported, where it is not the same but for its dash."""

_GPU = "a GPU"

_NEEDED = {
    "aqlm": ("accelerate", "aqlm"),
    "auto-round": ("auto-round",),
    "awq": ("gptqmodel", "accelerate"),
    "bitnet": ("accelerate",),
    "bitsandbytes_4bit": ("accelerate", "bitsandbytes"),
    "bitsandbytes_8bit": ("accelerate", "bitsandbytes"),
    "compressed-tensors": ("compressed-tensors",),
    "eetq": ("kernels", "accelerate", _GPU),
    "fbgemm_fp8": ("accelerate", "fbgemm-gpu-genai", _GPU),
    "fouroversix": ("fouroversix",),
    "fp8": ("accelerate",),
    "fp_quant": ("fp_quant", "qutlass", _GPU),
    "gptq": ("optimum", "gptqmodel"),
    "higgs": ("accelerate", "flute-kernel", "fast_hadamard_transform", _GPU),
    "hqq": ("hqq",),
    "metal": ("kernels",),
    "mxfp4": ("accelerate",),
    "mxfp8": ("accelerate",),
    "quanto": ("optimum-quanto", "accelerate"),
    "quark": ("amd-quark",),
    "sinq": ("sinq",),
    "spqr": ("accelerate", "spqr_quant", _GPU),
    "torchao": ("torchao",),
    "vptq": ("accelerate", "vptq", _GPU),
}
"""What ``validate_environment`` of each of transformers' quantizers asks for; it names the first that is missing."""


def method_of(config: PreTrainedConfig) -> str | None:
    """How the weights are quantised, as transformers calls it; None: they are not.

    As in transformers, the configuration of a model's part that reads text may say so for all.
    """
    of_text = config.get_text_config(decoder=True)
    asked = getattr(config, "quantization_config", None) or getattr(of_text, "quantization_config", None)
    if not isinstance(asked, dict):
        return None
    if asked.get("load_in_4bit"):
        return "bitsandbytes_4bit"
    if asked.get("load_in_8bit"):
        return "bitsandbytes_8bit"
    return str(asked.get("quant_method"))


def require_libraries(config: PreTrainedConfig, name: str) -> None:
    """Raise MhavizError if the weights are quantised and what reads them is missing, or no method is known."""
    method = method_of(config)
    if method is None:
        return
    if method not in AUTO_QUANTIZATION_CONFIG_MAPPING:
        raise MhavizError(
            f"{name}: its weights are quantised by {quoted(method)}, which transformers does not know; take the model "
            f"as it was before, in 16 or 32 bits"
        )
    needed = _NEEDED.get(method, ())
    packages = [package for package in needed if package != _GPU and not _is_installed(package)]
    missing = [*packages, *([_GPU] if _GPU in needed and not torch.cuda.is_available() else [])]
    if missing:
        them = "it" if len(packages) == 1 else "them"
        install = f"install {them} with pip install {' '.join(packages)}, or " if packages else ""
        listed = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
        raise MhavizError(
            f"{name}: its weights are quantised ({method}), and to read them {listed} "
            f"{'is' if len(missing) == 1 else 'are'} missing; {install}take the model as it was "
            f"before, in 16 or 32 bits"
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(_MODULES.get(package, package.replace("-", "_"))) is not None
    except (ImportError, ValueError):  # what it is a part of is missing
        return False
