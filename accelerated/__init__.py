"""Diptych's fast panel: the names of ``reference``, with compiled kernels where they matter."""

import reference as _reference

__version__ = "0.1.0"

if getattr(_reference, "__version__", None) != __version__ or not hasattr(_reference, "StructuralHinge"):
    raise ImportError(
        f"accelerated {__version__} needs the package 'reference' of diptych {__version__}, but found "
        f"{getattr(_reference, '__version__', 'a package without version')} at {getattr(_reference, '__file__', None)}"
    )

from accelerated import boxes
from accelerated import counterparts as _counterparts  # registers them
from accelerated.arrays import Rows
from accelerated.kernel import cache_is_cold as kernels_are_cold
from accelerated.models.alignment import AlignmentModel
from accelerated.models.kernel_sequence import KernelSequenceModel
from accelerated.models.listed import ListModel
from accelerated.models.localization import CandidateModel, Candidates
from accelerated.models.multiclass import MulticlassModel
from accelerated.models.parsing import ParsingModel
from accelerated.models.segmentation import SegmentationModel, grid_edges
from accelerated.models.sequence import SequenceModel
from accelerated.models.subwindows import SubwindowModel
from accelerated.models.tagging import TaggingModel
from accelerated.models.tree import TreeModel
from accelerated.models.two_layer import TwoLayerModel
from accelerated.objectives import Corners, Linearization, LogLoss, StructuralHinge
from accelerated.prox import (
    L1,
    L21,
    ElasticNet,
    ElasticNetMKL,
    HalfSquaredL2,
    L1Ball,
    L2Ball,
    L21Ball,
    NonSparseMKL,
    Sequential,
    Simplex,
    SparseGroupLasso,
    SquaredL1,
    SquaredL21,
    TreeGroupLasso,
    WeightedSquaredL1,
    project_l1_ball,
    project_simplex,
    prox_squared_l1,
    prox_weighted_squared_l1,
    soft_threshold,
)
from accelerated.structures.arborescence import Arborescence, ArborescenceScores
from accelerated.structures.boxes import Boxes, BoxScores, iou
from accelerated.structures.chain import Chain, ChainScores
from accelerated.structures.cut import Cut, CutScores
from accelerated.structures.matching import Matching, MatchingScores
from accelerated.structures.tree import Tree, TreeScores
from reference import (
    AcceleratedProximalGradient,
    B1Spline,
    Constant,
    CountRule,
    DifferentiableModel,
    ElasticNetCRF,
    Entropy,
    Explicit,
    Function,
    Gaussian,
    Graph,
    GraphScores,
    HalfSpaceRule,
    InfeasibleError,
    IntractableError,
    InverseSqrt,
    InverseTime,
    KBest,
    L1GapRule,
    L2GapRule,
    Linear,
    Localization,
    LocalizationImage,
    Max,
    Mean,
    Pegasos,
    Polynomial,
    Precomputed,
    ProximalNewton,
    Result,
    Row,
    Sequences,
    SparsePath,
    SparseResult,
    SquaredL2,
    Steps,
    Structure,
    Table,
    TableScores,
    TopK,
    UnionRule,
    UnsupportedError,
    Weighted,
    average_precision,
    bcfw,
    beta_max,
    bmmf,
    branch_and_bound,
    casimir,
    casimir_svrg_adapt,
    casimir_svrg_const,
    corloc,
    cutting_planes,
    exponentiated_gradient,
    lbfgs,
    load_letters,
    load_localization,
    load_log,
    load_model,
    load_sequences,
    make_scenes,
    mkl,
    multisample,
    online_proximal,
    prox_linear,
    save_localization,
    save_model,
    sgd,
    solve_sparse,
    sparse_path,
    svrg,
)

__conformance_promises__ = ("exact selections",)  # ties and digits of projections and proxes, at any scale
__conformance_devices__ = ("cpu",)  # arrays of others are refused, not copied

__all__ = list(_reference.__all__)
