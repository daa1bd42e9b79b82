"""Options of commands that run a checkpoint of transformers over a corpus."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import Device, Dtype, Kind, Layers, parse_device, split_revision
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

    model: Annotated[
        str, typer.Option(metavar="FOLDER|ID", help="A folder of transformers, or a hub id, such as gpt2@REVISION.")
    ]
    layer: Layers = "all"
    kind: Kind = None
    device: Device = "auto"
    dtype: Dtype = None

    def load(self, delivery: Delivery, predicts: bool = False) -> "LoadedModel":
        """The model, on the device of this process. Raises as ``mhaviz.load`` does."""
        from mhaviz.api.loaded import load

        (name, revision), where = split_revision(self.model), parse_device(self.device)
        if "device" in where:
            where["device"] = this_process().device(where["device"])
        loaded = load(name, predicts=predicts, on_notice=delivery.notice, revision=revision, dtype=self.dtype, **where)
        delivery.tell(loaded.notices)
        return loaded
