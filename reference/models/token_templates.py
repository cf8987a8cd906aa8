"""Templates of token features for taggers: windows of columns, shapes of words, conjunctions.

An atom is a column with a treatment and an offset: ``word[-1]`` is the word before, ``tag`` or
``tag[0]`` the token's own tag, ``word.suffix3[1]`` the last three letters of the next word. A template is an atom, or a
conjunction ``word[-1]|tag[0]``, and gives the attribute ``word[-1]|tag[0]=the|NN`` if all its positions are in the
sentence. ``tag[-2..2]`` stands for five templates. ``bias`` is an attribute of every token, ``BOS`` and ``EOS`` are
attributes of a sentence's first and last token. Numbers have one or two digits.

The treatments are lower; shape (Xxx-00 for Abc-19); brief (its shape without repeats: Xx-0); title, upper, digit,
hyphen (1 or 0); prefix and suffix with a number of letters. In names, | and \\ of a value get a \\ before them:
different attributes have different names. Lines of CRF++ and wapiti are templates too
(:mod:`reference.models.macros`). Source: Sha and Pereira (2003), "Shallow parsing with conditional random
fields", Table 1, for the choice of templates.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reference.archives import decode_text, split_lines
from reference.arrays import real
from reference.example_errors import Example, ExampleError, each_example, example_error, is_frame, listed, located
from reference.models.macros import Line, Macro, expanded, line_of

__all__ = [
    "TOKEN_TEMPLATES",
    "TokenAttributes",
    "attributes_of",
    "check_edge_templates",
    "check_templates",
    "columns_of",
    "edge_lines",
    "load_templates",
]

Extractor = Callable[[Any, int], Any]
Atom = tuple[str, str, int]

_ATOM = re.compile(r"([A-Za-z]\w*)(?:\.([a-z]+)(\d{1,2})?)?(?:\[([+-]?\d{1,2})(?:\.\.([+-]?\d{1,2}))?\])?")
_ALONE = ("bias", "BOS", "EOS")
OUTSIDE = -1  # the number for "no attribute"

_CHUNKS = (
    *_ALONE,
    "word[-2..2]",
    "word[-1]|word[0]",
    "word[0]|word[1]",
    "tag[-2..2]",
    *(f"tag[{t}]|tag[{t + 1}]" for t in range(-2, 2)),
    *(f"tag[{t}]|tag[{t + 1}]|tag[{t + 2}]" for t in range(-2, 1)),
)
TOKEN_TEMPLATES: dict[str, tuple[str, ...]] = {
    "chunks": _CHUNKS,
    "entities": (
        *_CHUNKS,
        "word.lower[-1..1]",
        "word.title[-1..1]",
        "word.upper[-1..1]",
        "word.digit[-1..1]",
        "word.suffix3",
        "word.suffix2",
        "word.prefix3",
    ),
    "words": (
        *_ALONE,
        "word[-2..2]",
        "word[-1]|word[0]",
        "word[0]|word[1]",
        "word.lower",
        "word.shape",
        *(f"word.{part}{letters}" for part in ("prefix", "suffix") for letters in (1, 2, 3)),
    ),
}


class TokenAttributes(NamedTuple):
    """The attributes of N tokens: token t has entries indptr[t]:indptr[t+1] of ``numbers``, into ``names``, and of
    ``values``.

    offsets (n + 1,): the first token of each sentence. edges: the attributes of each token and the one before it, none
    for the first of a sentence; None where no template asks for them.
    """

    offsets: np.ndarray
    indptr: np.ndarray
    numbers: np.ndarray
    values: np.ndarray
    names: list[str]
    edges: TokenAttributes | None = None


def check_templates(templates: str | Iterable[str]) -> tuple[str, ...]:
    """Templates one by one, ranges written out, in one spelling; a name of TOKEN_TEMPLATES stands for its set.

    Raises
    ------
    ValueError
        An unknown or repeated template; no template; an unknown name.

    Examples
    --------
    >>> check_templates(["bias", "tag[-1..1]", "word.lower|tag"])
    ('bias', 'tag[-1]', 'tag[0]', 'tag[1]', 'word.lower[0]|tag[0]')
    """
    if isinstance(templates, str):
        if templates not in TOKEN_TEMPLATES:
            raise ValueError(
                f"templates: expected one of {', '.join(TOKEN_TEMPLATES)}, or a list of templates, got {templates!r}"
            )
        templates = TOKEN_TEMPLATES[templates]
    written = [each for template in templates for each in _written_out(template)]
    if not written:
        raise ValueError("templates: expected at least one")
    earlier: set[str] = set()
    for template in written:
        if template in earlier:
            raise ValueError(f"templates: expected different ones, got {template} twice")
        earlier.add(template)
    return tuple(written)


def check_edge_templates(templates: str | Iterable[str] | Extractor) -> tuple[str, ...] | Extractor:
    """Templates of pairs of neighbours as :func:`check_templates` returns them, or a function."""
    if callable(templates):
        return templates
    try:
        checked = check_templates(templates)
    except ValueError as problem:
        raise ValueError(f"edge_{problem}") from None
    for template in checked:
        if (line := line_of(template)) is not None and not line.pairs:
            raise ValueError(f"edge_templates: expected B lines with macros, got {template}")
    return checked


def load_templates(path: str | Path) -> tuple[str, ...]:
    """The templates of a TOML file: ``templates = ["bias", "word[-2..2]", "word|tag"]``.

    Raises
    ------
    ValueError
        Naming the file: not TOML, other keys than templates and segments, invalid templates.
    """
    try:
        return check_templates(lists_of(path)["templates"])
    except ValueError as problem:
        raise ValueError(f"{path}: {str(problem).removeprefix(f'{path}: ')}") from None


def lists_of(path: str | Path) -> dict[str, list[str]]:
    """The lists of a TOML file of templates: ``templates``, and perhaps ``segments``. Errors name the file."""
    if not Path(path).is_file():
        raise ValueError(
            f"{path}: no such file (the templates that come with diptych are {', '.join(TOKEN_TEMPLATES)})"
        )
    text = decode_text(str(path), Path(path).read_bytes())
    try:
        content = tomllib.loads("\n".join(split_lines(text)))
    except RecursionError:
        raise ValueError(f"{path}: not a TOML file: too many brackets within one another") from None
    except ValueError as problem:
        raise ValueError(f"{path}: not a TOML file: {problem}") from None
    lists = all(isinstance(x, list) and all(isinstance(t, str) for t in x) for x in content.values())
    if "templates" not in content or not set(content) <= {"templates", "segments"} or not lists:
        raise ValueError(
            f'{path}: expected templates = ["bias", "word[-2..2]", ...], got {", ".join(content) or "nothing"}'
        )
    return content


def columns_of(templates: Iterable[str]) -> list[str]:
    """The columns that templates look at, each once."""
    return list(dict.fromkeys(column for template in templates for column, _, _ in atoms_of(template)))


def atoms_of(template: str) -> list[Atom]:
    """Column, treatment ("" for none) and offset of each atom of a template as :func:`check_templates` writes it; none
    for bias, BOS and EOS."""
    if (line := line_of(template)) is not None:
        return [(part.column, "", part.row) for part in line.parts if isinstance(part, Macro)]
    return [] if template in _ALONE else [_parsed(atom)[:3] for atom in template.split("|")]


def attributes_of(
    X: Any,
    templates: Sequence[str] | Extractor | None,
    joiner: str = ":",
    edge_templates: Sequence[str] | Extractor | None = None,
) -> TokenAttributes:
    """The attributes of every token of the sentences X, and of pairs of neighbours.

    Parameters
    ----------
    X : sequence of n sentences
        With a list of templates: mappings from names of columns to sequences of n_i strings. With None: sequences of
        n_i attribute sets, or mappings with such a sequence as the column ``items``. With a function: its arguments;
        the number of tokens is that of the first column, or len(sentence) if the sentence is not a mapping. A
        TokenAttributes is returned unchanged.
    templates : sequence of str, function or None
        As :func:`check_templates` returns them; or a function of a sentence and a position that gives an attribute set:
        a sequence of strings, or a mapping from strings to numbers. As in python-crfsuite, a string s in place of a
        number means the attribute name:s, and a mapping or a list of strings means the attributes name:key.
    joiner : str
        What stands between the name and a string in place of a number.
    edge_templates : sequence of str, function or None
        As ``templates``, for the pair of a token and the one before it; a function is not called for first tokens.
        Lines of CRF++ and wapiti in ``templates`` may ask for such attributes, too.

    Raises
    ------
    ValueError, TypeError
        Naming the sentence: columns that are missing or of unequal length, invalid attributes, numbers that are
        not finite.
    """
    if isinstance(X, TokenAttributes):
        return X
    X = listed("X", X)
    if templates is None:
        tokens = _attribute_sets(each_example("X", X, _listed_tokens), joiner)
    elif callable(templates):
        tokens = _attribute_sets([[templates(x, t) for t in range(_tokens(x))] for x in X], joiner)
    else:
        tokens = _by_templates(X, templates)
    asking = edge_templates if callable(edge_templates) else edge_lines(templates, edge_templates)
    if not asking:
        return tokens
    if callable(asking):
        edges = _attribute_sets([[asking(x, t) if t else () for t in range(_tokens(x))] for x in X], joiner)
    else:
        edges = _by_templates(X, asking, pairs=True)
    for i in np.flatnonzero(np.diff(tokens.offsets) != np.diff(edges.offsets))[:1].tolist():
        lengths = (int(np.diff(each.offsets)[i]) for each in (tokens, edges))
        raise ExampleError("X", i, None, "expected columns of one length, got {} tokens and {}".format(*lengths))
    return tokens._replace(edges=edges)


def edge_lines(templates: Any, edge_templates: Sequence[str] | None) -> tuple[str, ...]:
    """The templates that describe pairs of neighbours, each once: lines of CRF++ and wapiti, and ``edge_templates``."""
    lines = [each for each in templates if (line := line_of(each)) and line.pairs] if type(templates) is tuple else []
    return tuple(dict.fromkeys([*lines, *(edge_templates or ())]))


def _by_templates(X: Any, templates: Sequence[str], pairs: bool = False) -> TokenAttributes:
    """The attributes by templates. pairs: of pairs of neighbours, so none for first tokens."""
    columns = columns_of(templates)
    X = each_example("X", X, lambda name, x: columns_of_sentence(name, x, columns))
    lengths = [_tokens(x) for x in X]
    window = _Window(X, np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))]).astype(np.int64))
    table = np.full((int(window.offsets[-1]), len(templates)), OUTSIDE, np.int32)
    names: list[str] = []
    for column, template in enumerate(templates):
        ids, more = window.template(template, pairs)
        table[:, column] = np.where(ids == OUTSIDE, OUTSIDE, ids + len(names))
        names += more
    if pairs:
        table[window.first] = OUTSIDE
    present = table != OUTSIDE
    numbers = table[present]
    if len(index := dict.fromkeys(names)) < len(names):  # lines of CRF++ may share attributes
        index = {name: i for i, name in enumerate(index)}
        numbers, names = np.array([index[name] for name in names], np.int32)[numbers], list(index)
    indptr = np.concatenate([[0], np.cumsum(np.sum(present, axis=1))]).astype(np.int64)
    return TokenAttributes(window.offsets, indptr, numbers, np.broadcast_to(1.0, numbers.shape), names)


# templates ------------------------------------------------------------------------------------------------------------


def _written_out(template: str) -> list[str]:
    """A template written out, or the templates of a range."""
    if not isinstance(template, str):
        raise ValueError(f"templates: expected strings such as word[-1] or word|tag, got {template!r}")
    if template in _ALONE or line_of(template) is not None:
        return [template]
    atoms = []
    for atom in template.split("|"):
        column, treatment, first, last = _parsed(atom)
        name = f"{column}.{treatment}" if treatment else column
        atoms.append([f"{name}[{t}]" for t in range(first, last + 1)])
    if len(atoms) > 1 and any(len(places) > 1 for places in atoms):
        raise ValueError(f"templates: expected no range in a conjunction, got {template!r}")
    return ["|".join(places) for places in itertools.product(*atoms)]


def _parsed(atom: str) -> tuple[str, str, int, int]:
    """Column, treatment ("" for none), first and last offset of an atom."""
    match = _ATOM.fullmatch(atom.strip())
    column, treatment, letters, first, last = match.groups() if match else (None,) * 5
    if column is None or column in _ALONE or (treatment and not _known(treatment, letters)):
        raise ValueError(
            f"templates: expected bias, BOS, EOS or atoms such as word[-1], tag[-2..2], word.lower or "
            f"word.suffix3[1], got {atom!r:.80}"
        )
    low = int(first or 0)
    high = low if last is None else int(last)
    if low > high:
        raise ValueError(f"templates: expected a range that rises, got {atom!r}")
    return column, (treatment or "") + (letters or ""), low, high


def _known(treatment: str, letters: str | None) -> bool:
    return treatment in _CUTS and int(letters) > 0 if letters else treatment in _TREATMENTS


# treatments of values -------------------------------------------------------------------------------------------------


def _shape(value: str) -> str:
    return "".join("X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in value)


def _brief(value: str) -> str:
    return "".join(c for c, _ in itertools.groupby(_shape(value)))


_TREATMENTS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "shape": _shape,
    "brief": _brief,
    "title": lambda value: str(int(value.istitle())),
    "upper": lambda value: str(int(value.isupper())),
    "digit": lambda value: str(int(value.isdigit())),
    "hyphen": lambda value: str(int("-" in value)),
}
_CUTS = {"prefix": lambda value, k: value[:k], "suffix": lambda value, k: value[-k:]}


def _treated(treatment: str, values: Iterable[str]) -> list[str]:
    if treatment in _TREATMENTS:
        return [_TREATMENTS[treatment](value) for value in values]
    kind, letters = treatment.rstrip("0123456789"), int(treatment.lstrip("abcdefghijklmnopqrstuvwxyz"))
    return [_CUTS[kind](value, letters) for value in values]


# sentences -----------------------------------------------------------------------------------------------------------


class _Window:
    """The columns of all sentences, concatenated, with values as numbers, and the attributes of each token by a
    template.
    """

    def __init__(self, X: Any, offsets: np.ndarray) -> None:
        self.X, self.offsets = X, offsets
        lengths = np.diff(offsets)
        self.first, self.end = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
        self.kept: dict[tuple[str, str], tuple[np.ndarray, list[str]]] = {}

    def template(self, template: str, edges: bool = False) -> tuple[np.ndarray, list[str]]:
        """(N,) the number of each token's attribute, OUTSIDE if it has none, and the names of the numbers. edges: what
        a line of CRF++ or wapiti asks for of pairs.
        """
        places = np.arange(len(self.first))
        if (line := line_of(template)) is not None:
            return self.line(line, line.pairs if edges else line.attributes)
        if template in _ALONE:
            has = {"bias": places >= 0, "BOS": places == self.first, "EOS": places == self.end - 1}[template]
            return np.where(has, 0, OUTSIDE), [template]
        first, *rest = atoms_of(template)
        ids, values = self.atom(*first)
        for atom in rest:
            more, others = self.atom(*atom)
            both = (ids != OUTSIDE) & (more != OUTSIDE)
            pairs, joined = np.unique(ids[both] * len(others) + more[both], return_inverse=True)
            ids = np.full(len(places), OUTSIDE)
            ids[both] = joined.reshape(-1)
            earlier, later = np.divmod(pairs, max(len(others), 1))
            values = [f"{values[a]}|{others[b]}" for a, b in zip(earlier.tolist(), later.tolist(), strict=True)]
        return ids, [f"{template}={value}" for value in values]

    def line(self, line: Line, asks: bool) -> tuple[np.ndarray, list[str]]:
        """As :meth:`template`, of a line of CRF++ or wapiti; none unless it ``asks`` for attributes."""
        if not asks:
            return np.full(len(self.first), OUTSIDE), []
        index: dict[str, int] = {}
        each = (expanded(line, x, n) for x, n in zip(self.X, np.diff(self.offsets).tolist(), strict=True))
        return np.array([index.setdefault(name, len(index)) for names in each for name in names], np.int64), list(index)

    def atom(self, column: str, treatment: str, offset: int) -> tuple[np.ndarray, list[str]]:
        """(N,) the number of each token's value, OUTSIDE if there is none, and the values."""
        numbers, values = self.column(column, treatment)
        places = np.arange(len(numbers)) + offset
        inside = (places >= self.first) & (places < self.end)
        return np.where(inside, numbers[np.where(inside, places, 0)] if len(numbers) else numbers, OUTSIDE), values

    def column(self, column: str, treatment: str) -> tuple[np.ndarray, list[str]]:
        """(N,) numbers of the values of a column, and the escaped values in order of first occurrence."""
        if (column, treatment) not in self.kept:
            index: dict[str, int] = {}
            if treatment == "":
                flat = itertools.chain.from_iterable(x[column] for x in self.X)
                numbers = np.array([index.setdefault(value, len(index)) for value in flat], np.int64)
            else:
                base, raw = self.column(column, "")
                treated = _treated(treatment, [_ESCAPED.sub(r"\1", value) for value in raw])
                numbers = np.array([index.setdefault(value, len(index)) for value in treated], np.int64)[base]
            self.kept[column, treatment] = numbers, _escaped(index)
        return self.kept[column, treatment]


