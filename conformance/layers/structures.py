"""Structures that answer by the layers, so that the laws of structures run on these: in PyTorch on tensors that require
a gradient (``torch-autograd``; ``torch-elsewhere``: what devices other than the CPU run, on the CPU), in JAX under
``jit`` (``jax-jit``).

Values are those of functions, and parts are derivatives: those of an output are the gradient of its score, marginals
that of the log-partition, expected parts that of a weighted sum of scores. What does not read scores (the checks of
arguments, the outputs and their number) is the reference's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

import reference
from conformance.layers.minibatches import drawn
from conformance.tolerances import close
from reference.smoothings import SquaredL2, TopK
from reference.structures.base import KBest
from reference.structures.scores import score_fields

# The structures of each namespace, whose functions are in modules of their names.
KINDS = {
    "torch-autograd": ("Chain", "Tree", "Arborescence", "Matching"),
    "torch-elsewhere": ("Chain", "Arborescence"),
    "torch-cuda": ("Chain", "Arborescence"),
    "jax-jit": ("Chain", "Arborescence"),
}
SUMS = ("log_partition", "marginals", "crf_loss", "sample", "entropy", "kl", "smooth_max")
PROJECTIONS = ("sparsemap", "sparsemap_loss")
FUNCTIONS = ("best", "topk", "score", "hinge_loss", "max_marginals", *SUMS, "smooth_hinge_loss", *PROJECTIONS)
ABSENT = {  # functions that need not be there; all others must be
    ("torch-autograd", "Matching"): ("max_marginals", *SUMS, "smooth_hinge_loss"),  # sums are #P-complete
    ("jax-jit", "Chain"): ("max_marginals", *SUMS[3:], "smooth_hinge_loss", *PROJECTIONS),
    ("jax-jit", "Arborescence"): ("best", "topk", "hinge_loss", "max_marginals", *SUMS[3:], *FUNCTIONS[-3:]),
}
OPTIONS: dict[str, dict[str, Any]] = {"log_partition": {"mu": 0.7}, "hinge_loss": {"cost": 0.3}, "topk": {"k": 3}}
OPTIONS |= {name: {"mu": 0.5} for name in PROJECTIONS}
OPTIONS |= {"smooth_max": {"smoothing": TopK(3), "mu": 0.5}}
OPTIONS |= {"smooth_hinge_loss": {"smoothing": SquaredL2(), "mu": 0.5, "cost": 0.3}}
APART = ("max_marginals", "sample", "smooth_hinge_loss")  # without derivatives, or not to be compiled
STATIC = ("mu", "k", "cost", "single_root")  # arguments that jit does not trace


def functions(namespace: str, kind: str) -> Any:
    """The module of a structure."""
    return importlib.import_module(f"diptych.layers.{namespace.partition('-')[0]}.{kind.lower()}")


def offered(namespace: str, kind: str) -> list[str]:
    """The functions of a structure by name; what is not there is left out."""
    return [name for name in FUNCTIONS if hasattr(functions(namespace, kind), name)]


def call(function: Callable[..., Any], fields: Sequence[Any], *more: Any, **where: Any) -> Any:
    """A function of scores, of which a third and a fourth field are those of ends."""
    more = (where.pop("parents"), *more) if "parents" in where else more
    ends = dict(zip(("starts", "ends"), fields[2:], strict=False))
    return function(*fields[:2], *more, **where, **ends)


def elsewhere() -> ExitStack:
    """A context in which the CPU runs what other devices do."""
    from reference.structures import chain_scaled

    names = {"operators.kernels": chain_scaled, "chain.accelerated": reference}
    never = "operators.fused", "chain.fused", "arborescence.on_host"
    stack = ExitStack()
    for name, other in {**names, **dict.fromkeys(never, lambda *given: False)}.items():
        stack.enter_context(patch(f"diptych.layers.torch.{name}", other))
    return stack


def evaluate(
    namespace: str, kind: str, name: str, fields: Sequence[Any], *more: Any, weights: Any = 1.0, slopes: bool = False,
    **where: Any,
) -> Any:  # fmt: skip
    """The answer of a function; with ``slopes`` its value (...,), and the derivatives in the fields of the sum of its
    entries times ``weights`` (...,).
    """
    function = getattr(functions(namespace, kind), name)
    if namespace == "jax-jit":
        if name == "score":
            where.pop("single_root", None)
        static = tuple((key, where.pop(key)) for key in STATIC if key in where)
        return _compiled(function, static, slopes)(tuple(fields), weights, more, where)
    import torch

    leaves = [x.detach().clone().requires_grad_() for x in fields]
    with elsewhere() if namespace == "torch-elsewhere" else ExitStack():
        answer = call(function, leaves, *more, **where)
        if not slopes:
            return type(answer)(*(x.detach() for x in answer)) if isinstance(answer, tuple) else answer.detach()
        value = answer[0] if isinstance(answer, tuple) else answer
        total = torch.where(value > -torch.inf, weights * value, 0.0).sum()
        return value.detach(), torch.autograd.grad(total, leaves, materialize_grads=True)


@cache
def _compiled(function: Callable[..., Any], static: tuple[tuple[str, Any], ...], slopes: bool) -> Callable[..., Any]:
    import jax

    def total(fields: Any, weights: Any, more: Any, where: Any) -> Any:
        value = call(function, fields, *more, **where, **dict(static))
        return (weights * value).sum() if slopes else 0.0, value

    def both(*given: Any) -> Any:
        (_, value), gradient = jax.value_and_grad(total, has_aux=True)(*given)
        return value, gradient

    return jax.jit(both if slopes else lambda *given: total(*given)[1])


class Program:
    """The functions of a minibatch as functions of its scores alone, of which those that are padding are 0."""

    def __init__(self, case: str, scale: float = 1.0) -> None:
        import torch

        batch = drawn(case, 0, scale, False, "float64")
        self.kind, self.labels = batch.kind, torch.tensor(batch.labels)
        self.fields = tuple(torch.tensor(np.nan_to_num(x)) for x in batch.fields)
        self.where = {key: torch.tensor(x) if isinstance(x, np.ndarray) else x for key, x in batch.where.items()}
        self.offered = [name for name in offered("torch-autograd", self.kind) if name not in APART]

    def of(self, name: str, **options: Any) -> Callable[..., Any]:
        """The value, or the first answer."""
        labels = [self.labels] if name.endswith(("score", "loss")) else []
        others, options = [0.5 * x for x in self.fields[:2]] if name == "kl" else [], options or OPTIONS.get(name, {})
        function = getattr(functions("torch-autograd", self.kind), name)

        def ask(*fields: Any) -> Any:
            last = [x.to(fields[0].dtype) for x in others]
            answer = call(function, fields, *labels, *last, **self.where, **options)
            return answer[0] if isinstance(answer, tuple) else answer

        return ask


class Layer:
    """The answers of a structure, before one of the reference among the bases of a class."""

    scores: Any
    namespace: str
    kind: str
    integers: Callable[[Any], Any]

    @classmethod
    def supports(cls, method: str) -> bool:
        name = "log_partition" if method == "expectation" else method
        there = name in offered(cls.namespace, cls.kind)
        return there if name in FUNCTIONS else super().supports(method)  # type: ignore[misc]

    def ask(self, name: str, *more: Any, **where: Any) -> Any:
        """The answer; with ``slopes`` the value, and the gradient as scores. That all is forbidden is said in the words
        of the panels, also where JAX has an error of its own for one in a callback.
        """
        layout = {key: getattr(self.scores, key) for key in getattr(self.scores, "layout", ())}
        where |= {key: x for key, x in layout.items() if x is not None}
        where |= {"single_root": self.single_root} if hasattr(self, "single_root") else {}
        try:
            found = evaluate(self.namespace, self.kind, name, score_fields(self.scores), *more, **where)
        except Exception as problem:
            if "InfeasibleError" not in f"{type(problem).__name__}: {problem}":
                raise
            raise reference.InfeasibleError("every output is forbidden") from problem
        return (found[0], self.like(found[1])) if where.get("slopes") else found

    def like(self, fields: Any) -> Any:
        """A field, or several, as scores."""
        fields = fields if isinstance(fields, tuple) else (fields,)
        return type(self.scores)(*fields, *self.scores[len(fields) :])

    def best(self) -> tuple[Any, Any]:
        """Where there is a value, it is the labels' score, and its gradient is their parts."""
        found = self.ask("best")
        labels = getattr(found, "labels", found)
        value, parts = self.ask("score", labels, slopes=True)
        if labels is not found:
            whole, slope = self.ask("best", slopes=True)
            for one, other in zip((whole, *score_fields(slope)), (value, *score_fields(parts)), strict=True):
                assert bool((one == other).all())
        return value, labels

    def score(self, y: Any) -> Any:
        return self.ask("score", self.integers(y))

    def parts(self, y: Any) -> Any:
        return self.ask("score", self.integers(y), slopes=True)[1]

    def topk(self, k: int) -> KBest:
        return KBest(*self.ask("topk", k=int(k)))

    def expected_parts(self, outputs: Any, weights: Any) -> Any:
        """By the gradient of the K best scores; in JAX, where these have none, of one score after another."""
        if self.namespace == "jax-jit":
            return reference.Structure.expected_parts(self, outputs, weights)  # type: ignore[arg-type]
        k = weights.shape[-1]
        assert bool((self.topk(k).labels == outputs).all())
        return self.ask("topk", k=k, weights=weights, slopes=True)[1]

    def expectation(self, mu: float = 1.0) -> tuple[Any, Any]:
        """The gradient of the log-partition is the marginals, which a Tree has for each node."""
        value, gradient = self.ask("log_partition", mu=mu, slopes=True)
        if bool((value == -float("inf")).any()):
            raise reference.InfeasibleError("every output is forbidden")  # what the value stands for under jit
        shares = score_fields(self.like(self.ask("marginals", mu=mu)))
        for share, slope in zip(shares, score_fields(gradient), strict=True):
            more = tuple(range(share.ndim - slope.ndim))
            close(share.sum(more) if more else share, slope, str(slope.dtype).removeprefix("torch."))
        return value, gradient

    def max_marginals(self) -> Any:
        return self.like(self.ask("max_marginals"))


@cache
def backend(namespace: str) -> SimpleNamespace:
    """The classes of structures that a law asks for."""
    library = importlib.import_module("jax.numpy" if namespace == "jax-jit" else "torch")
    own = {"namespace": namespace, "integers": staticmethod(partial(library.asarray, dtype=library.int64))}
    made = {kind: type(kind, (Layer, getattr(reference, kind)), {**own, "kind": kind}) for kind in KINDS[namespace]}
    return SimpleNamespace(InfeasibleError=reference.InfeasibleError, **made)
