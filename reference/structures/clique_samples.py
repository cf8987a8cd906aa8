"""Labellings of graphs drawn from their Gibbs distribution: messages up a clique tree, then states down."""

from __future__ import annotations

import numpy as np

from reference.arrays import Array, host, logsumexp
from reference.structures.clique_oracles import MAX_TABLE, Cliques, GraphScores
from reference.structures.clique_tree import towards_the_root
from reference.structures.sampling import choose

__all__ = ["clique_sample"]


def clique_sample(
    scores: GraphScores, uniforms: Array, mu: float = 1.0, max_table: int = MAX_TABLE
) -> tuple[Array, Array]:
    """Independent labellings, drawn exactly with probability exp(score(y) / mu) / Z.

    y_v ~ P(y_v | states already drawn in a clique that contains v), clique by clique from the root down

    Parameters
    ----------
    scores : GraphScores
    uniforms : array (size, p)
        Independent random numbers in [0, 1); [s, v] determines the state of variable v in sample s.
    mu : float > 0
        Temperature.
    max_table : int
        The largest number of entries in the table of a clique.

    Returns
    -------
    value : array ()
        mu log Z; -inf if every labelling is forbidden.
    labels : int64 array (size, p)
        All -1 if every labelling is forbidden.

    Raises
    ------
    ValueError
        The table of a clique would have more than ``max_table`` entries.

    Notes
    -----
    Time O(p (L^(width + 1) + size log L)), memory O(p (L^(width + 1) + size)). A clique depends on the states drawn
    before only through the variables that it shares with its parent, so the messages of
    :func:`reference.structures.clique_oracles.clique_sum_product` are sufficient.

    Source
    ------
    Branson et al., section 1.2. The samples there come from importance sampling, here from the model's distribution.
    The cliques are those of Pillutla et al., Remark 10.
    """
    cliques, numbers = Cliques(scores, max_table), host(uniforms).astype(np.float64)
    tree = cliques.tree
    tables = [table / mu for table in cliques.tables()]
    value, _, inside = towards_the_root(tree, tables, lambda x, axes: logsumexp(np, x, axes))
    labels = np.full(numbers.shape, -1)
    if value > -np.inf:
        for c, clique in enumerate(tree.cliques):
            variables = list(tree.shared[c])
            for v in (v for v in clique if v not in tree.shared[c]):
                conditions = sorted(variables)
                variables.append(v)
                log = logsumexp(np, inside[c], tree.axes(c, tuple(variables)))  # over the states drawn later
                log = np.moveaxis(log, sorted(variables).index(v), -1)
                rows = np.zeros(len(labels), np.int64)  # the joint states of the conditions
                for u, states in zip(conditions, log.shape[:-1], strict=True):
                    rows = rows * states + labels[:, u]
                labels[:, v] = choose(log.reshape(-1, log.shape[-1]), rows, numbers[:, v])
    return cliques.place.floats(mu * value), cliques.place.integers(labels)
