"""Train a small classifier of film reviews, and save it as a checkpoint: python samples/sentiment.py FOLDER

In half a minute it learns whether a review of one to three clauses, such as "the plot was dull and the cast was not
very funny", is POSITIVE or NEGATIVE. "not" reverses the word after it, and clauses without an opinion tell nothing.
"""

import sys
from pathlib import Path
from random import Random

import torch
import transformers as hf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

GOOD = "good great wonderful excellent superb delightful brilliant charming lovely moving funny clever"
BAD = "bad awful terrible horrible dull boring dreadful poor weak stupid tedious annoying"
THINGS = "plot acting music camera story ending cast script hero villain editing light"
FACTS = (
    "we saw it on a rainy tuesday",
    "the film runs for two hours",
    "it was shot in norway",
    "my brother came along",
    "the cinema was half full",
    "it is based on a novel",
)
LABELS = ("NEGATIVE", "POSITIVE")
STEPS, BATCH_SIZE, RATE = 500, 64, 2e-3


def review(random: Random) -> tuple[str, int]:
    """A review, and the index of its label: of most of its opinions."""
    while True:
        clauses, total = [], 0
        for _ in range(random.randint(1, 3)):
            is_good, is_negated = random.random() < 0.5, random.random() < 0.25
            word = random.choice((GOOD if is_good else BAD).split())
            adverb = random.choice(("", "", "very ", "rather "))
            clauses.append(f"the {random.choice(THINGS.split())} was {'not ' * is_negated}{adverb}{word}")
            total += 1 if is_good != is_negated else -1
        if random.random() < 0.5:
            clauses.insert(random.randint(0, len(clauses)), random.choice(FACTS))
        if total:
            return " and ".join(clauses), int(total > 0)


def word_tokenizer() -> hf.PreTrainedTokenizerFast:
    """[CLS], the words of all reviews in lower case, and [SEP]."""
    words = sorted({*" ".join((*FACTS, GOOD, BAD, THINGS, "the was not very rather and")).split()})
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate((*special, *words))}, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 1), ("[SEP]", 2)])
    names = dict(zip(("pad_token", "cls_token", "sep_token", "unk_token"), special, strict=True))
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def train(seed: int = 0) -> hf.BertForSequenceClassification:
    """The model, trained."""
    tokenizer, random = word_tokenizer(), Random(seed)
    config = hf.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=64,
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = hf.BertForSequenceClassification(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
        for _ in range(STEPS):
            texts, labels = zip(*(review(random) for _ in range(BATCH_SIZE)), strict=True)
            batch = tokenizer(list(texts), padding=True, return_tensors="pt")
            optimizer.zero_grad()
            model(**batch, labels=torch.tensor(labels)).loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def save_classifier(folder: Path) -> None:
    """Train the model, and save it with its tokenizer."""
    for part in (train(), word_tokenizer()):
        part.save_pretrained(folder)


if __name__ == "__main__":
    hf.utils.logging.disable_progress_bar()
    save_classifier(Path(sys.argv[1]))
