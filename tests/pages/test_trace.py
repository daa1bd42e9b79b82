import pytest

from mhaviz.analyses.following import follow_element
from mhaviz.models.single_layer import RandomLayer
from mhaviz.pages.trace import following_text
from mhaviz.views.labels import quoting


@pytest.mark.parametrize(
    ("layer", "sentence", "element", "text"),
    [
        (RandomLayer(8, 4), "a b c", (0, 0, 0), "would leave this one in its place"),
        (RandomLayer(8, 1), "a b c", (0, 1, 1), "would misplace nothing"),
        (RandomLayer(8, 4), "a", (0, 0, 7), "would misplace nothing"),
        (RandomLayer(8, 4), "a b c", (0, 1, 1), "of “b”, position 1"),
    ],
)
def test_what_is_said_of_a_followed_element(layer, sentence, element, text):
    trace = layer.trace(layer.encode([sentence]))
    assert text in " ".join(following_text(follow_element(trace, element), trace, quoting()))
