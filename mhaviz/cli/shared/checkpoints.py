"""Options of commands that run a checkpoint of transformers over a corpus."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import (
    DeviceMap,
    Dtype,
    KindOption,
    Layers,
    MaxMemory,
    ModelDevice,
    Revision,
)
from mhaviz.processes import this_process

if TYPE_CHECKING:
    from mhaviz.api.loaded import LoadedModel

CorpusFile = Annotated[
    Path | None,
    typer.Option(help="Read sentences from a UTF-8 file of any size, one a line; - is standard input."),
]


@dataclass(frozen=True, eq=False, repr=False)
class CheckpointOptions:
    """The checkpoint, the layers and the kind that are looked at, and where it runs."""

    model: Annotated[str, typer.Option(metavar="FOLDER|ID", help="A folder of transformers, or a hub id.")]
    layer: Layers = "all"
    kind: KindOption = None
    device: ModelDevice = "auto"
    revision: Revision = None
    dtype: Dtype = None
    device_map: DeviceMap = None
    max_memory: MaxMemory = None

    def load(self, delivery: Delivery, predicts: bool = False) -> "LoadedModel":
        """The model, on the device of this process. Raises as ``mhaviz.load`` does."""
        from mhaviz.api.loaded import load

        loaded = load(
            self.model,
            device=this_process().device(self.device),
            predicts=predicts,
            on_notice=delivery.notice,
            revision=self.revision,
            dtype=self.dtype,
            device_map=self.device_map,
            max_memory=self.max_memory,
        )
        delivery.tell(loaded.notices)
        return loaded
