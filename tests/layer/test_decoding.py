import torch

from mhaviz.layer.transformer import Translator, decode_greedily

START, END = 1, 2


def translator(seed):
    torch.manual_seed(seed)
    return Translator(6, 8, 8, 2, 8, dropout=0.0).eval()


def by_hand(model, source, most):
    """One sentence at a time, and each word by itself."""
    words = [START]
    memory, _ = model.encode(source[None])
    while len(words) <= most:
        logits = model.decode(torch.tensor([words]), memory).logits[0, -1].tolist()
        logits[0] = logits[START] = float("-inf")
        words.append(max(range(len(logits)), key=lambda word: logits[word]))
        if words[-1] == END:
            return words[1:-1], True
    return words[1:], False


def test_each_word_is_the_likeliest_after_those_before_it():
    ended = 0
    for seed in range(12):
        model = translator(seed)
        sources = torch.tensor([[1, 2, 3], [4, 5, 3], [2, 2, 2]])
        with torch.no_grad():
            expected = [by_hand(model, source, 5) for source in sources]
        assert decode_greedily(model, sources, None, START, END, 5) == expected
        ended += sum(has_ended for _, has_ended in expected)
    assert 0 < ended < 36  # both endings were seen


def test_padding_makes_no_difference():
    model = translator(3)
    padded = torch.tensor([[1, 2, 3, 0, 0], [1, 2, 3, 4, 5]])
    alone = decode_greedily(model, padded[:1, :3], None, START, END, 6)
    assert decode_greedily(model, padded, (padded != 0)[:, None, None, :], START, END, 6)[0] == alone[0]
