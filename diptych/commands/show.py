"""``show``: what is in a model file: model, sizes, training settings and, if they have names, the largest weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.options import Saved, flag
from diptych.commands.output import Report, announce_compilation
from diptych.files.models import load_model
from reference.arrays import host

TOP = 10
Details = tuple[dict[str, Any], list[str]]  # fields of the report, and lines of text
Check = Callable[[str, Any, dict[str, Any]], Any]  # of a model's file, the model and its settings


def loaded(panel: ModuleType, command: Any, check: Check, path: str | None = None) -> tuple[Any, Any, dict[str, Any]]:
    """The command's saved model, or that at ``path``, its weights and settings. check: rejects those of other tasks."""
    path = command.model if path is None else path
    model, w, info = load_model(path, panel, most_bytes=command.most_bytes)
    check(path, model, info)
    if isinstance(command, Saved):
        announce_compilation(panel, command.quiet)
    return model, w, info


def checked(train: str, *kinds: str, features: Sequence[str] | None = None) -> Check:
    """The check that a model is of one of the kinds, which the command ``train`` writes, with these features."""

    def check(path: str, model: Any, info: dict[str, Any]) -> None:
        if type(model).__name__ not in kinds or (features is not None and info.get("features") != list(features)):
            version = "" if features is None else " of this version"
            raise ValueError(f"{path}: expected a model of {train}{version}, got a {type(model).__name__}")

    return check


def show_of(check: Check) -> type[Saved]:
    """The action ``show`` of a task. check: as :func:`loaded` calls it."""

    class Show(Saved):
        """What a model file holds, with its largest weights where they have names."""

        most_bytes: int = flag()
        top: int = flag(f"default: {TOP}", default=TOP)

        def run(self, panel: ModuleType) -> Report:
            model, w, info = load_model(self.model, panel, most_bytes=self.most_bytes)
            kind = type(model).__name__
            reader, of = SHOWN.get(kind, (self.name, None))
            try:
                check(self.model, model, info)
            except ValueError as problem:
                hint = f"; diptych {reader} reads it" if info and reader != self.name else ""
                raise ValueError(f"{problem}{hint}") from None
            sizes = {name: x for name, x in model.settings().items() if isinstance(x, (bool, int, float, str))}
            arrays = list(w.coefficients) if kind == "KernelSequenceModel" else [np.asarray(host(w))]
            weights, nonzeros = sum(a.size for a in arrays), sum(int(np.count_nonzero(a)) for a in arrays)
            details, more = ({}, []) if of is None else of(model, w, info, self.top)
            report = {"kind": kind, "weights": weights, "nonzeros": nonzeros}
            lines = [f"{self.model}: {kind}, {nonzeros} of {weights} weights are not 0"]
            lines += [_listed("sizes", sizes)] if sizes else []
            told = {name: value for name, value in info.items() if value is not None}
            lines += [_listed("trained", told)] if info else []
            return Report(report | {"sizes": sizes, "trained": info, **details}, [*lines, *more])

    return Show


def _listed(what: str, values: dict[str, Any]) -> str:
    texts = {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in values.items()}
    return f"{what}: {', '.join(f'{name} {text}' for name, text in texts.items())}"


# details by kind of model -------------------------------------------------------------------------------------------


def _chain(model: Any, w: Any, info: dict[str, Any], top: int) -> Details:
    """The largest weights of each label and of the transitions."""
    weights, transitions = (host(x) for x in model.split(w))
    noun = "row" if hasattr(model, "vocabulary") else "feature"  # a row holds hashed attributes
    names = getattr(model, "vocabulary", None) or [f"{noun} {i}" for i in range(model.width)]
    if getattr(model, "start_stop", False):
        names = [*names[: model.n_features], "start", "stop"]
    report, lines = _by_label(model.labels, names, weights, top)
    pairs = getattr(model, "label_pairs", np.arange(model.n_labels**2))
    cells = sorted(pairs.tolist(), key=lambda cell: -transitions.reshape(-1)[cell])
    both = (divmod(cell, model.n_labels) for cell in cells)
    moves = [(model.labels[a], model.labels[b], float(transitions[a, b])) for a, b in both]
    largest = sorted(moves, key=lambda move: -abs(move[2]))[: top * model.n_labels]
    shown = [move for move in moves if move[2] != 0 and move in largest]
    lines += ["transitions", *(f"  {weight:9.4f}  {a} -> {b}" for a, b, weight in shown)]
    if not model.n_edge_features:
        return {**report, "transitions": moves}, lines
    edges = host(model.edge_weights(w)).reshape(-1)
    names = getattr(model, "edge_vocabulary", None) or [f"{noun} {e}" for e in range(model.n_edge_features)]
    order = np.argsort(-np.abs(edges), kind="stable")[: top * model.n_labels]
    of_pairs = []
    for cell in order[edges[order] != 0].tolist():
        e, a, b = np.unravel_index(cell, (len(names), model.n_labels, model.n_labels))
        of_pairs.append((names[e], model.labels[a], model.labels[b], float(edges[cell])))
    lines += ["pairs", *(f"  {weight:9.4f}  {name}: {a} -> {b}" for name, a, b, weight in of_pairs)]
    return {**report, "transitions": moves, "pairs": of_pairs}, lines


