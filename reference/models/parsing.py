"""Dependency parsing: the head of each token, from features of arcs, with a weight for each feature.

score(y) = sum_m sum_{f in features(y_m, m)} w_f over the tokens m = 1..n with heads y_m in 0..n, 0 the root. Features
are made from templates (:mod:`reference.models.templates`) when a sentence is scored. Packed data hold only the
contributions of each token to the keys of its arcs' features,

    key = H[h, t] + M[m, t] + R[r(h, m), t]  (+ B[b, t] for each different tag b between)   mod 2^64

for head h, modifier m, template t and reach r (direction and distance). The number of a key's weight is its lowest
``bits`` bits, or its position in a vocabulary. A feature that is not in the vocabulary has no weight. With blocks each
template has weights of its own, from t 2^bits on or by its own vocabulary; then templates are groups of weights.
Source: Martins et al., section 4; McDonald et al. (2005).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

import reference.arrays
from reference.arrays import Array, Place, Rows, host, integer, one_hot
from reference.example_errors import Example, each_example, example_error
from reference.models.base import Concatenated, LinearModel, checked, given, one_for_each, only, sound, zero_at_truth
from reference.models.templates import DISTANCES, Template, atoms_of, check_templates, hashes, keys_of, named_templates
from reference.models.token_templates import columns_of_sentence
from reference.packed import check_forests, check_indices, check_offsets, check_range, lock
from reference.structures.answered import Oracle, made_of
from reference.structures.arborescence import Arborescence, ArborescenceScores
from reference.structures.projective import Projective, trees_in_all
from reference.structures.projective_chart import crossing

__all__ = ["ParsingData", "ParsingModel"]

BITS = {False: 20, True: 15}  # defaults: for all templates together; for each template with blocks
DERIVED = {"prefix": slice(None, 5), "suffix": slice(-3, None)}  # of words
ROOT, OUTSIDE = "\0root", "\0outside"  # values that do not occur in files


@dataclass(frozen=True, eq=False, repr=False)
class ParsingData(Concatenated):
    """Packed sentences: sentence i owns positions offsets[i]:offsets[i+1], the first of them the root. All arrays are
    NumPy's.

    head_keys, modifier_keys (P, T) uint64: H and M at each position; tags (P,) int64: rows of between_keys (V, T - S)
    uint64, for the templates from S on, which have ``b.tag``; heads (P,) int64, -1 for roots, or None.
    """

    offsets: np.ndarray
    head_keys: np.ndarray
    modifier_keys: np.ndarray
    tags: np.ndarray
    between_keys: np.ndarray
    heads: np.ndarray | None
    templates: tuple[Template, ...]
    place: Place

    as_given = ("templates", "place")
    counted = "positions"

    def validate(self) -> None:
        """Raise unless ``offsets`` divide the positions, tags are rows of ``between_keys``, and the heads of each
        sentence are a tree.
        """
        if check_templates(self.templates) != self.templates:
            raise ValueError(f"templates: expected tuples, those with b.tag last, got {self.templates}")
        T = len(self.templates)
        checked("place", self.place, Place)
        P = _check_keys("head_keys", self.head_keys, T)
        check_offsets("offsets", self.offsets, P, "positions", least=1)
        if _check_keys("modifier_keys", self.modifier_keys, T) != P:
            raise ValueError(f"modifier_keys: expected {P} rows, as head_keys has, got {len(self.modifier_keys)}")
        V = _check_keys("between_keys", self.between_keys, sum("b.tag" in template for template in self.templates))
        check_indices("tags", self.tags, (P,))
        check_range("tags", self.tags, 0, V)
        if self.heads is None:
            return
        check_indices("heads", self.heads, (P,))
        if not np.array_equal(np.flatnonzero(self.heads < 0), self.offsets[:-1]):
            raise ValueError("heads: expected -1 for the root of each sentence, and for no token")
        check_forests("heads", self.heads, self.offsets)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each sentence (n,), without roots."""
        return np.diff(self.offsets) - 1

    def positions(self, i: int) -> slice:
        """The positions of sentence i, root first."""
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))


def _check_keys(name: str, keys: Any, width: int) -> int:
    """The number of rows of keys (m, width) uint64."""
    if not isinstance(keys, np.ndarray) or keys.dtype != np.uint64:
        raise TypeError(f"{name}: expected a NumPy array of uint64, got {getattr(keys, 'dtype', type(keys).__name__)}")
    if keys.ndim != 2 or keys.shape[1] != width:
        raise ValueError(f"{name}: expected shape (m, {width}), a column for each template, got {keys.shape}")
    return len(keys)


