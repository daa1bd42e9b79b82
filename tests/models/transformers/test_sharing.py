"""Models that two processes share: every map is that of one process, and the first process alone speaks."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as hf
from families import GROUPED, V, bytes_and_words
from forked import run_two

import mhaviz
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.models.transformers import sharing
from mhaviz.models.transformers.load import load_checkpoint
from mhaviz.observe.observed import ObservedCall

pytestmark = pytest.mark.slow

TEXT = "the cat sat on the mat"
SAME = 2e-7
"""A product whose sum two processes share is rounded in another order: that is 1.4e-6 at most in float32, and as the
models are of float64, it is what float32 leaves of the numbers of a map."""

RUN = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import mhaviz
from mhaviz.cli import main
from mhaviz.processes import this_process

text, results, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
rank = this_process().rank
for number, folder in enumerate(folders):
    loaded = mhaviz.load(folder, tensor_parallel=True, dtype="float64")
    attention = loaded.attend(text, verify=True)
    names = {m.name: m.weights for m in attention}
    names |= {f"written {m.name}": m.weights for m in loaded.attend(text, generate=2)}
    names |= {"X": loaded.embeddings(text).parts[-1].values}
    names |= {"output": loaded.explain(text, 1, head=3, layer=1).output}
    np.savez(f"{results}/{number}-{rank}.npz", **names)
print(json.dumps(attention.source.details["device"]), flush=True)
assert main(["heatmap", text, "--model", folders[0], "-o", f"{results}/{rank}.json"]) == 0
for ask in (loaded.trace_shapes, lambda text: loaded.attend(text, show="norms")):
    try:
        ask(text)
    except mhaviz.MhavizError as error:
        print(error)
"""


def gathered_before(root):
    """A model of a plan that gathers the heads before the attention: each process has them all."""
    folder = root / "olmo2"
    hf.Olmo2ForCausalLM(hf.Olmo2Config(vocab_size=V, **GROUPED, pad_token_id=0)).save_pretrained(folder)
    bytes_and_words().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def shared(model_folder, tmp_path_factory):
    """What two processes have found, by model and by rank; what they have printed; and the models."""
    root = tmp_path_factory.mktemp("shared")
    folders = [model_folder("gemma2"), gathered_before(root)]
    both = run_two(RUN, TEXT, root, *folders)
    assert [status for status, *_ in both] == [0, 0], both
    return root, folders, [said for _, *said in both]


def numbers_of(folder):
    """The same as ``RUN`` finds, in this process."""
    loaded = mhaviz.load(str(folder), dtype="float64")
    found = {m.name: m.weights for m in loaded.attend(TEXT)}
    found |= {f"written {m.name}": m.weights for m in loaded.attend(TEXT, generate=2)}
    found |= {"X": loaded.embeddings(TEXT).parts[-1].values}
    return found | {"output": loaded.explain(TEXT, 1, head=3, layer=1).output}


@pytest.mark.parametrize("number", [0, 1])
def test_each_process_has_the_whole_of_what_one_finds(shared, number):
    root, folders, _ = shared
    expected = numbers_of(folders[number])
    for rank in range(2):
        with np.load(root / f"{number}-{rank}.npz") as found:
            assert set(found) == set(expected)
            for name, values in expected.items():
                assert found[name].shape == values.shape
                np.testing.assert_allclose(found[name], values, rtol=SAME, atol=SAME, err_msg=name)


def test_the_first_process_alone_shows_and_saves(shared):
    root, _, ((first, notices), (other, nothing)) = shared
    assert "masked self-attention, gemma2, layer 0" in first
    assert "cpu, 2 processes" in first
    assert f"saved {root}/0.json" in notices
    assert other.splitlines()[0] == json.dumps("cpu, 2 processes")
    assert len(other.splitlines()) == 3, "what the script itself prints"
    assert nothing == ""
    assert (root / "0.json").exists()
    assert not (root / "1.json").exists()


def test_steps_are_traced_and_projections_found_in_one_process(shared):
    _, _, ((first, _), _) = shared
    assert "traced in one process; run it without torchrun" in first
    assert "W_O is found in one process; run it without torchrun" in first


def test_all_that_has_heads_is_gathered(monkeypatch):
    """In the order of the processes; a mask that all heads share stays as it is."""

    def part(heads, key_heads):
        call = AttentionCall(
            torch.randn(2, 8, 3, 4)[:, heads],
            torch.randn(2, 4, 3, 4)[:, key_heads],
            torch.randn(2, 4, 3, 4)[:, key_heads],
            0.5,
            False,
            torch.rand(1, 8, 3, 3)[:, heads] < 0.5,
            sinks=torch.randn(8)[heads],
        )
        return call, torch.randn(2, 8, 3, 4)[:, heads]

    def made(*which):
        torch.manual_seed(0)
        return part(*which)

    own, others = made(slice(0, 4), slice(0, 2)), made(slice(4, 8), slice(2, 4))
    whole, output = made(slice(None), slice(None))
    left = [others[1], others[0].query, others[0].key, others[0].value, others[0].mask.view(torch.uint8)]
    left.append(others[0].sinks)

    def all_gather(parts, sent):
        parts[0].copy_(sent)
        parts[1].copy_(left.pop(0))

    monkeypatch.setattr(sharing.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(sharing.dist, "all_gather", all_gather)
    gathered = sharing.gather_heads(ObservedCall(*own))
    assert torch.equal(gathered.output, output)
    assert torch.equal(gathered.call.weights(), whole.weights())
    for name in ("query", "key", "value", "mask", "sinks"):
        assert torch.equal(getattr(gathered.call, name), getattr(whole, name)), name
    left = [whole.weights()[:, 4:]]
    alone = sharing.gather_heads(ObservedCall(AttentionWeights(whole.weights()[:, :4])))
    assert torch.equal(alone.call.given, whole.weights())
    assert alone.output is None


def test_what_may_have_stopped_a_shared_model_is_said(model_folder):
    loaded = replace(load_checkpoint(str(model_folder("gemma2")), torch.device("cpu")), processes=2)
    said = r"\(Connection closed by peer\); another process has ended, or their number does not divide its heads"
    with pytest.raises(mhaviz.MhavizError, match=said), loaded.running():
        raise RuntimeError("Connection closed by peer")
