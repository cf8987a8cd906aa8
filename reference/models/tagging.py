"""Tagging sentences: a linear chain over attributes of tokens, named by strings, with weights for attribute-label
pairs.

The weights are a matrix of attributes and labels and a matrix of transitions, as in SequenceModel. A tagger may have
all of them, or only those of pairs that occur in training data; the others are 0 and are not parameters. Attributes of
a token and the one before it have weights for the labels of both. Label
sequences that are invalid in a scheme (BIO, IOBES, BILOU, ...) may be forbidden: labels that may not follow, begin or
end get a score of -inf. Sources: Pillutla et al., Example 5 and section 7.1.1; Lafferty et al. (2001).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from reference.arrays import Array, Rows, host
from reference.example_errors import ExampleError, listed
from reference.models.base import SomeWeights, integer, label_names
from reference.models.macros import has_transitions
from reference.models.partial import labels_in
from reference.models.rules import as_settings, rules_of
from reference.models.sequence import ChainData, SequenceModel
from reference.models.templates import hashes
from reference.models.token_templates import (
    Extractor,
    TokenAttributes,
    attributes_of,
    check_edge_templates,
    check_templates,
    edge_lines,
)
from reference.structures.chain import ChainScores

__all__ = ["TaggingModel"]


class TaggingModel(SomeWeights, SequenceModel):
    """A tagger; :meth:`of` makes one from training sentences.

    Parameters
    ----------
    labels : sequence of str
    templates : str, sequence of str, function or None
        "chunks", "entities", "words" (sets of the package), or templates such as
        ``["bias", "word[-2..2]", "word|tag"]`` (:mod:`reference.models.token_templates`); a function of a sentence and
        a position that gives a list of strings, or a dictionary from strings to numbers; None: sentences are lists of
        such lists or dictionaries, or mappings with such a list as the column ``items``.
    edge_templates : sequence of str, function or None
        Templates, or a function of a sentence and a position > 0, as ``templates``, for attributes of the pair of a
        token and the one before it. B lines with macros, and * lines of wapiti, in ``templates`` are such, too.
    vocabulary, edge_vocabulary : sequence of str, optional
        The attributes of tokens, and of pairs of neighbours, that have weights; others are ignored.
    bits : int, optional
        Instead of a vocabulary: attributes are hashed to 2^bits // L rows of L weights, those of pairs to 2^bits // L^2
        rows of L^2.
    pairs : sequence of int, optional
        The attribute-label pairs that have a weight, ``row * L + label``, sorted; None: all.
    label_pairs : sequence of int, optional
        The transitions that have a weight, ``label * L + next label``, sorted; None: all that are allowed, or none if
        the templates are lines of CRF++ or wapiti without a B line.
    edge_pairs : sequence of int, optional
        The weights of attributes of pairs, ``(row * L + label) * L + next label``, sorted; None: all that are allowed.
    transitions : {"bio", "iob1", "iobes", "bilou", "bmes", "bmewo"}, mapping or bool array (L, L), optional
        Forbid all label sequences that are invalid in this scheme (:mod:`reference.models.schemes`), or by rules of
        one's own (:mod:`reference.models.rules`): ``{"forbidden": [["B", "B"]], "start": ["B", "O"]}``, or a matrix
        that says whether label j may follow label i, perhaps with two vectors: which may begin and end a sequence.
    cost : array (L, L), optional
        Task loss of predicting label j for true label i; default: Hamming.
    max_cells : int
        As for SequenceModel.
    joiner : {":", "="}, optional
        What stands between the name and the value of an attribute whose value is a string. None, as in files of earlier
        versions: the one with which more attributes have weights, or "=" if they are equal.

    Attributes
    ----------
    labels : tuple of str
    size : int
        Number of weights: pairs, then transitions, then those of attributes of pairs of neighbours.
    width, n_edge_features : int
        Number of attributes of tokens and of pairs, or of rows that they are hashed to.

    Raises
    ------
    ValueError, TypeError
        Naming the argument.

    Notes
    -----
    There are no weights for starts and stops, because BOS and EOS are attributes. Hashing is the same in every process.

    Source
    ------
    Pillutla et al., Example 5 and section 7.1.1; Lafferty et al. (2001), equation (1).

    Examples
    --------
    >>> from reference import LogLoss, TaggingModel, lbfgs
    >>> X = [{"word": ["the", "duck", "swims"]}, {"word": ["a", "duck"]}]
    >>> Y = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"]]
    >>> model = TaggingModel.of(X, Y, ["bias", "word[-1..0]"], transitions="bio")
    >>> result = lbfgs(LogLoss(model, model.pack(X, Y)), lam=0.1)
    >>> data = model.pack([{"word": ["a", "duck", "swims"]}])
    >>> [[model.labels[i] for i in y] for y in model.predict(data, None, result.x)]
    [['B-NP', 'I-NP', 'O']]
    """

    joiner: str | None = None  # of pickles of earlier versions
    edge_templates: tuple[str, ...] | Extractor | None = None
    edge_vocabulary: tuple[str, ...] | None = None
    edge_pairs: np.ndarray | None = None

    def __init__(
        self,
        labels: int | Sequence[str],
        templates: str | Iterable[str] | Extractor | None = "chunks",
        *,
        edge_templates: str | Iterable[str] | Extractor | None = None,
        vocabulary: Sequence[str] | None = None,
        edge_vocabulary: Sequence[str] | None = None,
        bits: int | None = None,
        pairs: Sequence[int] | np.ndarray | None = None,
        label_pairs: Sequence[int] | np.ndarray | None = None,
        edge_pairs: Sequence[int] | np.ndarray | None = None,
        transitions: Any = None,
        cost: Any = None,
        max_cells: int = 8192,
        joiner: str | None = ":",
    ) -> None:
        names = label_names(labels)
        if joiner not in (None, ":", "="):
            raise ValueError(f"joiner: expected ':', '=' or None, got {joiner!r}")
        self.joiner = joiner
        self.templates = templates if templates is None or callable(templates) else check_templates(templates)
        if (vocabulary is None) == (bits is None):
            raise ValueError("vocabulary: expected either a vocabulary or bits")
        self.bits = None if bits is None else _checked_bits(bits, len(names))
        self.vocabulary = None if vocabulary is None else tuple(vocabulary)
        if len(self._index) < len(self.vocabulary or ()):
            raise ValueError("vocabulary: expected different attributes")
        width = 2**self.bits // len(names) if self.bits is not None else len(self.vocabulary or ())
        edges = self._observe(edge_templates, edge_vocabulary, len(names))
        super().__init__(width, names, n_edge_features=edges, cost=cost, start_stop=False, max_cells=max_cells)
        rules = follows, begins, ends = rules_of(self.labels, transitions)
        self.transitions = as_settings(self.labels, transitions, rules)
        self._forbidden = np.where(follows, 0.0, -np.inf), np.where(begins, 0.0, -np.inf), np.where(ends, 0.0, -np.inf)
        L = self.n_labels
        self.pairs = None if pairs is None else cells_of("pairs", pairs, self.width * L)
        if label_pairs is None:
            self.label_pairs = np.flatnonzero(follows & has_transitions(self.templates))
        else:
            self.label_pairs = cells_of("label_pairs", label_pairs, L * L)
        if edge_pairs is not None:
            self.edge_pairs = cells_of("edge_pairs", edge_pairs, edges * L**2)
        elif edges and not np.all(follows):
            self.edge_pairs = np.flatnonzero(np.broadcast_to(follows, (edges, L, L)))
        for name, given in (("label_pairs", self.label_pairs), ("edge_pairs", self.edge_pairs)):
            wrong: Any = () if given is None else given[~follows.reshape(-1)[given % L**2]]
            if len(wrong):
                a, b = divmod(int(wrong[0]) % L**2, L)
                raise ValueError(f"{name}: {self.labels[b]} after {self.labels[a]} is not allowed by {self._rules}")
        self.size = (self.width * L if self.pairs is None else len(self.pairs)) + len(self.label_pairs)
        self.size += edges * L**2 if self.edge_pairs is None else len(self.edge_pairs)

    def _observe(self, edge_templates: Any, edge_vocabulary: Sequence[str] | None, L: int) -> int:
        """Set what attributes of pairs of neighbours there are; their number, or that of rows of L^2 weights."""
        if edge_templates is not None:
            self.edge_templates = check_edge_templates(edge_templates)
        if edge_vocabulary is not None:
            self.edge_vocabulary = tuple(edge_vocabulary)
        observes = callable(self.edge_templates) or bool(edge_lines(self.templates, self.edge_templates))
        if (edge_vocabulary is not None) != (observes and self.bits is None):
            expected = "one, for edge_templates or B lines with macros" if edge_vocabulary is None else "none"
            raise ValueError(f"edge_vocabulary: expected {expected}")
        if len(self._edge_index) < len(self.edge_vocabulary or ()):
            raise ValueError("edge_vocabulary: expected different attributes")
        if not observes or self.bits is None:
            return len(self.edge_vocabulary or ())
        if 2**self.bits < L**2:
            raise ValueError(
                f"bits: expected 2^bits >= {L**2}, the number of pairs of labels, for edge_templates, got {self.bits}"
            )
        return int(2**self.bits // L**2)

    @classmethod
    def of(
        cls,
        X: Any,
        Y: Sequence[Sequence[str]],
        templates: str | Iterable[str] | Extractor | None = "chunks",
        *,
        edge_templates: str | Iterable[str] | Extractor | None = None,
        pairs: str = "observed",
        bits: int | None = None,
        least: int = 1,
        transitions: Any = None,
        cost: Any = None,
    ) -> Any:
        """A model with the labels, the attributes and the pairs of training sentences.

        Parameters
        ----------
        X, Y : sentences and their labels, names, as :meth:`pack` takes them
        templates, edge_templates, bits, transitions, cost
            As above; without bits, the vocabularies have the attributes that occur in X.
        pairs : {"observed", "all"}
            Weights for the attribute-label pairs and the transitions that occur in the data, with and without an
            attribute, or for all. Where labels are partly known, a set counts with each of its labels and None with
            none, and all transitions that are allowed have a weight.
        least : int >= 1
            A vocabulary has the attributes that occur at least ``least`` times.

        Returns
        -------
        TaggingModel
            Labels in alphabetical order.
        """
        check_choices(pairs, least, bits)
        Y = [listed(f"Y[{i}]", y) if not isinstance(y, str) else y for i, y in enumerate(listed("Y", Y))]
        labels = sorted({label for y in Y for label in labels_in(y)}, key=str)
        if not labels or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"Y: expected names of labels, got {labels}")
        given = templates if templates is None or callable(templates) else check_templates(templates)
        of_pairs = None if edge_templates is None else check_edge_templates(edge_templates)
        attributes = attributes_of(X, given, edge_templates=of_pairs)
        vocabulary = None
        if bits is None:
            vocabulary = frequent(attributes, least)
        settings: dict[str, Any] = {"vocabulary": vocabulary, "bits": bits, "transitions": transitions, "cost": cost}
        settings["edge_templates"] = of_pairs
        if bits is None and attributes.edges is not None:
            settings["edge_vocabulary"] = frequent(attributes.edges, least)
        model = cls(labels, given, **settings)
        if pairs == "all":
            return model
        data = model._packed(attributes, Y, None)
        following = model.label_pairs
        if data.allowed is None:
            following = model.observed_transitions(data) if has_transitions(given) else np.zeros(0, np.int64)
            settings["edge_pairs"] = model.observed_edges(data) if model.n_edge_features else None
        return cls(labels, given, pairs=model.observed(data), label_pairs=following, **settings)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON-able values, for model files. Raises TypeError if templates are a
        function.
        """
        if callable(self.templates):
            raise TypeError(
                "templates: a function cannot be saved; make a model with templates=None of what it returns, and save "
                "that"
            )
        if callable(self.edge_templates):
            raise TypeError("edge_templates: a function cannot be saved; expected a list of templates")
        edges = self.n_edge_features or self.edge_vocabulary is not None
        return {name: x for name, x in super().settings().items() if edges or not name.startswith("edge_")}

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> ChainData:
        """Sentences and their labels, checked and laid out flat.

        Parameters
        ----------
        X : sequence of n sentences
            With a list of templates, mappings from columns to sequences of n_i strings; with None, sequences of n_i
            lists of strings or dictionaries from strings to numbers; with a function, its arguments. Or their
            TokenAttributes.
        Y : sequence of n label sequences, optional
            Each (n_i,) names or indices, sets of them, or None where no label is known.
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.

        Returns
        -------
        ChainData

        Raises
        ------
        ValueError, TypeError
            Naming the sentence, for columns or labels of wrong lengths, and for labels that ``transitions`` forbids.

        Warns
        -----
        UserWarning
            With an example, if no attribute of X has weights, or none of those whose value is a string.
        """
        X = X if isinstance(X, Sequence) else list(X)  # it is iterated over twice
        attributes = self._attributes(X)
        if not isinstance(X, TokenAttributes) and not isinstance(self.templates, tuple):
            self._warn_of_unknown(X, attributes)
        return self._packed(attributes, Y, like)

    def _attributes(self, X: Any) -> TokenAttributes:
        if self.joiner is not None or isinstance(self.templates, tuple) or isinstance(X, TokenAttributes):
            return attributes_of(X, self.templates, self.joiner or ":", self.edge_templates)
        return max((attributes_of(X, self.templates, joiner, self.edge_templates) for joiner in "=:"), key=self._known)

    def _known(self, attributes: TokenAttributes) -> int:
        """How many attributes of tokens have weights."""
        has_weights = np.append(np.ones(self.width, bool), False)  # the last: row -1, no weights
        if self.pairs is not None:
            has_weights[:-1] = np.bincount(self.pairs // self.n_labels, minlength=self.width) > 0
        rows = np.array(self._rows_of(attributes.names), np.int64)
        return int(np.count_nonzero(has_weights[rows[attributes.numbers]]))

    def _warn_of_unknown(self, X: Any, attributes: TokenAttributes) -> None:
        if not (len(attributes.numbers) and self.width and (self.pairs is None or len(self.pairs))):
            return
        if not self._known(attributes):
            first = attributes.names[attributes.numbers[0]]
            warnings.warn(f"X: none of its attributes has weights, such as {first!r:.80}", stacklevel=3)
        elif self.vocabulary is not None and self.templates is None:
            for key, value in _with_strings(X):
                begins = tuple(f"{key}{joiner}" for joiner in {":", self.joiner or "="})
                if not any(name.startswith(begins) for name in self.vocabulary):
                    example = f"{key!r}: {value!r}"
                    warnings.warn(f"X: no value of {key!r:.80} has weights, such as {example:.80}", stacklevel=3)
                    return

    def _packed(self, attributes: TokenAttributes, Y: Any, like: Array | None) -> ChainData:
        data = super().pack(attributes, Y, like=like)
        if data.labels is not None and self.transitions is not None:
            self._check_labels(self._true(data), data.offsets)
        return data

    def _positions(self, X: Any) -> tuple[Rows, np.ndarray]:
        """The rows of tokens from their attributes, with the numbers of those that have a weight."""
        return numbered(X, self._rows_of(X.names), self.width), X.offsets

    def _edges(self, X: Any) -> tuple[Any, Rows]:
        if X.edges is None:
            raise ValueError("X: expected sentences, or attributes with those of pairs, which edge_templates describe")
        names = X.edges.names
        if self.bits is not None:
            return X, numbered(X.edges, hashes(names) % np.uint64(self.n_edge_features), self.n_edge_features)
        return X, numbered(X.edges, [self._edge_index.get(name, -1) for name in names], self.n_edge_features)

    def _rows_of(self, names: list[str]) -> Any:
        """The row of each attribute, or -1."""
        if self.bits is not None:
            return (hashes(names) % np.uint64(self.width)).astype(np.int64)
        return [self._index.get(name, -1) for name in names]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.vocabulary or ())}

    @cached_property
    def _edge_index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.edge_vocabulary or ())}

    def _true(self, data: ChainData) -> np.ndarray:
        return host(self.true_labels(data))

    def _check_labels(self, labels: np.ndarray, offsets: np.ndarray) -> None:
        """Raise ValueError at the first label sequence that is invalid in the scheme."""
        follows, begins, ends = (mask == 0.0 for mask in self._forbidden)
        for i, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            y = labels[a:b]
            if a == b or (begins[y[0]] and ends[y[-1]] and np.all(follows[y[:-1], y[1:]])):
                continue
            wrong = np.flatnonzero(~np.concatenate([[begins[y[0]]], follows[y[:-1], y[1:]], [ends[y[-1]]]]))[0]
            before = "the start" if wrong == 0 else self.labels[y[wrong - 1]]
            after = "the end" if wrong == len(y) else self.labels[y[wrong]]
            problem = f"{after} after {before}, at token {wrong}, is not allowed by {self._rules}"
            raise ExampleError("Y", i, min(int(wrong), len(y) - 1), problem)

    def _check_allowed(self, argument: str, allowed: np.ndarray, offsets: np.ndarray) -> None:
        """Raise an ExampleError at the first sentence, and its first token, where the scheme leaves no labels."""
        if self.transitions is None:
            return
        follows, begins, ends = (mask == 0.0 for mask in self._forbidden)
        lengths, left = np.diff(offsets), np.zeros((len(offsets) - 1, self.n_labels), bool)
        wrong: dict[int, int] = {}
        for t in range(int(lengths.max(initial=0))):
            here = np.flatnonzero(lengths > t)
            left[here] = allowed[offsets[here] + t] & (left[here] @ follows if t else begins)
            left[here] &= ends | (lengths[here] > t + 1)[:, None]
            wrong |= {i: t for i in here[~np.any(left[here], axis=1)].tolist() if i not in wrong}
        for i, t in sorted(wrong.items())[:1]:
            names = ", ".join(self.labels[k] for k in np.flatnonzero(allowed[offsets[i] + t]))
            problem = f"no labelling up to here is possible by {self._rules} with one of {names}"
            raise ExampleError(argument, i, t, problem)

    def observed(self, data: ChainData) -> np.ndarray:
        """The attribute-label pairs (m,) that occur in packed data with labels, for
        ``TaggingModel(..., pairs=...)``; of partly known labels those of sets, not of None.
        """
        seen = np.zeros(self.width * self.n_labels, dtype=bool)
        if data.allowed is not None:
            allowed = host(data.allowed)
            position = np.repeat(np.arange(data.rows.n), np.diff(data.rows.indptr))
            for label, some in enumerate((allowed & ~np.all(allowed, axis=1)[:, None]).T):
                seen[host(data.rows.indices)[some[position]] * self.n_labels + label] = True
            return np.flatnonzero(seen)
        labels = np.repeat(self._true(data), np.diff(data.rows.indptr))
        seen[host(data.rows.indices) * self.n_labels + labels] = True
        return np.flatnonzero(seen)

    def observed_transitions(self, data: ChainData) -> np.ndarray:
        """The transitions (k,) that occur in packed data with labels, for ``TaggingModel(..., label_pairs=...)``."""
        labels = self._true(data)
        inside = np.ones(len(labels), dtype=bool)
        inside[data.offsets[:-1][data.offsets[:-1] < len(labels)]] = False
        later = np.flatnonzero(inside)
        return np.unique(labels[later - 1] * self.n_labels + labels[later])

    def observed_edges(self, data: ChainData) -> np.ndarray:
        """The attributes of pairs with their labels (k,) that occur in packed data, for
        ``TaggingModel(..., edge_pairs=...)``.
        """
        if data.edges is None:
            return np.zeros(0, np.int64)
        labels, L = self._true(data), self.n_labels
        pairs = np.concatenate([[0], labels[:-1] * L + labels[1:]])[: len(labels)]  # the first occurs in no row
        return np.unique(host(data.edges.indices) * L**2 + np.repeat(pairs, np.diff(data.edges.indptr)))

    @property
    def _rules(self) -> str:
        """What forbids labels, as errors name it."""
        return f"transitions={self.transitions!r}" if isinstance(self.transitions, str) else "the rules of transitions"

    @property
    def restricted(self) -> bool:
        """Whether some pairs or transitions have no weight, or are forbidden."""
        if self.edge_pairs is not None:
            return True
        return self.pairs is not None or len(self.label_pairs) < self.n_labels**2 or self.transitions is not None

    # scores -----------------------------------------------------------------------------------------------------------

    def scores(self, data: ChainData, batch: np.ndarray, w: Array) -> ChainScores:
        """As SequenceModel's, with -inf for what the scheme forbids."""
        scores = super().scores(data, batch, w)
        if self.transitions is None:
            return scores
        place, lengths = data.rows.place, data.lengths[batch]
        follows, begins, ends = self._forbidden
        mask = np.zeros(tuple(scores.unary.shape))
        if len(full := np.flatnonzero(lengths)):
            mask[full, 0] += begins
            mask[full, lengths[full] - 1] += ends
        return ChainScores(scores.unary + place.floats(mask), scores.pairwise + place.floats(follows), scores.lengths)

    def pushforward(self, data: ChainData, batch: np.ndarray, w: Array, dw: Array) -> ChainScores:
        """The scores at dw (d,), without the -inf of forbidden labels."""
        return super().scores(data, batch, dw)

    def edge_weights(self, w: Array) -> Array:
        """As SequenceModel's, 0 for those without a weight."""
        return super().edge_weights(self._whole(w))

    def counts(self, data: ChainData) -> list[int]:
        """The number of allowed label sequences of each sentence."""
        if self.transitions is None:
            return super().counts(data)
        follows = data.rows.place.floats(self._forbidden[0])
        each = (self.scores(data, np.array([i]), self.zeros(data)).unary for i in range(data.n))
        return [self.structure_type.unchecked(ChainScores(unary[0, ...], follows)).count() for unary in each]

    @cached_property
    def cells(self) -> np.ndarray:
        """(d,): the position of each weight in the matrix of attributes and labels, in C order, followed by that of
        transitions, and by those of attributes of pairs.
        """
        whole, L = self.width * self.n_labels, self.n_labels
        pairs = np.arange(whole) if self.pairs is None else self.pairs
        edges = np.arange(self.n_edge_features * L**2) if self.edge_pairs is None else self.edge_pairs
        return np.concatenate([pairs, whole + self.label_pairs, whole + L**2 + edges])

    @property
    def whole_size(self) -> int:
        """The number of weights of a SequenceModel."""
        return int((self.width + (1 + self.n_edge_features) * self.n_labels) * self.n_labels)

    @property
    def token_labels(self) -> tuple[str, ...]:
        """The labels that :meth:`named` gives tokens."""
        return self.labels

    def named(self, y: Any) -> list[str]:
        """The names (n,) of predicted labels (n,)."""
        return [self.labels[k] for k in y]

    def probabilities(self, marginals: ChainScores, i: int, y: Any) -> list[float]:
        """Those (n,) of the labels y (n,) by the marginals of a piece, of its example i."""
        return [float(marginals.unary[i, t, k]) for t, k in enumerate(y)]


