"""The features of tokens as python-crfsuite takes them: names and values.

A token is a dictionary or a list of names. In a dictionary the value of a name is a number or a boolean, a string (the
feature ``name:string``), or a list, set or dictionary of further features (``name:further``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from reference.arrays import real
from reference.example_errors import example_error

__all__ = ["ItemSequence", "items_of", "label_of"]

Item = list[tuple[str, float]]


class ItemSequence:
    """The features of a sequence, named once for several uses.

    Parameters
    ----------
    pyseq : iterable of n tokens
        Each a dictionary or an iterable of names. Names and strings may be bytes of UTF-8.

    Raises
    ------
    ExampleError, a ValueError
        Naming the token and the feature: no name, no number, a number that is not finite.

    Examples
    --------
    >>> ItemSequence([{"word": "duck", "length": 4}, {"parts": ["du", "ck"]}]).items()
    [{'word:duck': 1.0, 'length': 4.0}, {'parts:du': 1.0, 'parts:ck': 1.0}]
    """

    def __init__(self, pyseq: Any) -> None:
        self._items: list[Item] = items_of(pyseq, "pyseq")

    def items(self) -> list[dict[str, float]]:
        """Names and values of each token; of a name that a token has twice, the last value."""
        return [dict(item) for item in self._items]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


def items_of(xseq: Any, name: str = "xseq") -> list[Item]:
    """Names and values of the features of each token; ``name`` is that of the sequence in errors."""
    if isinstance(xseq, ItemSequence):
        return xseq._items
    if isinstance(xseq, str | bytes | Mapping) or not isinstance(xseq, Iterable):
        raise example_error(name, None, f"expected a list of tokens, got {xseq!r:.80}", TypeError)
    items = []
    for t, token in enumerate(xseq):
        try:
            items.append(_item(token))
        except (TypeError, ValueError) as problem:
            raise example_error(name, t, str(problem), type(problem)) from None
    return items


def label_of(label: Any, name: str, position: int) -> str:
    """A label as a string; ``name`` is that of the sequence in errors."""
    if type(label) is str:
        return label
    if isinstance(label, str | bytes):
        try:
            return _text(label)
        except ValueError as problem:
            raise example_error(name, position, str(problem)) from None
    raise example_error(name, position, f"expected a label as a string, got {label!r:.80}", TypeError)


def _item(token: Any) -> Item:
    is_dict = type(token) is dict or isinstance(token, Mapping)
    if not is_dict and (isinstance(token, str | bytes) or not isinstance(token, Iterable)):
        raise TypeError(f"expected a dictionary or a list of names, got {token!r:.80}")
    if not is_dict:
        # the order of a set is another in each process
        names = sorted(token, key=str) if isinstance(token, set | frozenset) else token
        return [(name if type(name) is str else _text(name), 1.0) for name in names]
    item: Item = []
    for key, value in token.items():
        name = key if type(key) is str else _text(key)
        if type(value) is str:  # the usual cases, quickly
            item.append((f"{name}:{value}", 1.0))
        elif type(value) is bool:
            item.append((name, 1.0 if value else 0.0))
        elif type(value) is float and -np.inf < value < np.inf:
            item.append((name, value))
        elif isinstance(value, str | bytes):
            item.append((f"{name}:{value if isinstance(value, str) else _text(value)}", 1.0))
        elif isinstance(value, Mapping | list | tuple | set | frozenset):
            try:
                item += [(f"{name}:{inner}", number) for inner, number in _item(value)]
            except (TypeError, ValueError) as problem:
                raise type(problem)(f"{name:.80}: {problem}") from None
        else:
            item.append((name, _number(name, value)))
    return item


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_):
        return float(value)
    if value is None:
        raise TypeError(f"{name:.80}: expected a number or a string, got None")
    number = real(f"{name:.80}", value)
    if not np.isfinite(number):
        raise ValueError(f"{name:.80}: expected a finite number, got {number}")
    return number


def _text(name: Any) -> str:
    if isinstance(name, str):
        return str(name)
    if not isinstance(name, bytes):
        raise TypeError(f"expected the name of a feature as a string, got {name!r:.80}")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise ValueError(f"expected UTF-8, got {name!r:.80}") from None
