"""crfsuite: its model files, read and written without it."""

from diptych.crfsuite.model_files import CrfsuiteModel, read_model, write_model

__all__ = ["CrfsuiteModel", "read_model", "write_model"]
