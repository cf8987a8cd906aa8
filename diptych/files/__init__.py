"""Readers and writers of files: models, sequences, columns, treebanks, pairs, localization data, logs."""

from diptych.files.localization import Localization, LocalizationImage, load_localization, save_localization
from diptych.files.logs import load_log
from diptych.files.models import load_model, save_model
from diptych.files.sequences import load_sequences
from reference.datasets import Sequences

__all__ = [
    "Localization",
    "LocalizationImage",
    "Sequences",
    "load_localization",
    "load_log",
    "load_model",
    "load_sequences",
    "save_localization",
    "save_model",
]
