"""mhaviz train"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.corpora import read_corpus
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.evaluation import evaluate_checkpoint
from mhaviz.errors import ArgumentError, StoppedError
from mhaviz.views.files import FIGURE_SUFFIXES, check_outputs
from mhaviz.views.labels import visible
from mhaviz.whole_files import write_whole

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.records import Attention
    from mhaviz.sources.trained_model import TrainedModel
    from mhaviz.training.corpus import Corpus, Pair
    from mhaviz.training.trainer import Progress, Trainer
    from mhaviz.views.figure.sheet import Sheet
    from mhaviz.views.look import Look

_MODEL, _TRAINING = "The model", "The training"
_SETTLED = ("task", "d_model", "heads", "d_ff", "dropout", "batch_size", "learning_rate", "seed")
"""What a checkpoint brings with it."""

_FILMED_WORDS = 10  # what a class can read on a wall
_FILM_DPI = 80


class TaskOption(StrEnum):
    """What can be learnt."""

    translation = "translation"
    language = "language"


def train(
    context: typer.Context,
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="CORPUS",
            help="translation (the built-in grammar), a file of source⇥target lines, or with --task language a text.",
        ),
    ] = None,
    task: Annotated[TaskOption, typer.Option(help="language: learn to guess a text's next word.")] = (
        TaskOption.translation
    ),
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="The checkpoint, a .safetensors file; a picture and data as well."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint that -o names.")] = False,
    evaluate: Annotated[
        str | None,
        typer.Option(metavar="CHECKPOINT", help="Do not train: say how much this checkpoint gets right."),
    ] = None,
    animate: Annotated[
        Path | None, typer.Option(metavar="GIF", help="Film the maps of a held-out sentence as training goes on.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps of Adam.", rich_help_panel=_TRAINING)] = 1500,
    batch_size: Annotated[int, typer.Option(help="Sentences a step.", rich_help_panel=_TRAINING)] = 64,
    learning_rate: Annotated[float, typer.Option(help="At its highest.", rich_help_panel=_TRAINING)] = 3e-3,
    seed: Annotated[
        int, typer.Option(help="Of the weights, the batches and what is held out.", rich_help_panel=_TRAINING)
    ] = 0,
    device: Annotated[
        str, typer.Option(metavar="auto|cpu|cuda|cuda:N|mps", help="Where to train.", rich_help_panel=_TRAINING)
    ] = "auto",
    d_model: Annotated[int, typer.Option("--d-model", help="Features of each word.", rich_help_panel=_MODEL)] = 64,
    heads: Annotated[int, typer.Option("--heads", help="Heads of each attention.", rich_help_panel=_MODEL)] = 4,
    d_ff: Annotated[int, typer.Option("--d-ff", help="Hidden features, feed-forward.", rich_help_panel=_MODEL)] = 128,
    dropout: Annotated[float, typer.Option(help="Share dropped in training.", rich_help_panel=_MODEL)] = 0.1,
    quiet: options.Quiet = False,
    json: options.Json = False,
    dpi: options.Dpi = 150,
) -> None:
    """Train a small model of mhaviz's own layers, so that its maps mean something.

    mhaviz train translation -o t.safetensors learns to translate the sentences of a built-in grammar in about half a
    minute; mhaviz heatmap --checkpoint t.safetensors "the small black cat sees my car" then shows how.

    Your own pairs: lines of source, tab, target; a third column of i-j links (words between blanks, from 0, source
    first) is the gold alignment for --evaluate. Your own text is cut into sentences at . ! ? and at empty lines. A
    tenth of the sentences, 500 at most, is held out.

    A checkpoint is written 20 times on the way, or every 250 steps if that is more often. Ctrl-C stops and keeps the
    last; --resume goes on from there.

    Output: one .safetensors file; .png, .svg, .pdf and .json files.
    """
    paths = tuple(output or ())
    suffixes = (*FIGURE_SUFFIXES, ".json") if evaluate else (*FIGURE_SUFFIXES, ".json", ".safetensors")
    check_outputs(paths, suffixes)
    checkpoint_paths = [path for path in paths if path.suffix.lower() == ".safetensors"]
    delivery = Delivery([path for path in paths if path not in checkpoint_paths], quiet, json)
    if animate is not None:
        check_outputs([animate], (".gif",))
    if evaluate is not None:
        unheeded = options.given(context, ("resume", "animate", "steps", *_SETTLED))
        if unheeded:
            raise ArgumentError(f"--evaluate does not train; leave out {', '.join(unheeded)}")
        evaluate_checkpoint(evaluate, corpus, device, delivery, dpi)
        return
    if corpus is None:
        raise ArgumentError("expected something to learn from: translation, a file of pairs, or a text; see --help")
    if len(checkpoint_paths) != 1:
        raise ArgumentError(
            f"expected one file for what is learnt, such as -o {Path(corpus).stem}.safetensors, "
            f"got {len(checkpoint_paths) or 'none'}"
        )

    from mhaviz.devices import resolve_device
    from mhaviz.sources.trained_model import TrainedModel
    from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes, load_checkpoint
    from mhaviz.training.trainer import Trainer
    from mhaviz.views.look import Look

    (path,) = checkpoint_paths
    look, chosen_device = Look(dpi=dpi), resolve_device(device)
    if resume:
        settled = options.given(context, _SETTLED)
        if settled:
            raise ArgumentError(f"--resume goes on as the training began; leave out {', '.join(settled)}")
        checkpoint = load_checkpoint(str(path.absolute()))
        if options.given(context, ("steps",)):
            checkpoint.plan = replace(checkpoint.plan, steps=steps)
        learnt_from = read_corpus(corpus, checkpoint.task, checkpoint.plan.seed)
    else:
        sizes, plan = Sizes(d_model, heads, d_ff, dropout), Plan(steps, batch_size, learning_rate, seed)
        learnt_from = read_corpus(corpus, task.value, seed)
        checkpoint = Checkpoint.untrained(learnt_from, sizes, plan)
    trainer = Trainer(checkpoint, learnt_from, chosen_device)
    model = TrainedModel(checkpoint, str(chosen_device))
    frames = _Film(model, learnt_from) if animate else None
    with _explained(trainer, path):
        for progress in _with_bar(trainer, shown=not quiet):
            if progress.milestone is not None:
                checkpoint.save(path)
                if frames is not None:
                    frames.expose()
    _tell(quiet, path)
    if animate is not None and frames is not None:
        frames.save(animate, Look(dpi=_FILM_DPI, numbers=False))
        _tell(quiet, animate)
    training = model.history()

    def draw() -> "Sheet":
        from mhaviz.views.figure.training import training_figure

        return training_figure(training, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.training import TrainingView

        return TrainingView(training)

    delivery.deliver(training, draw, view)


def _tell(quiet: bool, path: Path) -> None:
    if not quiet:
        print(f"mhaviz: saved {visible(str(path))}", file=sys.stderr)


class _Film:
    """The maps of one held-out sentence, from before the training on."""

    def __init__(self, model: "TrainedModel", corpus: "Corpus") -> None:
        self._model, self._pair, self._frames = model, filmed_pair(corpus), list["Attention"]()
        self.expose()

    def expose(self) -> None:
        self._frames.append(self._model.attend_pairs([self._pair]))

    def save(self, path: Path, look: "Look") -> None:
        from mhaviz.views.animation import write_gif

        write_whole([(path, partial(write_gif, frames=self._frames, look=look))])


def filmed_pair(corpus: "Corpus") -> "Pair":
    """The longest held-out pair of those that are short enough to be read on a wall."""
    short = [pair for pair in corpus.held_out if max(len(pair.source), len(pair.target)) <= _FILMED_WORDS]
    return max(short, key=lambda pair: len(pair.target)) if short else corpus.held_out[0]


@contextmanager
def _explained(trainer: "Trainer", path: Path) -> Iterator[None]:
    """Say what an interrupt leaves behind."""
    begun = trainer.checkpoint.step
    try:
        yield
    except KeyboardInterrupt:
        step = trainer.checkpoint.step
        kept = f"{path} holds step {step:,}, go on with --resume" if step > begun else "nothing new was saved"
        raise StoppedError(f"interrupted; {kept}") from None


def _with_bar(trainer: "Trainer", shown: bool) -> "Iterator[Progress]":
    """The trainer's steps, with a progress bar if standard error is a terminal."""
    if not shown or not sys.stderr.isatty():
        yield from trainer.steps()
        return

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as ProgressBar

    from mhaviz.training.evaluation import SCORES

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False), TimeRemainingColumn())
    checkpoint = trainer.checkpoint
    with ProgressBar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=checkpoint.plan.steps, completed=checkpoint.step)
        for progress in trainer.steps():
            score = f", {SCORES[checkpoint.task]} {checkpoint.milestones[-1].score:.2f}" if checkpoint.step else ""
            bar.update(task, completed=progress.step, description=f"loss {progress.loss:.3f}{score}")
            yield progress
