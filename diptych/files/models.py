"""Model files: an ``.npz`` with the weights and a JSON header, without pickle. Both panels read and write them.

A file is written under a temporary name and renamed, so an interrupted or failed save leaves the old file intact.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych.panels import panel_of
from reference.archives import MOST_BYTES, parse_json, read_npz
from reference.arrays import host
from reference.files import replacing
from reference.models.kernel_names import restored
from reference.models.kernel_sequence import KernelWeights

FORMATS = (1, 2)  # 2: names and pairs of taggers are arrays, not in the header
LARGE = 1 << 26  # bytes of arrays from which on they are not compressed
PAIRS = ("label_pairs", "pairs", "edge_pairs")
NAMES = {  # the arrays of each
    "vocabulary": ("names", "lengths"),
    "edge_vocabulary": ("edge_names", "edge_lengths"),
    "segment_vocabulary": ("segment_names", "segment_lengths"),
}
AS_ARRAYS = {  # settings that are arrays: pairs and names
    "TaggingModel": (PAIRS, ("vocabulary", "edge_vocabulary")),
    "ChunkingModel": (("pairs",), ("vocabulary", "segment_vocabulary")),
}
FLOATS = (np.float32, np.float64)
FEW = 3  # names of fields that an error lists
MODELS = (
    *("AlignmentModel", "CandidateModel", "ChunkingModel", "KernelSequenceModel", "MulticlassModel"),
    *("ParsingModel", "SegmentModel", "SegmentationModel", "SequenceModel", "SubwindowModel"),
    *("TaggingModel", "TreeModel", "TwoLayerModel"),
)


def save_model(path: str | Path, model: Any, w: Any, info: dict[str, Any] | None = None) -> None:
    """Write a model and its weights w (d,). info: any JSON-able dictionary, such as training settings.

    For a KernelSequenceModel, w is a KernelWeights. The training positions with coefficients are written too, because
    predictions need them.

    Raises
    ------
    TypeError
        A model that files cannot hold: your own subclass, a ListModel, a model with an oracle, or kernels that are
        functions or precomputed matrices.
    ValueError
        Weights of a wrong size or not finite.
    OSError
        The file cannot be written. An existing file at ``path`` is unchanged.
    """
    kind = type(model).__name__
    if kind not in MODELS or type(model).__module__.split(".")[1:2] != ["models"]:
        raise TypeError(f"model: expected one of {', '.join(MODELS)}, got {kind}, which cannot be saved")
    if getattr(model, "oracle", None) is not None:
        raise TypeError(
            f"model: expected one without an oracle, which files do not hold; use {kind}(**model.settings())"
        )
    members = _of_kernels(model, w) if kind == "KernelSequenceModel" else {"weights": _vector(model, w)}
    from reference import __version__

    settings, form = model.settings(), 1
    if kind in AS_ARRAYS:
        members, form = members | _arrays_of(settings), 2
    header = {"format": form, "diptych": __version__, "model": kind, "settings": settings, "info": info or {}}
    save: Any = np.savez_compressed if sum(each.nbytes for each in members.values()) < LARGE else np.savez
    with replacing(path) as file:
        save(file, **members, header=np.array(json.dumps(header)))


def load_model(
    path: str | Path, panel: str | ModuleType = "accelerated", *, most_bytes: int = MOST_BYTES
) -> tuple[Any, Any, dict[str, Any]]:
    """Read a model file into a panel: the model, its weights (d,) or KernelWeights, and its info.

    panel: name or module. most_bytes: maximum total size of the arrays of a compressed file (see
    :mod:`reference.archives`).

    Raises
    ------
    ValueError
        A file that is missing, not a model file, of another version of the format, damaged, or larger than
        ``most_bytes``. The message names the file.
    """
    module = panel_of(panel)
    fields = read_npz(path, "model file of diptych", most_bytes=most_bytes)
    if "header" not in fields or not {"weights", "rows"} & set(fields):
        names = sorted(fields)
        missing = ", ".join(name for name in ("weights", "header") if name not in fields)
        listed = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
        raise ValueError(f"{path}: not a model file of diptych: no field {missing}; found {listed}")
    if fields["header"].ndim or fields["header"].dtype.kind != "U":
        problem = f"{fields['header'].dtype} of shape {fields['header'].shape}"
        raise ValueError(f"{path}: not a model file of diptych: header: expected a string, got {problem}")
    header = parse_json(f"{path}: not a model file of diptych: header", fields["header"].item())
    if not isinstance(header, dict) or header.get("format") not in FORMATS:
        theirs = header.get("format") if isinstance(header, dict) else None
        ours = " and ".join(map(str, FORMATS))
        raise ValueError(f"{path}: model file of format {theirs!r:.80}, this version of diptych reads format {ours}")
    if header.get("model") not in MODELS:
        expected = ", ".join(MODELS)
        raise ValueError(f"{path}: unknown kind of model {header.get('model')!r:.80}; expected one of {expected}")
    info = header.get("info", {})
    if not isinstance(info, dict):
        raise ValueError(f"{path}: damaged header: info: expected an object, got {info!r:.80}")
    try:
        settings = _settings(header)
        if header["model"] == "TaggingModel":
            settings.setdefault("joiner", None)  # files of earlier versions do not have it
        if header["model"] in AS_ARRAYS and header["format"] == 2:
            settings |= _settings_of(fields, *AS_ARRAYS[header["model"]])
        if header["model"] == "KernelSequenceModel":
            settings["groups"] = [restored(group) for group in settings["groups"]]
        model = getattr(module, header["model"])(**settings)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise ValueError(f"{path}: damaged header: {problem}") from None
    if header["model"] == "KernelSequenceModel":
        return model, _kernel_weights(path, model, fields), info
    weights = fields.get("weights", np.zeros(0, np.int64))
    if weights.shape != (model.size,) or weights.dtype not in FLOATS or not np.all(np.isfinite(weights)):
        raise ValueError(f"{path}: expected {model.size} finite weights, got {weights.dtype} of shape {weights.shape}")
    return model, weights, info


def _settings(header: dict[str, Any]) -> dict[str, Any]:
    """The settings in a header, with their types checked.

    For L labels the header must hold L x L costs, so that a small file cannot declare a huge model.
    """
    settings = header.get("settings")
    if not isinstance(settings, dict):
        raise ValueError(f"settings: expected an object, got {settings!r:.80}")
    for name, value in settings.items():
        expected, right = SETTINGS.get(name, ("nothing", lambda value: False))
        if not right(value):
            raise ValueError(f"settings: {name}: expected {expected}, got {value!r:.80}")
    if "labels" in settings:
        L, cost = len(settings["labels"]), settings.get("cost", [])
        if len(cost) != L or any(len(row) != L for row in cost):
            raise ValueError(f"settings: cost: expected {L} x {L} numbers, got {len(cost)} rows of others")
    return settings


def _arrays_of(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a tagger's settings, which are taken out: its pairs, and the text of each vocabulary with the
    number of characters of each name.
    """
    arrays = {}
    for name in PAIRS:
        if (pairs := settings.pop(name, None)) is not None:
            arrays[name] = np.array(pairs, np.int64)
    for name, (text, lengths) in NAMES.items():
        if (vocabulary := settings.pop(name, None)) is not None:
            arrays[text] = np.frombuffer("".join(vocabulary).encode("utf-8", "surrogatepass"), np.uint8)
            arrays[lengths] = np.fromiter(map(len, vocabulary), np.int64, len(vocabulary))
    return arrays


