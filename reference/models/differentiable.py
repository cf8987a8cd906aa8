"""A model from a score function in PyTorch: any network, any structure. Jacobians are computed by automatic
differentiation.

The user gives the scores of the parts of an input's outputs as a function of the weights or as a ``torch.nn.Module``.
PyTorch is imported when such a model is made.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from array_api_compat import is_torch_array

from reference.arrays import Array, Place, host, integer
from reference.example_errors import ExampleError
from reference.models.base import sound
from reference.models.listed import FromCallables
from reference.models.nonlinear import NonlinearModel
from reference.packed import Packed, check_indices, check_range
from reference.structures.sampling import generator
from reference.structures.scores import Scores, flatten

__all__ = ["DifferentiableData", "DifferentiableModel"]


@dataclass(frozen=True, eq=False, repr=False)
class DifferentiableData(Packed):
    """Packed examples: the inputs; how many parts each has (n,); the true outputs, or None; an empty array on the
    weights' device.
    """

    inputs: tuple[Any, ...]
    parts: np.ndarray
    outputs: tuple[Any, ...] | None
    like: Array

    as_given = ("inputs", "outputs")

    def validate(self) -> None:
        """Raise unless each input has a number of parts, and an output if there are outputs."""
        check_indices("parts", self.parts, (len(self.inputs),))
        check_range("parts", self.parts, 0, 2**62)
        if self.outputs is not None and len(self.outputs) != len(self.inputs):
            raise ValueError(f"outputs: expected {len(self.inputs)}, one for each input, got {len(self.outputs)}")

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.inputs)


class DifferentiableModel(FromCallables, NonlinearModel):
    """Scores of parts from a differentiable function in PyTorch; for ``prox_linear`` or ``sgd``.

    scores of x = score(w, x)

    Parameters
    ----------
    score : callable (w, x) -> tensor (p,)
        The scores of the p parts of x's outputs, from a tensor of weights w (d,): torch operations that can be
        differentiated. To score by a ``torch.nn.Module``, see :meth:`of_module`.
    structure_type : type
        A :class:`Structure` over the scores that ``shape`` makes, such as ``Table`` (part = output).
    task_loss : callable (x, y) -> (p,), optional
        The loss that each part adds to an output that contains it, where y is true; default 0. Those of y's own parts
        must add up to 0.
    size : int
        Number of weights d.
    shape : callable (x, values) -> scores, optional
        Converts the p part scores to the structure's scores, as for ``ListModel``. Default: ``TableScores`` for a
        Table, the bare vector for any other structure.

    Raises
    ------
    ImportError
        PyTorch is not installed.
    ValueError
        From ``pack``, ``scores`` and ``task_loss``: scores that are not a vector, a different number of scores than
        before, or nan from a module with its initial weights, naming the example.

    Notes
    -----
    Examples are processed one at a time; :class:`MinibatchModel` scores many at once. A gradient costs a forward and a
    backward pass, a Jacobian-vector product a forward pass in dual numbers. Weights are NumPy float64 unless ``pack(X,
    Y, like=...)`` says otherwise; the function gets them as a tensor of that dtype (and device, if ``like`` is a
    tensor).

    Source
    ------
    Pillutla et al., section 6: any score that is smooth in w.

    Examples
    --------
    >>> from reference import DifferentiableModel, Table
    >>> def score(w, x):  # two outputs: w_0 sin(w_1 x), and 0
    ...     return torch.stack([w[0] * torch.sin(w[1] * x), torch.zeros_like(w[0])])
    >>> try:
    ...     import torch
    ...     model = DifferentiableModel(score, Table, size=2)
    ...     data = model.pack([1.0, -1.0], [0, 1])
    ...     outputs = [int(y) for y in model.predict(data, None, np.array([1.0, 0.5]))]
    ... except ImportError:
    ...     outputs = [0, 1]
    >>> outputs
    [0, 1]
    """

    packed_type = DifferentiableData

    def __init__(
        self,
        score: Callable[[Any, Any], Any],
        structure_type: Any,
        task_loss: Callable[[Any, Any], Any] | None = None,
        *,
        size: int,
        shape: Callable[[Any, Array], Scores] | None = None,
    ) -> None:
        _torch()
        self.score, self.structure_type, self.size = score, structure_type, integer("size", size, 1)
        self._task_loss, self._shape = task_loss, shape
        self.module: Any = None

    @property
    def torch(self) -> Any:
        """PyTorch, which a pickle does not hold."""
        return _torch()

    @classmethod
    def of_module(
        cls,
        module: Any,
        structure_type: Any,
        task_loss: Callable[[Any, Any], Any] | None = None,
        **options: Any,
    ) -> Self:
        """The model whose scores are ``module(x)``. Its weights are the module's parameters, flattened and
        concatenated, except frozen ones. ``options``: the constructor's others.

        Weights are NumPy arrays of the parameters' dtype, unless ``pack(X, Y, like=...)`` says otherwise.
        :meth:`initial` returns the module's parameters; :meth:`write` writes trained weights into them.
        """
        torch = _torch()
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"module: expected a torch.nn.Module, got {type(module).__name__}")
        named = {name: parameter.shape for name, parameter in module.named_parameters() if parameter.requires_grad}
        if not named:
            raise ValueError("module: expected parameters to train, got none with requires_grad")
        _refuse_training(torch, module)
        counts = [int(np.prod(shape_of, dtype=np.int64)) for shape_of in named.values()]
        score = functools.partial(_score, module, named, counts)
        model = cls(score, structure_type, task_loss, size=sum(counts), **options)
        model.module = module
        return model

    def initial(self, data: DifferentiableData, rng: int | np.random.Generator | None = None) -> Array:
        """The module's parameters as weights (d,); for a model of a bare function 0.1 times normal draws, as the
        gradient of a network may be 0 at w = 0.
        """
        if self.module is None:
            return Place.of(data.like).floats(0.1 * generator(rng).standard_normal(self.size))
        return Place.of(data.like).floats(host(self._vector()))

    def write(self, w: Array) -> None:
        """Write weights (d,) into the module's parameters. Raises ValueError for a model of a bare function."""
        if self.module is None:
            raise ValueError("write: this model was made of a function, which has no parameters; of_module has")
        like, values = self._vector(), np.array(host(w))
        if values.shape != (self.size,):
            raise ValueError(f"w: expected {self.size} weights, got shape {values.shape}")
        self.torch.nn.utils.vector_to_parameters(self.torch.as_tensor(values).to(like), self._parameters())

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> DifferentiableData:
        """Inputs (n) and true outputs (n), in any form that the callables accept. Each input is scored once, to count
        its parts.
        """
        inputs, outputs = self._given(X, Y)
        if like is None and self.module is not None:
            like = host(self._vector()[:0])
        empty = Place.of(like).zeros((0,))
        unknown = np.zeros(len(inputs), np.int64)
        data = DifferentiableData(inputs, unknown, outputs, empty)
        w = self._tensor(self.initial(data))
        data = data._replace(parts=np.array([self._count(data, i, w) for i in range(len(inputs))], np.int64))
        self._check_outputs(data)
        return data

    def _count(self, data: DifferentiableData, i: int, w: Any) -> int:
        """The number of parts of example i, from its scores at w."""
        with self.torch.no_grad():
            scores = self._scored(data, self._piece(np.array([i])), w, counted=False)
        if self.module is not None and bool(self.torch.isnan(scores).any()):
            raise ExampleError("X", i, None, "expected scores, the module gives nan")
        return len(scores)

    def scores(self, data: DifferentiableData, batch: np.ndarray, w: Array) -> Scores:
        """The scores of one example (batch of one) at weights w (d,)."""
        i = self._piece(batch)
        with self.torch.no_grad():
            values = self._scored(data, i, self._tensor(w))
        return sound(self._shaped(data, i, self._array(values, w)), w)

    def pushforward(self, data: DifferentiableData, batch: np.ndarray, w: Array, dw: Array) -> Scores:
        """The Jacobian of the scores at w times dw (d,)."""
        return self.value_and_pushforward(data, batch, w, dw)[1]

    def value_and_pushforward(
        self, data: DifferentiableData, batch: np.ndarray, w: Array, dw: Array
    ) -> tuple[Scores, Scores]:
        """The scores at w, and their Jacobian there times dw (d,); by forward mode, or backward twice if an operation
        has no forward mode.
        """
        i, point, direction = self._piece(batch), self._tensor(w), self._tensor(dw)

        def of(x: Any) -> Any:
            return self._scored(data, i, x)

        try:
            value, slope = _dual_numbers(of, point, direction)
        # PyTorch's message for "no forward mode"; an error in the score itself is raised again below
        except (NotImplementedError, RuntimeError):
            value, slope = self.torch.autograd.functional.jvp(of, point, direction)
        scores, change = (self._shaped(data, i, self._array(each.detach(), w)) for each in (value, slope))
        return scores, change

    def pullback(self, data: DifferentiableData, batch: np.ndarray, w: Array, g: Scores) -> Array:
        """The adjoint of :meth:`pushforward` at g, a gradient (d,)."""
        return self.value_and_pullback(data, batch, w, g)[1]

    def value_and_pullback(
        self, data: DifferentiableData, batch: np.ndarray, w: Array, g: Scores
    ) -> tuple[Scores, Array]:
        """The scores at w, and the adjoint of their Jacobian there at g, a gradient (d,)."""
        i = self._piece(batch)
        point = self._tensor(w).detach().requires_grad_()
        with self.torch.enable_grad():
            values = self._scored(data, i, point)
        gradient = None
        if values.requires_grad:
            (gradient,) = self.torch.autograd.grad(values, point, self._tensor(flatten(g)), allow_unused=True)
        back = self.torch.zeros_like(point) if gradient is None else gradient
        return self._shaped(data, i, self._array(values.detach(), w)), self._array(back.detach(), w)

    def _room(self, data: DifferentiableData, i: Any) -> tuple[Place, int]:
        return Place.of(data.like), int(data.parts[i])

    def zeros(self, data: DifferentiableData) -> Array:
        """Weights of zero (d,)."""
        return Place.of(data.like).zeros((self.size,))

    def _scored(self, data: DifferentiableData, i: Any, w: Any, counted: bool = True) -> Any:
        """The user's scores of example i, checked."""
        values = self.score(w, data.inputs[i])
        if not isinstance(values, self.torch.Tensor) or values.ndim != 1:
            kind = f"shape {tuple(values.shape)}" if hasattr(values, "shape") else type(values).__name__
            raise ValueError(f"score: expected a tensor (p,) of scores for example {i}, got {kind}")
        if counted and len(values) != data.parts[i]:
            raise ValueError(f"score: expected {data.parts[i]} scores for example {i}, as before, got {len(values)}")
        return values

    def _tensor(self, x: Array) -> Any:
        """An array of weights or scores as a tensor, sharing memory if possible."""
        return x if is_torch_array(x) else self.torch.from_numpy(np.ascontiguousarray(host(x)).copy())

    def _array(self, values: Any, w: Array) -> Array:
        """A tensor on the weights' device, in their dtype."""
        return values.to(w.dtype) if is_torch_array(w) else Place.of(w).floats(values.cpu().numpy())

    def _vector(self) -> Any:
        return self.torch.nn.utils.parameters_to_vector(self._parameters()).detach().cpu()

    def _parameters(self) -> list[Any]:
        """The module's parameters that are not frozen."""
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]


