"""mhaviz train"""

import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhaviz.cli.command import asked, given
from mhaviz.cli.shared.appearance import PictureOptions, style_of
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import PlainDevice, model_option
from mhaviz.errors import ArgumentError, MhavizError, StoppedError
from mhaviz.files.writing import write_whole
from mhaviz.pages.registry import RESULT_SUFFIXES
from mhaviz.units import readable_share
from mhaviz.views.formats import check_outputs

if TYPE_CHECKING:
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.results.attention import Attention
    from mhaviz.training.corpus import Corpus, Pair
    from mhaviz.training.trainer import Trainer

# Words of a sentence, and dots per inch, that a class can read on a wall.
_WORDS = 10
_DPI = 80

_SUFFIX = ".safetensors"  # of a checkpoint

_training_option = partial(typer.Option, rich_help_panel="The training")


@dataclass(frozen=True, eq=False, repr=False)
class PlanOptions:
    """Options for how a model is trained. None: the default of ``Plan``, or as in the checkpoint that is resumed."""

    learning_rate: Annotated[float | None, _training_option(min=1e-6, help="Its highest value. \\[default: 0.003]")] = (
        None
    )
    seed: Annotated[
        int | None, _training_option(help="Seed of weights, batches and held-out sentences. \\[default: 0]")
    ] = None
    keep_case: Annotated[
        bool, _training_option("--keep-case", help="Keep the capitals of CORPUS; words are in lower case else.")
    ] = False


@dataclass(frozen=True, eq=False, repr=False)
class SizeOptions:
    """Options for the sizes of a model. None: the default of ``Sizes``, or as in the checkpoint that is resumed."""

    d_model: Annotated[int | None, model_option(min=1, help="Features of each word. \\[default: 64]")] = None
    n_heads: Annotated[int | None, model_option(min=1, help="Heads of each attention. \\[default: 4]")] = None


def train(
    plan: PlanOptions,
    sizes: SizeOptions,
    corpus: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS",
            help="translation (sentences of a built-in grammar), or a file of source⇥target lines.",
        ),
    ],
    delivery: Delivery,
    looks: PictureOptions,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of Adam. \\[default: 1500]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint that -o names.")] = False,
    animate: Annotated[
        Path | None, typer.Option(metavar="GIF", help="Film the maps of a held-out sentence as training goes on.")
    ] = None,
    device: PlainDevice = "auto",
) -> None:
    """Train a small model made of mhaviz's own layers, so that its maps have something to show.

    \b
    mhaviz train translation -o t.safetensors
    mhaviz heatmap --model t.safetensors "the small black cat sees my car"
    mhaviz train pairs.tsv -o pairs.safetensors --steps 3000 --animate film.gif

    The first example learns to translate the sentences of a built-in grammar in about half a minute. For your own
    pairs, each line has a source, a tab and a target. A third column of links i-j (words are counted from 0, and the
    source's comes first) is the gold alignment for mhaviz evaluate. A tenth of the sentences, at most 500, is held out.

    A checkpoint is written after every twentieth of the steps, and at least every 250 steps. Ctrl-C stops, and keeps
    the last one; --resume continues from it, with the same result as without a stop, unless --steps differs.

    Output: one .safetensors file; .png, .svg, .pdf and .json files.
    """
    style, inputs = style_of(looks, delivery), [Path(corpus)]
    delivery.check(inputs, (*RESULT_SUFFIXES, _SUFFIX))
    if animate is not None:
        check_outputs([animate], (".gif",), inputs)
    if (path := _checkpoint_among(delivery)) is None:
        raise ArgumentError(f"expected a file for the checkpoint, such as -o {Path(corpus).stem}{_SUFFIX}, got none")

    from mhaviz.api.evaluation import is_built_in, read_corpus
    from mhaviz.devices import resolve_device
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
    from mhaviz.training.loading import load_checkpoint
    from mhaviz.training.trainer import Trainer

    chosen_device = resolve_device(device)
    more: dict[str, Any] = {} if steps is None else {"steps": steps}
    if resume:
        if settled := given(plan) + given(sizes):
            raise ArgumentError(f"--resume takes these from the checkpoint; leave out {', '.join(settled)}")
        checkpoint = load_checkpoint(str(path.absolute()))
        checkpoint.plan = replace(checkpoint.plan, **more)
        learnt_from = read_corpus(corpus, checkpoint.plan.seed, checkpoint.plan.keep_case)
    else:
        chosen_plan = Plan(**asked(plan), **more)
        if chosen_plan.keep_case and is_built_in(corpus):
            raise ArgumentError("--keep-case: the sentences of the built-in grammar have no capitals; leave it out")
        learnt_from = read_corpus(corpus, chosen_plan.seed, chosen_plan.keep_case)
        checkpoint = Checkpoint.untrained(learnt_from, Sizes(**asked(sizes)), chosen_plan)
    trainer = Trainer(checkpoint, learnt_from, chosen_device)
    film = Film(TrainedModel(checkpoint, str(chosen_device)), learnt_from) if animate else None
    if not resume and path.exists():
        delivery.tell(f"{path} will be replaced; --resume would continue from it")
    _train(trainer, path, film, delivery.quiet)
    with delivery.besides([path]) as others:
        if animate is not None and film is not None:
            film.save(animate)
        with others.besides([animate] if animate else []) as pictures:
            pictures.deliver(checkpoint.record(chosen_device), style)
    if not delivery.json:
        delivery.tell(_next_command(path, " ".join(filmed_pair(learnt_from).source)))


def _checkpoint_among(delivery: Delivery) -> Path | None:
    """Return the .safetensors file among the outputs; None: there is none. Raises ArgumentError if there are two."""
    paths = [path for path in delivery.paths if path.suffix.lower() == _SUFFIX]
    if len(paths) > 1:
        raise ArgumentError(f"expected one {_SUFFIX} file among the outputs, got {len(paths)}; name one")
    return paths[0] if paths else None


def _next_command(path: Path, sentence: str) -> str:
    """Return a command that shows maps of the checkpoint. A path that begins with a dash gets ./ before it."""
    shown = f"./{path}" if str(path).startswith("-") else str(path)
    return f"to see its maps: {shlex.join(['mhaviz', 'heatmap', '--model', shown, sentence])}"


def _train(trainer: "Trainer", path: Path, film: "Film | None", quiet: bool) -> None:
    """Take all steps, and save at every milestone. If that is stopped, the error says what has been saved."""
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
                score = f", {SCORE} {readable_share(checkpoint.milestones[-1].score)}" if checkpoint.step else ""
                on_progress(taken.step / total, f"{taken.step:,}/{total:,}, loss {taken.loss:.2f}{score}")
    except (KeyboardInterrupt, MhavizError) as error:
        kept = f"{path} holds step {saved:,}" if saved else "nothing new was saved"
        if isinstance(error, MhavizError):
            raise MhavizError(f"{error}; {kept}") from error
        raise StoppedError(f"interrupted; {kept}{', continue with --resume' if saved else ''}") from None


class Film:
    """Maps of one held-out sentence, before the training and at each milestone."""

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

        write_whole([(path, partial(write_gif, frames=self._frames, style=Style(dpi=_DPI)))])


def filmed_pair(corpus: "Corpus") -> "Pair":
    """Return the longest held-out pair that is short enough to be read on a wall; if none is, the shortest of all."""

    def length(pair: "Pair") -> int:
        return max(len(pair.source), len(pair.target))

    short = [pair for pair in corpus.held_out if length(pair) <= _WORDS]
    return max(short, key=length) if short else min(corpus.held_out, key=length)