def numbered(attributes: TokenAttributes, row: Any, width: int) -> Rows:
    """The rows of tokens, of the attributes whose ``row`` is not -1."""
    columns = np.array(row, np.int64)[attributes.numbers]
    kept = columns >= 0
    if np.all(kept):  # as in training
        return Rows.unchecked(attributes.indptr[:], columns, attributes.values[:], width)
    indptr = np.concatenate([[0], np.cumsum(kept)])[attributes.indptr].astype(np.int64)
    return Rows.unchecked(indptr, columns[kept], attributes.values[kept], width)


def frequent(attributes: TokenAttributes, least: int) -> list[str]:
    """The names of attributes that occur at least ``least`` times."""
    times = np.bincount(attributes.numbers, minlength=len(attributes.names))
    return [attributes.names[i] for i in np.flatnonzero(times >= least).tolist()]


def _with_strings(X: Any) -> Iterator[tuple[str, Any]]:
    """The attributes whose values are strings, or mappings or lists of strings, each once with its first value."""
    seen: set[str] = set()
    for position in (position for x in X for position in x if isinstance(position, Mapping)):
        for key, value in position.items():
            if key not in seen and value and isinstance(value, str | Mapping | list | tuple | set | frozenset):
                seen.add(key)
                yield key, value


def check_choices(pairs: str, least: int, bits: int | None = None) -> None:
    """Raise ValueError unless these are options of :meth:`TaggingModel.of`, and if ``least`` has no effect: hashed
    attributes have no vocabulary.
    """
    if pairs not in ("observed", "all"):
        raise ValueError(f"pairs: expected observed or all, got {pairs!r}")
    integer("least", least, 1)
    if bits is not None and least != 1:
        raise ValueError(f"least: has no effect with bits, which keep no vocabulary; expected 1, got {least}")


def _checked_bits(bits: int, n_labels: int) -> int:
    integer("bits", bits, 1)
    if bits > 30 or 2**bits < n_labels:
        raise ValueError(f"bits: expected at most 30, and 2^bits >= {n_labels}, the number of labels, got {bits}")
    return bits


def cells_of(name: str, given: Any, size: int) -> np.ndarray:
    cells = host(given, name)
    if cells.ndim != 1 or (cells.size and cells.dtype.kind not in "iu"):
        raise TypeError(f"{name}: expected integers of shape (m,), got {cells.dtype} of shape {cells.shape}")
    cells = cells.astype(np.int64)
    if cells.size and not (cells[0] >= 0 and cells[-1] < size and np.all(np.diff(cells) > 0)):
        raise ValueError(f"{name}: expected different numbers in 0..{size - 1}, in order")
    return cells