def _dual_numbers(of: Callable[[Any], Any], point: Any, direction: Any) -> tuple[Any, Any]:
    """The value of a function of tensors and its directional derivative, by one forward pass."""
    torch, forward = _torch(), _forward_mode()
    with forward.dual_level():
        value, slope = forward.unpack_dual(of(forward.make_dual(point, direction)))
        return value, torch.zeros_like(value) if slope is None else slope


@functools.cache
def _forward_mode() -> Any:
    """PyTorch's forward mode. Its first use gives deprecation warnings about PyTorch's own code, which are hidden."""
    torch = _torch()
    forward = torch.autograd.forward_ad
    with warnings.catch_warnings(), forward.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        forward.make_dual(torch.zeros(1), torch.zeros(1))
    return forward


def _score(module: Any, named: dict[str, Any], counts: list[int], w: Any, x: Any) -> Any:
    """module(x) with the parameters that are named taken from w."""
    pieces, torch = zip(named.items(), w.split(counts), strict=True), _torch()
    return torch.func.functional_call(module, {name: piece.reshape(s) for (name, s), piece in pieces}, (x,))


def _torch() -> Any:
    """PyTorch, imported when a model needs it."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise ImportError(
            "DifferentiableModel needs PyTorch: pip install diptych[torch], or pip install torch"
        ) from None


def _refuse_training(torch: Any, module: Any) -> None:
    """Raise unless scores are a function of weights and input, without random draws or statistics of a batch."""
    kinds = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._NormBase, torch.nn.RReLU)
    for name, part in module.named_modules():
        dropout = getattr(part, "dropout", None)  # the probability in recurrent layers and attention
        draws = isinstance(dropout, int | float) and dropout > 0
        if part.training and (draws or isinstance(part, kinds)):
            raise ValueError(
                f"module: {name or 'it'} is a {type(part).__name__} in training mode, whose scores are not a function "
                f"of weights and input; "
                "call module.eval() first"
            )
