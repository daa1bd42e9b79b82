"""mhaviz train"""

import re
import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.command import asked, given
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.film import Film
from mhaviz.cli.shared.models import PlainDevice, model_option
from mhaviz.errors import ArgumentError, MhavizError, StoppedError
from mhaviz.views.formats import RECORD_SUFFIXES, check_outputs

if TYPE_CHECKING:
    from mhaviz.training.trainer import Trainer

_training_option = partial(typer.Option, rich_help_panel="The training")


@dataclass(frozen=True, eq=False, repr=False)
class PlanOptions:
    """How a model is trained. None: as ``Plan`` has it, or the checkpoint to go on from."""

    batch_size: Annotated[int | None, _training_option(help="Sentences a step. \\[default: 64]")] = None
    learning_rate: Annotated[float | None, _training_option(help="At its highest. \\[default: 0.003]")] = None
    seed: Annotated[
        int | None, _training_option(help="Of the weights, the batches and what is held out. \\[default: 0]")
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class SizeOptions:
    """What a model is built from. None: as ``Sizes`` has it, or the checkpoint to go on from."""

    d_model: Annotated[int | None, model_option(help="Features of each word. \\[default: 64]")] = None
    n_heads: Annotated[int | None, model_option(help="Number of heads of each attention. \\[default: 4]")] = None
    d_ff: Annotated[int | None, model_option(help="Hidden features, feed-forward. \\[default: 128]")] = None
    dropout: Annotated[float | None, model_option(help="Share dropped in training. \\[default: 0.1]")] = None


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
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="The checkpoint, a .safetensors file; a picture and data as well."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of Adam. \\[default: 1500]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint that -o names.")] = False,
    animate: Annotated[
        Path | None, typer.Option(metavar="GIF", help="Film the maps of a held-out sentence as training goes on.")
    ] = None,
    device: PlainDevice = "auto",
    threads: Annotated[
        int | None,
        _training_option(help="On the CPU; more pay for large models only. \\[default: 1]"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing in the terminal but errors.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
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
    paths = tuple(output or ())
    inputs = [Path(corpus)]
    check_outputs(paths, (*RECORD_SUFFIXES, ".safetensors"), inputs)
    checkpoint_paths = [path for path in paths if path.suffix.lower() == ".safetensors"]
    delivery = Delivery([path for path in paths if path not in checkpoint_paths], quiet, json)
    if animate is not None:
        check_outputs([animate], (".gif",), inputs)
    settled = given(plan) + given(sizes)
    if len(checkpoint_paths) != 1:
        raise ArgumentError(
            f"expected one file for what is learnt, such as -o {Path(corpus).stem}.safetensors, "
            f"got {len(checkpoint_paths) or 'none'}"
        )

    from mhaviz.api.evaluation import read_corpus
    from mhaviz.devices import resolve_device
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
    from mhaviz.training.corpus import known_sentence
    from mhaviz.training.loading import load_checkpoint
    from mhaviz.training.trainer import Trainer

    (path,) = checkpoint_paths
    chosen_device = resolve_device(device)
    more = {} if steps is None else {"steps": steps}
    if resume:
        if settled:
            raise ArgumentError(f"--resume goes on as the training began; leave out {', '.join(settled)}")
        checkpoint = load_checkpoint(str(path.absolute()))
        checkpoint.plan = replace(checkpoint.plan, **more)
        learnt_from = read_corpus(corpus, checkpoint.plan.seed)
    else:
        chosen_plan = Plan(**asked(plan), **more)
        learnt_from = read_corpus(corpus, chosen_plan.seed)
        checkpoint = Checkpoint.untrained(learnt_from, Sizes(**asked(sizes)), chosen_plan)
    trainer = Trainer(checkpoint, learnt_from, chosen_device, 1 if threads is None else threads)
    film = Film(TrainedModel(checkpoint, str(chosen_device)), learnt_from) if animate else None
    if learnt_from.repeated:
        several = learnt_from.repeated > 1
        what = "sentences that occur more than once are" if several else "sentence that occurs more than once is"
        delivery.tell(f"{learnt_from.repeated:,} {what} taken once")
    if not resume and path.exists():
        delivery.tell(f"{path} will be replaced; --resume would go on from it")
    _train(trainer, path, film, quiet)
    delivery.tell(f"saved {path}")
    if animate is not None and film is not None:
        film.save(animate)
        delivery.tell(f"saved {animate}")
    delivery.deliver(checkpoint.record(chosen_device))
    if not json:
        delivery.tell(_next_command(path, known_sentence(learnt_from, checkpoint.source_vocabulary)))


def _next_command(path: Path, sentence: str) -> str:
    """What to type to see what has been learnt; a path that begins with a dash would be an option."""
    shown = f"./{path}" if str(path).startswith("-") else str(path)
    return f"to see its maps: mhaviz heatmap --model {_quoted(shown)} {_quoted(sentence)}"


def _quoted(text: str) -> str:
    """For a shell: in double quotes, as in the examples, if nothing in it acts there."""
    return f'"{text}"' if re.fullmatch(r"[\w ]*", text) and " " in text else shlex.quote(text)


def _train(trainer: "Trainer", path: Path, film: Film | None, quiet: bool) -> None:
    """Take all steps, save at every milestone, and say what is left where that does not come to its end."""
    from mhaviz.training.checkpoint import SCORE

    checkpoint, saved = trainer.checkpoint, 0
    total = checkpoint.plan.steps
    try:
        with progress(quiet, time_left=True) as on_progress:
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
