"""Training over partitions of data, of which no process holds all: on one machine, or on many through Dask.

Each partition is summed by one task, and sums are added in a fixed tree. So the result has the same bits for any number
of workers on one kind of processor, and after workers were lost.
"""

import diptych.distributed.passes  # noqa: F401, it registers classes that the panels look up
from diptych.distributed.ascent import cocoa
from diptych.distributed.clusters import local_client
from diptych.distributed.loaders import ColumnFile, Part, SequenceFile, TreebankFile, column_parts
from diptych.distributed.objective import Partitioned
from diptych.distributed.packed_folders import PackedFolder, save_packed
from diptych.distributed.runs import Runs
from diptych.distributed.transports import WorkersLost
from diptych.distributed.vocabulary import sequence_model, tagging_model

__all__ = [
    "ColumnFile",
    "PackedFolder",
    "Part",
    "Partitioned",
    "Runs",
    "SequenceFile",
    "TreebankFile",
    "WorkersLost",
    "cocoa",
    "column_parts",
    "local_client",
    "save_packed",
    "sequence_model",
    "tagging_model",
]
