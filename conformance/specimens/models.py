"""Models: small problems of each with every output written out, larger ones to train on, and what a model promises.

A problem knows its joint features phi(x, y) and task losses by their definitions, without the model: scores are
phi(x, y)' w, and every law of a model and of its losses is held against the list of all outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

import reference
from conformance.application.test_chunks import written
from conformance.listed_crf import ListedCRF
from conformance.specimens.outputs import OUTPUTS, crosses
from conformance.specimens.scores import forest
from diptych.chunks import chunks
from reference.models.tagging import attributes_of
from reference.models.templates import hashes


@dataclass
class Problem:
    """Inputs X and true outputs Y that ``make(backend)`` packs.

    outputs(i) lists all outputs of example i as ``predict`` gives them, phi(i, y) (d,) and loss(i, y) are their joint
    features and task losses. label(i, y) is the output as the structure reads it, truth(i, y) as ``pack`` takes it,
    best(i) the true output as ``predict`` gives it, if Y has it in another form.
    """

    make: Callable[[Any], Any]
    X: Any
    Y: Any
    outputs: Callable[[int], list[Any]]
    phi: Callable[[int, Any], np.ndarray]
    loss: Callable[[int, Any], float]
    label: Callable[[int, Any], Any] = lambda i, y: np.array(y, np.int64)
    truth: Callable[[int, Any], Any] = lambda i, y: y
    best: Callable[[int], Any] | None = None

    def packed(self, backend: Any, like: Any = None, outputs: bool = True) -> tuple[Any, Any]:
        """The model and its data."""
        model = self.make(backend)
        return model, model.pack(self.X, self.Y if outputs else None, like=like)

    def weights(self, backend: Any, seed: int = 0, count: int = 1) -> Any:
        """Normal weights (d,), or several; those >= 0 that must be."""
        model = self.make(backend)
        w = np.random.default_rng(seed).normal(size=(count, model.size))
        if model.nonnegative is not None:
            w[:, model.nonnegative] = np.abs(w[:, model.nonnegative])
        return w[0] if count == 1 else w

    def gold(self, i: int) -> int:
        """The number of the true output of example i among the listed."""
        y = self.Y[i] if self.best is None else self.best(i)
        return [tuple(np.ravel(z)) for z in self.outputs(i)].index(tuple(np.ravel(y)))

    def partly(self, rng: np.random.Generator) -> tuple[list[list[Any]], list[np.ndarray]]:
        """Of labellings: Y with sets of labels and None, the true labels among them, and for each example which of the
        listed outputs are allowed (m,).
        """
        names, Y, kept = self.make(reference).labels, [], []
        for outputs, *_, gold in self.listed:
            allowed = rng.random((len(outputs[gold]), len(names))) < rng.choice([0.1, 0.5, 0.9])
            allowed[rng.random(len(allowed)) < 0.3] = True
            allowed[np.arange(len(allowed)), np.array(outputs[gold], np.int64)] = True
            sets = [{names[k] for k in np.flatnonzero(row)} for row in allowed]
            Y.append(
                [None if len(x) == len(names) else x if len(x) > 1 or rng.random() < 0.5 else x.pop() for x in sets]
            )
            kept.append(np.array([all(row[k] for row, k in zip(allowed, y, strict=True)) for y in outputs]))
        return Y, kept

    @cached_property
    def listed(self) -> list[Listed]:
        """Every output of every example."""
        return [
            Listed(
                outputs := self.outputs(i),
                np.array([self.phi(i, y) for y in outputs], np.float64),
                np.array([self.loss(i, y) for y in outputs], np.float64),
                self.gold(i),
            )
            for i in range(len(self.Y))
        ]

    def crf(self, alpha: float, beta: float) -> ListedCRF:
        """The elastic-net CRF of the problem."""
        A = [(each.phi[each.gold] - each.phi).T for each in self.listed]
        return ListedCRF(A, [each.gold for each in self.listed], alpha, beta)


class Listed(NamedTuple):
    """All m outputs of an example, their joint features (m, d), task losses (m,), and the number of the true one."""

    outputs: list[Any]
    phi: np.ndarray
    loss: np.ndarray
    gold: int


class Model(NamedTuple):
    """build(rng, number, n, largest): n examples of at most ``largest`` positions, features drawn by ``number``.

    sums: it has expectations, so the log loss and entropies.
    """

    build: Callable[..., Problem]
    sums: bool = True

    def draw(self, seed: int, ties: bool = False) -> Problem:
        """One to four examples that can be enumerated: ties and zeros (or small integers, whose sums are exact),
        examples without positions.
        """
        rng = np.random.default_rng(seed)
        style = rng.integers(3)

        def number(*shape: int) -> np.ndarray:
            if ties or style == 0:
                return rng.integers(-1, 2, shape).astype(np.float64)
            return rng.normal(size=shape) * (rng.integers(0, 2, shape) if style == 1 else 1.0)

        return self.build(rng, number, int(rng.integers(1, 5)), 3)

    def training(self, n: int = 7, largest: int = 6, seed: int = 0, ties: bool = False) -> Problem:
        """Examples of real features, which do not tie, or of small integers, whose sums are exact."""
        rng = np.random.default_rng(seed)
        number = lambda *shape: rng.integers(-1, 2, shape) * 1.0 if ties else rng.normal(size=shape)  # noqa: E731
        return self.build(rng, number, n, largest)


def _sizes(rng: np.random.Generator, n: int, largest: int) -> list[int]:
    """Numbers of positions, 0 among them, at least one of them not."""
    sizes = rng.integers(0, largest + 1, n)
    sizes[rng.integers(n)] = rng.integers(1, largest + 1)
    return sizes.tolist()


def _cost(rng: np.random.Generator, L: int) -> np.ndarray | None:
    """Task losses (L, L) of integers, or None: Hamming's."""
    return rng.integers(0, 4, (L, L)) * (1.0 - np.eye(L)) if rng.random() < 0.5 else None


