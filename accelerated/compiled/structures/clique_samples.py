"""Labellings of graphs drawn at random: log-domain messages up a clique tree, then states clique by clique, of all
samples at once.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import exp
from accelerated.compiled.structures.chain_samples import choose
from accelerated.compiled.structures.clique_tree import counter, room_of, towards_the_root
from accelerated.compiled.sweeps import larger, padded
from accelerated.kernel import kernel

__all__ = ["sample_from_cliques"]


@kernel
def sample_from_cliques(scores, mu, layout, uniforms, labels):
    """mu log Z; labels (size, p), -1 before, become draws by the numbers uniforms (size, p) in [0, 1].

    -inf: there is no labelling; nan: a score is nan.
    """
    inside, messages = np.empty(layout.table[-1]), np.empty(layout.message[-1])
    digit, room = counter(layout), room_of(layout)
    value = towards_the_root(scores, mu, layout, digit, room, layout.table, inside, messages)
    if value > -np.inf and labels.size:
        rows = np.empty((2, padded(np.int64(layout.size.max()))))
        _draw_root(layout, inside, uniforms, rows, labels)
        for c in range(1, len(layout.start) - 1):
            _draw(c, layout, inside, uniforms, rows, labels)
    return mu * value


@kernel
def _draw_root(layout, inside, uniforms, rows, labels):
    """The states of the root's variables. The table over those up to k has a row for the states of those before k."""
    place, table = np.zeros(len(labels), np.int64), inside[: layout.table[1]]
    for k in range(layout.axis[1]):
        states, v = np.int64(layout.size[k]), layout.variable[k]
        upto_k = table
        for a in range(layout.axis[1] - 1, k, -1):
            upto_k = _sums(upto_k, np.int64(layout.size[a]))
        for s in range(len(labels)):
            labels[s, v] = _chosen(upto_k, place[s] * states, 1, states, uniforms[s, v], rows)
            place[s] = place[s] * states + labels[s, v]


@kernel
def _sums(table, states):
    """log sum exp of each row of ``states`` entries."""
    sums = np.empty(len(table) // states)
    for i in range(len(sums)):
        top, mass = -np.inf, 0.0
        for j in range(i * states, (i + 1) * states):
            top = larger(top, table[j])
        for j in range(i * states, (i + 1) * states if top > -np.inf else 0):
            mass += exp(table[j] - top)
        sums[i] = top + np.log(mass) if top > -np.inf else top
    return sums


@kernel
def _draw(c, layout, inside, uniforms, rows, labels):
    """The states of the one variable of clique c that its parent lacks."""
    first, last, own = layout.axis[c], layout.axis[c + 1], 0
    for a in range(first, last):
        own = a if labels[0, layout.variable[a]] < 0 else own
    v, step, states = layout.variable[own], np.int64(layout.stride[own]), np.int64(layout.size[own])
    for s in range(len(labels)):
        base = np.int64(layout.table[c])
        for a in range(first, last):
            base += labels[s, layout.variable[a]] * np.int64(layout.stride[a]) if a != own else 0
        labels[s, v] = _chosen(inside, base, step, states, uniforms[s, v], rows)


@kernel
def _chosen(table, base, step, states, uniform, rows):
    """The state that ``uniform`` chooses by the logarithms table[base + j step]."""
    for j in range(rows.shape[1]):
        rows[0, j] = table[base + j * step] if j < states else -np.inf
    return choose(rows, states, uniform)
