"""The worked example of a layer's matrices, in words."""

import pytest
from shown import number_text

from mhaviz import load
from mhaviz.pages.blocks import Text, leaves
from mhaviz.pages.matrices import matrices_page


@pytest.mark.parametrize("sentence", ["the cat sat on a mat", "the cat sat on a mat again"])
def test_the_example_is_written_out(sentence):
    m = load(d_model=8, n_heads=4, seed=1).matrices(sentence)
    i, j, head = m.position, m.key_position, m.heads[0]
    texts = (line for block in leaves(matrices_page(m).blocks) if isinstance(block, Text) for line in block.lines)
    shown = " ".join(texts)
    assert f"“{m.queries.texts[i]}” at position {i}" in shown
    product, score = (number_text(number, ".2f") for number in (head.query[i] @ head.key[j], head.scores[i, j]))
    assert f"= {product}; / √2 = {score}" in shown
    assert f"= ({number_text(head.output[i, 0], '.2f')}, {number_text(head.output[i, 1], '.2f')})" in shown
    for key, token in enumerate(m.keys.texts):
        assert f"{head.weights[i, key]:.2f}·v(“{token}”)" in shown
    assert "more" not in shown