def _labellings(L: int, Y: list[Any], cost: np.ndarray | None) -> tuple[Any, Any]:
    """The outputs of examples of L labels a position, and their losses."""
    table = 1.0 - np.eye(L) if cost is None else cost
    return (
        lambda i: list(itertools.product(range(L), repeat=len(Y[i]))),
        lambda i, z: sum(table[a, b] for a, b in zip(Y[i], z, strict=True)),
    )


def _sequences(rng, number, n, largest):
    L, F, start_stop = int(rng.integers(1, 4)), int(rng.integers(0, 3)), bool(rng.integers(2))
    if largest > 4:
        L, F = 3, 3
    sizes, cost = _sizes(rng, n, largest), _cost(rng, L)
    options = {"start_stop": start_stop, "cost": cost, "max_cells": int(rng.choice([1, 3, 8192]))}
    return labellings([number(m, F) for m in sizes], [rng.integers(0, L, m) for m in sizes], F, L, **options)


def _pairs_of_neighbours(rng, number, n, largest):
    """Sequences with features of pairs."""
    one = _sequences(rng, number, n, largest)
    E = int(rng.integers(1, 3))
    edges = [number(max(len(x) - 1, 0), E) for x in one.X]
    model = one.make(reference)
    L, options = model.n_labels, {"start_stop": model.start_stop, "cost": model.cost, "max_cells": model.max_cells}

    def phi(i, y):
        pairs = np.zeros((E, L, L))
        for t in range(1, len(y)):
            pairs[:, y[t - 1], y[t]] += edges[i][t - 1]
        return np.concatenate([one.phi(i, y), pairs.ravel()])

    make = lambda b: b.SequenceModel(model.n_features, L, n_edge_features=E, **options)  # noqa: E731
    return replace(one, make=make, X=list(zip(one.X, edges, strict=True)), phi=phi)


def chain_features(x, y, L, start_stop):
    """The joint feature vector of a labelling, written out."""
    n, F = x.shape
    x = np.concatenate([x, np.zeros((n, 2 * start_stop))], axis=1)
    if start_stop and n:
        x[0, F] = x[-1, F + 1] = 1.0
    weights, pairs = np.zeros((x.shape[1], L)), np.zeros((L, L))
    for t in range(n):
        weights[:, y[t]] += x[t]
        if t:
            pairs[y[t - 1], y[t]] += 1
    return np.concatenate([weights.ravel(), pairs.ravel()])


