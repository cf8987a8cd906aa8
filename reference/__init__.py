"""The readable panel of Diptych: structured prediction as in the papers, over any array namespace."""

from reference import algorithms, kernels, smoothings, steps
from reference.arrays import Rows
from reference.datasets import load_letters
from reference.decisions import perturbed, regret, spo_plus
from reference.models.alignment import AlignmentModel
from reference.models.chunking import ChunkingModel
from reference.models.differentiable import DifferentiableModel
from reference.models.kernel_sequence import KernelSequenceModel
from reference.models.listed import ListModel
from reference.models.localization import CandidateModel, Candidates
from reference.models.minibatched import MinibatchModel
from reference.models.multiclass import MulticlassModel
from reference.models.parsing import ParsingModel
from reference.models.segmentation import SegmentationModel, grid_edges
from reference.models.segments import SegmentModel
from reference.models.sequence import SequenceModel
from reference.models.subwindows import SubwindowModel
from reference.models.tagging import TaggingModel
from reference.models.tree import TreeModel
from reference.models.two_layer import TwoLayerModel
from reference.objectives import Corners, Linearization, LogLoss, StructuralHinge
from reference.online_mkl.training import mkl
from reference.prox import (
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
from reference.screening.half_space import HalfSpaceRule
from reference.screening.newton import ProximalNewton
from reference.screening.path import SparsePath, sparse_path
from reference.screening.problem import ElasticNetCRF, beta_max
from reference.screening.proximal import AcceleratedProximalGradient
from reference.screening.rules import CountRule, L1GapRule, L2GapRule, UnionRule
from reference.screening.solvers import SparseResult, solve_sparse
from reference.sparsemap import SparseMAP, SparseMarginals, sparsemap, sparsemap_product
from reference.structures.arborescence import Arborescence, ArborescenceScores
from reference.structures.base import InfeasibleError, IntractableError, KBest, Structure, UnsupportedError
from reference.structures.bmmf import bmmf
from reference.structures.boxes import Boxes, BoxScores, iou
from reference.structures.chain import Chain, ChainScores
from reference.structures.cut import Cut, CutScores
from reference.structures.graph import Graph, GraphScores
from reference.structures.matching import Matching, MatchingScores
from reference.structures.projective import Projective
from reference.structures.search import branch_and_bound
from reference.structures.segments import Segments, SegmentScores
from reference.structures.table import Table, TableScores
from reference.structures.tree import Tree, TreeScores
from reference.training.casimir import casimir, casimir_svrg_adapt, casimir_svrg_const
from reference.training.dual import bcfw, cutting_planes, multisample
from reference.training.exponentiated_gradient import exponentiated_gradient
from reference.training.prox_linear import prox_linear
from reference.training.result import Result, Row
from reference.training.smooth import lbfgs, svrg
from reference.training.stochastic import online_proximal, sgd
from reference.weighted import Weighted

__version__ = "0.1.0"

__all__ = [
    "L1",
    "L21",
    "AcceleratedProximalGradient",
    "AlignmentModel",
    "Arborescence",
    "ArborescenceScores",
    "BoxScores",
    "Boxes",
    "CandidateModel",
    "Candidates",
    "Chain",
    "ChainScores",
    "ChunkingModel",
    "Corners",
    "CountRule",
    "Cut",
    "CutScores",
    "DifferentiableModel",
    "ElasticNet",
    "ElasticNetCRF",
    "ElasticNetMKL",
    "Graph",
    "GraphScores",
    "HalfSpaceRule",
    "HalfSquaredL2",
    "InfeasibleError",
    "IntractableError",
    "KBest",
    "KernelSequenceModel",
    "L1Ball",
    "L1GapRule",
    "L2Ball",
    "L2GapRule",
    "L21Ball",
    "Linearization",
    "ListModel",
    "LogLoss",
    "Matching",
    "MatchingScores",
    "MinibatchModel",
    "MulticlassModel",
    "NonSparseMKL",
    "ParsingModel",
    "Projective",
    "ProximalNewton",
    "Result",
    "Row",
    "Rows",
    "SegmentModel",
    "SegmentScores",
    "SegmentationModel",
    "Segments",
    "SequenceModel",
    "Sequential",
    "Simplex",
    "SparseGroupLasso",
    "SparseMAP",
    "SparseMarginals",
    "SparsePath",
    "SparseResult",
    "SquaredL1",
    "SquaredL21",
    "StructuralHinge",
    "Structure",
    "SubwindowModel",
    "Table",
    "TableScores",
    "TaggingModel",
    "Tree",
    "TreeGroupLasso",
    "TreeModel",
    "TreeScores",
    "TwoLayerModel",
    "UnionRule",
    "UnsupportedError",
    "Weighted",
    "WeightedSquaredL1",
    "algorithms",
    "bcfw",
    "beta_max",
    "bmmf",
    "branch_and_bound",
    "casimir",
    "casimir_svrg_adapt",
    "casimir_svrg_const",
    "cutting_planes",
    "exponentiated_gradient",
    "grid_edges",
    "iou",
    "kernels",
    "lbfgs",
    "load_letters",
    "mkl",
    "multisample",
    "online_proximal",
    "perturbed",
    "project_l1_ball",
    "project_simplex",
    "prox_linear",
    "prox_squared_l1",
    "prox_weighted_squared_l1",
    "regret",
    "sgd",
    "smoothings",
    "soft_threshold",
    "solve_sparse",
    "sparse_path",
    "sparsemap",
    "sparsemap_product",
    "spo_plus",
    "steps",
    "svrg",
]
