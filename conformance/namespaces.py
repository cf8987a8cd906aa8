"""The namespaces (and devices) that the suite runs on: name to a function from host arrays to arrays there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import host


class Space(NamedTuple):
    """Where a test computes: ``put`` sends host numbers there in its floating dtype, ``get`` brings them back."""

    name: str
    dtype: str
    send: Callable[[np.ndarray], Any]

    def put(self, x: Any) -> Any:
        """Floats (and booleans) in the space's floating dtype."""
        return self.send(np.array(x, dtype=self.dtype))

    def scaled(self, x: np.ndarray, scale: float) -> tuple[Any, np.ndarray, float]:
        """x at a scale, what the space's dtype stores of it, and the scale: 1 in float32, which has no huge or tiny ones."""
        scale = 1.0 if self.dtype == "float32" else scale
        stored = (x * scale).astype(self.dtype)
        return self.put(stored), stored.astype(np.float64), scale

    def integers(self, x: Any) -> Any:
        """int64 in the space."""
        return self.send(np.array(x, dtype=np.int64))

    def get(self, x: Any) -> np.ndarray:
        """A host array; fails if ``x`` is not in this space's namespace and on its device."""
        probe = self.send(np.zeros(1))
        assert type(x) is type(probe) or np.isscalar(x), f"{type(x)} is not in {self.name}"
        assert str(getattr(x, "device", None)) == str(getattr(probe, "device", None)), f"{x.device} is not {self.name}"
        return host(x)


def _strict(device: str) -> Callable[[np.ndarray], Any]:
    xp = importlib.import_module("array_api_strict")
    return lambda x: xp.asarray(x, device=xp.Device(device))


def _torch() -> Callable[[np.ndarray], Any]:
    return importlib.import_module("torch").asarray


SPACES: dict[str, Callable[[], Callable[[np.ndarray], Any]]] = {
    "numpy": lambda: lambda x: x,
    "array_api_strict": lambda: _strict("CPU_DEVICE"),
    "array_api_strict:device1": lambda: _strict("device1"),
    "torch:cpu": _torch,
}

# The strict namespace is slow, so each of its devices has one dtype: float32, for it refuses what creates float64 beside it, and float64 elsewhere.
DTYPES = {
    "numpy": ("float64", "float32"),
    "array_api_strict": ("float32",),
    "array_api_strict:device1": ("float64",),
    "torch:cpu": ("float64", "float32"),
}


def available(names: list[str]) -> tuple[dict[str, Callable[[np.ndarray], Any]], dict[str, str]]:
    """(the spaces of these names that can run, what is missing for the others)."""
    found, missing = {}, {}
    for name in names:
        try:
            found[name] = SPACES[name]()
        except ImportError as problem:
            missing[name] = str(problem)
    return found, missing