def labellings(X: Any, Y: Any, F: int, L: int, start_stop: bool = True, **options: Any) -> Problem:
    """Of a SequenceModel; outputs in lexicographic order."""
    outputs, loss = _labellings(L, Y, options.get("cost"))
    make = lambda b: b.SequenceModel(F, L, start_stop=start_stop, **options)  # noqa: E731
    return Problem(make, X, Y, outputs, lambda i, y: chain_features(X[i], y, L, start_stop), loss)


def _segmented(rng, number, n, largest):
    L, F, G = (3, 3, 2) if largest > 4 else (int(rng.integers(1, 4)), int(rng.integers(0, 3)), int(rng.integers(0, 3)))
    sizes, longest = _sizes(rng, n, largest), rng.integers(1, 4, L)
    Y = [cut(rng, m, longest) for m in sizes]
    W = int(longest.max())
    X = [(number(m, F), number(m, W, G)) if G else number(m, F) for m in sizes]
    options = {"cost": _cost(rng, L), "max_cells": int(rng.choice([1, 3, 8192]))}
    return segmented(X, Y, F, longest.tolist(), G, **options)


def cut(rng: np.random.Generator, n: int, longest: Any) -> np.ndarray:
    """Segments (m, 3) of n positions, drawn from left to right."""
    rows: list[tuple[int, int, int]] = []
    while (s := sum(w + 1 for _, w, _ in rows)) < n:
        label = int(rng.integers(len(longest)))
        rows.append((s, int(rng.integers(min(longest[label], n - s))), label))
    return np.array(rows, np.int64).reshape(-1, 3)


def segmented(X: Any, Y: Any, F: int, longest: Any, G: int = 0, **options: Any) -> Problem:
    """Of a SegmentModel."""
    L, W, cost = len(longest), max(longest), options.get("cost")
    table, sizes = 1.0 - np.eye(L) if cost is None else cost, [int(np.sum(y[:, 1] + 1)) for y in Y]

    def outputs(i):
        every = OUTPUTS["Segments"].all({"segments": np.zeros((sizes[i], W, L))})
        rows = ([row for row in y if row[0] >= 0] for y in every)
        fit = (y for y in rows if all(w < longest[label] for _, w, label in y))
        return [np.array(y, np.int64).reshape(-1, 3) for y in fit]

    def phi(i, y):
        x, z = X[i] if isinstance(X[i], tuple) else (X[i], np.zeros((sizes[i], W, 0)))
        weights, pairs = np.zeros((3 * F + G + W, L)), np.zeros((L, L))
        for s, w, label in y:
            inside = np.sum(x[s : s + w + 1], axis=0)
            weights[:, label] += np.concatenate([inside, x[s], x[s + w], z[s, w], np.eye(W)[w]])
        np.add.at(pairs, (y[:-1, 2], y[1:, 2]), 1.0)
        return np.concatenate([weights.ravel(), pairs.ravel()])

    return Problem(
        lambda b: b.SegmentModel(F, L, longest, n_segment_features=G, **options),
        X,
        Y,
        outputs,
        phi,
        lambda i, y: np.sum(table[tuple(np.repeat(rows[:, 2], rows[:, 1] + 1) for rows in (Y[i], y))]),
        label=lambda i, y: np.pad(y, ((0, sizes[i] - len(y)), (0, 0)), constant_values=-1),
    )


SEGMENT_FEATURES = {  # templates, and what they stand for in a sentence, from s to the token before e
    "%s[word]": lambda x, s, e: " ".join(x["word"][s:e]),
    "%l/%b[0,tag.lower]": lambda x, s, e: f"{e - s}/{x['tag'][s]}",
    "%b[-1,word]%e[2,tag]": lambda x, s, e: f"{['_B-1', *x['word']][s]}{[*x['tag'], '_B+1', '_B+2'][e + 1]}",
}