def _settings_of(fields: dict[str, np.ndarray], pairs: tuple[str, ...], names: tuple[str, ...]) -> dict[str, Any]:
    """The inverse of :func:`_arrays_of`, of the pairs and names that a model has. Raises KeyError or ValueError."""
    settings: dict[str, Any] = {name: fields.get(name) for name in pairs}
    settings |= {"label_pairs": fields["label_pairs"]} if "label_pairs" in pairs else {}
    return settings | {name: _vocabulary(fields, *NAMES[name]) for name in names}


def _vocabulary(fields: dict[str, np.ndarray], name: str, of_lengths: str) -> list[str] | None:
    """The vocabulary whose text and lengths are the fields of these names; None if there are none."""
    if name not in fields and of_lengths not in fields:
        return None
    names, lengths = fields[name], fields[of_lengths]
    if names.dtype != np.uint8 or names.ndim != 1 or lengths.dtype != np.int64 or lengths.ndim != 1:
        raise ValueError(f"{name}: expected bytes and integers, got {names.dtype} and {lengths.dtype}")
    text = names.tobytes().decode("utf-8", "surrogatepass")
    ends = np.cumsum(lengths)
    if (len(lengths) and (lengths.min() < 0 or lengths.max() > len(text))) or ends[-1:].sum() != len(text):
        raise ValueError(f"{of_lengths}: expected lengths >= 0 that sum to {len(text)}")
    return [text[a:b] for a, b in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]