def _segments(model: Any, w: Any, info: dict[str, Any], top: int) -> Details:
    """The largest weights of each type, and the transitions."""
    weights, transitions = (host(x) for x in model.split(w))
    tokens = [f"{prefix}{name}" for prefix in ("", "first token: ", "last token: ") for name in model.vocabulary]
    names = [*tokens, *model.segment_vocabulary, *(f"{k + 1} tokens" for k in range(model.n_widths))]
    report, lines = _by_label(model.labels, names, weights, top)
    moves = [(a, b, float(transitions[i, j])) for i, a in enumerate(model.labels) for j, b in enumerate(model.labels)]
    moves.sort(key=lambda move: -move[2])
    lines += ["transitions", *(f"  {weight:9.4f}  {a} -> {b}" for a, b, weight in moves if weight != 0)]
    return {**report, "transitions": moves}, lines


def _classes(model: Any, w: Any, info: dict[str, Any], top: int) -> Details:
    names = [f"feature {i}" for i in range(model.n_features - model.intercept)] + ["intercept"] * model.intercept
    return _by_label(model.labels, names, host(w).reshape(model.n_features, len(model.labels)), top)


def _by_label(labels: Sequence[str], names: Sequence[str], weights: np.ndarray, top: int) -> Details:
    largest, lines = {}, []
    for k, label in enumerate(labels):
        order = np.argsort(-np.abs(weights[:, k]), kind="stable")[:top]
        largest[label] = [(names[i], float(weights[i, k])) for i in order.tolist() if weights[i, k] != 0]
        lines += [label, *(f"  {weight:9.4f}  {name}" for name, weight in largest[label])]
    return {"labels": largest}, lines


def _named(model: Any, w: Any, info: dict[str, Any], top: int) -> Details:
    """All weights, for models with a few features whose names are in the file."""
    names = [*info["features"], *(["no partner"] if getattr(model, "null", False) else [])]
    weights = dict(zip(names, host(w).tolist(), strict=True))
    return {"features": weights}, [f"  {name:18} {weight:8.3f}" for name, weight in weights.items()]


def _kernels(model: Any, w: Any, info: dict[str, Any], top: int) -> Details:
    """The shares of the kernels' norms."""
    names = str(info.get("kernels", "")).split(",")
    names = names if len(names) == len(model.groups) else [f"kernel {k}" for k in range(len(model.groups))]
    names += ["transitions"] * (len(w.beta) - len(names))
    beta = dict(zip(names, w.beta.tolist(), strict=True))
    return {"beta": beta}, ["beta", *(f"  {share:9.4f}  {name}" for name, share in beta.items())]


def _templates(model: Any, w: Any, info: dict[str, Any], top: int) -> Details:
    if not model.blocks:
        return {"template_weights": None}, ["its templates share weights; parse train --blocks gives each its own"]
    weights = template_weights(model, w)
    return {"template_weights": weights}, template_lines(weights, len(weights))


def template_weights(model: Any, w: np.ndarray) -> list[dict[str, Any]]:
    """The templates in decreasing order of the norm of their weights; beta, their kernels' weights, are the shares."""
    norms = model.template_norms(w)
    shares = norms / (norms.sum() or 1.0)
    order, names = np.argsort(-norms, kind="stable").tolist(), model.templates
    return [{"template": list(names[t]), "norm": float(norms[t]), "beta": float(shares[t])} for t in order]


def template_lines(templates: list[dict[str, Any]], most: int) -> list[str]:
    """Lines with the number of templates with nonzero weights, and at most ``most`` of these templates."""
    alive = [each for each in templates if each["norm"] > 0]
    lines = [f"{len(alive)} of {len(templates)} templates have weights; beta, norm:"]
    lines += [f"  {e['beta']:.4f}  {e['norm']:10.5f}  {' '.join(e['template'])}" for e in alive[:most]]
    if len(alive) > most:
        lines.append(f"  ... {len(alive) - most} more (parse show lists them)")
    elif most >= len(templates):
        lines += [f"  0       {0:10}  {' '.join(e['template'])}" for e in templates[len(alive) :]]
    return lines


SHOWN: dict[str, tuple[str, Callable[[Any, Any, dict[str, Any], int], Details] | None]] = {
    "AlignmentModel": ("align show", _named),
    **dict.fromkeys(("CandidateModel", "SubwindowModel", "TwoLayerModel"), ("localize show", None)),
    "KernelSequenceModel": ("show", _kernels),
    "MulticlassModel": ("show", _classes),
    "ParsingModel": ("parse show", _templates),
    "SegmentModel": ("show", None),
    "SegmentationModel": ("segment show", _named),
    "SequenceModel": ("show", _chain),
    "ChunkingModel": ("tag show", _segments),
    "TaggingModel": ("tag show", _chain),
}  # the command that reads a model file, and the details that it shows, by kind of model