def _chunked(rng, number, n, largest, **options):
    """Of a ChunkingModel with the templates SEGMENT_FEATURES: a SegmentModel of indicators of its vocabularies."""
    may = lambda y: legal(y, "bio") and all(c.last - c.first < 2 for c in chunks(y))  # noqa: E731
    (X, Y), templates = sentences(rng, n, lengths=_sizes(rng, n, largest), may=may), ["bias", "word", "tag[-1]"]
    options |= {"longest": 2, "segment_templates": list(SEGMENT_FEATURES)}
    own = reference.ChunkingModel.of(X, Y, templates, **options)
    F, G, seen = len(own.vocabulary), len(own.segment_vocabulary), attributes_of(X, own.templates)
    inputs, gold = [], []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        n, rows = len(y), {c.first: (c.first, c.last - c.first, own.labels.index(c.type)) for c in chunks(y)}
        rows |= {t: (t, 0, own.labels.index("O")) for t, label in enumerate(y) if label == "O"}
        gold.append(np.array(sorted(rows.values()), np.int64).reshape(-1, 3))
        tokens, spans = np.zeros((n, F)), np.zeros((n, own.n_widths, G))
        for t in range(n):
            here = _names_at(seen, seen.offsets[i] + t)
            tokens[t] = [name in here for name in own.vocabulary]
        for s, w in itertools.product(range(n), range(own.n_widths)):
            here = [f"{one}={value(x, s, s + w + 1)}" for one, value in SEGMENT_FEATURES.items() if s + w < n]
            spans[s, w] = [name in here for name in own.segment_vocabulary]
        inputs.append((tokens, spans))
    whole, pairs = segmented(inputs, gold, F, own.longest.tolist(), G), own.whole_size - len(own.labels) ** 2
    kept = [*(range(pairs) if own.pairs is None else own.pairs), *range(pairs, own.whole_size)]
    make = lambda b: b.ChunkingModel.of(X, Y, templates, **options)  # noqa: E731
    return replace(whole, make=make, X=X, Y=Y, phi=lambda i, y: whole.phi(i, y)[kept], best=gold.__getitem__)


def _classes(rng, number, n, largest):
    L, F = (3, 4) if largest > 4 else (int(rng.integers(1, 4)), int(rng.integers(0, 4)))
    return classes(number(n, F), rng.integers(0, L, n), L, cost=_cost(rng, L), max_rows=2)


def classes(X: Any, Y: Any, L: int, **options: Any) -> Problem:
    """Of a MulticlassModel."""
    cost = options.get("cost")
    table = 1.0 - np.eye(L) if cost is None else cost
    return Problem(
        lambda b: b.MulticlassModel(X.shape[1], L, **options),
        X,
        Y,
        lambda i: list(range(L)),
        lambda i, y: np.outer(X[i], np.eye(L)[y]).ravel(),
        lambda i, y: table[Y[i], y],
    )


def _trees(rng, number, n, largest):
    L, F = (3, 3) if largest > 4 else (int(rng.integers(1, 4)), int(rng.integers(0, 3)))
    sizes, cost = _sizes(rng, n, largest + 1), _cost(rng, L)
    X = [(number(p, F), forest(rng, p)) for p in sizes]
    return trees(X, [rng.integers(0, L, p) for p in sizes], F, L, cost)


def trees(X: Any, Y: Any, F: int, L: int, cost: np.ndarray | None) -> Problem:
    """Of a TreeModel."""

    def phi(i, y):
        (x, parents), y = X[i], np.array(y, np.int64)
        nodes, pairs, below = np.zeros((F + 1, L)), np.zeros((L, L)), parents >= 0
        for v, label in enumerate(y):
            nodes[:, label] += [*x[v], parents[v] < 0]
        np.add.at(pairs, (y[parents[below]], y[below]), 1.0)
        return np.concatenate([nodes.ravel(), pairs.ravel()])

    outputs, loss = _labellings(L, Y, cost)
    return Problem(lambda b: b.TreeModel(F, L, cost=cost), X, Y, outputs, phi, loss)


LABELS = {
    "bio": ("O", "B-X", "I-X", "B-Y", "I-Y"),
    "iob1": ("O", "B-X", "I-X", "I-Y"),
    "iobes": ("O", "B-X", "I-X", "E-X", "S-X"),
    "bilou": ("o", "b-X", "i-X", "l-X", "u-X"),
    "bmes": ("O", "B", "M", "E", "S"),
}


def legal(labels: Any, scheme: str) -> bool:
    """Whether a sequence is what its chunks are written as in the scheme."""
    return written(len(labels), chunks(labels), scheme) == [label[0].upper() + label[1:] for label in labels]


