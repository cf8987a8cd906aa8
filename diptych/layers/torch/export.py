"""The best tags of a :class:`ChainCRF` in PyTorch's own operators, for programs that leave PyTorch (ONNX).

Max-product (Viterbi 1967) as two loops over positions, ``scan``, that keep the axes of the batch and of positions
dynamic when exported. Needs a PyTorch with ``scan`` in its exporter (tried: 2.13).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

from diptych.layers.torch.modules import ChainCRF

__all__ = ["ChainDecoder"]


class ChainDecoder(nn.Module):
    """Called as ``crf.decode(emissions, mask)``: the best tags as one tensor of the mask's shape, -1 off the mask.

    Notes
    -----
    Adds in the precision of the emissions, at least float32, where ``decode`` adds in float64: tags may differ where
    taggings differ by rounding only. An exported program does not check its arguments; a row without positions is all
    -1. Source: Algorithm 1 of Pillutla et al. (2018), over the positions on the mask.
    """

    def __init__(self, crf: ChainCRF) -> None:
        if not isinstance(crf, ChainCRF):
            raise TypeError(f"crf: expected a ChainCRF, got {type(crf).__name__}")
        super().__init__()
        self.crf = crf

    def forward(self, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
        """Tags of emissions (batch, n, num_tags), n >= 1, or with the first two axes in the order of the CRF."""
        unary, kept = self.crf._by_batch(emissions.detach(), mask)
        if unary.shape[1] < 1:
            raise ValueError(f"emissions: expected n >= 1 positions, got shape {tuple(emissions.shape)}")
        x = unary.transpose(0, 1).to(torch.promote_types(unary.dtype, torch.float32))
        here = torch.ones_like(x[..., 0], dtype=torch.bool) if kept is None else kept.transpose(0, 1)
        pairwise, starts, ends = (table.detach().to(x.dtype) for table in self.crf._tables().values())

        def forwards(carry: Any, position: Any) -> Any:
            (message, begun), (scores, on) = carry, position
            top, origin = (message[:, :, None] + pairwise).max(1)
            into = torch.where(begun[:, None], top, starts) + scores
            return [torch.where(on[:, None], into, message), begun | on], [origin]

        def backwards(carry: Any, position: Any) -> Any:
            (tags,), (origin, on) = carry, position
            before = origin.gather(1, tags[:, None])[:, 0]
            return [torch.where(on, before, tags)], [torch.where(on, tags, -1)]

        start = [x.new_zeros(x.shape[1:]), here.new_zeros(here.shape[1:])]
        (message, _), (origins,) = scan(forwards, start, [x, here])
        _, (labels,) = scan(backwards, [(message + ends).argmax(-1)], [origins, here], reverse=True)
        return labels.transpose(0, 1) if self.crf.batch_first else labels
