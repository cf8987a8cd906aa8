"""The functions of layers of PyTorch on a minibatch, as functions of its scores alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from conformance.layers.minibatches import drawn
from conformance.layers.structures import OPTIONS, call, functions, offered

__all__ = ["Program"]

OTHERS = ("max_marginals", "sample", "smooth_hinge_loss")  # without derivatives, or not to be compiled


class Program:
    """The functions of a minibatch as functions of its scores alone, of which those that are padding are 0."""

    def __init__(self, case: str, scale: float = 1.0) -> None:
        batch = drawn(case, 0, scale, False, "float64")
        self.kind, self.batch = batch.kind, batch
        self.fields = tuple(torch.tensor(np.nan_to_num(x)) for x in batch.fields)
        self.where = {key: torch.tensor(x) if isinstance(x, np.ndarray) else x for key, x in batch.where.items()}
        self.offered = [name for name in offered("torch-autograd", self.kind) if name not in OTHERS]

    def of(self, name: str, **options: Any) -> Callable[..., Any]:
        """The value, or the first answer."""
        labels = [torch.tensor(self.batch.labels)] if name.endswith(("score", "loss")) else []
        others, options = [0.5 * x for x in self.fields[:2]] if name == "kl" else [], options or OPTIONS.get(name, {})

        function = getattr(functions("torch-autograd", self.kind), name)

        def ask(*fields: Any) -> Any:
            last = [x.to(fields[0].dtype) for x in others]
            answer = call(function, fields, *labels, *last, **self.where, **options)
            return answer[0] if isinstance(answer, tuple) else answer

        return ask
