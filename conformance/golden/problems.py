"""The data of the golden runs: small models with random features and different costs, so that outputs rarely tie.

Numbers are those of NumPy's ``RandomState``, whose draws no version changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from conformance.recipes.structure import Subset
from reference.screening.registry import known_of, register
from reference.screening.restricted import restrict

__all__ = ["Problems", "Runs", "over"]

Runs = Iterator[tuple[str, Callable[[], Any]]]  # a run's name, and the run

LABELS = [[0, 1, 2], [], [2, 2, 0, 1], [1, 0], [2]]
BIO = [["B-X", "I-X", "O"], [], ["O", "B-X", "I-X", "I-X"], ["B-X", "B-X"], ["O"]]
SENTENCES = ["the dog barked", "", "a cat saw mice", "fish swim"]
HEADS = [[2, 3, 0], [], [2, 3, 0, 3], [2, 0]]


class Problems:
    """The models, data and objectives of one backend, each made once."""

    lam = 0.1

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self._models: dict[str, tuple[Any, Any]] = {}
        self._objectives: dict[str, Any] = {}

    def numbers(self, seed: int, *shape: int) -> np.ndarray:
        """Standard normal draws."""
        return np.random.RandomState(seed).standard_normal(shape)

    def model(self, name: str) -> tuple[Any, Any]:
        """A model and its data, by name."""
        if name not in self._models:
            self._models[name] = MODELS[name](self)
        return self._models[name]

    def objective(self, name: str) -> Any:
        """``model/loss``, loss log, hinge or a smoothing, of weighted examples (w-) or a subclass (my-); or a sum of
        SUMS."""
        if name not in self._objectives:
            self._objectives[name] = SUMS[name](self) if name in SUMS else self._made(*name.split("/"))
        return self._objectives[name]

    def _made(self, name: str, loss: str) -> Any:
        B = self.backend
        if loss.startswith("w-"):
            objective = self.objective(f"{name}/{loss[2:]}")
            return B.Weighted(objective, np.arange(objective.n) % 3)
        model, data = self.model(name)
        if loss.endswith("log"):
            return (mine(B.LogLoss) if loss == "my-log" else B.LogLoss)(model, data)
        smoothings = {
            "hinge": B.smoothings.Max,
            "entropy": B.smoothings.Entropy,
            "l2": B.smoothings.SquaredL2,
            "top2": partial(B.smoothings.TopK, 2),
        }
        smoothings["my-entropy"] = mine(B.smoothings.Entropy)
        return B.StructuralHinge(model, data, smoothing=smoothings[loss]())

    def start(self, name: str) -> np.ndarray:
        """Weights (d,) of standard deviation 0.3, those >= 0 that must be."""
        objective = self.objective(name)
        w = 0.3 * self.numbers(77, 4 if name in SUMS else len(objective.zeros()))
        return np.abs(w) if getattr(objective, "nonnegative", None) is not None else w

    def run(self, learner: Callable[..., Any], name: str, *, start: bool = False, **options: Any) -> partial[Any]:
        """``learner`` on an objective, from a drawn start or its own, with this ``lam`` or another; not yet called."""
        first = (self.start(name),) if start else ()
        return partial(learner, self.objective(name), *first, **{"lam": self.lam, **options})


def over(
    go: Callable[..., Any], names: Iterable[str], options: dict[str, dict[str, Any]], **given: Any
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A run of each problem with each set of options, beside those given for all."""
    for name in names:
        for title, own in options.items():
            yield f"{name}/{title}", go(name, **{**given, **own})


