"""mhaviz train"""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.corpora import read_corpus
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.evaluation import evaluate_checkpoint
from mhaviz.cli.film import Film
from mhaviz.cli.progress import progress
from mhaviz.errors import ArgumentError, MhavizError, StoppedError
from mhaviz.views.files import FIGURE_SUFFIXES, check_outputs

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.training.trainer import Trainer
    from mhaviz.views.figure.sheet import Sheet

_MODEL, _TRAINING = "The model", "The training"
_SETTLED = ("task", "d_model", "heads", "d_ff", "dropout", "batch_size", "learning_rate", "seed")
"""What a checkpoint brings with it."""


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
    threads: Annotated[
        int, typer.Option(help="On the CPU; more pay for large models only.", rich_help_panel=_TRAINING)
    ] = 1,
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

    A checkpoint is written at every twentieth of the way, and every 250 steps at the latest. Ctrl-C stops and keeps
    the last; --resume goes on from there, and ends as if it had never stopped, unless it asks for other --steps.

    Output: one .safetensors file; .png, .svg, .pdf and .json files.
    """
    paths = tuple(output or ())
    suffixes = (*FIGURE_SUFFIXES, ".json") if evaluate else (*FIGURE_SUFFIXES, ".json", ".safetensors")
    inputs = options.files_read(context)
    check_outputs(paths, suffixes, inputs)
    checkpoint_paths = [path for path in paths if path.suffix.lower() == ".safetensors"]
    delivery = Delivery([path for path in paths if path not in checkpoint_paths], quiet, json)
    if animate is not None:
        check_outputs([animate], (".gif",), inputs)
    if evaluate is not None:
        unheeded = options.given(context, ("resume", "animate", "steps", "threads", *_SETTLED))
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
    from mhaviz.models.learning import training_record
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
    from mhaviz.training.loading import load_checkpoint
    from mhaviz.training.trainer import Trainer

    (path,) = checkpoint_paths
    look, chosen_device = options.choose_look(dpi=dpi), resolve_device(device)
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
    trainer = Trainer(checkpoint, learnt_from, chosen_device, threads)
    film = Film(TrainedModel(checkpoint, str(chosen_device)), learnt_from) if animate else None
    if learnt_from.repeated:
        several = learnt_from.repeated > 1
        what = "sentences that occur more than once are" if several else "sentence that occurs more than once is"
        delivery.tell([f"{learnt_from.repeated:,} {what} taken once"])
    if not resume and path.exists():
        delivery.tell([f"{path} will be replaced; --resume would go on from it"])
    _train(trainer, path, film, quiet)
    delivery.tell([f"saved {path}"])
    if animate is not None and film is not None:
        film.save(animate)
        delivery.tell([f"saved {animate}"])
    training = training_record(checkpoint, chosen_device)

    def draw() -> "Sheet":
        from mhaviz.views.figure.training import training_figure

        return training_figure(training, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.training import TrainingView

        return TrainingView(training)

    delivery.deliver(training, draw, view)


def _train(trainer: "Trainer", path: Path, film: Film | None, quiet: bool) -> None:
    """Take all steps, save at every milestone, and say what is left where that does not come to its end."""
    from mhaviz.training.evaluation import SCORES

    checkpoint, saved = trainer.checkpoint, 0
    score_name, total = SCORES[checkpoint.task], checkpoint.plan.steps
    try:
        with progress(quiet, time_left=True) as told:
            for taken in trainer.steps():
                if taken.milestone is not None:
                    checkpoint.save(path)
                    saved = taken.step
                    if film is not None:
                        film.expose()
                score = f", held-out {score_name} {checkpoint.milestones[-1].score:.2f}" if checkpoint.step else ""
                told(taken.step / total, f"{taken.step:,} of {total:,} steps, loss {taken.loss:.3f}{score}")
    except (KeyboardInterrupt, MhavizError) as error:
        kept = f"{path} holds step {saved:,}" if saved else "nothing new was saved"
        if isinstance(error, MhavizError):
            raise MhavizError(f"{error}; {kept}") from error
        raise StoppedError(f"interrupted; {kept}{', go on with --resume' if saved else ''}") from None