@cache
def single_rooted(kind: type[Arborescence]) -> type[Arborescence]:
    """The structure ``kind`` with one token under the root."""
    fields = {"__doc__": kind.__doc__, "single_root": True}
    return made_of(f"SingleRoot{kind.__name__}", (kind,), fields, (single_rooted, (kind,)))


class ParsingModel(LinearModel):
    """An arc-factored dependency parser.

    Parameters
    ----------
    templates : str or sequence of tuples of str
        "20" or "100" for a set of the package, or a list of templates such as
        ``[("h.tag", "m.tag", "distance")]``.
    bits : int, optional
        Without a vocabulary, features are hashed to 2^bits weights; default 20. With ``blocks``: to 2^bits for each
        template; default 15.
    vocabulary : sequence of int, optional
        The keys of the features that have a weight, as :meth:`vocabulary` finds them. With ``blocks``: such a sequence
        for each template.
    single_root : bool
        Whether exactly one token has the root as its head.
    projective : bool
        Whether arcs may not cross (:class:`Projective`); true trees, too.
    blocks : bool
        Whether each template has weights of its own, so that templates can be groups of a regularizer. The blocks are
        concatenated.
    oracle : callable, optional
        Used instead of ``Arborescence.best`` in training and prediction: from ArborescenceScores to (value, heads),
        with value -inf if every output is forbidden. An example is ``by_networkx`` of
        ``accelerated.structures.arborescence``, with ``single_root`` as ``partial(by_networkx, single_root=True)``.
        Model files do not store it.

    Attributes
    ----------
    size : int
        Number of weights d.
    templates : tuple of tuples of str
        In the order of their blocks: as given, but those with ``b.tag`` last.
    bounds : int64 array
        Block t is bounds[t]:bounds[t + 1]; without blocks there is one, 0:d.

    Notes
    -----
    The task loss is Hamming: the number of tokens with another head than the true one. Memory of packed data: 16 bytes
    for each token and template. Different features are assumed to have different keys of 64 bits. Among m features, two
    have the same key with probability m^2 / 2^65.

    Source
    ------
    Martins et al., section 4 (arc-factored parsing); McDonald et al. (2005).

    Examples
    --------
    >>> from reference import ParsingModel, StructuralHinge, bcfw
    >>> model = ParsingModel([("h.tag", "m.tag", "direction"), ("h.tag", "m.tag", "distance")], bits=8)
    >>> data = model.pack([{"tag": ["D", "N", "V"]}, {"tag": ["N", "V", "D", "N"]}], [[2, 3, 0], [2, 0, 4, 2]])
    >>> w = bcfw(StructuralHinge(model, data), lam=0.1, rng=0).x
    >>> [heads.tolist() for heads in model.predict(model.pack([{"tag": ["D", "N", "V", "D", "N"]}]), None, w)]
    [[2, 3, 0, 5, 3]]

    Templates as groups: a template that does not help has a norm of exactly zero (Martins et al., Algorithm 3, with
    explicit features):

    >>> from reference import SquaredL21, online_proximal, steps
    >>> model = ParsingModel([("h.tag", "m.tag"), ("distance",), ("h.tag",), ("m.tag",)], bits=4, blocks=True)
    >>> data = model.pack([{"tag": ["D", "N", "V"]}, {"tag": ["N", "V", "D", "N"]}], [[2, 3, 0], [2, 0, 4, 2]])
    >>> hinge, mkl = StructuralHinge(model, data), SquaredL21(0.5, model.groups)
    >>> w = online_proximal(hinge, mkl, step_size=steps.InverseSqrt(0.1), epochs=20, rng=0).x
    >>> model.template_norms(w).round(1).tolist()
    [0.9, 0.5, 0.2, 0.0]
    """

    structure_type: Any = Arborescence
    projective_type: Any = Projective
    packed_type = ParsingData
    arrays: ModuleType = reference.arrays

    def __init__(
        self,
        templates: str | Sequence[Sequence[str]] = "20",
        *,
        bits: int | None = None,
        vocabulary: Sequence[Any] | np.ndarray | None = None,
        single_root: bool = False,
        projective: bool = False,
        blocks: bool = False,
        oracle: Oracle | None = None,
    ) -> None:
        self.templates = check_templates(named_templates(templates) if isinstance(templates, str) else templates)
        self.simple = sum("b.tag" not in template for template in self.templates)  # S
        if not self._fields():
            raise ValueError(f"templates: expected a field of a token in one of them, got {self.templates}")
        for name, value in (("single_root", single_root), ("projective", projective), ("blocks", blocks)):
            if not isinstance(value, bool):
                raise TypeError(f"{name}: expected True or False, got {value!r}")
        self.single_root, self.projective, self.blocks = single_root, projective, blocks
        if projective:
            self.structure_type = self.projective_type
        if single_root:
            self.structure_type = single_rooted(self.structure_type)
        self._answer_by(oracle)
        self.bits = integer("bits", BITS[blocks] if bits is None else bits, 1)
        if self.bits > 30:
            raise ValueError(f"bits: expected at most 30, got {bits}")
        sizes = [2**self.bits] * (len(self.templates) if blocks else 1)
        self.keys = None
        if vocabulary is not None:
            lists = _vocabularies(vocabulary, self.templates) if blocks else [_vocabulary("vocabulary", vocabulary)]
            self.keys, sizes = np.concatenate(lists), [len(keys) for keys in lists]
            self._ranks = np.argsort(self.keys, kind="stable")
        self.bounds = np.cumsum([0, *sizes])
        self.size = int(self.bounds[-1])
        self._reach = _reach_keys(self.templates)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments except ``oracle``, as values for JSON, for model files."""
        return {
            "templates": [list(template) for template in self.templates],
            "bits": self.bits,
            "vocabulary": None if self.keys is None else self._by_block(self.keys.tolist()),
            "single_root": self.single_root,
            "blocks": self.blocks,
            **({"projective": True} if self.projective else {}),  # files of others stay as they were
        }

    @property
    def groups(self) -> np.ndarray:
        """The template of each weight (d,) int64, in the form for regularizers of groups. Raises ValueError for a model
        without blocks.
        """
        self._needs_blocks("groups")
        return np.repeat(np.arange(len(self.templates)), np.diff(self.bounds))

    def template_norms(self, w: Array) -> np.ndarray:
        """||w_t|| for each template t (T,), float64 on the host. Raises ValueError for a model without blocks."""
        self._needs_blocks("template_norms")
        weights = np.asarray(host(w), np.float64)
        if weights.shape != (self.size,):
            raise ValueError(f"w: expected shape {(self.size,)}, got {weights.shape}")
        tops = np.array([np.max(np.abs(block), initial=0.0) for block in self._by_block(weights)])
        units = np.where(tops > 0, tops, 1.0)  # so that squares do not overflow
        scaled = [np.linalg.norm(block / unit) for block, unit in zip(self._by_block(weights), units, strict=True)]
        norms: np.ndarray = tops * scaled
        return norms

    def _needs_blocks(self, what: str) -> None:
        if not self.blocks:
            raise ValueError(f"{what}: templates share weights; ParsingModel(..., blocks=True) gives each its own")

    def _by_block(self, values: Any) -> Any:
        """Values of all weights (d,), split into blocks if the model has them."""
        if not self.blocks:
            return values
        return [values[a:b] for a, b in itertools.pairwise(self.bounds.tolist())]

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> ParsingData:
        """Sentences and their heads, checked.

        Parameters
        ----------
        X : sequence of n mappings
            From names of fields to sequences of n_i strings, for all fields that the templates name; "prefix" and
            "suffix" are made from "word". Other fields are ignored. n_i may be 0.
        Y : sequence of n integer sequences (n_i,), optional
            The head of each token, 1 to n_i, or 0 for the root: a tree.
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.

        Returns
        -------
        ParsingData

        Raises
        ------
        ValueError, TypeError
            Naming the sentence, for fields that are missing or of unequal length, heads that are out of range or do not
            form a tree, several roots with ``single_root``, arcs that cross with ``projective``.
        """
        fields = self._fields()
        X = each_example("X", X, lambda name, x: columns_of_sentence(name, x, fields))
        lengths = np.array([len(x[fields[0]]) for x in X], np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths + 1)]).astype(np.int64)
        heads = None
        if Y is not None:
            Y = one_for_each(Y, len(lengths), "sequences of heads")
            trees = each_example("Y", Y, lambda name, y: self._tree(name, y, int(lengths[name.example])))
            heads = np.concatenate([np.zeros(0, np.int64), *trees])
        columns = _Columns(X, offsets)
        tags, values = columns.numbered("tag" if "tag" in self._fields() else None, 0)
        between = np.stack([keys_of(t, "b.tag", values) for t in self.templates], axis=1)[:, self.simple :]
        return ParsingData(
            lock(offsets),
            lock(self._side("h", columns)),
            lock(self._side("m", columns)),
            lock(tags),
            np.ascontiguousarray(between),
            lock(heads),
            self.templates,
            Place.of(like),
        )

    def _fields(self) -> list[str]:
        """The fields that sentences must have."""
        named = [field for side in "hm" for _, _, field in atoms_of(self.templates, side)]
        named += ["tag"] if self.simple < len(self.templates) else []
        return list(dict.fromkeys("word" if field in DERIVED else field for field in named))

    def _side(self, side: str, columns: _Columns) -> np.ndarray:
        """H or M (P, T): the sums of the shares of one side's atoms."""
        keys = np.zeros((columns.size, len(self.templates)), np.uint64)
        for atom, offset, field in atoms_of(self.templates, side):
            numbers, values = columns.numbered(field, offset)
            for t, template in enumerate(self.templates):
                if atom in template:
                    keys[:, t] += keys_of(template, atom, values)[numbers]
        return keys

    def _tree(self, name: str, y: Any, n: int) -> np.ndarray:
        """The heads of a sentence, checked, after -1 for the root."""
        heads = y if hasattr(y, "__len__") else list(y)
        if len(heads) != n:
            raise example_error(name, None, f"expected the heads of {n} tokens, got {len(heads)}")
        for t, head in enumerate(heads):
            if isinstance(head, (bool, np.bool_)) or not hasattr(head, "__index__"):
                raise example_error(name, t, f"expected a head, an integer in 0..{n}, got {head!r:.80}")
        y = np.array(list(map(operator.index, heads)), object)
        for t in np.flatnonzero((y < 0) | (y > n))[:1].tolist():
            raise example_error(name, t, f"expected heads in 0..{n}, got {y[t]}")
        above = np.concatenate([[0], y]).astype(np.int64)
        ancestors = above
        for _ in range(n.bit_length()):  # 1, 2, 4, ... arcs up
            ancestors = ancestors[ancestors]
        if np.any(ancestors):
            token = int(np.argmax(ancestors > 0))
            raise example_error(name, token - 1, f"expected a tree, got heads in a cycle above token {token}")
        if self.single_root and n and np.sum(y == 0) != 1:
            second = next(iter(np.flatnonzero(y == 0)[1:].tolist()), None)
            problem = f"expected one token with head 0 (single_root=True), got {np.sum(y == 0)}"
            raise example_error(name, second, problem)
        if self.projective and (two := crossing(above[1:]).tolist()):
            problem = f"expected arcs that do not cross (projective=True), got those of tokens {two}"
            raise example_error(name, two[0] - 1, problem)
        above[0] = -1
        return above

    def check(self, data: ParsingData) -> None:
        """Raise ValueError if ``data`` was packed by a model of other templates, or has trees that this model excludes.
        Raise TypeError if it was not packed.
        """
        super().check(data)
        if data.templates != self.templates:
            raise ValueError("data: packed by a different model, with other templates")
        if (self.single_root or self.projective) and data.heads is not None:
            for i in range(data.n):
                self._tree(Example("Y", i), data.heads[data.positions(i)][1:], int(data.lengths[i]))

    def vocabulary(self, data: ParsingData, least: int = 1) -> Any:
        """The sorted keys (m,) uint64 of the features that occur on true arcs at least ``least`` times; with blocks,
        for each template.

        Parameters
        ----------
        data : ParsingData
            Packed with heads, by a model of the same templates.
        least : int >= 1

        Returns
        -------
        uint64 array (m,), or a list of them, one for each template
            For ``ParsingModel(templates, vocabulary=..., blocks=...)``.
        """
        self.check(data)
        integer("least", least, 1)
        kept, owners = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        for i in range(data.n):
            arcs, keys, templates = self._arc_features(data, i)
            true = host(self._true(data, i)).reshape(-1)[arcs] > 0
            kept.append(keys[true])
            owners.append(templates[true])
        keys, first, times = np.unique(np.concatenate(kept), return_index=True, return_counts=True)
        often = times >= least
        if not self.blocks:
            return keys[often]
        owner = np.concatenate(owners)[first]
        return [keys[often & (owner == t)] for t in range(len(self.templates))]

    def arc_keys(self, data: ParsingData, i: int) -> tuple[np.ndarray, np.ndarray]:
        """The features of sentence i's arcs: arcs (e,) sorted, (m - 1)(n_i + 1) + h for modifier m and head h, and
        keys (e,) uint64.
        """
        return self._arc_features(data, i)[:2]

    def _arc_features(self, data: ParsingData, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As :meth:`arc_keys`, and the template (e,) of each feature."""
        positions, n = data.positions(i), int(data.lengths[i])
        m, h = np.nonzero(np.arange(1, n + 1)[:, None] != np.arange(n + 1))
        keys = data.head_keys[positions][h] + data.modifier_keys[positions][m + 1] + self._reach[_reach(h, m + 1)]
        arcs, simple = np.broadcast_to((m * (n + 1) + h)[:, None], keys.shape), self.simple
        tags = data.tags[positions]
        seen = np.cumsum(tags[:, None] == np.unique(tags), axis=0)  # number of tokens with each tag up to each position
        low, high = np.minimum(h, m + 1), np.maximum(h, m + 1)
        arc, tag = np.nonzero(seen[high - 1] > seen[low])
        between = keys[arc, simple:] + data.between_keys[np.unique(tags)[tag]]
        together = np.concatenate([arcs[:, :simple].reshape(-1), np.repeat(arcs[arc, 0], between.shape[1])])
        order = np.argsort(together, kind="stable")
        templates = np.arange(keys.shape[1])
        every = np.concatenate([np.tile(templates[:simple], len(keys)), np.tile(templates[simple:], len(between))])
        return together[order], np.concatenate([keys[:, :simple].reshape(-1), between.reshape(-1)])[order], every[order]

    def features(self, data: ParsingData, i: int) -> Rows:
        """The features of sentence i's arcs as sparse rows (n_i (n_i + 1), d), a row for each arc; empty for a token as
        its own head.
        """
        arcs, keys, templates = self._arc_features(data, i)
        if self.keys is None:
            numbers = (keys & np.uint64(2**self.bits - 1)).astype(np.int64)
            numbers += self.bounds[templates] if self.blocks else 0
        elif self.size == 0:
            arcs, numbers = arcs[:0], np.zeros(0, np.int64)
        else:
            ranks = np.searchsorted(self.keys, keys, sorter=self._ranks)
            numbers = self._ranks[np.minimum(ranks, self.size - 1)]
            listed = self.keys[numbers] == keys
            arcs, numbers = arcs[listed], numbers[listed]
        n = int(data.lengths[i])
        indptr = np.searchsorted(arcs, np.arange(n * (n + 1) + 1))
        return Rows.unchecked(indptr, data.place.integers(numbers), data.place.floats(np.ones(len(numbers))), self.size)

    def scores(self, data: ParsingData, batch: np.ndarray, w: Array) -> ArborescenceScores:
        """The scores (n, n + 1) of one sentence (batch of one) at weights w (d,); 0 for a token as its own head."""
        i = only(batch, data)
        values = self.arrays.gather_sum(self.features(data, i), w[:, None])
        return sound(ArborescenceScores(data.place.xp.reshape(values, self._shape(data, i))), w)

    def pullback(self, data: ParsingData, batch: np.ndarray, w: Array, g: ArborescenceScores) -> Array:
        """The adjoint of :meth:`scores`: a gradient shaped like the scores, as one (d,) in the weights."""
        flat = data.place.xp.reshape(g.values, (-1, 1))
        return self.arrays.scatter_sum(self.features(data, only(batch, data)), flat)[:, 0]

    @zero_at_truth
    def task_loss(self, data: ParsingData, batch: np.ndarray) -> ArborescenceScores:
        """Hamming loss as scores to add: 1 for each head but the true one."""
        return ArborescenceScores(1.0 - self._true(data, only(batch, data)))

    def gold(self, data: ParsingData, batch: np.ndarray) -> ArborescenceScores:
        """The indicator of the true tree's arcs, shaped like the scores."""
        return ArborescenceScores(self._true(data, only(batch, data)))

    def counts(self, data: ParsingData) -> list[int]:
        """Number of trees of each sentence: (n + 1)^(n - 1), or n^(n - 1) with a single root (Cayley's formula), or
        as :func:`trees_in_all` counts projective ones; 1 for n = 0.
        """
        if self.projective:
            return [trees_in_all(n, self.single_root) for n in data.lengths.tolist()]
        return [1 if n == 0 else (n + (not self.single_root)) ** (n - 1) for n in data.lengths.tolist()]

    def true_heads(self, data: ParsingData) -> np.ndarray:
        """The heads (P,) of all positions, -1 for roots; ValueError if the data were packed without heads."""
        return given(data.heads, "heads")

    def _true(self, data: ParsingData, i: int) -> Array:
        """The indicator (n, n + 1) of the true heads."""
        heads = data.place.integers(self.true_heads(data)[data.positions(i)][1:])
        return one_hot(data.place.xp, heads, self._shape(data, i)[1], data.place.dtype)

    def _shape(self, data: ParsingData, i: int) -> tuple[int, int]:
        n = int(data.lengths[i])
        return n, n + 1

    def _split(self, data: ParsingData, piece: np.ndarray, outputs: Array) -> list[np.ndarray]:
        return [host(outputs)]


class _Columns:
    """The fields of all sentences, concatenated, with their values as numbers."""

    def __init__(self, X: Sequence[Mapping[str, Sequence[str]]], offsets: np.ndarray) -> None:
        self.X, self.offsets, self.size = X, offsets, int(offsets[-1])
        self._known: dict[str | None, tuple[np.ndarray, np.ndarray]] = {}

    def numbered(self, field: str | None, offset: int) -> tuple[np.ndarray, np.ndarray]:
        """The number (P,) of the value at an offset from each position, and the hashed values."""
        if field not in self._known:
            self._known[field] = self._read(field)
        numbers, names = self._known[field]
        sentence = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        near = np.arange(self.size) + offset
        inside = (near >= self.offsets[sentence]) & (near < self.offsets[sentence + 1])
        return np.where(inside, numbers[np.clip(near, 0, max(self.size - 1, 0))], 1), names

    def _read(self, field: str | None) -> tuple[np.ndarray, np.ndarray]:
        number: dict[str, int] = {ROOT: 0, OUTSIDE: 1}
        numbers = []
        for x, length in zip(self.X, np.diff(self.offsets).tolist(), strict=True):
            numbers.append(0)
            if field is None:
                values: Sequence[str] = [OUTSIDE] * (length - 1)
            else:
                values = [value[DERIVED[field]] for value in x["word"]] if field in DERIVED else x[field]
            numbers.extend(number.setdefault(value, len(number)) for value in values)
        return np.array(numbers, np.int64), hashes(number)


def _vocabulary(name: str, keys: Any) -> np.ndarray:
    """The keys as uint64, sorted."""
    vocabulary = np.array(keys, np.uint64)
    if vocabulary.ndim != 1 or np.any(vocabulary[1:] <= vocabulary[:-1]):
        raise ValueError(f"{name}: expected keys in rising order, as ParsingModel.vocabulary gives them")
    return vocabulary


def _vocabularies(lists: Any, templates: tuple[Template, ...]) -> list[np.ndarray]:
    """The keys of each template."""
    if len(lists) != len(templates) or any(np.ndim(keys) != 1 for keys in lists):
        raise ValueError(
            f"vocabulary: expected the keys of each of {len(templates)} templates (blocks=True), as "
            f"ParsingModel.vocabulary "
            f"gives them with blocks, got {len(lists)} "
            f"{'lists' if np.ndim(lists[0] if len(lists) else 0) else 'numbers'}"
        )
    vocabularies = [_vocabulary(f"vocabulary[{t}]", keys) for t, keys in enumerate(lists)]
    if len(np.unique(np.concatenate(vocabularies))) < sum(map(len, vocabularies)):
        raise ValueError("vocabulary: expected different keys in different templates, got one twice")
    return vocabularies


def _reach(h: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Rows of the reach keys: the bin of |h - m| for heads on the left, and D more for heads on the right."""
    rows: np.ndarray = np.searchsorted(DISTANCES, np.abs(h - m), side="right") - 1 + len(DISTANCES) * (h > m)
    return rows


def _reach_keys(templates: tuple[Template, ...]) -> np.ndarray:
    """R (2 D, T): the shares of direction and distance, heads on the left first."""
    sides = hashes(side for side in ("left", "right") for _ in DISTANCES)
    bins = hashes(f"{side} {d}" for side in ("left", "right") for d in DISTANCES)
    return np.stack([keys_of(t, "direction", sides) + keys_of(t, "distance", bins) for t in templates], axis=1)
