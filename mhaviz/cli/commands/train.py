"""mhaviz train"""

import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.command import asked, given
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.corpora import deliver_beside_part, part_among
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import PlainDevice, model_option
from mhaviz.errors import ArgumentError, MhavizError, StoppedError
from mhaviz.files.writing import write_whole
from mhaviz.pages.registry import RESULT_SUFFIXES
from mhaviz.results.corpus_part import SUFFIX
from mhaviz.views.formats import check_outputs

if TYPE_CHECKING:
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.results.attention import Attention
    from mhaviz.training.corpus import Corpus, Pair
    from mhaviz.training.trainer import Trainer

# Of an animation: what a class can read on a wall.
_WORDS = 10
_DPI = 80

_training_option = partial(typer.Option, rich_help_panel="The training")


@dataclass(frozen=True, eq=False, repr=False)
class PlanOptions:
    """How a model is trained. None: as ``Plan`` has it, or the checkpoint to go on from."""

    batch_size: Annotated[int | None, _training_option(min=1, help="Sentences a step. \\[default: 64]")] = None
    learning_rate: Annotated[float | None, _training_option(min=0, help="At its highest. \\[default: 0.003]")] = None
    seed: Annotated[
        int | None, _training_option(help="Of the weights, the batches and what is held out. \\[default: 0]")
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class SizeOptions:
    """What a model is built from. None: as ``Sizes`` has it, or the checkpoint to go on from."""

    d_model: Annotated[int | None, model_option(min=1, help="Features of each word. \\[default: 64]")] = None
    n_heads: Annotated[int | None, model_option(min=1, help="Number of heads of each attention. \\[default: 4]")] = None
    d_ff: Annotated[int | None, model_option(min=1, help="Hidden features, feed-forward. \\[default: 128]")] = None
    dropout: Annotated[float | None, model_option(min=0, max=1, help="Share dropped. \\[default: 0.1]")] = None


def train(
    plan: PlanOptions,
    sizes: SizeOptions,
    corpus: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS",
            help="translation (the built-in grammar), or a file of source⇥target lines.",
        ),
    ],
    delivery: Delivery,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of Adam. \\[default: 1500]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint that -o names.")] = False,
    animate: Annotated[
        Path | None, typer.Option(metavar="GIF", help="Film the maps of a held-out sentence as training goes on.")
    ] = None,
    device: PlainDevice = "auto",
) -> None:
    """Train a small model of mhaviz's own layers, so that its maps mean something.

    \b
    mhaviz train translation -o t.safetensors
    mhaviz heatmap --model t.safetensors "the small black cat sees my car"
    mhaviz train pairs.tsv -o pairs.safetensors --steps 3000 --animate film.gif

    The first learns to translate the sentences of a built-in grammar in about half a minute. Your own pairs: lines of
    source, tab, target; a third column of i-j links (words between blanks, from 0, source first) is the gold alignment
    for mhaviz evaluate. A tenth of the sentences, 500 at most, is held out.

    A checkpoint is written at every twentieth of the way, and every 250 steps at the latest. Ctrl-C stops and keeps
    the last; --resume goes on from there, and ends as if it had never stopped, unless it asks for other --steps.

    Output: one .safetensors file; .png, .svg, .pdf and .json files.
    """
    inputs = [Path(corpus)]
    delivery.check(inputs, (*RESULT_SUFFIXES, SUFFIX))
    if animate is not None:
        check_outputs([animate], (".gif",), inputs)
    if (path := part_among(delivery)) is None:
        raise ArgumentError(f"expected a file for what is learnt, such as -o {Path(corpus).stem}{SUFFIX}, got none")

    from mhaviz.api.evaluation import read_corpus
    from mhaviz.devices import resolve_device
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
    from mhaviz.training.loading import load_checkpoint
    from mhaviz.training.trainer import Trainer

    chosen_device = resolve_device(device)
    more = {} if steps is None else {"steps": steps}
    if resume:
        if settled := given(plan) + given(sizes):
            raise ArgumentError(f"--resume goes on as the training began; leave out {', '.join(settled)}")
        checkpoint = load_checkpoint(str(path.absolute()))
        checkpoint.plan = replace(checkpoint.plan, **more)
        learnt_from = read_corpus(corpus, checkpoint.plan.seed)
    else:
        chosen_plan = Plan(**asked(plan), **more)
        learnt_from = read_corpus(corpus, chosen_plan.seed)
        checkpoint = Checkpoint.untrained(learnt_from, Sizes(**asked(sizes)), chosen_plan)
    trainer = Trainer(checkpoint, learnt_from, chosen_device)
    film = Film(TrainedModel(checkpoint, str(chosen_device)), learnt_from) if animate else None
    if not resume and path.exists():
        delivery.tell(f"{path} will be replaced; --resume would go on from it")
    _train(trainer, path, film, delivery.quiet)
    if animate is not None and film is not None:
        film.save(animate)
        delivery.tell(f"saved {animate}")
    deliver_beside_part(checkpoint.record(chosen_device), delivery)
    if not delivery.json:
        delivery.tell(_next_command(path, " ".join(filmed_pair(learnt_from).source)))


