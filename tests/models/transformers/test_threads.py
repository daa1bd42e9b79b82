"""Several threads at once: what transformers holds, and the mode of a model, are those of all."""

import threading

import numpy as np
import torch

from mhaviz.observe.attention_functions import hooked


def test_models_in_several_threads_have_their_own_weights(pretrained):
    """Maps were those of another layer, and transformers had lost its kernel afterwards."""
    from transformers import AttentionInterface

    functions = dict(AttentionInterface._global_mapping)
    model = pretrained("gpt2")
    inputs = model.encode(["the cat sat on the mat"])
    expected, found, errors = [], [], []

    def weights(into):
        model.run(inputs, lambda seen: into.append(seen.call.weights().numpy()))

    def often():
        try:
            for _ in range(20):
                weights(found)
        except Exception as error:
            errors.append(error)

    weights(expected)
    threads = [threading.Thread(target=often) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert AttentionInterface._global_mapping == functions
    assert len(found) == 60 * len(expected)
    ranks = [min(range(len(expected)), key=lambda i, A=A: np.abs(expected[i] - A).max()) for A in found]
    assert sorted(ranks) == sorted(list(range(len(expected))) * 60)


def test_a_model_of_the_programs_own_runs_as_it_is_meanwhile(pretrained):
    """On its own eager function, with its weights, while another thread draws another."""
    model = pretrained("gpt2").loaded.model
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    begun, ended, found = threading.Event(), threading.Event(), []

    def other():
        with hooked(lambda observed: None):
            begun.set()
            ended.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait(60)
    try:
        with torch.no_grad():
            found = model(torch.arange(4)[None], output_attentions=True).attentions
    finally:
        ended.set()
        thread.join()
        model.set_attn_implementation(before)
    assert all(A is not None and torch.allclose(A.sum(-1), torch.ones(())) for A in found)
    assert found
