"""``Tagger``, the interface of python-crfsuite to a trained model, and what it says of the model."""

from __future__ import annotations

import contextlib
import struct
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accelerated import Chain
from diptych.crfsuite.items import items_of, label_of
from diptych.crfsuite.model_files import CrfsuiteModel, bytes_of, model_of, read_model
from reference.example_errors import example_error

__all__ = ["ClosedTagger", "ParsedDump", "Tagger", "UnknownFeatures"]


class ClosedTagger(ValueError, RuntimeError):
    """A question to a tagger without a model."""


class UnknownFeatures(UserWarning):
    """A sequence none of whose features has a weight in the model."""


@dataclass
class ParsedDump:
    """A model by names: ``header`` of the file, ``labels`` and ``attributes`` with their numbers, as strings;
    ``transitions`` {(label, next label): weight}, ``state_features`` {(attribute, label): weight}.
    """

    header: dict[str, str]
    labels: dict[str, str]
    attributes: dict[str, str]
    transitions: dict[tuple[str, str], float]
    state_features: dict[tuple[str, str], float]


class Tagger:
    """Labels of sequences by a model of crfsuite.

    Parameters
    ----------
    model : CrfsuiteModel, optional
        Else :meth:`open` or :meth:`open_inmemory` first.

    Attributes
    ----------
    given, unknown : int
        How many features the sequences so far had, and how many of these have no weight. The first sequence none of
        whose features has a weight warns with both numbers (:class:`UnknownFeatures`).

    Notes
    -----
    A tagger pickles as its model. :meth:`tag` with a sequence may be called by several threads at a time; the methods
    that are about the current sequence need a tagger for each.

    Examples
    --------
    >>> import numpy as np
    >>> from diptych.crfsuite import CrfsuiteModel
    >>> states, moves = np.array([[0, 0], [1, 1]]), np.array([[0, 1]])
    >>> tagger = Tagger(CrfsuiteModel(("B", "I"), ("w:a", "w:duck"), states, np.ones(2), moves, np.ones(1)))
    >>> tagger.tag([{"w": "a"}, {"w": "duck"}])
    ['B', 'I']
    """

    def __init__(self, model: CrfsuiteModel | None = None) -> None:
        self.given = self.unknown = 0
        self._warned = False
        self._model: CrfsuiteModel | None = None
        self._chain: Chain | None = None
        self._marginals: np.ndarray | None = None
        if model is not None:
            self._load(model)

    def open(self, name: str | Path) -> Any:
        """Read a model file; gives a context that closes it. Raises FileNotFoundError, or ValueError as
        :func:`read_model`.
        """
        if not Path(name).exists():
            raise FileNotFoundError(f"name: no such file: {name}")
        self._load(read_model(name))
        return contextlib.closing(self)

    def open_inmemory(self, value: bytes) -> Any:
        """Read the content of a model file; gives a context that closes it. Raises ValueError as :func:`read_model`."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"value: expected the bytes of a model file, got {type(value).__name__}")
        self._load(model_of(bytes(value), name="value"))
        return contextlib.closing(self)

    def close(self) -> None:
        """Forget the model."""
        self._model = self._chain = self._marginals = None

    def labels(self) -> list[str]:
        """The labels, in the order of the model."""
        return list(self._opened.labels)

    def set(self, xseq: Any) -> None:
        """Make a sequence the current one; ``xseq`` is as for :class:`ItemSequence`."""
        self._chain, self._marginals = self.chain(xseq), None

    def tag(self, xseq: Any = None) -> list[str]:
        """The best labels of a sequence, by default the current one, which it becomes."""
        if xseq is None:
            return self._best(self._current)
        self._chain, self._marginals = chain, _ = self.chain(xseq), None
        return self._best(chain)

    def probability(self, yseq: Iterable[str]) -> float:
        """The probability of labels for the current sequence. Raises ValueError for a wrong number of labels."""
        chain = self._current
        numbers = [self._number(label_of(label, "yseq", t)) for t, label in enumerate(yseq)]
        if len(numbers) != len(chain.scores.unary):
            raise ValueError(f"yseq: expected {len(chain.scores.unary)} labels, got {len(numbers)}")
        return float(np.exp(chain.score(np.array(numbers, np.int64)) - chain.log_partition())) if numbers else 1.0

    def marginal(self, y: str, pos: int) -> float:
        """The probability of label y at a position of the current sequence. Raises ValueError for an unknown label, or
        for a position outside of the sequence.
        """
        if self._marginals is None:
            self._marginals = self.probabilities(self._current)
        if not 0 <= pos < len(self._marginals):
            raise ValueError(f"pos: expected 0 to {len(self._marginals) - 1}, got {pos}")
        return float(self._marginals[pos, self._number(y)])

    def info(self) -> ParsedDump:
        """The model by names."""
        model = self._opened
        labels, attributes = model.labels, model.attributes
        states = zip(model.states.tolist(), model.state_weights.tolist(), strict=True)
        moves = zip(model.transitions.tolist(), model.transition_weights.tolist(), strict=True)
        return ParsedDump(
            _header(bytes_of(model)),
            {name: str(i) for i, name in enumerate(labels)},
            {name: str(i) for i, name in enumerate(attributes)},
            {(labels[a], labels[b]): weight for (a, b), weight in moves},
            {(attributes[a], labels[b]): weight for (a, b), weight in states},
        )

    def dump(self, filename: str | Path | None = None) -> None:
        """Write the model as text, by default to standard output, in the form of crfsuite's command ``dump``."""
        dump = self.info()
        parts: dict[str, Iterable[str]] = {
            "FILEHEADER": (f"{name}: {value}" for name, value in dump.header.items()),
            "LABELS": (f"{number:>5}: {name}" for name, number in dump.labels.items()),
            "ATTRIBUTES": (f"{number:>5}: {name}" for name, number in dump.attributes.items()),
            "TRANSITIONS": (f"(1) {a} --> {b}: {weight:.6f}" for (a, b), weight in dump.transitions.items()),
            "STATE_FEATURES": (f"(0) {a} --> {b}: {weight:.6f}" for (a, b), weight in dump.state_features.items()),
        }
        text = "".join(
            f"{name} = {{\n" + "".join(f"  {row}\n" for row in rows) + "}\n\n" for name, rows in parts.items()
        )
        if filename is None:
            sys.stdout.write(text)
        else:
            Path(filename).write_text(text, encoding="utf-8")

    def chain(self, xseq: Any, name: str = "xseq") -> Chain:
        """The scores of a sequence's labels; ``name`` is that of the sequence in errors."""
        model, items = self._opened, items_of(xseq, name)
        L, n = len(model.labels), len(items)
        if not L:
            raise ValueError("this model has no labels")
        row, counts = self._rows.get, [len(item) for item in items]
        rows = np.array([row(feature, -1) for item in items for feature, _ in item], np.int64)
        values = np.array([value for item in items for _, value in item])
        kept = rows >= 0
        self.given += len(rows)
        self.unknown += len(rows) - int(np.count_nonzero(kept))
        if len(rows) and len(self._weights) and not np.any(kept) and not self._warned:
            self._warned = True
            example = next(feature for item in items for feature, _ in item)
            told = f"none of its {len(rows)} features has a weight in this model, such as {example!r:.80}"
            so_far = f"of the features of all sequences so far {self.unknown} of {self.given} have none"
            warnings.warn(f"{name}: {told}; {so_far}", UnknownFeatures, stacklevel=3)
        tokens, rows, values = np.repeat(np.arange(n), counts)[kept], rows[kept], values[kept]
        many = self._starts[rows + 1] - self._starts[rows]
        features = np.arange(many.sum()) + np.repeat(self._starts[rows] - np.cumsum(many) + many, many)
        cells = np.repeat(tokens, many) * L + self._targets[features]
        scores = np.bincount(cells, np.repeat(values, many) * self._weights[features], n * L)
        if not np.all(np.isfinite(scores)):
            position = int(np.flatnonzero(~np.isfinite(scores))[0]) // L
            raise example_error(name, position, "expected scores of at most 1.8e308 in size; its values are too large")
        return Chain(scores.reshape(n, L), self._pairwise)

    def tagged(self, X: Iterable[Any], name: Any) -> list[list[str]]:
        """The best labels of each sequence; ``name(i)`` is that of sequence i in errors."""
        return [self._best(self.chain(xseq, name(i))) for i, xseq in enumerate(X)]

    @staticmethod
    def probabilities(chain: Chain) -> np.ndarray:
        """(n, L): the probability of each label at each position."""
        marginals: np.ndarray = chain.expectation()[1].unary
        return marginals

    def _best(self, chain: Chain) -> list[str]:
        names = self._opened.labels
        return [names[k] for k in chain.best()[1].tolist()]

    def _load(self, model: CrfsuiteModel) -> None:
        L = len(model.labels)
        order = np.argsort(model.states[:, 0], kind="stable")
        self._rows = {name: row for row, name in enumerate(model.attributes)}
        self._starts = np.searchsorted(model.states[order, 0], np.arange(len(model.attributes) + 1))
        self._targets, self._weights = model.states[order, 1], model.state_weights[order]
        self._pairwise = np.zeros((L, L))
        self._pairwise[model.transitions[:, 0], model.transitions[:, 1]] = model.transition_weights
        self._numbers = {name: number for number, name in enumerate(model.labels)}
        self.close()
        self._model = model

    def _number(self, label: str) -> int:
        if label not in self._numbers:
            raise ValueError(f"y: expected a label among {', '.join(self._numbers):.200}, got {label!r:.80}")
        return self._numbers[label]

    @property
    def _opened(self) -> CrfsuiteModel:
        if self._model is None:
            raise ClosedTagger("this tagger has no model: open one first")
        return self._model

    @property
    def _current(self) -> Chain:
        if self._chain is None:
            raise ValueError(f"{'tag a sequence' if self._opened else ''} or set it first: there is no current one")
        return self._chain

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self._model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["model"])  # type: ignore[misc]


def _header(content: bytes) -> dict[str, str]:
    """The header of a model file, as crfsuite's ``dump`` names and writes it."""
    magic, size, kind, version, features, labels, attributes, *places = struct.unpack_from("<4sI4s9I", content)
    header = {"magic": magic.decode(), "size": size, "type": kind.decode(), "version": version}
    header |= {"num_features": features, "num_labels": labels, "num_attrs": attributes}
    names = ("features", "labels", "attrs", "labelrefs", "attrrefs")
    header |= {f"off_{name}": f"0x{place:X}" for name, place in zip(names, places, strict=True)}
    return {name: str(value) for name, value in header.items()}
