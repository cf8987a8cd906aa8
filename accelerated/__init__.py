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
_NO_DEVICES = "kernels run on the CPU; arrays of other devices are refused, not copied"
__conformance_gaps__ = {
    f"*{test}*[[]accelerated-array_api_strict:device1-*": _NO_DEVICES
    for test in (
        "test_alignment.py::test_predicted",
        "test_arborescence.py::test_expected_parts",
        "test_arborescence.py::test_max_marginals_of",
        "test_arborescence.py::test_the_best_tree",
        "test_arborescence.py::test_the_k_best",
        "test_arborescence.py::test_the_partition_is_the_sum",
        "test_arrays.py::test_gather_and_scatter",
        "test_arrays.py::test_take",
        "test_bmmf.py::test_bmmf_over_chains",
        "test_casimir.py::test_casimir_works",
        "test_boxes.py::test_a_candidate_list",
        "test_boxes.py::test_namespaces_and_dtypes",
        "test_chain.py::test_viterbi_finds",
        "test_chain.py::test_forward_backward",
        "test_chain.py::test_a_batch",
        "test_exponentiated.py::test_it_works",
        "test_identities_martins.py::test_in_every_namespace",
        "test_localization.py::test_batches_are_their_images",
        "test_localization.py::test_linearizations_agree",
        "test_localization.py::test_the_adjoint_identity",
        "test_matching.py::test_expected_parts",
        "test_matching.py::test_max_marginals_of",
        "test_matching.py::test_the_best",
        "test_matching.py::test_the_k_best",
        "test_models.py::test_the_adjoint_identity",
        "test_models.py::test_predict",
        "test_parsing.py::test_scores_are_sums",
        "test_template_groups.py::test_blocks_are_models",
        "test_cutting_planes.py::test_cutting_planes_work",
        "test_multisample.py::test_multisample_works",
        "test_tagging.py::test_scores_are_sums",
        "test_nonnegative.py::test_bcfw_in",
        "test_objectives.py::test_losses",
        "test_optimizers.py::test_optimisers_work",
        "test_top_k.py::test_max_marginals_are",
        "test_top_k.py::test_top_k_are",
        "test_restricted_models.py::test_restricted_models_work",
        "test_screening_rules.py::test_float32_has",
        "test_screening_solvers.py::test_it_works",
        "test_segmentation.py::test_the_adjoint_identity",
        "test_smoothing.py::test_expected_parts",
        "test_subwindows.py::test_the_adjoint_identity",
        "test_svrg.py::test_svrg_works",
        "test_corners.py::test_corners",
        "test_bcfw*.py::test_bcfw_works",
        "test_samples.py::test_a_batch_is_drawn",
        "test_samplers.py::test_samplers_in",
        "test_selection.py::test_batches_in_every_namespace",
        "test_tree.py::test_a_batch",
        "test_tree.py::test_max_product_finds",
        "test_tree.py::test_sum_product",
        "test_tree_k_best.py::test_max_marginals_are",
        "test_tree_k_best.py::test_top_k_are",
        "test_tree_model.py::test_predict",
        "test_tree_model.py::test_the_adjoint_identity",
        "test_tree_model.py::test_training_works",
    )
}
__conformance_gaps__ |= {
    f"*test_prox.py::test_a_batch_is*[[]accelerated-array_api_strict:device1-*-{regularizer}]": _NO_DEVICES
    for regularizer in (
        "ElasticNet",
        "L1",
        "L1Ball",
        "L21Ball",
        "Sequential",
        "Simplex",
        "SparseGroupLasso",
        "SquaredL1",
        "SquaredL21",
        "WeightedSquaredL1",
    )
}

__all__ = list(_reference.__all__)
