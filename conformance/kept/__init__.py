"""Files of earlier versions, which later ones must read (docs/releases.md); ``python -m conformance.kept`` adds files.

Each folder has the files that one version wrote: those of readers (``conformance.readers``), and for each panel and
learner the checkpoint of a golden problem half way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from conformance.golden.dual import kernels
from conformance.golden.problems import Problems
from conformance.readers import READERS

__all__ = ["CHECKPOINTS", "FILES", "FOLDERS", "run", "write"]

HERE = Path(__file__).parent
FOLDERS = sorted(path for path in HERE.iterdir() if path.is_dir() and path.name[:1].isdigit())
FILES = [
    name for name in READERS if name.endswith((" model.npz", "sequences.npz", "unlabelled.npz", ".boxes", ".jsonl"))
]
CHECKPOINTS: dict[str, tuple[str, dict[str, Any]]] = {  # learner: problem, options
    "sgd": ("chain/log", {}),
    "online_proximal": ("chain/log", {"step_size": 0.1}),
    "svrg": ("chain/log", {}),
    "casimir": ("chain/entropy", {"schedule": "adapt"}),
    "bcfw": ("chain/hinge", {"average": "weighted"}),
    "exponentiated_gradient": ("chain/log", {}),
    "multisample": ("chain/hinge", {"k": 2}),
    "cutting_planes": ("chain/hinge", {}),
    "lbfgs": ("chain/log", {}),
    "prox_linear": ("network/entropy", {"budget": 2, "eta": 0.5}),
    "mkl": ("crf", {"loss": "crf", "step_size": 0.1}),
}


def run(panel: Any, learner: str, length: int) -> Callable[..., Any]:
    """The run of a learner on its golden problem, for so many epochs or iterations."""
    P, (name, options), call = Problems(panel), CHECKPOINTS[learner], getattr(panel, learner)
    options = {"iterations" if learner in ("lbfgs", "prox_linear") else "epochs": length, **options}
    if learner not in ("cutting_planes", "lbfgs"):
        options["rng"] = 0
    if learner == "mkl":
        return partial(call, *kernels(P), lam=P.lam, **options)
    if learner == "online_proximal":
        return partial(call, P.objective(name), panel.L1(0.3 * P.lam), P.start(name), **options)
    return P.run(call, name, start=learner in ("sgd", "svrg", "casimir", "prox_linear"), **options)


def write(folder: Path, panels: list[Any]) -> None:
    """Write the files of this version that the folder does not have."""
    folder.mkdir(exist_ok=True)
    files = {folder / name: READERS[name][0] for name in FILES}
    for panel in panels:
        for learner in CHECKPOINTS:
            resumable = run(panel, learner, 2)
            files[folder / f"{panel.__name__} {learner}.npz"] = lambda path, run=resumable: run(checkpoint=path)
    for path, make in files.items():
        if not path.exists():
            make(path)