class Plain:
    """mean_i mu log(1 + exp(-<x_i, w>/mu)): a finite sum of the user's, without zeros(), a smoothing or a model."""

    def __init__(self, P: Problems, n: int = 6) -> None:
        self.X, self.n = P.numbers(9, n, 4), n

    def value_and_gradient(self, w: np.ndarray, batch: Any = None, mu: float | None = None) -> tuple[float, np.ndarray]:
        """Mean over a batch and gradient (4,)."""
        X, mu = self.X if batch is None else self.X[batch], 1.0 if mu is None else mu
        z = X @ w / mu
        return mu * float(np.mean(np.logaddexp(0.0, -z))), X.T @ (-1.0 / (1.0 + np.exp(z))) / len(X)


class Tempered(Plain):
    """The same with a mu of its own."""

    mu = 0.5


class Uneven(Plain):
    """Forty of them, one much more curved than the others: it is not among those that a step size is tried on."""

    def __init__(self, P: Problems) -> None:
        super().__init__(P, 40)
        self.X[7] *= 30.0


SUMS: dict[str, Callable[[Problems], Any]] = {"plain": Plain, "tempered": Tempered, "uneven": Uneven}


def mine(kind: type) -> type:
    """A subclass that changes nothing, for which no kernel may be used. A model's features are registered for it."""
    found = type("Mine", (kind,), {})
    register(found, known_of(kind))
    return found


def cost(L: int) -> np.ndarray:
    """Task losses (L, L), all different."""
    return (1.0 - np.eye(L)) * (0.7 + 0.1 * np.arange(L * L).reshape(L, L) % 0.87)


def chain(P: Problems, subclass: bool = False) -> tuple[Any, Any]:
    """Sequences, one of them empty; of a subclass, for which no kernel may be used."""
    kind = P.backend.SequenceModel
    model = (mine(kind) if subclass else kind)(2, 3, cost=cost(3))
    return model, model.pack([P.numbers(i, len(y), 2) for i, y in enumerate(LABELS)], LABELS)


def sparse(P: Problems) -> tuple[Any, Any]:
    """Sequences of active columns, without start and stop weights."""
    model = P.backend.SequenceModel(4, 2, start_stop=False, cost=cost(2))
    X = [[[(i + t) % 4, 3] if (i + t) % 4 < 3 else [0] for t in range(len(y))] for i, y in enumerate(LABELS)]
    return model, model.pack(X, [[label % 2 for label in y] for y in LABELS])


def tags(P: Problems, restricted: bool = True) -> tuple[Any, Any]:
    """Sentences of weighted attributes; weights for the pairs that occur, with the BIO scheme, or for all pairs."""
    values = [np.abs(P.numbers(20 + i, len(y), 2)) for i, y in enumerate(BIO)]
    X = [[{f"a{t % 3}": float(v[0]), f"b{len(v) % 2}": float(v[1])} for t, v in enumerate(each)] for each in values]
    options = {"pairs": "observed", "transitions": "bio"} if restricted else {"pairs": "all"}
    model = P.backend.TaggingModel.of(X, BIO, None, cost=cost(3), **options)
    return model, model.pack(X, BIO)


def classes(P: Problems, subclass: bool = False) -> tuple[Any, Any]:
    """Examples of three classes."""
    kind = P.backend.MulticlassModel
    model = (mine(kind) if subclass else kind)(4, 3, cost=cost(3))
    return model, model.pack(P.numbers(30, 8, 4), [0, 1, 2, 1, 0, 2, 2, 1])


def trees(P: Problems) -> tuple[Any, Any]:
    """Labelled trees, a forest and an empty one among them."""
    model = P.backend.TreeModel(2, 2, cost=cost(2))
    parents = [[-1, 0, 0, 1], [], [-1, -1, 0], [1, -1]]
    X = [(P.numbers(40 + i, len(p), 2), p) for i, p in enumerate(parents)]
    return model, model.pack(X, [[0, 1, 1, 0], [], [1, 0, 0], [1, 1]])


def parsing(P: Problems, **options: Any) -> tuple[Any, Any]:
    """Dependency trees of sentences."""
    model = P.backend.ParsingModel([("h.word", "m.word"), ("m.word", "distance")], bits=5, **options)
    return model, model.pack([{"word": sentence.split()} for sentence in SENTENCES], HEADS)