def _next_command(path: Path, sentence: str) -> str:
    """What to type to see what has been learnt; a path that begins with a dash would be an option."""
    shown = f"./{path}" if str(path).startswith("-") else str(path)
    return f"to see its maps: {shlex.join(['mhaviz', 'heatmap', '--model', shown, sentence])}"


def _train(trainer: "Trainer", path: Path, film: "Film | None", quiet: bool) -> None:
    """Take all steps, save at every milestone, and say what is left where that does not come to its end."""
    from mhaviz.training.checkpoint import SCORE

    checkpoint, saved = trainer.checkpoint, 0
    total = checkpoint.plan.steps
    try:
        with progress(quiet, "training", time_left=True) as on_progress:
            for taken in trainer.steps():
                if taken.milestone is not None:
                    checkpoint.save(path)
                    saved = taken.step
                    if film is not None:
                        film.expose()
                score = f", {SCORE} {checkpoint.milestones[-1].score:.2f}" if checkpoint.step else ""
                on_progress(taken.step / total, f"{taken.step:,}/{total:,}, loss {taken.loss:.2f}{score}")
    except (KeyboardInterrupt, MhavizError) as error:
        kept = f"{path} holds step {saved:,}" if saved else "nothing new was saved"
        if isinstance(error, MhavizError):
            raise MhavizError(f"{error}; {kept}") from error
        raise StoppedError(f"interrupted; {kept}{', go on with --resume' if saved else ''}") from None


class Film:
    """The maps of one held-out sentence, from before the training on."""

    def __init__(self, model: "TrainedModel", corpus: "Corpus") -> None:
        self._model, self._pair = model, filmed_pair(corpus)
        self._frames: list[Attention] = []
        self.expose()

    def expose(self) -> None:
        """Add a frame."""
        from mhaviz.analyses.weights import attention_weights

        self._frames.append(attention_weights(self._model, self._model.inputs_of([self._pair], target_given=True)))

    def save(self, path: Path) -> None:
        """Write the file. Raises MhavizError."""
        from mhaviz.views.animation import write_gif
        from mhaviz.views.style import Style

        write_whole([(path, partial(write_gif, frames=self._frames, style=Style(dpi=_DPI, numbers=False)))])


def filmed_pair(corpus: "Corpus") -> "Pair":
    """The longest held-out pair of those that are short enough to be read on a wall, or the shortest of all."""

    def length(pair: "Pair") -> int:
        return max(len(pair.source), len(pair.target))

    short = [pair for pair in corpus.held_out if length(pair) <= _WORDS]
    return max(short, key=length) if short else min(corpus.held_out, key=length)