def column_of(values: Sequence[str], treatment: str) -> list[str]:
    """The values of one sentence's column after a treatment, escaped as in the names of attributes."""
    return _escaped(_treated(treatment, values) if treatment else values)


def _escaped(values: Iterable[str]) -> list[str]:
    return [value if _SPECIAL.isdisjoint(value) else _ESCAPE.sub(r"\\\1", value) for value in values]


_SPECIAL = frozenset("|\\")
_ESCAPE, _ESCAPED = re.compile(r"([|\\])"), re.compile(r"\\([|\\])")


def columns_of_sentence(name: Example, x: Any, columns: list[str]) -> Mapping[str, Sequence[str]]:
    """A sentence as columns of strings of one length: a mapping, a data frame, or a list of dictionaries, one for each
    token. Raises unless all ``columns`` exist.
    """
    if is_frame(x):
        x = x.to_dict("list")
    elif isinstance(x, (list, tuple)) and all(isinstance(token, Mapping) for token in x):
        for t, token in enumerate(x):
            missing = ", ".join(column for column in columns if column not in token)
            if missing:
                raise example_error(name, t, f"expected the columns {', '.join(columns)}, got no {missing}")
        x = {column: [token[column] for token in x] for column in columns} or {"": x}
    if not isinstance(x, Mapping):
        expected = "expected columns, such as {'word': [...]}, a data frame or a dictionary for each token"
        raise example_error(name, None, f"{expected}, got {type(x).__name__}", TypeError)
    if any(column not in x for column in columns):
        got = ", ".join(map(str, x))
        raise example_error(name, None, f"expected the columns {', '.join(columns)}, got {got or 'none'}")
    lengths = {column: len(x[column]) for column in columns}
    if len(set(lengths.values())) > 1:
        raise example_error(name, None, f"expected columns of one length, got {lengths}")
    for column in columns:
        if isinstance(x[column], str):
            raise example_error(name, None, f"{column}: expected a sequence of strings, got {x[column]!r}", TypeError)
        for t, value in enumerate(x[column]):
            if not isinstance(value, str):
                raise example_error(name, t, f"{column}: expected a string, got {value!r:.80}", TypeError)
    return {column: x[column] for column in columns} if columns else x


