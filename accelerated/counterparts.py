"""The one table of compiled counterparts: classes that replace boxes, and parts of boxes, over exactly our objectives
and models.

Our models are registered for screening here, too.
"""

from __future__ import annotations

from accelerated.models.alignment import AlignmentModel
from accelerated.models.chunking import ChunkingModel
from accelerated.models.kernel_sequence import KernelSequenceModel
from accelerated.models.listed import ListModel
from accelerated.models.localization import CandidateModel
from accelerated.models.multiclass import MulticlassModel
from accelerated.models.parsing import ParsingModel
from accelerated.models.segmentation import SegmentationModel
from accelerated.models.segments import SegmentModel
from accelerated.models.sequence import SequenceModel
from accelerated.models.tagging import TaggingModel
from accelerated.models.tree import TreeModel
from accelerated.models.two_layer import TwoLayerModel
from accelerated.objectives import LogLoss, StructuralHinge
from accelerated.online_mkl.rounds import MKL
from accelerated.optimizers import online_proximal_trees, sgd_trees, sgd_two_layer
from accelerated.optimizers.bcfw import BCFW
from accelerated.optimizers.exponentiated_gradient import ExponentiatedGradient
from accelerated.optimizers.multisample import Multisample
from accelerated.optimizers.online_proximal import OnlineProximal
from accelerated.optimizers.saga import SAGA
from accelerated.optimizers.sgd import SGD
from accelerated.optimizers.svrg import SVRG
from accelerated.screening.scored import by_scores
from accelerated.training import narrow
from accelerated.training.smoothness import Backtracking, OffsetSearch
from reference.online_mkl.rounds import KernelProblem
from reference.screening import registry
from reference.screening.scored import made
from reference.training.counterparts import register

__all__ = ["TABLE"]

OBJECTIVES: dict[type, tuple[type, ...]] = {
    SequenceModel: (
        *(SGD, OffsetSearch, SVRG, SAGA, Backtracking),
        *(BCFW, ExponentiatedGradient, OnlineProximal, Multisample),
    ),
    TaggingModel: (
        *(SGD, OffsetSearch, SVRG, SAGA, Backtracking),
        *(BCFW, ExponentiatedGradient, OnlineProximal, Multisample),
    ),
    TreeModel: (SGD, OffsetSearch, SVRG, SAGA, Backtracking, BCFW),
    ParsingModel: (sgd_trees.SGD, BCFW, online_proximal_trees.OnlineProximal),
    CandidateModel: (SGD, SVRG, Backtracking, BCFW),
    MulticlassModel: (SGD, OffsetSearch, SVRG, SAGA, Backtracking, BCFW),
    AlignmentModel: (SGD, BCFW),
    SegmentationModel: (SGD, BCFW),
    SegmentModel: (SGD, OffsetSearch, SVRG, Backtracking, BCFW),
    ChunkingModel: (SGD, OffsetSearch, SVRG, Backtracking, BCFW),
    TwoLayerModel: (sgd_two_layer.SGD,),
}
TABLE: dict[tuple[type, type], tuple[type, ...]] = {
    (objective, model): classes for objective in (StructuralHinge, LogLoss) for model, classes in OBJECTIVES.items()
} | {(KernelProblem, KernelSequenceModel): (MKL,)}

for (objective, model), counterparts in TABLE.items():
    for counterpart in counterparts:
        register(counterpart.__mro__[1], objective, model, counterpart)
for objective in (StructuralHinge, LogLoss):
    for model in narrow.MODELS:
        for solver, narrower in narrow.SOLVERS.items():
            register(solver, objective, model, narrower)

# our models read features as the reference's do, so screening treats them alike
for model in (MulticlassModel, SequenceModel, TaggingModel, TreeModel, ListModel, CandidateModel):
    registry.register(model, registry.known_of(model.__mro__[1]))
made.register(LogLoss, by_scores)
