"""Model files: an ``.npz`` with the weights and a JSON header; no pickle, the same for both panels.

A file is written beside its place and renamed, so an interrupted or failed save leaves the old file whole.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from reference.arrays import host
from reference.files import read_npz, replacing
from reference.models.kernel_names import restored
from reference.models.kernel_sequence import KernelWeights

__all__ = ["load_model", "save_model"]

FORMAT = 1
FEW = 3  # names of fields that an error lists
MODELS = (
    "AlignmentModel",
    "CandidateModel",
    "KernelSequenceModel",
    "MulticlassModel",
    "ParsingModel",
    "SegmentationModel",
    "SequenceModel",
    "SubwindowModel",
    "TaggingModel",
    "TreeModel",
    "TwoLayerModel",
)


def save_model(path: str | Path, model: Any, w: Any, info: dict[str, Any] | None = None) -> None:
    """Write a model and its weights w (d,); ``info`` is any JSON-able dictionary (how it was trained).

    Of a KernelSequenceModel w is a KernelWeights; the training positions that have coefficients are written with it, so that the file is all that
    predictions need.

    Raises
    ------
    TypeError
        A model of a kind that has no file form: a subclass of yours, a ListModel; kernels that have none: functions, precomputed matrices.
    ValueError
        Weights of another size, or not finite.
    OSError
        The file cannot be written; an older file at ``path`` is untouched.
    """
    kind = type(model).__name__
    if kind not in MODELS or type(model).__module__.split(".")[1:2] != ["models"]:
        raise TypeError(f"model: expected one of {', '.join(MODELS)}, got {kind}, which has no file form")
    members = _of_kernels(model, w) if kind == "KernelSequenceModel" else {"weights": _vector(model, w)}
    from reference import __version__

    header = {"format": FORMAT, "diptych": __version__, "model": kind, "settings": model.settings(), "info": info or {}}
    with replacing(path) as file:
        np.savez_compressed(file, **members, header=np.array(json.dumps(header)))  # type: ignore[arg-type]


def load_model(path: str | Path, panel: ModuleType) -> tuple[Any, Any, dict[str, Any]]:
    """Read a model file into a panel (``reference`` or ``accelerated``): model, weights (d,), or those of kernels, info.

    Raises
    ------
    ValueError
        Naming the file: not there, not a model file, written by another version of the format, or damaged.
    """
    if not isinstance(panel, ModuleType):
        raise TypeError(f"panel: expected the module reference or accelerated, got {panel!r}")
    fields = read_npz(path, "model file of diptych")
    if "header" not in fields or not {"weights", "rows"} & set(fields):
        names = sorted(fields)
        missing = ", ".join(name for name in ("weights", "header") if name not in fields)
        listed = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
        raise ValueError(f"{path}: not a model file of diptych: no field {missing}; found {listed}")
    try:
        header = json.loads(str(fields["header"]))
    except ValueError as problem:
        raise ValueError(f"{path}: not a model file of diptych: {problem}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        found = header.get("format") if isinstance(header, dict) else None
        raise ValueError(f"{path}: model file of format {found}, this version of diptych reads format {FORMAT}")
    if header.get("model") not in MODELS:
        raise ValueError(f"{path}: unknown kind of model {header.get('model')!r}; expected one of {', '.join(MODELS)}")
    try:
        settings = dict(header["settings"])
        if header["model"] == "KernelSequenceModel":
            settings["groups"] = [restored(group) for group in settings["groups"]]
        model = getattr(panel, header["model"])(**settings)
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise ValueError(f"{path}: damaged header: {problem}") from None
    if header["model"] == "KernelSequenceModel":
        return model, _kernel_weights(path, model, fields), header.get("info", {})
    weights = fields.get("weights", np.zeros(0, np.int64))
    if weights.shape != (model.size,) or weights.dtype.kind != "f" or not np.all(np.isfinite(weights)):
        raise ValueError(f"{path}: expected {model.size} finite weights, got {weights.dtype} of shape {weights.shape}")
    return model, weights, header.get("info", {})


def _vector(model: Any, w: Any) -> np.ndarray:
    """Weights (d,) on the host, checked."""
    weights = np.asarray(host(w))
    if weights.shape != (model.size,) or not np.all(np.isfinite(weights)):
        wrong = "nan or inf among them" if weights.shape == (model.size,) else f"shape {weights.shape}"
        raise ValueError(f"w: expected {model.size} finite weights, got {wrong}")
    return weights


def _of_kernels(model: Any, weights: Any) -> dict[str, np.ndarray]:
    """The members of a file of kernels: the weights' arrays, as few training positions as there can be."""
    model.check_weights(weights)
    weights = model.support(weights)
    arrays = {f"coefficients_{k}": host(A) for k, A in enumerate(weights.coefficients)}
    arrays |= {name: host(getattr(weights, name)) for name in ("transitions", "squared_norms", "rows")}
    for name, array in arrays.items():
        if not np.all(np.isfinite(array)):
            raise ValueError(f"w: expected finite weights, got nan or inf in {name}")
    return arrays


def _kernel_weights(path: str | Path, model: Any, fields: dict[str, np.ndarray]) -> KernelWeights:
    """The weights in the members of a file of kernels."""
    names = [*(f"coefficients_{k}" for k in range(len(model.groups))), "transitions", "squared_norms", "rows"]
    for name in names:
        if name not in fields or fields[name].dtype.kind != "f" or not np.all(np.isfinite(fields[name])):
            found = f"{fields[name].dtype} of shape {fields[name].shape}" if name in fields else "nothing"
            raise ValueError(f"{path}: expected finite numbers in {name}, got {found}")
    *coefficients, transitions, squared_norms, rows = (fields[name] for name in names)
    weights = KernelWeights(tuple(coefficients), transitions, squared_norms, rows)
    try:
        model.check_weights(weights)
    except ValueError as problem:
        raise ValueError(f"{path}: damaged: {problem}") from None
    return weights
