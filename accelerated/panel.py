"""The names of the fast panel: those of ``reference``, replaced where there are kernels."""

from reference import *  # noqa: F403

# isort: split
# ruff: noqa: F401
# Names with kernels replace those of the reference.
from accelerated import counterparts as _counterparts  # registers them
from accelerated.kernel import cache_is_cold as kernels_are_cold
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
from accelerated.models.subwindows import SubwindowModel
from accelerated.models.tagging import TaggingModel
from accelerated.models.tree import TreeModel
from accelerated.models.two_layer import TwoLayerModel
from accelerated.objectives import LogLoss, StructuralHinge
from accelerated.prox import *  # noqa: F403
from accelerated.structures.arborescence import Arborescence
from accelerated.structures.boxes import Boxes
from accelerated.structures.chain import Chain
from accelerated.structures.cut import Cut
from accelerated.structures.graph import Graph
from accelerated.structures.matching import Matching
from accelerated.structures.segments import Segments
from accelerated.structures.tree import Tree
from accelerated.uncompiled import uncompiled
