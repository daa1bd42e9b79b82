"""mhaviz compare-projections"""

from typing import Annotated, Any

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import Device, DModel, File, NHeads, OneSentence, OutputOptions, Seed, VmaxOptions
from mhaviz.cli.shared.sentences import read_sentences, require_one

SAMPLE = "I am going to deposit my money at the bank"


def compare_projections(
    options: OutputOptions,
    looks: VmaxOptions,
    sentence: OneSentence = None,
    exclude_self: Annotated[
        bool, typer.Option("--exclude-self", help="Leave each query out of its own sum (j ≠ i).")
    ] = False,
    file: File = None,
    d_model: DModel = None,
    n_heads: NHeads = None,
    seed: Seed = None,
    device: Device = "auto",
) -> None:
    """Show how one head comes about: no projection, one, two, three; then several heads.

    \b
    mhaviz compare-projections -o projections.png
    mhaviz compare-projections "I deposit money" --exclude-self

    Without a sentence: "I am going to deposit my money at the bank". The four stages use the layer's whole matrices
    as one head. Scores are symmetric until queries and keys have a projection each; outputs are weighted averages of
    the inputs until values have one too. Split, the same matrices are the heads that mhaviz heatmap draws.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery.of(options, [file] if file else [])
    texts = read_sentences(sentence, file)
    require_one("compare-projections", texts)

    from mhaviz.analyses import projections
    from mhaviz.models.single_layer import RandomLayer

    look = looks.look
    sizes: dict[str, Any] = {"d_model": d_model, "n_heads": n_heads, "seed": seed}
    layer = RandomLayer(device_name=device, **{name: size for name, size in sizes.items() if size is not None})
    with delivery.working("computing"):
        inputs = layer.projection_inputs(texts[0] if texts else SAMPLE)
        comparison = projections.compare_projections(inputs, exclude_self)
    delivery.deliver(comparison, look, look)