def ruled(labels: Any) -> bool:
    """Rules of one's own: no label twice in a row but O, I-Y not first, B-X not last."""
    twice = any(a == b != "O" for a, b in itertools.pairwise(labels))
    return not twice and "I-Y" not in labels[:1] and "B-X" not in labels[-1:]


def sentences(
    rng: np.random.Generator,
    n: int = 6,
    scheme: str = "bio",
    lengths: Any = (3, 5, 1, 0, 7, 4),
    may: Callable[[Any], bool] | None = None,
) -> Any:
    """Sentences of few words and tags, and labels that are legal in the scheme, or that may be."""
    may = may or partial(legal, scheme=scheme)
    X, Y = [], []
    for i in range(n):
        m = lengths[i % len(lengths)]
        X.append({"word": [str(rng.integers(5)) for _ in range(m)], "tag": [str(rng.integers(3)) for _ in range(m)]})
        y = ["I-X"] * m
        while not may(y):
            y = [LABELS[scheme][k] for k in rng.integers(0, len(LABELS[scheme]), m)]
        Y.append(y)
    return X, Y


def _tags(rng, number, n, largest, own_rules=False, **options):
    may = ruled if own_rules else None
    X, Y = sentences(rng, n, lengths=_sizes(rng, n, largest), may=may)
    if own_rules:
        names = sorted({label for y in Y for label in y})
        begins, ends = (np.array([ruled(pair(a)) for a in names]) for pair in (lambda a: [a, "O"], lambda a: ["O", a]))
        options["transitions"] = np.array([[ruled(["O", a, b, "O"]) for b in names] for a in names]), begins, ends
    return tags(X, Y, "chunks", may, **options)


