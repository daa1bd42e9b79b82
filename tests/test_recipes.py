"""The recipes of the tour equal what they name, computed by transformers or from what hooks see."""

import copy
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from make_gallery import FACES
from torch.nn import functional as F  # noqa: N812

import mhaviz

ROOT = Path(__file__).parent.parent
SECTION = re.search(r"^# Recipes\n(.*?)^# ", FACES[1].read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]
RECIPES = dict(re.findall(r"^## (.+?)\n.*?^```python\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL))


@pytest.fixture
def cook(tmp_path, monkeypatch):
    """Run the recipe under a heading in the folder of the tour, with another seed, and return its names."""

    def run(heading, seed=0):
        text = RECIPES[heading].replace("manual_seed(0)", f"manual_seed({seed})")
        names = {}
        exec(compile(text, "samples/README.md", "exec"), names)
        return names

    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return run


def test_recipes_are_short():
    assert len(RECIPES) == SECTION.count("```python") == 3
    assert all(len(text.splitlines()) <= 30 for text in RECIPES.values())


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]  # a second each


@pytest.mark.filterwarnings("ignore::UserWarning:transformers")
@pytest.mark.parametrize("seed", SEEDS)
def test_times_of_tokens_are_those_of_transformers(cook, seed):
    names = cook("When Whisper says a word", seed)
    model, tokens = names["model"], names["tokens"]
    assert model.config._attn_implementation == "sdpa"
    eager = copy.deepcopy(model)
    eager.set_attn_implementation("eager")
    mask = (torch.arange(1200) < 800)[None].long()  # the features that are no silence, two for a frame
    for n_frames, masked in (None, {}), (400, {"attention_mask": mask}):
        times = names["token_times"](model, names["recording"].attention, 2, n_frames)
        expected = eager.generate(names["speech"], max_new_tokens=12, return_token_timestamps=True, **masked)
        assert torch.equal(expected["sequences"][0], tokens)
        assert len(times) == len(tokens) - (len(tokens) == 12)  # without the last, where no end was written
        np.testing.assert_array_equal(times.astype(np.float32), expected["token_timestamps"][0, : len(times)].numpy())
    if seed == 0:
        assert len(np.unique(times)) > 3  # not all at the beginning


@pytest.mark.parametrize("seed", [0, 1])
def test_contacts_are_those_of_esm(cook, seed):
    names = cook("Contacts of a protein model", seed)
    model, ids = names["model"], names["ids"]
    assert model.config._attn_implementation == "sdpa"
    eager = copy.deepcopy(model).double()
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        expected = eager.predict_contacts(ids, torch.ones_like(ids))[0].numpy()
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(names["likely"], expected, atol=1e-4)


def test_a_word_over_a_picture_is_the_mean_of_its_weights(cook, monkeypatch):
    """softmax(q kᵀ) of each step, as the layers were called, where a pixel of the coarse one is four of the other."""
    seen = []
    attend = F.scaled_dot_product_attention

    def noted(query, key, value, **options):
        seen.append(torch.softmax(query.double() @ key.double().mT * options["scale"], -1)[0, 0])
        return attend(query, key, value, **options)

    names = cook("Words over a picture that a diffusion model makes")
    over, image = names["over"], names["image"]
    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    torch.manual_seed(0)
    assert np.array_equal(names["paint"](names["UNet"](), names["WORDS"]), image)
    maps = [weights[:, names["WORDS"].index("sun")].view(2 * [round(len(weights) ** 0.5)]).numpy() for weights in seen]
    assert [one.shape for one in maps] == [(32, 32), (16, 16)] * 8
    expected = np.mean([np.kron(one, np.ones((32 // len(one),) * 2)) for one in maps], axis=0)
    (found,) = over.maps
    np.testing.assert_allclose(found.weights[0], expected, atol=1e-5)
    assert (over.query, over.is_key, dict(over.mean_over)) == ("sun", True, {"heads": 16, "layers": 2, "passes": 8})
    assert np.array_equal(over.image, image)
    row, column = np.unravel_index(expected.argmax(), expected.shape)
    assert image[row, column].tolist() == pytest.approx([255, 230, 153], abs=20)  # it is the sun


def test_a_word_over_a_picture_of_diffusers_is_the_mean_of_its_weights(cook):
    """With guidance, where the second half of the batch reads the words, in all steps of a scheduler."""
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    blocks = {
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }
    sizes = {"sample_size": 16, "layers_per_block": 1, "block_out_channels": (32, 64), "cross_attention_dim": 32}
    unet = diffusers.UNet2DConditionModel(**blocks, **sizes, attention_head_dim=8, norm_num_groups=8).eval()
    scheduler, prompt, latents = diffusers.DDIMScheduler(), torch.randn(2, 7, 32), torch.randn(1, 4, 16, 12)
    scheduler.set_timesteps(3)
    seen = []

    def note(module, args, kwargs):
        hidden, words = args[0], kwargs["encoder_hidden_states"]
        q, k = (
            x.double().unflatten(2, (module.heads, -1)).transpose(1, 2)
            for x in (module.to_q(hidden), module.to_k(words))
        )
        seen.append(torch.softmax(q @ k.mT * module.scale, -1)[1, :, :, 3].numpy())

    with mhaviz.record(unet, module="*.attn2", passes="0-", examples=1) as recording, torch.no_grad():
        hooks = [
            layer.register_forward_pre_hook(note, with_kwargs=True)
            for name, layer in unet.named_modules()
            if name.endswith("attn2")
        ]
        for step in scheduler.timesteps:
            without, with_words = unet(torch.cat([latents] * 2), step, encoder_hidden_states=prompt).sample.chunk(2)
            latents = scheduler.step(without + 7.5 * (with_words - without), step, latents).prev_sample
    for hook in hooks:
        hook.remove()
    over = recording.attention.over_image(key=3, mean=["heads", "layers", "passes"])
    fine = []
    for weights in seen:  # (n_heads, n_pixels)
        n = math.isqrt(16 * 12 // weights.shape[1])
        fine.append(np.kron(weights.reshape(-1, 16 // n, 12 // n), np.ones((n, n))))
    np.testing.assert_allclose(over.maps[0].weights[0], np.concatenate(fine).mean(axis=0), atol=1e-5)
    assert dict(over.mean_over) == {"heads": 8 * 4 * 3, "layers": 4, "passes": 3}
