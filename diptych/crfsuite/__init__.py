"""crfsuite: its model files, read and written without it, and the interfaces of sklearn-crfsuite and python-crfsuite.

    from diptych.crfsuite import CRF, metrics, scorers, Trainer, Tagger, ItemSequence

The interfaces are imported when they are used, as scikit-learn takes a while.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from diptych.crfsuite.model_files import CrfsuiteModel, read_model, write_model

if TYPE_CHECKING:
    from diptych.crfsuite import metrics, scorers
    from diptych.crfsuite.crf import CRF
    from diptych.crfsuite.items import ItemSequence
    from diptych.crfsuite.tagging import Tagger, UnknownFeatures
    from diptych.crfsuite.training import Trainer

__all__ = [
    "CRF",
    "CrfsuiteModel",
    "ItemSequence",
    "Tagger",
    "Trainer",
    "UnknownFeatures",
    "metrics",
    "read_model",
    "scorers",
    "write_model",
]

_PLACES = {"CRF": "crf", "ItemSequence": "items", "Tagger": "tagging", "Trainer": "training"}
_PLACES |= {"UnknownFeatures": "tagging", "metrics": "", "scorers": ""}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_PLACES[name] or name}")
    return getattr(module, name) if _PLACES[name] else module
