"""Models of crfsuite as taggers, and taggers as models of crfsuite."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from diptych.crfsuite.model_files import CrfsuiteModel
from reference.arrays import host

MOST_LABELS = 10_000  # a tagger has matrices of its labels


def tagger_of(panel: ModuleType, model: CrfsuiteModel) -> tuple[Any, np.ndarray]:
    """A ``TaggingModel`` of a panel, and its weights (d,), with the scores of a model of crfsuite.

    Its sentences are what python-crfsuite takes: lists with a list of strings or a dictionary for each token.
    ValueError if there are no labels, or more than 10,000.
    """
    L = len(model.labels)
    if not 0 < L <= MOST_LABELS:
        raise ValueError(f"labels: expected 1 to {MOST_LABELS}, got {L}")
    cells = [ends[:, 0] * L + ends[:, 1] for ends in (model.states, model.transitions)]
    orders = [np.argsort(each, kind="stable") for each in cells]
    pairs, label_pairs = (each[order] for each, order in zip(cells, orders, strict=True))
    tagger = panel.TaggingModel(model.labels, None, vocabulary=model.attributes, pairs=pairs, label_pairs=label_pairs)
    return tagger, np.concatenate([model.state_weights[orders[0]], model.transition_weights[orders[1]]])


def crfsuite_of(tagger: Any, w: Any) -> CrfsuiteModel:
    """The model of crfsuite with the scores of a tagger and its weights (d,); the inverse of :func:`tagger_of`.

    Raises
    ------
    ValueError
        Naming what crfsuite's format cannot say: another kind of model, hashed attributes, forbidden transitions,
        costs; weights of another number, or nan or inf among them.
    """
    kind = type(tagger).__name__
    if not hasattr(tagger, "vocabulary") or not hasattr(tagger, "label_pairs"):
        extras = [("start_stop", "start and stop weights"), ("n_edge_features", "edge features")]
        extras += [("segment_templates", "features of segments")]
        has = [what for name, what in extras if getattr(tagger, name, 0)] or ["features without names"]
        raise ValueError(f"crfsuite's format holds taggers of named attributes: a {kind} has {' and '.join(has)}")
    if tagger.vocabulary is None:
        raise ValueError("crfsuite's format holds names of attributes, which a model with bits does not have")
    if tagger.edge_templates is not None or tagger.n_edge_features:
        raise ValueError("crfsuite's format has no attributes of pairs of neighbours, and the model has edge_templates")
    if tagger.transitions is not None:
        raise ValueError(
            "crfsuite's format cannot forbid transitions, an unseen one weighs 0 there: the model has "
            f"transitions={tagger.transitions!r}"
        )
    if not np.array_equal(tagger.cost, 1.0 - np.eye(tagger.n_labels)):
        raise ValueError("crfsuite's format holds no costs of labels, and the model has some that are not 0 or 1")
    weights = np.asarray(host(w), np.float64)
    if weights.shape != (tagger.size,) or not np.all(np.isfinite(weights)):
        raise ValueError(f"w: expected {tagger.size} finite weights, got shape {weights.shape}")
    L, first = tagger.n_labels, tagger.size - len(tagger.label_pairs)
    pairs = np.arange(tagger.width * L) if tagger.pairs is None else tagger.pairs
    states, transitions = (np.stack(np.divmod(cells, L), 1) for cells in (pairs, tagger.label_pairs))
    return CrfsuiteModel(tagger.labels, tagger.vocabulary, states, weights[:first], transitions, weights[first:])
