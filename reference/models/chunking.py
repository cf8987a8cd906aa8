"""Chunking sentences: segments of tokens with a type, by attributes of tokens and features of whole segments.

A chunk of up to W tokens is a segment with its type as label; a token outside of all chunks is a segment of one token
with the label O. Attributes of tokens are those of a TaggingModel, and have weights for the sum over a segment, for its
first and for its last token; templates of segments (:mod:`reference.models.segment_templates`) describe what a token
cannot see: its words together, its length, both its neighbours. Source: Sarawagi and Cohen (2004).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from reference.arrays import Array, Rows, host
from reference.example_errors import ExampleError, each_example, listed
from reference.models.base import SomeWeights, integer
from reference.models.macros import line_of
from reference.models.schemes import SCHEMES, Chunk, canonical, chunks_of, written
from reference.models.segment_templates import (
    SEGMENT_TEMPLATES,
    check_segment_templates,
    segment_columns,
    segment_names,
    segment_rows,
)
from reference.models.segments import SegmentData, SegmentModel
from reference.models.tagging import cells_of, check_choices, frequent, numbered
from reference.models.token_templates import attributes_of, check_templates, columns_of, columns_of_sentence
from reference.structures.segment_oracles import SegmentScores

__all__ = ["ChunkingModel"]

OUTSIDE = "O"


class ChunkingModel(SomeWeights, SegmentModel):
    """A chunker; :meth:`of` makes one from training sentences.

    Parameters
    ----------
    labels : sequence of str
        Types of chunks, and "O" for tokens outside.
    longest : int
        The most tokens of a chunk.
    templates : str or sequence of str
        As for TaggingModel: a name of a set, or a list.
    segment_templates : sequence of str
        Such as ``["%s[word]", "%b[-1,word]/%e[1,word]"]``.
    vocabulary, segment_vocabulary : sequence of str
        The attributes of tokens, and the features of segments, that have weights; others are ignored.
    pairs : sequence of int, optional
        The weights of features and labels that the model has, ``row * L + label``, sorted; None: all. Rows are those of
        the matrix in :mod:`reference.models.segments`. All lengths and all transitions have weights.
    scheme : {"bio", "iob1", "iobes", "bilou", "bmes", "bmewo"}
        How :meth:`named` writes labels.
    cost, max_cells
        As for SegmentModel.

    Attributes
    ----------
    labels : tuple of str
    size : int
        Number of weights: pairs, then L^2 transitions.

    Raises
    ------
    ValueError, TypeError
        Naming the argument.

    Source
    ------
    Sarawagi and Cohen (2004), "Semi-Markov conditional random fields for information extraction", sections 2 and 3.

    Examples
    --------
    >>> from reference import ChunkingModel, LogLoss, lbfgs
    >>> X = [{"word": ["the", "old", "duck", "swims"]}, {"word": ["a", "duck"]}]
    >>> Y = [["B-NP", "I-NP", "I-NP", "O"], ["B-NP", "I-NP"]]
    >>> model = ChunkingModel.of(X, Y, ["bias", "word"], longest=3)
    >>> w = lbfgs(LogLoss(model, model.pack(X, Y)), lam=0.1).x
    >>> [model.named(y) for y in model.predict(model.pack([{"word": ["a", "duck", "swims"]}]), None, w)]
    [['B-NP', 'I-NP', 'O']]
    """

    def __init__(
        self,
        labels: Sequence[str],
        longest: int,
        templates: str | Iterable[str] = "chunks",
        *,
        segment_templates: Iterable[str] = (),
        vocabulary: Sequence[str] = (),
        segment_vocabulary: Sequence[str] = (),
        pairs: Sequence[int] | np.ndarray | None = None,
        scheme: str = "bio",
        cost: Any = None,
        max_cells: int = 8192,
    ) -> None:
        self.templates = check_templates(templates)
        for template in self.templates:
            if (line := line_of(template)) is not None and line.pairs:
                raise ValueError(f"templates: segments have no attributes of pairs of tokens, got {template!r:.80}")
        self.segment_templates = check_segment_templates(segment_templates)
        self.vocabulary, self.segment_vocabulary = tuple(vocabulary), tuple(segment_vocabulary)
        for name in ("vocabulary", "segment_vocabulary"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name}: expected different names")
        self.scheme, most = canonical("scheme", str(scheme)), integer("longest", longest, 1)
        each, F, G = [1 if x == OUTSIDE else most for x in labels], len(self.vocabulary), len(self.segment_vocabulary)
        super().__init__(F, labels, each, n_segment_features=G, cost=cost, max_cells=max_cells)
        self.most, self.whole_size = most, self.size  # of a SegmentModel
        self.pairs = None if pairs is None else cells_of("pairs", pairs, self.width * self.n_labels)
        if self.pairs is not None:
            self.size = len(self.pairs) + self.n_labels**2

    @classmethod
    def of(
        cls,
        X: Any,
        Y: Sequence[Sequence[str]],
        templates: str | Iterable[str] = "chunks",
        *,
        longest: int,
        segment_templates: Iterable[str] | None = None,
        pairs: str = "observed",
        least: int = 1,
        cost: Any = None,
    ) -> Any:
        """A model with the types, the attributes and the pairs of training sentences.

        Parameters
        ----------
        X, Y : sentences, and their labels of a scheme, as :meth:`pack` takes them
        templates, longest, cost
            As above.
        segment_templates : sequence of str, optional
            Default: those of SEGMENT_TEMPLATES whose columns the templates of tokens look at.
        pairs : {"observed", "all"}
            Weights for the features that occur in true segments with their labels, or for all with all labels. In
            neither are there features of segments that occur in no true one. Those that occur leave out first and last
            tokens with O, whose segments are single tokens.
        least : int >= 1
            Only attributes and features that occur at least ``least`` times, features of segments in true ones.

        Raises
        ------
        ValueError
            Also for a chunk of more than ``longest`` tokens; the message says how many the longest has.
        """
        check_choices(pairs, least)
        X = X if isinstance(X, Sequence) else list(X)
        given = check_templates(templates)
        if segment_templates is None:
            columns = set(columns_of(given))
            segment_templates = [each for each in SEGMENT_TEMPLATES if set(segment_columns([each])) <= columns]
        of_segments = check_segment_templates(segment_templates)
        Y = [listed(f"Y[{i}]", y) for i, y in enumerate(listed("Y", Y))]
        every = [chunks_of(y, None, "Y", i) for i, y in enumerate(Y)]
        _check_longest(every, longest)
        labels = sorted({chunk.type for chunks in every for chunk in chunks})
        if OUTSIDE in labels:
            raise ValueError(f"Y: {OUTSIDE} stands for tokens outside of chunks, got chunks of the type {OUTSIDE}")
        labels += [OUTSIDE] * any(_outside(y) for y in Y)
        settings: dict[str, Any] = {"segment_templates": of_segments, "cost": cost, "scheme": _scheme_of(Y, every)}
        settings["vocabulary"] = frequent(attributes_of(X, given), least)
        settings["segment_vocabulary"] = _true_features(X, Y, every, of_segments, least)
        model = cls(labels, longest, given, **settings)
        if pairs == "all":
            return model
        return cls(labels, longest, given, pairs=model.observed(model.pack(X, Y)), **settings)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON-able values, for model files."""
        return super().settings() | {"longest": self.most}

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> SegmentData:
        """Sentences and their chunks, checked and laid out flat.

        Parameters
        ----------
        X : sequence of n sentences
            Mappings from columns to sequences of n_i strings.
        Y : sequence of n label sequences, optional
            Each (n_i,) labels of any scheme, such as B-NP, I-NP and O, or rows (start, w, label) as in SegmentModel.
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.

        Raises
        ------
        ValueError, TypeError
            Naming the sentence, for columns or labels of wrong lengths, labels that mark no chunk, types without
            weights, chunks that are too long.
        """
        X = X if isinstance(X, Sequence) else list(X)
        attributes = attributes_of(X, self.templates)
        index, of_segments = self._indices
        rows = numbered(attributes, [index.get(name, -1) for name in attributes.names], self.n_features)
        each, lengths = _columns(X, self.segment_templates), np.diff(attributes.offsets)
        indptr, numbers = segment_rows(each, lengths, self.segment_templates, self.n_widths, of_segments)
        segments = Rows.unchecked(indptr, numbers, np.broadcast_to(1.0, numbers.shape), self.n_segment_features)
        if Y is not None:
            Y = [self._rows(i, listed(f"Y[{i}]", y)) for i, y in enumerate(listed("Y", Y))]
        return self._data(rows, segments, attributes.offsets, Y, like)

    def _rows(self, i: int, y: Any) -> Any:
        """Labels of tokens as segments; rows as they are."""
        if not all(isinstance(label, str) for label in y):
            return y
        chunks = [(first, last - first, kind) for kind, first, last in chunks_of(y, None, "Y", i)]
        rows = sorted(chunks + [(t, 0, OUTSIDE) for t in _outside(y)])
        for start, w, kind in rows:
            if kind not in self.labels:
                raise ExampleError("Y", i, start, f"unknown type {kind!r}; the model knows {', '.join(self.labels)}")
            if w >= self.longest[self.labels.index(kind)]:
                raise ExampleError("Y", i, start, too_long(w + 1, self.most))
        return rows

    @property
    def token_labels(self) -> tuple[str, ...]:
        """The labels that :meth:`named` gives tokens."""
        kinds, marks = [kind for kind in self.labels if kind != OUTSIDE], sorted({*SCHEMES[self.scheme]})
        return (OUTSIDE, *(f"{mark}-{kind}" if kind else mark for kind in kinds for mark in marks))

    def named(self, y: Any) -> list[str]:
        """The labels (n,) of the tokens of a sentence, in the model's scheme, from segments (m, 3)."""
        every = [Chunk(self.labels[k], start, start + w) for start, w, k in host(y).tolist()]
        chunks = (chunk for chunk in every if chunk.type != OUTSIDE)
        return written(chunks, [OUTSIDE] * sum(chunk.last - chunk.first + 1 for chunk in every), self.scheme)

    def probabilities(self, marginals: SegmentScores, i: int, y: Any) -> list[float]:
        """For each token (n,) that of its segment in y (m, 3), by the marginals of a piece, of its example i."""
        return [float(marginals.segments[i, s, w, k]) for s, w, k in y.tolist() for _ in range(w + 1)]

    # weights ----------------------------------------------------------------------------------------------------------

    def observed(self, data: SegmentData) -> np.ndarray:
        """The weights of features and labels (m,) that packed true segments have, for ``ChunkingModel(...,
        pairs=...)``, and those of all lengths.
        """
        labels, widths = host(self.true_labels(data)), np.asarray(data.widths)
        first = np.flatnonzero(widths >= 0)
        longer = first[self.longest[labels[first]] > 1]
        parts = (
            (data.rows, np.arange(data.rows.n), labels),
            (data.rows, longer, labels[longer]),
            (data.rows, longer + widths[longer], labels[longer]),
            (data.segments, first * self.n_widths + widths[first], labels[first]),
        )
        seen = np.zeros((self.width, self.n_labels), bool)
        for k, (rows, places, label) in enumerate(parts):
            some = rows.take(places)
            seen[k * self.n_features + host(some.indices), np.repeat(label, np.diff(some.indptr))] = True
        seen[self.width - self.n_widths :] = self._forbidden == 0.0
        return np.flatnonzero(seen)

    @cached_property
    def cells(self) -> np.ndarray:
        """(d,): the position of each weight in the matrix of rows and labels, in C order, followed by that of
        transitions.
        """
        whole, L = self.width * self.n_labels, self.n_labels
        return np.concatenate([np.arange(whole) if self.pairs is None else self.pairs, whole + np.arange(L * L)])

    @cached_property
    def _indices(self) -> list[dict[str, int]]:
        """The numbers of the attributes of tokens, and of the features of segments."""
        return [{name: i for i, name in enumerate(each)} for each in (self.vocabulary, self.segment_vocabulary)]


