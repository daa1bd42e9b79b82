"""mhaviz train"""

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from mhaviz.cli.shared.corpora import read_corpus
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.evaluation import evaluate_checkpoint
from mhaviz.cli.shared.film import Film
from mhaviz.cli.shared.groups import Device, DpiOption
from mhaviz.cli.shared.progress import progress
from mhaviz.errors import ArgumentError, MhavizError, StoppedError
from mhaviz.views.files import FIGURE_SUFFIXES, check_outputs

if TYPE_CHECKING:
    from mhaviz.training.trainer import Trainer

_MODEL, _TRAINING = "The model", "The training"
_T = TypeVar("_T")


@dataclass(frozen=True)
class SizeOptions:
    """The sizes of a model that is to be trained, and how; a checkpoint brings them with it."""

    batch_size: Annotated[
        int | None, typer.Option(help="Sentences a step. \\[default: 64]", rich_help_panel=_TRAINING)
    ] = None
    learning_rate: Annotated[
        float | None, typer.Option(help="At its highest. \\[default: 0.003]", rich_help_panel=_TRAINING)
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(
            help="Of the weights, the batches and what is held out. \\[default: 0]", rich_help_panel=_TRAINING
        ),
    ] = None
    d_model: Annotated[
        int | None, typer.Option("--d-model", help="Features of each word. \\[default: 64]", rich_help_panel=_MODEL)
    ] = None
    n_heads: Annotated[
        int | None,
        typer.Option("--n-heads", help="Number of heads of each attention. \\[default: 4]", rich_help_panel=_MODEL),
    ] = None
    d_ff: Annotated[
        int | None,
        typer.Option("--d-ff", help="Hidden features, feed-forward. \\[default: 128]", rich_help_panel=_MODEL),
    ] = None
    dropout: Annotated[
        float | None, typer.Option(help="Share dropped in training. \\[default: 0.1]", rich_help_panel=_MODEL)
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that are asked for."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def of(self, kind: Callable[..., _T], **others: Any) -> _T:
        """A ``Sizes`` or a ``Plan`` of them."""
        names = inspect.signature(kind).parameters
        return kind(**{name: value for name, value in self.given.items() if name in names} | others)


def train(
    sizes: SizeOptions,
    looks: DpiOption,
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="CORPUS",
            help="translation (the built-in grammar), or a file of source⇥target lines.",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="The checkpoint, a .safetensors file; a picture and data as well."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of Adam. \\[default: 1500]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint that -o names.")] = False,
    evaluate: Annotated[
        str | None,
        typer.Option(metavar="CHECKPOINT", help="Do not train: say how much this checkpoint gets right."),
    ] = None,
    animate: Annotated[
        Path | None, typer.Option(metavar="GIF", help="Film the maps of a held-out sentence as training goes on.")
    ] = None,
    device: Device = "auto",
    threads: Annotated[
        int | None,
        typer.Option(help="On the CPU; more pay for large models only. \\[default: 1]", rich_help_panel=_TRAINING),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing in the terminal but errors.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Train a small model of mhaviz's own layers, so that its maps mean something.

    \b
    mhaviz train translation -o t.safetensors
    mhaviz heatmap --model t.safetensors "the small black cat sees my car"
    mhaviz train pairs.tsv -o pairs.safetensors --steps 3000 --animate film.gif
    mhaviz train --evaluate translation

    The first learns to translate the sentences of a built-in grammar in about half a minute. Your own pairs: lines of
    source, tab, target; a third column of i-j links (words between blanks, from 0, source first) is the gold alignment
    for --evaluate. A tenth of the sentences, 500 at most, is held out.

    A checkpoint is written at every twentieth of the way, and every 250 steps at the latest. Ctrl-C stops and keeps
    the last; --resume goes on from there, and ends as if it had never stopped, unless it asks for other --steps.

    Output: one .safetensors file; .png, .svg, .pdf and .json files.
    """
    paths = tuple(output or ())
    suffixes = (*FIGURE_SUFFIXES, ".json") if evaluate else (*FIGURE_SUFFIXES, ".json", ".safetensors")
    inputs = [Path(name) for name in (corpus, evaluate) if name is not None]
    check_outputs(paths, suffixes, inputs)
    checkpoint_paths = [path for path in paths if path.suffix.lower() == ".safetensors"]
    delivery = Delivery([path for path in paths if path not in checkpoint_paths], quiet, json)
    if animate is not None:
        check_outputs([animate], (".gif",), inputs)
    settled = [f"--{name.replace('_', '-')}" for name in sizes.given]
    if evaluate is not None:
        asked = {"resume": resume or None, "animate": animate, "steps": steps, "threads": threads}
        unheeded = [f"--{name}" for name, value in asked.items() if value is not None] + settled
        if unheeded:
            raise ArgumentError(f"--evaluate does not train; leave out {', '.join(unheeded)}")
        evaluate_checkpoint(evaluate, corpus, device, delivery, looks.look)
        return
    if corpus is None:
        raise ArgumentError("expected something to learn from: translation, or a file of pairs; see --help")
    if len(checkpoint_paths) != 1:
        raise ArgumentError(
            f"expected one file for what is learnt, such as -o {Path(corpus).stem}.safetensors, "
            f"got {len(checkpoint_paths) or 'none'}"
        )

    from mhaviz.devices import resolve_device
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
    from mhaviz.training.loading import load_checkpoint
    from mhaviz.training.trainer import Trainer

    (path,) = checkpoint_paths
    look, chosen_device = looks.look, resolve_device(device)
    more = {} if steps is None else {"steps": steps}
    if resume:
        if settled:
            raise ArgumentError(f"--resume goes on as the training began; leave out {', '.join(settled)}")
        checkpoint = load_checkpoint(str(path.absolute()))
        checkpoint.plan = replace(checkpoint.plan, **more)
        learnt_from = read_corpus(corpus, checkpoint.plan.seed)
    else:
        plan = sizes.of(Plan, **more)
        learnt_from = read_corpus(corpus, plan.seed)
        checkpoint = Checkpoint.untrained(learnt_from, sizes.of(Sizes), plan)
    trainer = Trainer(checkpoint, learnt_from, chosen_device, 1 if threads is None else threads)
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
    delivery.deliver(checkpoint.record(chosen_device), look)


def _train(trainer: "Trainer", path: Path, film: Film | None, quiet: bool) -> None:
    """Take all steps, save at every milestone, and say what is left where that does not come to its end."""
    from mhaviz.training.checkpoint import SCORE

    checkpoint, saved = trainer.checkpoint, 0
    total = checkpoint.plan.steps
    try:
        with progress(quiet, time_left=True) as told:
            for taken in trainer.steps():
                if taken.milestone is not None:
                    checkpoint.save(path)
                    saved = taken.step
                    if film is not None:
                        film.expose()
                score = f", held-out {SCORE} {checkpoint.milestones[-1].score:.2f}" if checkpoint.step else ""
                told(taken.step / total, f"{taken.step:,} of {total:,} steps, loss {taken.loss:.3f}{score}")
    except (KeyboardInterrupt, MhavizError) as error:
        kept = f"{path} holds step {saved:,}" if saved else "nothing new was saved"
        if isinstance(error, MhavizError):
            raise MhavizError(f"{error}; {kept}") from error
        raise StoppedError(f"interrupted; {kept}{', go on with --resume' if saved else ''}") from None
