"""Reading checkpoints safely, whoever made them: no code in a file is run, and all sizes are checked before use."""

from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from itertools import pairwise
from json import JSONDecodeError
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import torch
from torch import Tensor

from mhaviz._version import __version__
from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameters_named
from mhaviz.files.errors import reading
from mhaviz.files.safetensors_files import read_safetensors
from mhaviz.files.saved_array import require_room
from mhaviz.files.texts import parse_json
from mhaviz.inputs.tokens import MARKS
from mhaviz.layer.embedding import PositionalEncoding
from mhaviz.layer.tokens import Vocabulary
from mhaviz.results.training import LearningPoint
from mhaviz.training import TRANSLATION
from mhaviz.training.checkpoint import AVERAGES, FORMAT, Checkpoint, Plan, Sizes, build


def load_checkpoint(name: str) -> Checkpoint:
    """Load a checkpoint from a file, or one that comes with mhaviz. The model is in eval mode, on the CPU.

    Raises:
        MhavizError: there is none of this name, or the file is no checkpoint, is cut off, or has a later format.
    """
    path = Path(name)
    if name == TRANSLATION and not path.is_file():
        path = Path(str(resources.files("mhaviz.training") / f"{name}.safetensors"))
    arrays, metadata = read_safetensors(path)
    about = _parse(path, metadata.get("mhaviz"))
    for array in arrays.values():
        array.require_floats()
    require_room(arrays.values())
    tensors = {name: torch.from_numpy(array.read()) for name, array in arrays.items()}
    with as_one_line(f"{path} is not understood: its parts do not fit together", "take another copy of it"):
        try:
            with parameters_named(str):  # the file is wrong, not the command line
                return _restore(about, tensors)
        except ArgumentError as error:
            raise ValueError(str(error)) from error


def _parse(path: Path, metadata: str | None) -> dict[str, Any]:
    about = None
    with reading(path), suppress(JSONDecodeError, RecursionError):
        about = parse_json(metadata or "null")
    if not isinstance(about, dict) or "checkpoint" not in about:
        raise MhavizError(f"{path} is not a checkpoint of mhaviz; make one with mhaviz train")
    if about["checkpoint"] != FORMAT:
        raise MhavizError(
            f"{path} is a checkpoint of format {about['checkpoint']!s:.20}, written by mhaviz "
            f"{about.get('mhaviz')!s:.20}; this is mhaviz {__version__}, which reads format {FORMAT}: use the other or "
            f"train again"
        )
    return about


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Corpus(msgspec.Struct):
    """Corpus of a checkpoint; ``sentences``: number of sentences for training, and number of held-out sentences."""

    name: str
    fingerprint: str
    sentences: tuple[_Count, _Count]


class _Description(msgspec.Struct):
    """Description of a checkpoint in its file."""

    task: Literal["translation"]
    sizes: Sizes
    plan: Plan
    source_words: list[str]
    target_words: list[str]
    milestones: tuple[LearningPoint, ...]
    corpus: _Corpus


def _restore(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Checkpoint:
    saved = msgspec.convert(about, _Description)
    sizes = saved.sizes
    source, target = Vocabulary([saved.source_words]), Vocabulary([saved.target_words])
    target.ids(MARKS)
    steps = [0, *(milestone.step for milestone in saved.milestones)]
    if any(later <= step for step, later in pairwise(steps)):
        raise ValueError("milestones: expected steps from 1 on, each larger than the one before")
    weights, optimizer = _under("model.", tensors), _under("adam.", tensors)
    with torch.device("meta"):  # nothing is allocated or drawn, whatever the sizes
        model = build(sizes, len(source), len(target))
    model.load_state_dict(weights, assign=True)
    model.position = PositionalEncoding(sizes.d_model, sizes.dropout)  # its table is not saved
    shapes = {f"{key}.{name}": p.shape for key in AVERAGES for name, p in model.named_parameters()}
    if optimizer and {name: tensor.shape for name, tensor in optimizer.items()} != shapes:
        raise ValueError("the averages of Adam are not those of the weights")
    return Checkpoint(
        sizes=sizes,
        plan=saved.plan,
        source_vocabulary=source,
        target_vocabulary=target,
        corpus=saved.corpus.name,
        fingerprint=saved.corpus.fingerprint,
        sentences=saved.corpus.sentences,
        model=model.eval(),
        milestones=saved.milestones,
        optimizer=optimizer,
    )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