def _outside(y: Sequence[str]) -> list[int]:
    """The tokens outside of all chunks."""
    return [t for t, label in enumerate(y) if label.upper() == OUTSIDE]


def too_long(tokens: int, longest: int) -> str:
    """The message about a chunk of more tokens than segments may have."""
    return f"a chunk of {tokens} tokens; longest (--segments) is {longest}, and {tokens} takes it"


def _check_longest(every: list[list[Chunk]], longest: int) -> None:
    """Raise an ExampleError at the longest of all chunks if it is too long."""
    integer("longest", longest, 1)
    lengths = [(c.last - c.first + 1, -i, -c.first) for i, chunks in enumerate(every) for c in chunks]
    most, i, first = max(lengths, default=(0, 0, 0))
    if most > longest:
        count = sum(n > longest for n, *_ in lengths)
        problem = f"{too_long(most, longest)} and all others ({count} of {len(lengths)} chunks are longer)"
        raise ExampleError("Y", -i, -first, problem)


def _scheme_of(Y: Sequence[Sequence[str]], every: list[list[Chunk]]) -> str:
    """The first scheme in which the chunks are written as the labels are, else bio."""

    def agrees(scheme: str) -> bool:
        both = ((y, written(chunks, y, scheme)) for y, chunks in zip(Y, every, strict=True))
        return all(a[0].upper() == b[0].upper() for y, z in both for a, b in zip(y, z, strict=True))

    return next((scheme for scheme in SCHEMES if agrees(scheme)), "bio")


def _true_features(X: Any, Y: Any, every: list[list[Chunk]], templates: Sequence[str], least: int) -> list[str]:
    """The features of true segments that occur at least ``least`` times, in order of first occurrence."""
    times: Counter[str] = Counter()
    for x, y, chunks in zip(_columns(X, templates), Y, every, strict=True):
        spans = [*((chunk.first, chunk.last + 1) for chunk in chunks), *((t, t + 1) for t in _outside(y))]
        for template in templates:
            times.update(segment_names(template, x, len(y), spans))
    return [name for name, count in times.items() if count >= least]


def _columns(X: Any, templates: Sequence[str]) -> Any:
    """The columns of each sentence that templates of segments look at."""
    columns = segment_columns(templates)
    return each_example("X", X, lambda name, x: columns_of_sentence(name, x, columns)) if columns else X