def _list_of(*kinds: type) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, list) and set(map(type, x)) <= set(kinds)


def _lists_of(*kinds: type) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, list) and all(map(_list_of(*kinds), x))


# the type of each setting of a model file, as text and as a check
SIZES = ("n_features", "n_edge_features", "n_segment_features", "hidden", "max_cells", "max_rows", "max_candidates")
SWITCHES = ("null", "start_stop", "single_root", "projective", "blocks", "intercept")
SETTINGS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(SIZES, ("an integer in 0..10^18", lambda x: type(x) is int and 0 <= x <= 10**18)),
    **dict.fromkeys(SWITCHES, ("true or false", lambda x: isinstance(x, bool))),
    **dict.fromkeys(PAIRS, ("integers, or null", lambda x: x is None or _list_of(int)(x))),
    "longest": ("an integer, or integers", lambda x: type(x) is int or _list_of(int)(x)),
    "scheme": ("a name", lambda x: isinstance(x, str)),
    **dict.fromkeys(("segment_templates", "segment_vocabulary"), ("a list of names", _list_of(str))),
    "bits": ("an integer, or null", lambda x: x is None or type(x) is int),
    "labels": ("a list of names", _list_of(str)),
    "cost": ("lists of numbers", _lists_of(int, float)),
    "shape": ("a list of integers", _list_of(int)),
    "groups": ("a list of kernels", lambda x: isinstance(x, list)),
    "transitions": ("a name, rules, or null", lambda x: x is None or isinstance(x, str | dict)),
    "joiner": ("':', '=' or null", lambda x: x in (None, ":", "=")),
    "templates": ("lists of names, or null", lambda x: x is None or _list_of(str)(x) or _lists_of(str)(x)),
    "edge_templates": ("a list of names, or null", lambda x: x is None or _list_of(str)(x)),
    "vocabulary": (
        "names, or lists of integers, or null",
        lambda x: x is None or _list_of(str)(x) or _list_of(int)(x) or _lists_of(int)(x),
    ),
}


def _vector(model: Any, w: Any) -> np.ndarray:
    """Weights (d,) on the host, checked."""
    weights = np.asarray(host(w))
    if weights.shape != (model.size,) or not np.all(np.isfinite(weights)):
        wrong = "nan or inf among them" if weights.shape == (model.size,) else f"shape {weights.shape}"
        raise ValueError(f"w: expected {model.size} finite weights, got {wrong}")
    return weights


def _of_kernels(model: Any, weights: Any) -> dict[str, np.ndarray]:
    """The arrays of a file of kernel weights, without training positions whose coefficients are all 0."""
    model.check_weights(weights)
    weights = model.support(weights)
    arrays = {f"coefficients_{k}": host(A) for k, A in enumerate(weights.coefficients)}
    arrays |= {name: host(getattr(weights, name)) for name in ("transitions", "squared_norms", "rows")}
    for name, array in arrays.items():
        if not np.all(np.isfinite(array)):
            raise ValueError(f"w: expected finite weights, got nan or inf in {name}")
    return arrays


def _kernel_weights(path: str | Path, model: Any, fields: dict[str, np.ndarray]) -> KernelWeights:
    """The kernel weights in the arrays of a file."""
    names = [*(f"coefficients_{k}" for k in range(len(model.groups))), "transitions", "squared_norms", "rows"]
    for name in names:
        if name not in fields or fields[name].dtype not in FLOATS or not np.all(np.isfinite(fields[name])):
            problem = f"{fields[name].dtype} of shape {fields[name].shape}" if name in fields else "nothing"
            raise ValueError(f"{path}: expected finite numbers in {name}, got {problem}")
    *coefficients, transitions, squared_norms, rows = (fields[name] for name in names)
    weights = KernelWeights(tuple(coefficients), transitions, squared_norms, rows)
    try:
        model.check_weights(weights)
    except ValueError as problem:
        raise ValueError(f"{path}: damaged: {problem}") from None
    return weights
