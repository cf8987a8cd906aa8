"""The namespaces (and devices) that the suite runs on: name to a function from host arrays to arrays there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from conformance.tolerances import close
from reference.arrays import host

Send = Callable[[np.ndarray], Any]  # from host arrays to arrays in a namespace, on a device


class Space(NamedTuple):
    """Where a test computes: ``put`` sends host numbers there in its floating dtype, ``get`` brings them back."""

    name: str
    dtype: str
    send: Send

    def __repr__(self) -> str:
        return f"{self.name}-{self.dtype}"

    def put(self, x: Any) -> Any:
        """Floats (and booleans) in the space's floating dtype."""
        return self.send(np.array(x, dtype=self.dtype))

    def put_fields(self, scores: Any) -> tuple[Any, ...]:
        """The fields of a tuple of scores: floats in the space, and lengths as integers there; the rest stays."""
        return tuple(
            x if x is None else self.put(x) if x.dtype.kind == "f" else self.integers(x) if name == "lengths" else x
            for name, x in zip(scores._fields, scores, strict=True)
        )

    @property
    def device(self) -> str:
        """As its library prints it."""
        return str(getattr(self.send(np.zeros(1)), "device", None))

    @property
    def repeats(self) -> bool:
        """Whether a computation done twice has the same bits: not on a GPU, whose atomic additions have no fixed
        order.
        """
        return "cuda" not in self.name

    def again(self, got: Any, expected: Any) -> None:
        """Assert that a computation done twice has the same bits, or is close where they may differ."""
        if self.repeats:
            assert np.array_equal(got, expected)
        else:
            close(got, expected, self.dtype)

    def scaled(self, x: np.ndarray, scale: float) -> tuple[Any, np.ndarray, float]:
        """x at a scale, what the space's dtype stores of it, and the scale: 1 in float32, which has no huge or tiny
        ones.
        """
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
        assert str(getattr(x, "device", None)) == self.device, f"{x.device} is not {self.name}"
        return host(x)


HOST = Space("numpy", "float64", np.asarray)  # without a namespace to test


def _sending(namespace: str, device: str) -> Send:
    """From host arrays to those of a namespace on a device, in its library's words."""
    xp: Any = importlib.import_module("array_api_compat.cupy" if namespace == "cupy" else namespace)
    place: Any = device
    if namespace == "cupy":
        place = xp.cuda.Device(int(device.removeprefix("cuda").removeprefix(":") or 0))
    if namespace == "array_api_strict":
        place = xp.Device(device)
    if namespace == "jax":
        xp.config.update("jax_enable_x64", True)  # labels are int64, certificates float64
        xp, place = xp.numpy, xp.devices(device)[0]
    return lambda x: xp.asarray(x, device=place)


NAMESPACES = ("numpy", "array_api_strict", "torch", "jax", "cupy")

# The spaces of a run without --namespace: the namespace and the device of each.
SPACES: dict[str, tuple[str, str]] = {
    "numpy": ("numpy", "cpu"),
    "array_api_strict": ("array_api_strict", "CPU_DEVICE"),
    "array_api_strict:device1": ("array_api_strict", "device1"),
    "torch:cpu": ("torch", "cpu"),
    "jax:cpu": ("jax", "cpu"),
    "cupy:cuda": ("cupy", "cuda"),
    "torch-autograd": ("torch", "cpu"),
    "jax-jit": ("jax", "cpu"),
}

# Those of layers: structures answer there by the functions of diptych.layers and their derivatives
# (:mod:`conformance.layers.structures`), and the laws of layers run on them, no other.
LAYERS = ("torch-autograd", "jax-jit")

# The strict namespace is slow, so each of its devices has one dtype: float32, for it refuses what creates float64
# beside it, and float64 elsewhere.
DTYPES = {"array_api_strict": ("float32",), "array_api_strict:device1": ("float64",)}


def spaces(names: list[str], device: str | None = None) -> tuple[list[Space], dict[str, str]]:
    """The spaces to run on, each in its dtypes, and the reasons why the others do not run.

    Without names: all, on the devices that a host has. With names of namespaces or spaces, only those, each on
    ``device`` if given.

    Raises
    ------
    ValueError
        An unknown name, one that is not installed, a device that the library does not have here, a device for no
        namespace.
    """
    found: list[Space] = []
    missing: dict[str, str] = {}
    if device is not None and not names:
        raise ValueError(f"--device {device}: expected a --namespace beside it, one of {', '.join(NAMESPACES)}")
    for name, (namespace, where) in _asked(names, device).items():
        try:
            send = _working(_sending(namespace, where))
        except ImportError as problem:
            if names:
                raise ValueError(f"--namespace {namespace}: not installed ({problem})") from None
            missing[name] = str(problem)
        except Exception as problem:  # libraries differ in this
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            if not names:
                missing[name] = reason
                continue
            raise ValueError(f"--device {where}: {namespace} does not compute there: {reason}") from None
        else:
            found += [Space(name, dtype, send) for dtype in DTYPES.get(name, ("float64", "float32"))]
    return found, missing


def _asked(names: list[str], device: str | None) -> dict[str, tuple[str, str]]:
    """Spaces by name, as SPACES has them."""
    asked = {}
    for name in names or SPACES:
        space = next((key for key in (name, f"{name}:cpu", f"{name}:cuda") if key in SPACES), None)
        if space is None:
            known = ", ".join(dict.fromkeys([*NAMESPACES, *SPACES]))
            raise ValueError(f"--namespace {name}: expected one of {known}")
        namespace, where = SPACES[space]
        if device is not None:
            where = device
            if name not in LAYERS:
                named = (key for key, value in SPACES.items() if value == (namespace, where))
                space = next(named, f"{namespace}:{where}")
        asked[space] = (namespace, where)
    return asked


def _working(send: Send) -> Send:
    """``send``, if a number comes back from there: a device that a library knows by name may be missing, or hold no
    numbers."""
    if host(send(np.ones(1))).tolist() != [1.0]:
        raise ValueError("numbers do not come back from it")
    return send
