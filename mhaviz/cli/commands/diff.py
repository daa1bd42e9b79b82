"""mhaviz diff"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.command import given
from mhaviz.cli.shared.appearance import HeadOptions, style_of
from mhaviz.cli.shared.change_limit import (
    FailAbove,
    flaw_notices,
    require_at_most,
    require_models_alike,
    span_notices,
    text_notices,
    verdict,
)
from mhaviz.cli.shared.console import corpus_progress
from mhaviz.cli.shared.corpora import CorpusOptions, keeping
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import ArrayKind, Device, Dtype, Heads, array_option, load_model, model_option
from mhaviz.cli.shared.texts import Languages
from mhaviz.errors import ArgumentError
from mhaviz.pages.registry import PAGE_SUFFIXES
from mhaviz.processes import this_process

if TYPE_CHECKING:
    from mhaviz.files.maps import SavedMaps
    from mhaviz.views.style import Style

_EXAMPLES = 3  # sentences whose maps a page for the browser shows


@dataclass(frozen=True, eq=False, repr=False)
class TwoArrayOptions:
    """Options for arrays of other tools in either of two files."""

    name: Annotated[str | None, array_option(metavar="NAME", help="Name of the array, if files hold several.")] = None
    kind: ArrayKind = None

    def read(self, paths: tuple[Path, Path], delivery: Delivery) -> "list[SavedMaps]":
        """Read the maps of both files, and print remarks on them.

        Raises:
            ArgumentError: an option does not fit an array, or both files were saved by mhaviz and need no options.
            MhavizError: a file cannot be read.
        """
        from mhaviz.files.maps import About, read_maps

        files = [read_maps(path, About(self.name, kind=self.kind)) for path in paths]
        if given(self) and all(saved.is_own for saved in files):
            raise ArgumentError(
                f"{' and '.join(map(str, paths))} have their own tokens and kinds; leave out {', '.join(given(self))}"
            )
        for saved in files:
            delivery.tell(*saved.notices)
        return files


@dataclass(frozen=True, eq=False, repr=False)
class PairOptions:
    """Options for two models: the corpus that they read, and how they are loaded."""

    file: Annotated[
        Path | None,
        model_option(help="UTF-8 file of sentences on which two models are compared; - is standard input."),
    ] = None
    device: Device = "auto"
    dtype: Dtype = None
    languages: Languages = None


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="File with maps; or folder or hub id of a model.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The other one, for the same tokens.")],
    array: TwoArrayOptions,
    pair: PairOptions,
    corpus: CorpusOptions,
    delivery: Delivery,
    looks: HeadOptions,
    fail_above: FailAbove = None,
    head: Heads = None,
    layer: Annotated[int | None, typer.Option(metavar="N", help="Compare only this layer.")] = None,
) -> None:
    """Show what differs between two saved attentions, or between two models over a corpus.

    \b
    mhaviz diff before.safetensors after.safetensors -o change.png
    mhaviz diff before.safetensors after.safetensors --fail-above 0.05
    mhaviz diff path/to/A path/to/B --file corpus.txt --fail-above 0.1 -o result.json

    A and B are files that mhaviz show draws, with maps of the same tokens, or of texts that differ in a word with as
    many tokens, which --fail-above refuses; maps by sentence, turn or other spans (--by) are matched by the names of
    these, as of a chat with and without a message. Maps of the same sentence, layer and kind are compared,
    B − A. With --file, A and B are models with the same tokenizer, and limits of --device hold for each of them. Heads
    are ranked by the mean Jensen–Shannon divergence of their rows, in bits: 0 for equal rows, 1 if they have no key in
    common.

    Output: a {PAGE_SUFFIXES} file.

    Exit status: 0; 1 if it could not be compared; 2 for a wrong command line; 3 if more has changed than --fail-above
    allows. Under torchrun, it is 1 for every failure.
    """
    reads = pair.file is not None
    delivery.check([before, after, *([pair.file] if pair.file else [])], PAGE_SUFFIXES)
    style = style_of(looks, delivery)

    from mhaviz.results.difference import require_limit

    require_limit(fail_above)
    if not reads:
        if loading := [*given(pair), *given(corpus)]:
            raise ArgumentError(f"{', '.join(loading)}: for models, which read sentences; add --file sentences.txt")
        _diff_of_files((before, after), array, delivery, style, layer, head, fail_above)
        return
    of_maps = [
        *(option for option in given(array) if option != "--kind"),
        *(option for option in given(looks) if option in ("--vmax", "--columns")),
        *(["--head"] if head else []),
    ]
    if of_maps:
        raise ArgumentError(f"{', '.join(of_maps)}: for saved maps, and these are models; leave it out")
    texts = corpus.corpus(delivery, None, pair.file)

    from mhaviz.api.corpus_difference import diff_models

    with verdict() as reach, keeping(texts, delivery):
        first, second = (load_model(str(one), delivery, pair.device, dtype=pair.dtype) for one in (before, after))
        delivery.tell(*dict.fromkeys([*first.notices, *second.notices]))
        with corpus_progress(delivery.quiet) as on_progress:
            difference = diff_models(
                first,
                second,
                texts,
                layer=layer,
                kind=array.kind,
                fail_above=fail_above,
                examples=_EXAMPLES if ".html" in delivery.suffixes else 0,
                **(pair.languages or {}),
                on_notice=delivery.tell,
                on_progress=on_progress,
            )
        if this_process().is_first:  # only it has the whole result
            reach(require_models_alike, difference)
        delivery.deliver(difference, style)


def _diff_of_files(
    paths: tuple[Path, Path],
    arrays: TwoArrayOptions,
    delivery: Delivery,
    style: "Style",
    layer: int | None,
    heads: tuple[int, ...] | None,
    fail_above: float | None,
) -> None:
    """Compare the maps of two files. The limit applies to all heads, also to those that are not drawn.

    Raises:
        ChangedError: the maps differ by more than the limit allows.
        ArgumentError, MhavizError: the files cannot be read or compared.
    """
    from mhaviz.analyses.difference import compare

    for path in paths:
        if path.is_dir():
            raise ArgumentError(
                f"{path}: expected a file with attention maps, got a folder; to compare models, add --file with a file "
                f"of sentences"
            )
    files = arrays.read(paths, delivery)
    first, second = (saved.named(path) for saved, path in zip(files, paths, strict=True))
    whole = compare(first, second, layer, heads is not None, fail_above)
    difference = whole.select(heads)
    for path, names in zip(paths, (difference.only_before, difference.only_after), strict=True):
        if names:
            delivery.tell(f"only in {path}: {'; '.join(names)}")
    delivery.tell(*span_notices(whole, paths), *text_notices(whole), *flaw_notices(whole, paths))

    with verdict() as reach:
        reach(require_at_most, whole, paths)
        delivery.deliver(difference, style)
