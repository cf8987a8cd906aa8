"""A bidirectional LSTM in PyTorch and two layers over it: chunks by a chain, heads by a dependency tree.

Read it from top to bottom: an encoder with a vocabulary; the two models, each an encoder and a layer of
:mod:`diptych.layers.torch` that is its loss and its decoder; training by Adam on padded minibatches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from diptych.experiments.shell import say
from diptych.layers.spans import allowed_transitions
from diptych.layers.torch import ChainCRF, DependencyCRF

SIZES = (64, 32, 32)  # of the embeddings of a token's word, ending and tag
HIDDEN = 64  # of each direction
BATCH = 32


class Example(NamedTuple):
    """A sentence of n tokens: words, tags, and what is to be predicted, labels or heads."""

    words: Sequence[str]
    tags: Sequence[str]
    truth: Sequence[Any]


class Encoder(nn.Module):
    """Encodings (batch, n, 2 HIDDEN) of sentences, and their lengths (batch,)."""

    def __init__(self, examples: Sequence[Example]) -> None:
        super().__init__()
        counts = [Counter(column) for column in zip(*(x for e in examples for x in self.fields(e)), strict=True)]
        # 0 is for what occurs less than twice in the training data, so that it is trained, too
        known = [sorted(x for x, count in counter.items() if count > 1) for counter in counts]
        self.numbers = [{x: number for number, x in enumerate(each, 1)} for each in known]
        pairs = zip(known, SIZES, strict=True)
        self.tables = nn.ModuleList([nn.Embedding(len(each) + 1, size) for each, size in pairs])
        self.lstm = nn.LSTM(sum(SIZES), HIDDEN, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.33)

    @staticmethod
    def fields(example: Example) -> list[tuple[str, str, str]]:
        """What is embedded of each token."""
        return [(word.lower(), word[-3:], tag) for word, tag in zip(example.words, example.tags, strict=True)]

    def forward(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        rows = [[[known.get(x, 0) for known, x in zip(self.numbers, token, strict=True)] for token in self.fields(e)]
                for e in examples]  # fmt: skip
        lengths = torch.tensor([len(row) for row in rows])
        tokens = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        embedded = torch.cat([table(tokens[..., k]) for k, table in enumerate(self.tables)], dim=-1)
        packed = pack_padded_sequence(self.dropout(embedded), lengths, batch_first=True, enforce_sorted=False)
        encodings, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.dropout(encodings), lengths


class Chunker(nn.Module):
    """Labels of tokens: linear scores of the encodings, and a chain that allows what BIO does."""

    def __init__(self, examples: Sequence[Example]) -> None:
        super().__init__()
        self.names = sorted({label for e in examples for label in e.truth})
        self.encoder, self.emit = Encoder(examples), nn.Linear(2 * HIDDEN, len(self.names))
        self.crf = ChainCRF(len(self.names), batch_first=True, allowed=allowed_transitions(self.names, "BIO"))

    def forward(self, examples: Sequence[Example]) -> Tensor:
        """The mean negative log-likelihood."""
        tags = pad_sequence([torch.tensor([self.names.index(y) for y in e.truth]) for e in examples], batch_first=True)
        return -self.crf(*self.scores(examples, tags), reduction="mean")

    def scores(self, examples: Sequence[Example], *between: Tensor) -> tuple[Tensor, ...]:
        """Emissions (batch, n, labels) and mask (batch, n); what is given, in between."""
        encodings, lengths = self.encoder(examples)
        return self.emit(encodings), *between, torch.arange(encodings.shape[1]) < lengths[:, None]

    def predict(self, examples: Sequence[Example]) -> list[list[str]]:
        """The best labels of each sentence."""
        return [[self.names[y] for y in row] for row in self.crf.decode(*self.scores(examples))]


class HeadFinder(nn.Module):
    """Heads of tokens: biaffine scores of arcs, and dependency trees with a single root."""

    def __init__(self, examples: Sequence[Example]) -> None:
        super().__init__()
        self.encoder, self.crf = Encoder(examples), DependencyCRF(2 * HIDDEN)

    def forward(self, examples: Sequence[Example]) -> Tensor:
        """The mean negative log-likelihood."""
        heads = pad_sequence([torch.tensor(e.truth) for e in examples], batch_first=True)
        encodings, lengths = self.encoder(examples)
        return -self.crf(encodings, heads, lengths, reduction="mean")

    def predict(self, examples: Sequence[Example]) -> list[list[int]]:
        """The heads of each sentence in its best tree."""
        return self.crf.decode(*self.encoder(examples))


def trained(kind: Any, examples: Sequence[Example], epochs: int, rate: float = 1e-2) -> Any:
    """A Chunker or a HeadFinder, trained by Adam; the step falls to 0 along a line."""
    torch.manual_seed(0)
    model = kind(examples)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, epochs * len(list(batches(examples))))
    for epoch in range(epochs):
        total, order = 0.0, torch.randperm(len(examples)).tolist()
        for batch in batches([examples[i] for i in order]):
            optimizer.zero_grad()
            loss = model(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            total += len(batch) * float(loss.detach())
        say(f"epoch {epoch + 1} of {epochs}: {total / len(examples):.4f} a sentence")
    return model.eval()


def predictions(model: Any, examples: Sequence[Example]) -> list[Any]:
    """The predictions of all sentences."""
    return [y for batch in batches(examples) for y in model.predict(batch)]


def batches(examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
    """Minibatches in order."""
    return (examples[i : i + BATCH] for i in range(0, len(examples), BATCH))
