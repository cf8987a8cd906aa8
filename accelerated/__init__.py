"""Diptych's fast panel: the names of ``reference``, with compiled kernels where they matter."""

import reference as _reference

__version__ = "0.1.0"

if getattr(_reference, "__version__", None) != __version__ or not hasattr(_reference, "StructuralHinge"):
    raise ImportError(
        f"accelerated {__version__} needs the package 'reference' of diptych {__version__}, but found "
        f"{getattr(_reference, '__version__', 'a package without version')} at {getattr(_reference, '__file__', None)}"
    )

from reference import *  # noqa: F403

# isort: split
# Names with kernels replace those of the reference.
from accelerated import counterparts as _counterparts  # registers them
from accelerated.kernel import cache_is_cold as kernels_are_cold
from accelerated.mirror import inherit_docstrings as _inherit_docstrings
from accelerated.models.alignment import AlignmentModel
from accelerated.models.kernel_sequence import KernelSequenceModel
from accelerated.models.listed import ListModel
from accelerated.models.localization import CandidateModel
from accelerated.models.multiclass import MulticlassModel
from accelerated.models.parsing import ParsingModel
from accelerated.models.segmentation import SegmentationModel
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
from accelerated.structures.tree import Tree
from accelerated.uncompiled import uncompiled

__all__ = _reference.__all__

_inherit_docstrings(vars())

# ties and digits of projections and proxes, at any scale; no index or nan of unchecked scores leads out of an array
__conformance_promises__ = ("exact selections", "checked kernels")
__conformance_devices__ = ("cpu",)  # arrays on other devices are rejected, not copied
