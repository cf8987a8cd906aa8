"""Modules with parameters: a linear-chain CRF over an encoder's emissions, a dependency CRF over its encodings."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from diptych.layers.spans import Allowed
from diptych.layers.torch import arborescence, chain
from diptych.layers.torch.chain import KBest
from reference.arrays import host
from reference.models.sequence import SequenceModel

__all__ = ["ChainCRF", "DependencyCRF"]

REDUCTIONS = ("none", "sum", "mean", "token_mean")


def _reduced(likelihood: Tensor, reduction: str, tokens: int | Tensor) -> Tensor:
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction: expected one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    if reduction == "none":
        return likelihood
    return likelihood.mean() if reduction == "mean" else likelihood.sum() / (1 if reduction == "sum" else tokens)


class ChainCRF(nn.Module):
    """A linear-chain conditional random field: the same constructor, parameters and calls as pytorch-crf's ``CRF``, so
    that its ``state_dict`` loads.

    Parameters
    ----------
    num_tags : int >= 1
    batch_first : bool
        Whether emissions are (batch, n, num_tags) rather than (n, batch, num_tags), and so tags and masks.
    allowed : Allowed, optional
        Transitions and ends that are allowed (:func:`diptych.layers.spans.allowed_transitions`); all others are
        forbidden, in training and in decoding.

    Notes
    -----
    Masks may have holes: positions off the mask are left out, their neighbours adjoin, and their tags are ignored. Each
    row needs a position.
    """

    def __init__(self, num_tags: int, batch_first: bool = False, *, allowed: Allowed | None = None) -> None:
        if not isinstance(num_tags, int) or num_tags < 1:
            raise ValueError(f"num_tags: expected an integer >= 1, got {num_tags!r}")
        super().__init__()
        self.num_tags, self.batch_first = num_tags, batch_first
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        for name, shape in (("pairs", (num_tags, num_tags)), ("starts", (num_tags,)), ("ends", (num_tags,))):
            rule = None if allowed is None else torch.as_tensor(getattr(allowed, name))
            if rule is not None and tuple(rule.shape) != shape:
                raise ValueError(f"allowed.{name}: expected shape {shape}, got {tuple(rule.shape)}")
            self.register_buffer(f"allowed_{name}", rule, persistent=False)
        self.reset_parameters()

    @classmethod
    def of(cls, model: Any, w: Any) -> tuple[nn.Linear, ChainCRF]:
        """The layers, batch first, that score and label as a :class:`reference.SequenceModel` with weights w (d,) does:
        the emissions of features (batch, n, F), and the chain.

        Raises TypeError, ValueError.
        """
        if not isinstance(model, SequenceModel) or getattr(model, "restricted", False) or model.size != len(w):
            raise TypeError(f"model: expected a SequenceModel of {len(w)} weights, got {type(model).__name__}")
        if model.n_edge_features:
            raise TypeError(f"model: expected n_edge_features = 0, as ChainCRF has none, got {model.n_edge_features}")
        weights = torch.as_tensor(host(w).astype(np.float64))
        F, L = model.n_features, model.n_labels
        table = weights[: model.width * L].reshape(model.width, L)
        linear, crf = nn.Linear(F, L, bias=False, dtype=torch.float64), cls(L, batch_first=True).double()
        with torch.no_grad():
            linear.weight.copy_(table[:F].T)
            ends = table[F:] if model.start_stop else torch.zeros(2, L)
            crf.start_transitions.copy_(ends[0]), crf.end_transitions.copy_(ends[1])
            crf.transitions.copy_(weights[model.width * L :].reshape(L, L))
        return linear, crf

    def weights_of(self, linear: nn.Linear) -> np.ndarray:
        """The inverse of :meth:`of`: weights (d,) of a ``SequenceModel(F, num_tags)`` that scores as these layers."""
        if linear.bias is not None or linear.out_features != self.num_tags:
            raise ValueError(f"linear: expected {self.num_tags} outputs without a bias, got {linear}")
        tables = linear.weight.T, self.start_transitions, self.end_transitions, self.transitions
        return np.concatenate([x.detach().double().numpy().reshape(-1) for x in tables])

    def reset_parameters(self) -> None:
        """Draw all parameters from -0.1..0.1."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        return f"num_tags={self.num_tags}"

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, reduction: str = "sum") -> Tensor:
        """The log-likelihood of tags, (batch,) or reduced over the batch: ``none``, ``sum``, ``mean`` or
        ``token_mean``.

        Raises ValueError, TypeError.
        """
        unary, kept = self._by_batch(emissions, mask)
        if tuple(tags.shape) != tuple(emissions.shape[:2]):
            raise ValueError(f"tags: expected shape {tuple(emissions.shape[:2])}, got {tuple(tags.shape)}")
        y = tags if self.batch_first else tags.transpose(0, 1)
        loss = chain.crf_loss(unary, labels=y, mask=kept, **self._tables())
        return _reduced(-loss, reduction, y.numel() if kept is None else kept.sum())

    def decode(self, emissions: Tensor, mask: Tensor | None = None) -> list[list[int]]:
        """The best tags of each row, at its positions on the mask."""
        unary, kept = self._by_batch(emissions, mask)
        with torch.no_grad():
            rows = chain.best_labels(unary, mask=kept, **self._tables()).tolist()
        return rows if kept is None else [[y for y in row if y >= 0] for row in rows]

    def k_best(self, emissions: Tensor, k: int, mask: Tensor | None = None) -> KBest:
        """The k best tags of each row: scores (batch, k), labels (batch, k, n), count (batch,)."""
        unary, kept = self._by_batch(emissions, mask)
        return chain.topk(unary, k=k, mask=kept, **self._tables())

    def marginals(self, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
        """P(tag) at each position, shaped like the emissions; 0 off the mask."""
        unary, kept = self._by_batch(emissions, mask)
        nodes = chain.marginals(unary, mask=kept, **self._tables()).unary
        return nodes if self.batch_first else nodes.transpose(0, 1)

    def _by_batch(self, emissions: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Emissions (batch, n, num_tags) and mask (batch, n)."""
        if emissions.ndim != 3 or emissions.shape[2] != self.num_tags:
            axes = "(batch, n" if self.batch_first else "(n, batch"
            raise ValueError(f"emissions: expected shape {axes}, {self.num_tags}), got {tuple(emissions.shape)}")
        if mask is not None:
            if mask.dtype == torch.uint8 and (torch.compiler.is_compiling() or bool((mask <= 1).all())):
                mask = mask.bool()
            if mask.dtype != torch.bool:
                raise ValueError(f"mask: expected booleans, or uint8 of 0 and 1, got {mask.dtype}")
            if tuple(mask.shape) != tuple(emissions.shape[:2]):
                raise ValueError(f"mask: expected shape {tuple(emissions.shape[:2])}, got {tuple(mask.shape)}")
        if not self.batch_first:
            emissions, mask = emissions.transpose(0, 1), None if mask is None else mask.transpose(0, 1)
        if mask is not None and not torch.compiler.is_compiling() and not bool(mask.any(dim=1).all()):
            row = int(torch.nonzero(~mask.any(dim=1))[0])
            raise ValueError(f"mask: expected a position in each row, got none in row {row}")
        return emissions, mask

    def _tables(self) -> dict[str, Any]:
        """The scores of transitions and ends; -inf for those that are not allowed."""
        found = {"pairwise": self.transitions, "starts": self.start_transitions, "ends": self.end_transitions}
        for name, rule in zip(found, (self.allowed_pairs, self.allowed_starts, self.allowed_ends), strict=True):
            if rule is not None:
                found[name] = torch.where(rule, found[name], -torch.inf)
        return found


class DependencyCRF(nn.Module):
    """A conditional random field over dependency trees whose arcs have biaffine scores.

    score(head h of token m) = [d_m, 1]^T W [e_h, 1], with d and e linear in the encodings and then rectified, and a
    learned encoding of the root. Source: Dozat and Manning (2017), the scorer; Koo et al. (2007), the field.

    Parameters
    ----------
    size : int >= 1
        Of an encoding.
    hidden : int >= 1
        Of d and e.
    single_root : bool
        Whether each tree has exactly one arc from the root.
    """

    def __init__(self, size: int, hidden: int = 128, *, single_root: bool = True) -> None:
        super().__init__()
        for name, given in (("size", size), ("hidden", hidden)):
            if not isinstance(given, int) or given < 1:
                raise ValueError(f"{name}: expected an integer >= 1, got {given!r}")
        self.size, self.single_root = size, single_root
        self.root = nn.Parameter(torch.zeros(size))
        self.dependents, self.heads = nn.Linear(size, hidden), nn.Linear(size, hidden)
        self.biaffine = nn.Parameter(torch.empty(hidden + 1, hidden + 1))
        nn.init.xavier_uniform_(self.biaffine)

    def scores(self, encodings: Tensor) -> Tensor:
        """The scores (batch, n, n + 1) of the arcs between encodings (batch, n, size)."""
        if encodings.ndim != 3 or encodings.shape[2] != self.size:
            raise ValueError(f"encodings: expected shape (batch, n, {self.size}), got {tuple(encodings.shape)}")
        with_root = torch.cat([self.root.expand(len(encodings), 1, self.size), encodings], dim=1)
        d, e = (nn.functional.pad(layer(x).relu(), (0, 1), value=1.0)
                for layer, x in ((self.dependents, encodings), (self.heads, with_root)))  # fmt: skip
        return d @ self.biaffine @ e.mT

    def forward(
        self, encodings: Tensor, heads: Tensor, lengths: Tensor | None = None, reduction: str = "sum"
    ) -> Tensor:
        """The log-likelihood of heads (batch, n), 0 for the root, reduced as :class:`ChainCRF` does; ``token_mean`` is
        the sum over the number of tokens.
        """
        values = self.scores(encodings)
        loss = arborescence.crf_loss(values, heads, lengths=lengths, single_root=self.single_root)
        return _reduced(-loss, reduction, heads.numel() if lengths is None else lengths.sum())

    def decode(self, encodings: Tensor, lengths: Tensor | None = None) -> list[list[int]]:
        """The heads of the tokens of each sentence in its best tree."""
        with torch.no_grad():
            found = arborescence.best(self.scores(encodings), lengths=lengths, single_root=self.single_root).labels
        return [[h for h in row if h >= 0] for row in found.tolist()]

    def marginals(self, encodings: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The probability of each arc, (batch, n, n + 1)."""
        return arborescence.marginals(self.scores(encodings), lengths=lengths, single_root=self.single_root)
