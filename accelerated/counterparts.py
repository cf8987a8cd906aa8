"""What stands for boxes, and for parts of boxes, over exactly our objectives and models: the one table."""

from __future__ import annotations

from accelerated import arc_epochs, candidate_epochs, epochs, kernel_epochs, proximal_epochs, two_layer_epochs
from accelerated.models.kernel_sequence import KernelSequenceModel
from accelerated.models.localization import CandidateModel
from accelerated.models.parsing import ParsingModel
from accelerated.models.sequence import SequenceModel
from accelerated.models.tagging import TaggingModel
from accelerated.models.two_layer import TwoLayerModel
from accelerated.objectives import LogLoss, StructuralHinge
from reference.online_mkl.rounds import KernelProblem
from reference.training.counterparts import register

__all__ = ["TABLE"]

_SEQUENCES = (
    epochs.SGD,
    epochs.SVRG,
    epochs.SAGA,
    epochs.BCFW,
    epochs.ExponentiatedGradient,
    epochs.Backtracking,
    proximal_epochs.OnlineProximal,
)
TABLE: dict[tuple[type, type], tuple[type, ...]] = {
    (objective, model): known
    for objective in (StructuralHinge, LogLoss)
    for model, known in (
        (SequenceModel, _SEQUENCES),
        (TaggingModel, _SEQUENCES),
        (ParsingModel, (arc_epochs.SGD, arc_epochs.BCFW, arc_epochs.OnlineProximal)),
        (
            CandidateModel,
            (candidate_epochs.SGD, candidate_epochs.SVRG, candidate_epochs.BCFW, candidate_epochs.Backtracking),
        ),
        (TwoLayerModel, (two_layer_epochs.SGD,)),
    )
} | {(KernelProblem, KernelSequenceModel): (kernel_epochs.MKL,)}

for (objective, model), counterparts in TABLE.items():
    for counterpart in counterparts:
        register(counterpart.__mro__[1], objective, model, counterpart)