def _listed_tokens(name: Example, x: Any) -> list[Any]:
    """The tokens of a sentence of attributes; the rows of a data frame."""
    if isinstance(x, Mapping) and "items" in x:
        x = x["items"]
    if isinstance(x, (str, bytes, Mapping)):
        raise example_error(name, None, f"expected a list of tokens, got {x!r:.80}", TypeError)
    return x.to_dict("records") if is_frame(x) else list(x)


def _tokens(x: Any) -> int:
    return len(next(iter(x.values()), ())) if isinstance(x, Mapping) else len(x)


def _attribute_sets(X: list[list[Any]], joiner: str) -> TokenAttributes:
    """Attributes from the user: for each token a sequence of strings or a mapping from strings to numbers."""
    index: dict[str, int] = {}
    numbers: list[int] = []
    values: list[float] = []
    counts: list[int] = []
    for i, x in enumerate(X):
        for t, given in enumerate(x):
            before = len(numbers)
            for name, value in _placed(i, t, _named_values(f"X[{i}][{t}]", given, joiner)):
                numbers.append(index.setdefault(name, len(index)))
                values.append(value)
            counts.append(len(numbers) - before)
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])]).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    numbers_of = np.array(values, np.float64)
    for e in np.flatnonzero(~np.isfinite(numbers_of))[:1].tolist():
        token = int(np.searchsorted(indptr, e, side="right")) - 1
        i = int(np.searchsorted(offsets, token, side="right")) - 1
        name = list(index)[numbers[e]]
        raise ExampleError("X", i, token - int(offsets[i]), f"{name}: expected a finite number, got {values[e]}")
    return TokenAttributes(offsets, indptr, np.array(numbers, np.int64), numbers_of, list(index))


