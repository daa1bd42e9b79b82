"""Layers that were written without a look at the probes: mistakes, and right layers that are unusual."""

import pytest
from checks.planted_c import MISTAKES as PLANTED
from checks.right_base import made
from checks.right_unusual import UNUSUAL
from watched import uses_torch_jit

from mhaviz.api.checking import check

MISTAKES = {one.name: one for one in PLANTED}
RIGHT = {one.name: one for one in UNUSUAL}

OTHERWISE = {
    "gpt-block-float-tril-added": ("mask-value", "a float mask of 0 and 1 is added, whatever it was meant to hide"),
    "gpt-block-drop-path-always": ("random", "random numbers that are not dropout of PyTorch"),
    "renormalised-over-queries": ("softmax-axis", "weights of a key sum to 1"),
    "divided-by-length": ("padding", "the length counts padding"),
    "mask-one-or-other": ("mask-side", "a token sees padding, and padding is hidden from padding"),
    "buffer-masked-in-place": ("batch", "what the buffer holds depends on the calls before"),
    "einsum-weights-by-column": ("softmax-axis", "transposed weights are those of a softmax over queries"),
    "merge-wrong-in-causal-branch": ("causal", "a wrong merge mixes tokens, and later ones are seen"),
    "head-order-of-one-branch": ("padding", "a mask that hides nothing changes the output"),
    "unscaled-in-masked-branch": ("padding", "a mask that hides nothing changes the output"),
}
"""Mistakes that are found by another code than the person who planted them had in mind, with the reason."""

NOT_SEEN = {
    "linear-without-normaliser": "linear attention has no weights of tokens",
    "linear-normaliser-of-features": "linear attention has no weights of tokens",
    "softmax-in-bfloat16": "rounding alone",
    "norm-over-heads": "some other function of queries, as legitimate as a norm over features",
    "norm-of-keys-and-values": "values may be normalised",
    "output-of-heads-averaged": "equal to an output projection of shared blocks",
    "clones-of-one": "weights may be shared on purpose",
    "rotary-from-one-and-zero": "a shift of all positions by one",
    "alibi-favours-far": "a slope may be of either sign",
    "alibi-of-query-position": "the same number for all keys of a query, which a softmax does not see",
    "relative-bias-viewed": "a table of positions may be absolute",
    "t5-buckets-of-future": "rows of a table that are not used",
}
"""Mistakes that are not found, with the reason."""

FURTHER = {
    "gpt-block-group-norm": {"dead-parameter"},
    "gpt-block-batch-norm-of-batch": {"dead-parameter"},
    "cosine-divided-by-root": {"nan"},
    "log-softmax": {"causal"},
    "causal-or-padding": {"padding"},
    "infinity-times-zero": {"padding"},
    "function-query-scaled-twice": {"nan"},
}
"""Errors beside the mistake that was planted."""

FACTS = {
    "rezero": {"dead-parameter"},  # its norm is not called
    "feed-forward": {"isolated"},  # no attention
    "transformers-rwkv": {"shape"},  # its output of a single token has the batch for a length
}
"""Errors in layers that were meant to be right, and that are true."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (number % 9 != 0)) for number, name in enumerate(MISTAKES)]
)
def test_the_mistake_is_found(name):
    mistake = MISTAKES[name]
    found = check(mistake.make(), d_model=mistake.d_model, **mistake.kwargs)
    errors = {finding.code for finding in found.errors}
    if name in NOT_SEEN:
        assert not errors
    else:
        code = OTHERWISE.get(name, (mistake.code,))[0]
        assert code in found.codes
        assert errors - {code} == FURTHER.get(name, set())


@pytest.mark.slow
@uses_torch_jit
@pytest.mark.parametrize("name", RIGHT)
def test_no_error_is_found(name):
    right = RIGHT[name]
    found = check(made(right), d_model=right.d_model, **right.kwargs)
    assert {finding.code for finding in found.errors} == FACTS.get(name, set())


def test_names_are_those_of_layers():
    assert set(OTHERWISE) | set(NOT_SEEN) | set(FURTHER) <= set(MISTAKES)
    assert set(FACTS) <= set(RIGHT)
    assert not set(OTHERWISE) & set(NOT_SEEN)