def boxes(P: Problems) -> tuple[Any, Any]:
    """Images of four candidate boxes."""
    return _of_boxes(P, P.backend.CandidateModel(3), (3,))


def network(P: Problems) -> tuple[Any, Any]:
    """The same, scored by two layers."""
    return _of_boxes(P, P.backend.TwoLayerModel((2, 2, 2), hidden=2), (2, 2, 2))


def _of_boxes(P: Problems, model: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    corners = [[0, 0, 4, 4], [1, 2, 6, 6], [3, 3, 8, 9], [0, 2, 5, 9]]
    X = [(corners, P.numbers(50 + i, 4, *shape)) for i in range(5)]
    return model, model.pack(X, [corners[i % 4] for i in range(5)])


def windows(P: Problems) -> tuple[Any, Any]:
    """Images whose best box is searched for."""
    model = P.backend.SubwindowModel(2)
    return model, model.pack([P.numbers(60 + i, 3, 4, 2) for i in range(3)], [[0, 0, 1, 2], [1, 1, 2, 3], [0, 2, 2, 3]])


def cuts(P: Problems) -> tuple[Any, Any]:
    """Images of 2 x 3 nodes; the weight of edges must be >= 0."""
    model, edges = P.backend.SegmentationModel(2, 1), P.backend.grid_edges(2, 3)
    X = [(P.numbers(70 + i, 6, 2), edges, np.abs(P.numbers(80 + i, len(edges), 1))) for i in range(4)]
    return model, model.pack(X, [[0, 0, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0], [1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 1]])


def alignment(P: Problems) -> tuple[Any, Any]:
    """Rows and columns, paired or not."""
    model = P.backend.AlignmentModel(2, null=True)
    X = [P.numbers(90 + i, *shape, 2) for i, shape in enumerate([(2, 3), (3, 2), (1, 2), (2, 2)])]
    return model, model.pack(X, [[2, -1], [-1, 0, 1], [1], [1, 0]])


def listed(P: Problems) -> tuple[Any, Any]:
    """Four outputs with drawn features; the callables are the user's."""

    def loss(x: Any, y: Any) -> np.ndarray:
        return 0.3 * np.abs(np.arange(4) - int(y)) ** 1.1

    model = P.backend.ListModel(lambda x: x, P.backend.Table, loss, size=5)
    return model, model.pack([P.numbers(100 + i, 4, 5) for i in range(6)], [0, 1, 2, 3, 1, 0])


def subset(P: Problems) -> tuple[Any, Any]:
    """A structure of the user's: any of the subsets of three labels."""
    model = P.backend.ListModel(lambda x: np.kron(np.eye(3), x), Subset, size=6)
    return model, model.pack([P.numbers(110 + i, 2) for i in range(4)], [(0, 1, 1), (1, 0, 0), (1, 1, 0), (0, 0, 1)])


def restricted(P: Problems) -> tuple[Any, Any]:
    """The problem of the sequences without some of the weights."""
    model, data = P.model("chain")
    smaller = restrict(model, np.arange(0, model.size, 2))
    return smaller, smaller.narrow(data)


MODELS: dict[str, Callable[[Problems], tuple[Any, Any]]] = {
    "chain": chain,
    "mine": partial(chain, subclass=True),
    "sparse": sparse,
    "tags": tags,
    "tags-all": partial(tags, restricted=False),
    "classes": classes,
    "my-classes": partial(classes, subclass=True),
    "trees": trees,
    "parsing": parsing,
    "parsing-root": partial(parsing, single_root=True),
    "parsing-blocks": partial(parsing, blocks=True),
    "boxes": boxes,
    "network": network,
    "windows": windows,
    "cuts": cuts,
    "alignment": alignment,
    "listed": listed,
    "subset": subset,
    "restricted": restricted,
}
