"""Recipe: a CRF in place of the softmax of a token classifier of transformers.

The encoder here is small and random, so that nothing is downloaded; yours is ``AutoModel.from_pretrained(...)``. The
chain runs over the first pieces of words: pieces that follow, and special tokens, have the label -100.
"""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from diptych.layers.spans import allowed_transitions
from diptych.layers.torch import ChainCRF


class TokenClassifier(torch.nn.Module):
    """An encoder of transformers and a chain over labels of BIO; wrong gold labels, as I-PER after O, cost infinity."""

    def __init__(self, encoder, names):
        super().__init__()
        self.encoder, self.emit = encoder, torch.nn.Linear(encoder.config.hidden_size, len(names))
        self.crf = ChainCRF(len(names), batch_first=True, allowed=allowed_transitions(names, "BIO"))

    def logits(self, batch):
        return self.emit(self.encoder(batch["input_ids"], batch["attention_mask"]).last_hidden_state)

    def forward(self, batch, labels):
        """The mean over sentences of -log P(labels); labels (B, n), -100 where a piece has none."""
        return -self.crf(self.logits(batch), labels, labels != -100, reduction="mean")

    def predict(self, batch, first):
        """A label for each word of each sentence."""
        with torch.no_grad():
            return self.crf.decode(self.logits(batch), first)


def first_pieces(batch):
    """Which pieces begin a word, (B, n) bool: the mask of the chain."""
    words = [batch.word_ids(row) for row in range(len(batch["input_ids"]))]
    return torch.tensor([[w is not None and w not in row[:t] for t, w in enumerate(row)] for row in words])


def align(first, labels):
    """Labels of words, a list for each sentence, at the first pieces; -100 elsewhere."""
    found = torch.full(first.shape, -100)
    found[first] = torch.tensor([label for row in labels for label in row])
    return found


def small(pieces):
    """A tokenizer of these pieces of words, and a random encoder."""
    vocabulary = {piece: i for i, piece in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *pieces])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    encoder = BertModel(BertConfig(vocab_size=len(vocabulary), **sizes), add_pooling_layer=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"), encoder


def train(model, batch, labels, steps=60):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(batch, labels)
        loss.backward()
        optimizer.step()
    return float(loss.detach())
