"""Arrays that count the entries worked on, and whether counts grow as a formula says: neither too fast nor too slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

VIEWS = ("reshape", "broadcast_to", "expand_dims", "squeeze", "shape", "ndim", "result_type", "can_cast")


class Counted(np.ndarray):
    """A NumPy array whose operations add to ``work`` the entries that they read or write, n log2(n) for a sort of n."""

    work = 0.0

    @classmethod
    def during(cls, run: Callable[[], Any]) -> float:
        """The work of a call."""
        cls.work = 0.0
        run()
        return cls.work

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        result = getattr(ufunc, method)(*map(_plain, inputs), **{name: _plain(x) for name, x in options.items()})
        Counted.work += max(_size(inputs), _size(result))
        return _counted(result)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return _counting(function, args, options)


def counted(x: Any) -> Counted:
    """A copy of x that counts."""
    return np.array(x, dtype=np.float64).view(Counted)


class CountingNumpy:
    """NumPy whose functions make arrays that count: a module's ``np`` in a test."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *args, **options: _counting(found, args, options)


def grows_as(
    count: Callable[[float], float], order: Callable[[float], float], values: Sequence[float], lower: float = 0.5
) -> None:
    """Assert that count(x)/order(x) stays within a factor of 2, and that it does not with an exponent of x that is too
    low.

    lower: by how much too low (of 1/x where orders fall); the values must be wide enough apart to show it.
    """
    x, ratios = np.array(values, float), np.array([count(x) / order(x) for x in values])
    assert _spread(ratios) <= 2, f"counts over orders at {list(values)}: {ratios}"
    rising = 1 if order(values[-1]) > order(values[0]) else -1
    assert _spread(ratios * x ** (rising * lower)) > 2, f"{list(values)}: not wide enough for {ratios}"


def _spread(ratios: np.ndarray) -> float:
    """The largest over the smallest: 1 where counts are proportional to their orders."""
    return float(ratios.max() / ratios.min())


def _counting(function: Callable[..., Any], args: Any, options: Any) -> Any:
    result = function(*_plain(args), **_plain(options))
    if function.__name__ not in VIEWS:
        length = np.shape(args[0])[options.get("axis", -1)] if "sort" in function.__name__ else 0
        Counted.work += max(_size(args), _size(result)) * max(1.0, np.log2(max(length, 1)))
    return _counted(result)


def _plain(x: Any) -> Any:
    if isinstance(x, Counted):
        return x.view(np.ndarray)
    if isinstance(x, (list, tuple)):
        return type(x)(map(_plain, x))
    return {name: _plain(y) for name, y in x.items()} if isinstance(x, dict) else x


def _counted(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(_counted, x))
    return x.view(Counted) if type(x) is np.ndarray else x


def _size(x: Any) -> int:
    if isinstance(x, (list, tuple)):
        return sum(map(_size, x))
    return x.size if isinstance(x, np.ndarray) else 1
