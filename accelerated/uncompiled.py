"""Which runs have no kernel: Python then visits their examples one by one, many times slower."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from accelerated.objectives import LogLoss, StructuralHinge
from accelerated.problems import MAKERS, problem_of
from reference.models.sequence import ChainData
from reference.optimizers.base import Algorithm
from reference.optimizers.bcfw import BCFW
from reference.optimizers.exponentiated_gradient import ExponentiatedGradient
from reference.optimizers.multisample import Multisample
from reference.optimizers.online_proximal import OnlineProximal
from reference.optimizers.sgd import SGD
from reference.optimizers.svrg import SVRG
from reference.training.counterparts import counterpart
from reference.weighted import Weighted

__all__ = ["uncompiled"]

NONE: Any = None  # for fields of boxes that do not decide whether there is a kernel
ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "bcfw": lambda l1=0.0, **_: BCFW(1.0, l1=l1),
    "casimir": lambda **_: SVRG(),
    "casimir_svrg_adapt": lambda **_: SVRG(),
    "casimir_svrg_const": lambda **_: SVRG(),
    "exponentiated_gradient": lambda **_: ExponentiatedGradient(1.0, 1.0, 1.0),
    "multisample": lambda sampler="topk", **_: Multisample(1.0, sampler=sampler),
    "online_proximal": lambda batch_size=1, **_: OnlineProximal(NONE, NONE, batch_size=batch_size),
    "sgd": lambda batch_size=1, **_: SGD(1.0, NONE, batch_size=batch_size),
    "svrg": lambda **_: SVRG(),
}  # of the optimisers that visit examples; others use sums over all of them
SMOOTH = ("casimir", "casimir_svrg_adapt", "casimir_svrg_const")  # their schedules decide mu


def uncompiled(objective: Any, optimizer: str, options: Mapping[str, Any]) -> str:
    """Why a run of this optimiser with these options has no kernel, in a line; "" if it has one, or if the objective is
    none of this panel.
    """
    inner: Any = objective.objective if isinstance(objective, Weighted) else objective
    if type(inner) not in (StructuralHinge, LogLoss):
        return ""
    model, mu = type(inner.model).__name__, inner._mu(1.0 if optimizer in SMOOTH else options.get("mu"))
    if type(inner.data) is ChainData and inner.data.edges is not None:
        model += " with features of pairs"
    if optimizer == "multisample":  # its mu is that of its draws
        mu = 0.0
    reason = ""
    if optimizer in ALGORITHMS:
        box = ALGORITHMS[optimizer](**options)
        if counterpart(box, objective) is box:
            weights = counterpart(box, inner) is not box
            few = " with weights of examples" if weights else " restricted" if _restricted(inner.model) else ""
            reason = f"{optimizer} on {model}{few}"
    batched = inner.unknown and optimizer not in ALGORITHMS and hasattr(inner.model, "max_cells")
    if not reason and not batched and type(inner.model) in MAKERS and problem_of(inner, mu) is None:
        smoothing = "" if mu == 0 else f" with {type(inner.smoothing).__name__} smoothing"
        smoothing = " with labels that are partly known" if inner.unknown else smoothing
        reason = f"{type(inner).__name__} of {model}{smoothing}"
    return f"no kernel for {reason}: training runs in Python, which may be many times slower" if reason else ""


def _restricted(model: Any) -> bool:
    return bool(getattr(model, "restricted", False))
