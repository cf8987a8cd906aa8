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

__all__ = ["load_model", "save_model"]

FORMAT = 1
FEW = 3  # names of fields that an error lists
MODELS = (
    "AlignmentModel",
    "MulticlassModel",
    "ParsingModel",
    "SegmentationModel",
    "SequenceModel",
    "TaggingModel",
    "TreeModel",
)


def save_model(path: str | Path, model: Any, w: Any, info: dict[str, Any] | None = None) -> None:
    """Write a model and its weights w (d,); ``info`` is any JSON-able dictionary (how it was trained).

    Raises
    ------
    TypeError
        A model of a kind that has no file form: a subclass of yours, a ListModel.
    ValueError
        Weights of another size, or not finite.
    OSError
        The file cannot be written; an older file at ``path`` is untouched.
    """
    weights, kind = np.asarray(host(w)), type(model).__name__
    if kind not in MODELS or type(model).__module__.split(".")[1:2] != ["models"]:
        raise TypeError(f"model: expected one of {', '.join(MODELS)}, got {kind}, which has no file form")
    if weights.shape != (model.size,) or not np.all(np.isfinite(weights)):
        wrong = "nan or inf among them" if weights.shape == (model.size,) else f"shape {weights.shape}"
        raise ValueError(f"w: expected {model.size} finite weights, got {wrong}")
    from reference import __version__

    header = {"format": FORMAT, "diptych": __version__, "model": kind, "settings": model.settings(), "info": info or {}}
    with replacing(path) as file:
        np.savez_compressed(file, weights=weights, header=np.array(json.dumps(header)))


def load_model(path: str | Path, panel: ModuleType) -> tuple[Any, np.ndarray, dict[str, Any]]:
    """Read a model file into a panel (``reference`` or ``accelerated``): model, weights (d,), info.

    Raises
    ------
    ValueError
        Naming the file: not there, not a model file, written by another version of the format, or damaged.
    """
    if not isinstance(panel, ModuleType):
        raise TypeError(f"panel: expected the module reference or accelerated, got {panel!r}")
    fields = read_npz(path, "model file of diptych")
    missing = [name for name in ("weights", "header") if name not in fields]
    if missing:
        names = sorted(fields)
        listed = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
        raise ValueError(f"{path}: not a model file of diptych: no field {', '.join(missing)}; found {listed}")
    try:
        weights, header = fields["weights"], json.loads(str(fields["header"]))
    except ValueError as problem:
        raise ValueError(f"{path}: not a model file of diptych: {problem}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        found = header.get("format") if isinstance(header, dict) else None
        raise ValueError(f"{path}: model file of format {found}, this version of diptych reads format {FORMAT}")
    if header.get("model") not in MODELS:
        raise ValueError(f"{path}: unknown kind of model {header.get('model')!r}; expected one of {', '.join(MODELS)}")
    try:
        model = getattr(panel, header["model"])(**header["settings"])
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise ValueError(f"{path}: damaged header: {problem}") from None
    if weights.shape != (model.size,) or weights.dtype.kind != "f" or not np.all(np.isfinite(weights)):
        raise ValueError(f"{path}: expected {model.size} finite weights, got {weights.dtype} of shape {weights.shape}")
    return model, weights, header.get("info", {})