def tags(X: Any, Y: Any, templates: Any, may: Callable[[Any], bool] | None = None, **options: Any) -> Problem:
    """Of a TaggingModel. may: whether its own rules allow a sequence of labels."""
    own = reference.TaggingModel.of(X, Y, templates, **options)
    L, names, scheme = len(own.labels), own.labels, options.get("transitions")
    seen = attributes_of(X, own.templates)
    rows = np.asarray(own._rows_of(seen.names), np.int64)  # the row of weights of each attribute, -1 without
    cells = np.arange(own.width * L) if own.pairs is None else own.pairs
    place = {int(cell): k for k, cell in enumerate(cells)}
    place |= {(int(pair) // L, int(pair) % L): len(cells) + k for k, pair in enumerate(own.label_pairs)}
    seen_pairs = attributes_of(X, own.templates, edge_templates=own.edge_templates).edges
    triples = np.arange(own.n_edge_features * L * L) if own.edge_pairs is None else own.edge_pairs
    for k, cell in enumerate(triples, own.size - len(triples)):
        place[tuple(map(int, np.unravel_index(cell, (own.n_edge_features, L, L))))] = k

    def outputs(i):
        every = itertools.product(range(L), repeat=len(Y[i]))
        allowed = may or (lambda y: scheme is None or legal(y, scheme))
        return [y for y in every if allowed([names[a] for a in y])]

    def phi(i, y):
        found = np.zeros(own.size)
        for t, label in enumerate(y):
            p = seen.offsets[i] + t
            here = slice(seen.indptr[p], seen.indptr[p + 1])
            for row, value in zip(rows[seen.numbers[here]], seen.values[here], strict=True):
                if row >= 0 and (cell := int(row) * L + label) in place:
                    found[place[cell]] += value
            if t and (y[t - 1], label) in place:
                found[place[y[t - 1], label]] += 1
            for name in () if seen_pairs is None or t == 0 else _names_at(seen_pairs, p):
                row = _row(name, own.edge_vocabulary, own.n_edge_features)
                if (row, y[t - 1], label) in place:
                    found[place[row, y[t - 1], label]] += 1
        return found

    gold = [[names.index(label) for label in y] for y in Y]
    loss = _labellings(L, gold, options.get("cost"))[1]
    return Problem(
        lambda b: b.TaggingModel.of(X, Y, templates, **options), X, Y, outputs, phi, loss, best=gold.__getitem__
    )


def _names_at(attributes, p):
    """The names of the attributes of token p."""
    return [attributes.names[k] for k in attributes.numbers[attributes.indptr[p] : attributes.indptr[p + 1]]]


def _row(name: str, vocabulary: Any, rows: int) -> int:
    """The row of weights of an attribute, -1 without: by its name, or by its hash."""
    if vocabulary is None:
        return int(hashes([name])[0] % np.uint64(rows))
    return vocabulary.index(name) if name in vocabulary else -1


def heads_of(rng: np.random.Generator, n: int) -> np.ndarray:
    """A dependency tree of n tokens: the head of each, 0 for the root's."""
    order, heads = rng.permutation(n) + 1, np.zeros(n, np.int64)
    for place, m in enumerate(order):
        heads[m - 1] = order[rng.integers(place)] if place else 0
    return heads


def nested(rng: np.random.Generator, n: int) -> np.ndarray:
    """A dependency tree whose arcs do not cross."""
    while crosses(heads := heads_of(rng, n).tolist()):
        pass
    return np.array(heads, np.int64)


TEMPLATE_LISTS = (
    [("h.tag", "m.tag"), ("h.tag", "b.tag", "direction"), ("m.tag", "distance")],
    [("h.word", "m.word", "distance"), ("b.tag", "h.tag", "direction"), ("m.tag",)],
    [("b.tag",), ("h-1.tag", "m+1.tag", "m.word")],
    "20",
)


def _arcs(rng, number, n, largest, blocks=False, **options):
    templates = TEMPLATE_LISTS[rng.integers(4) if largest < 4 else 0]
    sizes = _sizes(rng, n, largest)
    X = [{"tag": [*map(str, rng.integers(0, 3, m))], "word": [*rng.choice(["a", "bird", "\0"], m)]} for m in sizes]
    Y = [(nested if options.get("projective") else heads_of)(rng, m) for m in sizes]
    return arcs(X, Y, templates, 4 if blocks else 6, blocks, **options)


def arcs(
    X: Any,
    Y: Any,
    templates: Any,
    bits: int,
    blocks: bool = False,
    single_root: bool = False,
    listed: bool = False,
    projective: bool = False,
) -> Problem:
    """Of a ParsingModel, hashed or with a vocabulary."""
    options = {"single_root": single_root, "projective": projective, "blocks": blocks, "bits": bits}
    own = reference.ParsingModel(templates, **options)
    parts = [reference.ParsingModel([t], bits=bits) for t in own.templates] if blocks else [own]
    if listed:  # blocks are models of one template
        options["vocabulary"] = own.vocabulary(own.pack(X, Y))
        keys = [part.vocabulary(part.pack(X, Y)) for part in parts]
        parts = [reference.ParsingModel(part.templates, vocabulary=k) for part, k in zip(parts, keys, strict=True)]
    data = [part.pack(X) for part in parts]

    def outputs(i):
        scores = np.zeros((len(Y[i]), len(Y[i]) + 1))
        kind = reference.Projective if projective else reference.Arborescence
        return list(kind(scores, single_root=single_root).enumerate())

    def phi(i, y):
        return np.concatenate([_of_arcs(part, of, i, y) for part, of in zip(parts, data, strict=True)])

    hamming = lambda i, y: sum(a != b for a, b in zip(Y[i], y, strict=True))  # noqa: E731
    return Problem(lambda b: b.ParsingModel(templates, **options), X, Y, outputs, phi, hamming)


def _of_arcs(model, data, i, y):
    """The sums (d,) of the keys of a tree's arcs: hashed, or those of its vocabulary."""
    found, (arcs, keys) = np.zeros(model.size), model.arc_keys(data, i)
    mine = keys[np.isin(arcs, np.arange(len(y)) * (len(y) + 1) + np.array(y, np.int64))]
    if model.keys is None:
        np.add.at(found, (mine % np.uint64(model.size)).astype(np.int64), 1.0)
    else:
        found += [np.sum(mine == key) for key in model.keys]
    return found


def alignments(p: int, q: int, null: bool) -> list[np.ndarray]:
    """Every alignment of p rows with q columns: all of the smaller side, or with ``null`` any part of it."""
    found = []
    for y in itertools.product(range(-1, q), repeat=p):
        taken = [j for j in y if j >= 0]
        if len(set(taken)) == len(taken) and (null or len(taken) == min(p, q)):
            found.append(np.array(y, np.int64))
    return found


def _alignments(rng, number, n, largest, null=False):
    F = 3 if largest > 4 else int(rng.integers(0, 4))
    shapes = [*zip(_sizes(rng, n, largest), _sizes(rng, n, largest), strict=True)]
    X, Y = [number(p, q, F) for p, q in shapes], []
    for p, q in shapes:
        y, m = np.full(p, -1), rng.integers(min(p, q) + 1) if null else min(p, q)
        y[rng.permutation(p)[:m]] = rng.permutation(q)[:m]
        Y.append(y)
    return aligned(X, Y, F, null)


def aligned(X: Any, Y: Any, F: int, null: bool) -> Problem:
    """Of an AlignmentModel."""

    def phi(i, y):
        pairs = sum((X[i][r, c] for r, c in enumerate(y) if c >= 0), np.zeros(F))
        return np.append(pairs, np.sum(np.array(y) < 0)) if null else pairs

    def label(i, y):
        q = X[i].shape[1]
        return np.where(y < 0, q + np.arange(len(y)), y) if null else y

    return Problem(
        lambda b: b.AlignmentModel(F, null=null),
        X,
        Y,
        lambda i: alignments(*X[i].shape[:2], null),
        phi,
        lambda i, y: np.sum(np.array(y) != np.array(Y[i])),
        label=label,
    )


def _images(rng, number, n, largest):
    F, G = (3, 2) if largest > 4 else (int(rng.integers(1, 4)), int(rng.integers(0, 3)))
    X, Y = [], []
    for p in _sizes(rng, n, largest + 1):
        ends = [rng.choice(p, 2, replace=False) for _ in range(rng.integers(0, 2 * p))] if p > 1 else []
        X.append((number(p, F), np.array(ends, np.int64).reshape(-1, 2), np.abs(number(len(ends), G))))
        Y.append(rng.integers(0, 2, p))
    return images(X, Y, F, G)


def images(X: Any, Y: Any, F: int, G: int) -> Problem:
    """Of a SegmentationModel."""

    def phi(i, y):
        (x, edges, g), y = X[i], np.array(y, np.int64)
        return np.concatenate([y @ x, -np.sum(g[y[edges[:, 0]] != y[edges[:, 1]]], axis=0)])

    outputs, loss = _labellings(2, Y, None)
    return Problem(lambda b: b.SegmentationModel(F, G), X, Y, outputs, phi, loss)


SIDE = 9  # of images with candidates


def random_boxes(rng: np.random.Generator, m: int) -> np.ndarray:
    """Boxes (m, 4) within an image."""
    ends = np.sort(np.array([rng.choice(SIDE + 1, 2, replace=False) for _ in range(2 * m)]).reshape(m, 2, 2), axis=2)
    return ends.transpose(0, 2, 1).reshape(m, 4)


def overlap(a: Any, b: Any) -> float:
    """Intersection over union, pixel by pixel."""
    mine, others = (set(np.ndindex(SIDE, SIDE)) & _pixels(box) for box in (a, b))
    return len(mine & others) / len(mine | others)


def _pixels(box: Any) -> set[tuple[int, int]]:
    top, left, bottom, right = box
    return {(i, j) for i in range(top, bottom) for j in range(left, right)}


def _candidates(rng, number, n, largest):
    shape = [(3,), (2, 1, 2)][rng.integers(2)]
    dtype, most = rng.choice([np.float32, np.float64]), int(rng.choice([3, 2048]))
    X, Y = [], []  # candidates, some of them twice, and a box near one
    for m in rng.integers(1, largest + 2, n):
        boxes, x = random_boxes(rng, m), number(m, *shape).astype(dtype)
        every = np.append(np.arange(m), rng.integers(0, m, rng.integers(2)))
        boxes, x = boxes[every], x[every]
        X.append((boxes, x))
        top, left, bottom, right = boxes[rng.integers(len(boxes))]
        Y.append([max(0, top - rng.integers(2)), left, bottom, min(SIDE, right + rng.integers(2))])
    return candidates(X, Y, shape, max_candidates=most)


def candidates(X: Any, Y: Any, shape: Any, **options: Any) -> Problem:
    """Of a CandidateModel."""
    best = [int(np.argmax([round(overlap(box, y), 12) for box in x[0]])) for x, y in zip(X, Y, strict=True)]
    return Problem(
        lambda b: b.CandidateModel(shape, **options),
        X,
        Y,
        lambda i: list(range(len(X[i][0]))),
        lambda i, y: X[i][1][y].astype(np.float64).ravel(),
        lambda i, y: 1 - overlap(X[i][0][y], X[i][0][best[i]]),
        truth=lambda i, y: X[i][0][y],
        best=lambda i: best[i],
    )


def all_boxes(H: int, W: int) -> list[tuple[int, int, int, int]]:
    """Every box of an image of H rows and W columns."""
    return list(OUTPUTS["Boxes"].all({"pixels": np.zeros((H, W))}))


def _windows(rng, number, n, largest, words=False):
    F, shapes = int(rng.integers(1, 4)), rng.integers(1, largest + 1, (n, 2))
    X = [rng.integers(-1, F, shape) if words else number(*shape, F) for shape in shapes]
    Y = [all_boxes(*shape)[rng.integers(len(all_boxes(*shape)))] for shape in shapes]
    return windows(X, Y, F)


def windows(X: Any, Y: Any, F: int) -> Problem:
    """Of a SubwindowModel, over features or numbers of words."""
    each = [x if x.ndim > 2 else (x[:, :, None] == np.arange(F)) * 1.0 for x in X]
    return Problem(
        lambda b: b.SubwindowModel(F),
        X,
        Y,
        lambda i: all_boxes(*X[i].shape[:2]),
        lambda i, y: np.sum([each[i][p] for p in _pixels(y)], axis=0),
        lambda i, y: 1 - overlap(y, Y[i]),
    )


def _lists(rng, number, n, largest):
    X = [number(m, 4) for m in rng.integers(1, largest + 2, n)]
    return lists(X, [int(rng.integers(len(x))) for x in X], 4)


def lists(X: Any, Y: Any, F: int) -> Problem:
    """Of a ListModel, of outputs with given features; the callables are the user's."""
    loss = lambda x, y: 0.3 * np.abs(np.arange(len(x)) - int(y)) ** 1.1  # noqa: E731
    return Problem(
        lambda b: b.ListModel(lambda x: x, b.Table, loss, size=F),
        X,
        Y,
        lambda i: list(range(len(X[i]))),
        lambda i, y: X[i][y],
        lambda i, y: loss(X[i], Y[i])[y],
    )


TAGGERS = ({}, {"pairs": "all"}, {"transitions": "bio"}, {"pairs": "all", "transitions": "bio"}, {"bits": 6})
TAGGERS += ({"bits": 8, "pairs": "all", "transitions": "bio"}, {"least": 3}, {"own_rules": True})
EDGES = {"edge_templates": ["tag", "word[-1]|tag[1]"]}
TAGGERS += ({**EDGES}, {**EDGES, "pairs": "all", "transitions": "bio"}, {**EDGES, "bits": 7})

MODELS = {
    "sequences": Model(_sequences),
    "sequences, pairs": Model(_pairs_of_neighbours),
    "segments": Model(_segmented),
    **{f"chunks {options}": Model(partial(_chunked, **options)) for options in ({}, {"pairs": "all"}, {"least": 2})},
    "classes": Model(_classes),
    "trees": Model(_trees),
    **{f"tags {options}": Model(partial(_tags, **options)) for options in TAGGERS},
    "arcs": Model(_arcs),
    "arcs, one root": Model(partial(_arcs, single_root=True)),
    "arcs, projective": Model(partial(_arcs, projective=True)),
    "arcs, vocabulary": Model(partial(_arcs, listed=True)),
    "arcs, blocks": Model(partial(_arcs, blocks=True)),
    "arcs, blocks, vocabulary": Model(partial(_arcs, blocks=True, listed=True)),
    "alignments": Model(_alignments, sums=False),
    "alignments with null": Model(partial(_alignments, null=True), sums=False),
    "images": Model(_images, sums=False),
    "candidates": Model(_candidates),
    "windows": Model(_windows, sums=False),
    "windows of words": Model(partial(_windows, words=True), sums=False),
    "lists": Model(_lists),
}