def _placed(i: int, t: int, named: Iterator[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    """The attributes of token t of sentence i, with its place in errors."""
    try:
        yield from named
    except (TypeError, ValueError) as error:
        raise located(error, Example("X", i), t) from None


def _named_values(name: str, given: Any, joiner: str) -> Iterator[tuple[str, float]]:
    if isinstance(given, str) or not isinstance(given, (Mapping, Iterable)):
        raise TypeError(f"{name}: expected a list of strings, or a dict from strings to numbers, got {given!r:.80}")
    for key in sorted(given, key=str) if isinstance(given, (set, frozenset)) else given:
        if not isinstance(key, str):
            raise TypeError(f"{name}: expected names of attributes as strings, got {key!r:.80}")
        value = given[key] if isinstance(given, Mapping) else 1.0
        if isinstance(value, str):
            yield f"{key}{joiner}{value}", 1.0
        elif isinstance(value, (bool, int, float, np.number, np.bool_)):
            yield key, real(f"{name}: {key}", int(value) if isinstance(value, (bool, np.bool_)) else value)
        elif isinstance(value, (Mapping, list, tuple, set, frozenset)):
            for inner, number in _named_values(f"{name}: {key}", value, joiner):
                yield f"{key}:{inner}", number
        else:
            raise TypeError(f"{name}: {key}: expected a number or a string, got {value!r:.80}")
