"""The table of feature bounds and restrictions for this package's models."""

from __future__ import annotations

from reference.models.listed import ListModel
from reference.models.localization import CandidateModel
from reference.models.multiclass import MulticlassModel
from reference.models.sequence import SequenceModel
from reference.models.tagging import TaggingModel
from reference.models.tree import TreeModel
from reference.screening import ranges, restricted
from reference.screening.registry import Known, register

KNOWN: dict[type, Known] = {
    MulticlassModel: Known(
        ranges.range_of_classes, ranges.totals_of_classes, ranges.spread_of_classes, restricted.restricted_classes
    ),
    SequenceModel: Known(
        ranges.range_of_sequences, ranges.totals_of_sequences, restrict=restricted.restricted_sequences
    ),
    TaggingModel: Known(ranges.range_of_taggings, ranges.totals_of_taggings),
    TreeModel: Known(ranges.range_of_trees, ranges.totals_of_trees),
    ListModel: Known(ranges.range_of_lists, ranges.totals_of_lists, ranges.spread_of_lists),
    CandidateModel: Known(ranges.range_of_lists, None, ranges.spread_of_lists),
    restricted.RestrictedModel: restricted.OF_SOME,
}

for model, bounds in KNOWN.items():
    register(model, bounds)
