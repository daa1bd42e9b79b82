import pytest
import torch


@pytest.fixture(scope="session")
def pretrained(model_folder):
    """A family's small model as a source, loaded once."""
    from mhaviz.models.transformers.load import load_checkpoint
    from mhaviz.models.transformers.model import TransformersModel

    loaded = {}

    def load(name, generate=0, **wanted):
        if name not in loaded:
            loaded[name] = TransformersModel.of(load_checkpoint(str(model_folder(name)), torch.device("cpu")))
        model = loaded[name].writing(generate) if generate else loaded[name]
        return model.select(**wanted)

    return load


@pytest.fixture(scope="session")
def eager(model_folder):
    """The same model as transformers itself runs it: its weights, {(kind, layer): (batch, heads, q, k)}."""
    from transformers import AutoModel

    models = {}

    def weights(name, ids, mask=None, target_ids=None):
        if name not in models:
            models[name] = AutoModel.from_pretrained(model_folder(name), attn_implementation="eager").eval()
        fields = {} if target_ids is None else {"decoder_input_ids": target_ids}
        with torch.no_grad():
            out = models[name](input_ids=ids, attention_mask=mask, output_attentions=True, **fields)
        if target_ids is not None:
            kinds = {"self": out.encoder_attentions, "masked": out.decoder_attentions, "cross": out.cross_attentions}
        else:
            kinds = {name: out.attentions}
        return {(kind, layer): a for kind, layers in kinds.items() for layer, a in enumerate(layers)}

    return weights
