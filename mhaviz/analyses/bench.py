"""The layer and the inputs that benchmarks measure."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mhaviz.devices import require_memory
from mhaviz.layer.attention import MultiHeadAttention, check_heads
from mhaviz.layer.seeding import check_seed, seeded
from mhaviz.results.result import Source

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Bench:
    """A layer with random weights, in eval mode, and random inputs of unit variance.

    Attributes:
        d_model, n_heads: sizes; n_heads must divide d_model.
        seed: of weights and inputs. They are drawn on the CPU, the same for every device.
        device: where they are.

    Raises:
        ArgumentError: sizes or a seed that cannot be.
        MhavizError: the layer does not fit into memory.
    """

    d_model: int = 512
    n_heads: int = 8
    seed: int = 0
    device: torch.device = _CPU

    def __post_init__(self) -> None:
        check_heads(self.d_model, self.n_heads)
        check_seed(self.seed)
        copies = 8 * 4 * 4 * self.d_model**2  # of the projections, in float32, some of them in float64
        require_memory(copies, self.device, "the layer")

    @cached_property
    def layer(self) -> MultiHeadAttention:
        """The layer. Its biases, which a new layer has at zero, are drawn too, or no comparison would notice them."""
        with seeded(self.seed), torch.no_grad():
            layer = MultiHeadAttention(self.d_model, self.n_heads).eval()
            for projection in (layer.Wq, layer.Wk, layer.Wv, layer.Wo):
                projection.bias.normal_(std=0.1)
        return layer.to(self.device)

    def input(self, length: int) -> Tensor:
        """X, (1, length, d_model)."""
        with seeded(self.seed):
            return torch.randn(1, length, self.d_model).to(self.device)

    @property
    def source(self) -> Source:
        """What is measured, on what."""
        threads = torch.get_num_threads()
        details = {
            "kind": "random weights",
            "seed": self.seed,
            "device": str(self.device),
            "device_name": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else None,
            "threads": threads,
            "torch": torch.__version__,
            "d_model": self.d_model,
            "n_heads": self.n_heads,
        }
        heads = f"{self.n_heads} head{'s' * (self.n_heads != 1)}"
        where = details["device_name"] or f"{self.device}, {threads} thread{'s' * (threads != 1)}"
        text = f"random weights, seed {self.seed}, d_model {self.d_model}, {heads}, {where}, torch {torch.__version__}"
        return Source(text, {name: value for name, value in details.items() if value is not None})
