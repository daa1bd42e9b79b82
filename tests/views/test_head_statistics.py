import json
from dataclasses import fields, replace
from io import StringIO

import numpy as np

from mhaviz.pages.head_statistics import COLUMNS
from mhaviz.records import STATISTICS
from mhaviz.views.data import document, write_json
from mhaviz.views.head_statistics import named_scales, panels, scales


def test_scales(random_heads):
    statistics = random_heads(kinds=("self", "cross"))
    every = scales(statistics, "magma")
    assert {(every[name].low, every[name].high) for name in STATISTICS[2:]} == {(0.0, 1.0)}
    for name, kinds in (("entropy", statistics.kinds), ("distance", statistics.kinds[:1])):
        assert every[name].high == max(kind.average(name).mean.max() for kind in kinds)
    assert list(named_scales(statistics)) == ["weight", "entropy, nats", "distance, tokens"]
    assert list(named_scales(random_heads(kinds=("cross",)))) == ["weight", "entropy, nats"]
    shown = panels(statistics.kinds[1], COLUMNS, every)
    assert [panel.title for panel in shown] == ["entropy", "first", "separators"]
    np.testing.assert_array_equal(shown[1].values, statistics.kinds[1].first.mean.astype(np.float32))


def test_heads_that_look_nowhere_else_have_a_scale(random_heads):
    statistics = random_heads()
    (kind,) = statistics.kinds
    zero = replace(kind.entropy, mean=np.zeros((2, 3)))
    assert scales(replace(statistics, kinds=(replace(kind, entropy=zero),)))["entropy"].high == 1.0


def test_data(random_heads):
    statistics = random_heads(kinds=("masked", "cross"), too_long=2)
    stream = StringIO()
    write_json(document(statistics), stream)
    data = json.loads(stream.getvalue())
    assert data["too_long"] == 2
    for kind, record in zip(data["kinds"], statistics.kinds, strict=True):
        assert (kind["kind"], kind["layers"]) == (record.kind, [0, 1])
        for name, numbers in kind["statistics"].items():
            for field in fields(record.average(name)):
                read = np.array(numbers[field.name], float)
                np.testing.assert_array_equal(read, getattr(record.average(name), field.name))
    assert data["kinds"][0]["statistics"]["next"]["mean"] == [[None] * 3] * 2
