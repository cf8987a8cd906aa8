"""Labellings of graphs drawn from their Gibbs distribution: messages towards the root of a clique tree, states back
down."""

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
    """Labellings drawn with probability exp(score(y) / mu) / Z, independently, exactly.

    y_v ~ P(y_v | the states drawn so far of a clique that holds v), clique by clique from the root down

    Parameters
    ----------
    scores : GraphScores
    uniforms : array (size, p)
        Independent numbers from [0, 1): the one at [s, v] decides the state of variable v in draw s.
    mu : float > 0
        Temperature.
    max_table : int
        The largest number of entries of a clique's table.

    Returns
    -------
    value : array ()
        mu log Z; -inf where every labelling is forbidden.
    labels : int64 array (size, p)
        -1 where every labelling is forbidden.

    Raises
    ------
    ValueError
        A clique's table would have more entries.

    Notes
    -----
    Time O(p L (L^width + size)), memory O(p L^(width + 1) + L size). The states above a clique reach what is below it
    only through the
    variables that the two share, so that the messages of :func:`reference.structures.clique_oracles.clique_sum_product`
    suffice.

    Source
    ------
    Branson et al., section 1.2, where samples come from importance sampling: here from the model's own distribution.
    The cliques
    are those of Pillutla et al., Remark 10.
    """
    cliques, numbers = Cliques(scores, max_table), host(uniforms).astype(np.float64)
    tree = cliques.tree
    tables = [table / mu for table in cliques.tables()]
    value, _, inside = towards_the_root(tree, tables, lambda x, axes: logsumexp(np, x, axes))
    labels = np.full(numbers.shape, -1)
    if value > -np.inf:
        for c, clique in enumerate(tree.cliques):
            drawn = list(tree.shared[c])
            for v in (v for v in clique if v not in tree.shared[c]):
                before = sorted(drawn)
                drawn.append(v)
                log = logsumexp(np, inside[c], tree.axes(c, tuple(drawn)))  # over the states drawn later
                log = np.moveaxis(log, sorted(drawn).index(v), -1)
                labels[:, v] = choose(log[tuple(labels[:, u] for u in before)], numbers[:, v])
    return cliques.place.floats(mu * value), cliques.place.integers(labels)
