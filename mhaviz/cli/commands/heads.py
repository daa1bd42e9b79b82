"""mhaviz heads"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from mhaviz.cli.shared.ablation_options import AblationOptions
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.corpora import CorpusOptions
from mhaviz.cli.shared.corpus_texts import CorpusTexts
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import (
    DeviceMap,
    Dtype,
    KindOption,
    Layers,
    MaxMemory,
    ModelDevice,
    Revision,
    TitleOptions,
    given,
)
from mhaviz.cli.shared.numbers import parse_numbers
from mhaviz.cli.shared.probes import ProbeOptions, require_needle, usual_sort
from mhaviz.cli.shared.sentences import Sentences, quotes_notice, stream_sentences
from mhaviz.cli.shared.shown_numbers import ShowOptions
from mhaviz.errors import ArgumentError, quoted
from mhaviz.files.part_names import SUFFIX
from mhaviz.processes import this_process
from mhaviz.units import parse_whole
from mhaviz.views.formats import ABLATION_SUFFIXES, HEAD_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.pages.ablation import EffectOrder
    from mhaviz.records import Ablation, HeadStatistics

SortColumn = Literal[
    "entropy",
    "distance",
    "itself",
    "previous",
    "next",
    "first",
    "separators",
    "copies",
    "induction",
    "sink",
    "retrieval",
    "needle",
    "change",
    "loss",
    "layer",
]
"""What heads can be ranked by; "layer" is the order of the model."""

_EXAMPLES = 3  # sentences whose maps a page for the browser shows


def heads(
    delivery: Delivery,
    looks: TitleOptions,
    shown: ShowOptions,
    ablation: AblationOptions,
    probes: ProbeOptions,
    corpus: CorpusOptions,
    texts: CorpusTexts,
    sentences: Sentences = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="FOLDER|ID", help="A folder of Hugging Face's transformers, or a hub id."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Read sentences from a UTF-8 file of any size, one a line; - is standard input."),
    ] = None,
    sort: Annotated[
        SortColumn | None,
        typer.Option(metavar="COLUMN", help=f"Rank by {', '.join(get_args(SortColumn))}. \\[default: entropy]"),
    ] = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The other end first. \\[default: low entropy, high distance and weights]")
    ] = False,
    top: Annotated[str, typer.Option(metavar="N|all", help="Rows of the table.")] = "16",
    layer: Layers = None,
    kind: KindOption = None,
    device: ModelDevice = "auto",
    revision: Revision = None,
    dtype: Dtype = None,
    device_map: DeviceMap = None,
    max_memory: MaxMemory = None,
) -> None:
    """Say what every head of a model looks at, averaged over many sentences.

    \b
    mhaviz heads --model path/to/bert --file sentences.txt -o heads.png
    mhaviz heads --model path/to/bert --file sentences.txt --sort previous --top 5
    mhaviz heads --model path/to/gpt2 --file sentences.txt --ablate -o ablation.png
    mhaviz heads --model path/to/gpt2 --random-repeat 50 -o induction.png -o induction.csv
    mhaviz heads --model path/to/gpt2 --file essays.txt --needle "The best thing to do here is to eat a sandwich."
    mhaviz heads --model path/to/bert --file corpus.txt --shard 3/64 -o part-3.safetensors
    mhaviz heads --merge part-*.safetensors -o heads.png
    torchrun --nproc-per-node 8 -m mhaviz heads --model path/to/bert --file corpus.txt -o heads.png

    For each head its entropy, the distance it looks, and its weight on the query itself, on the previous, the next and
    the first token, on separators such as [SEP], on earlier copies of the query's token, and on what followed those
    (induction), and how often it is a sink; with a needle its retrieval score. Of each the mean over the sentences, its
    95 % interval and chance (all keys alike), the standard deviation between sentences, and their distribution.

    A table of the heads, and a layers × heads picture of each number. A text that is too long for the model is cut into
    pieces that overlap by --overlap tokens, and still is one sentence: each of its queries counts once. With --ablate
    it is left out.

    With --ablate, how much less one head at a time, whose output is zeroed, lets the model predict: the divergence of
    the next token's or a masked token's distribution, in bits, and of models that predict none 1 − cosine of the mean
    of the last layer.

    Output: a {head_files} file; .safetensors: all that is added up, for --merge and --resume.
    """
    of_a_run = {"--model": model, "--file": file, "--layer": layer, "--kind": kind, "--revision": revision}
    of_a_run |= {"--dtype": dtype, "--device-map": device_map, "--max-memory": max_memory}
    of_groups = [option for group in (texts, probes, shown, ablation) for option in given(group)]
    if device != "auto":
        of_groups.insert(0, "--device")
    corpus.require_merge_alone(of_a_run | dict.fromkeys(of_groups, True))
    corpus.require_none("--ablate", ablation.ablate)
    merged = [Path(name) for name in sentences or ()] if corpus.merge else []
    suffixes = ABLATION_SUFFIXES if ablation.ablate else (*HEAD_SUFFIXES, SUFFIX)
    delivery.check([*merged, *([file] if file else [])], suffixes)
    ablation.require_sound(sort, shown.show)
    if ablation.ablate and (of_texts := given(texts)):
        raise ArgumentError(f"{', '.join(of_texts)}: for what heads look at; leave it out, or --ablate")
    most, zeroed = _parse_top(top), ablation.zeroed

    from mhaviz.pages.head_statistics import Order

    style = looks.style
    if corpus.merge:
        from mhaviz.api.parts import merge

        joined = merge(merged, study="heads", part=corpus.part_of(delivery))
        require_needle(sort, joined.probe)
        corpus.deliver(joined, delivery, style, order=Order(sort or usual_sort(joined.probe), reverse, most))
        return
    probe = probes.parse(sentences, file)
    if not ablation.ablate:  # which has columns of its own
        require_needle(sort, probe)
    order: Order | EffectOrder = Order(sort or usual_sort(probe), reverse, most)
    if ablation.ablate:
        order = ablation.order(sort, reverse, most)
    division = corpus.division(delivery, sentences, file)
    stream = () if probes.random_repeat is not None else stream_sentences(sentences, file)
    if model is None:
        raise ArgumentError("heads needs a model; add --model, with a folder or a hub id")

    from mhaviz.api.loaded import load

    with corpus.keeping(division, delivery) as on_saved:
        loaded = load(
            model,
            device=this_process().device(device),
            predicts=ablation.ablate,
            on_notice=delivery.notice,
            revision=revision,
            dtype=dtype,
            device_map=device_map,
            max_memory=max_memory,
        )
        delivery.tell(loaded.notices)
        layers = None if layer is None else parse_numbers("layer", layer, loaded.layers, "the model")
        with progress(delivery.quiet, time_left=True) as on_progress:

            def on_sentences(done: float, taken: int) -> None:
                on_progress(done, f"{taken:,} sentence{'s' * (taken != 1)}")

            options: dict[str, Any] = {"layer": layers, "kind": kind, "probe": probe}
            options |= {"replicates": probes.replicates, "seed": probes.seed}
            options |= {"on_notice": delivery.notice, "on_progress": on_sentences}
            found: Ablation | HeadStatistics
            if ablation.ablate:
                found = loaded.ablate(stream, head=ablation.heads(loaded), **options)
            else:
                examples = _EXAMPLES if delivery.has_page else 0
                options |= division | texts.reading | {"on_saved": on_saved}
                found = loaded.head_statistics(stream, show=shown.show, without=zeroed, examples=examples, **options)
        corpus.deliver(found, delivery, style, order=order, notice=quotes_notice(sentences))


def _parse_top(text: str) -> int | None:
    """ "20" → 20; "all" → None. Raises ArgumentError if it cannot be read."""
    if text.strip().lower() == "all":
        return None
    most = parse_whole(text.strip()) if text.strip().isdecimal() else 0
    if not most:
        raise ArgumentError(f"--top: expected a number of heads such as 20, or all, got {quoted(text)}")
    return most
