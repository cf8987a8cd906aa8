"""A nonlinear model whose smoothness is known: scores are sines of linear maps, outputs are listed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.optimize import minimize

from reference.arrays import Place
from reference.models.nonlinear import NonlinearModel
from reference.training.result import Result


class SineData(NamedTuple):
    """Maps B (n, m, d), task losses (n, m) and the true outputs (n,)."""

    maps: Any
    losses: Any
    best: Any

    @property
    def n(self):
        return self.maps.shape[0]


class SineModel(NonlinearModel):
    """score_i(y; w) = a sin(<B_iy, w> + y), over m listed outputs: |a| ||B_iy||^2-smooth in w."""

    def __init__(self, backend, size, amplitude=1.0):
        self.structure_type, self.size, self.amplitude = backend.Table, size, amplitude
        self.wrap = backend.TableScores

    def chunks(self, data, batch):
        return (batch[i : i + 4] for i in range(0, len(batch), 4))

    def scores(self, data, batch, w):
        return self.wrap(self.amplitude * array_namespace(w).sin(self._angles(data, batch, w)))

    def pushforward(self, data, batch, w, dw):
        return self.wrap(self._slopes(data, batch, w) * (_take(data.maps, batch) @ dw))

    def pullback(self, data, batch, w, g):
        xp, back = array_namespace(w), g.values * self._slopes(data, batch, w)
        return xp.reshape(back, (-1,)) @ xp.reshape(_take(data.maps, batch), (-1, self.size))

    def task_loss(self, data, batch):
        return self.wrap(_take(data.losses, batch))

    def gold(self, data, batch):
        one_hot = np.eye(data.maps.shape[1])[np.asarray(_take(data.best, batch))]
        return self.wrap(Place.of(data.maps).floats(one_hot))

    def zeros(self, data):
        return Place.of(data.maps).zeros((self.size,))

    def _split(self, data, piece, outputs):
        return np.asarray(outputs).tolist()

    def smoothness(self, data):
        """Of every psi_i(y; .) = score_i(y; .) - score_i(y_i; .): the sum of both scores' constants."""
        each, truth = abs(self.amplitude) * np.sum(np.asarray(data.maps) ** 2, axis=2), np.asarray(data.best)[:, None]
        others = np.arange(each.shape[1]) != truth  # nothing is left of the true output's own
        return float(np.max(np.where(others & (each > 0), each + np.take_along_axis(each, truth, 1), 0.0)))

    def _angles(self, data, batch, w):
        return _take(data.maps, batch) @ w + Place.of(w).floats(np.arange(data.maps.shape[1]))

    def _slopes(self, data, batch, w):
        return self.amplitude * array_namespace(w).cos(self._angles(data, batch, w))


def _take(x, batch):
    return array_namespace(x).take(x, Place.of(x).integers(batch), axis=0)


def sines(backend, rng, n=6, m=4, d=3, amplitude=1.0, send=np.asarray):
    """A model and data drawn at random; ``send`` brings host arrays to a namespace."""
    best = rng.integers(0, m, n)
    losses = rng.uniform(0.2, 1, (n, m))
    losses[np.arange(n), best] = 0.0
    model = SineModel(backend, d, amplitude)
    return model, SineData(send(rng.normal(size=(n, m, d))), send(losses), send(best))


def hinge(backend, rng, smoothing="Max", **options):
    """The hinge of such a model; TopK: of two outputs."""
    make = getattr(backend.smoothings, smoothing)
    return backend.StructuralHinge(
        *sines(backend, rng, **options), smoothing=make(2) if smoothing == "TopK" else make()
    )


def exact_step(objective, w, lam, eta):
    """argmin_z F_eta(z; w) and its value, from scores and Jacobians alone."""
    model, data = objective.model, objective.data
    batch, d = np.arange(data.n), len(w)
    value = np.asarray(model.scores(data, batch, w).values)
    J = np.stack([np.asarray(model.pushforward(data, batch, w, e).values) for e in np.eye(d)], axis=-1)
    gold = np.asarray(model.gold(data, batch).values)
    value, J = value - (gold * value).sum(1, keepdims=True), J - (gold[:, :, None] * J).sum(1, keepdims=True)
    value = value + np.asarray(model.task_loss(data, batch).values)
    c = w / (1 + eta * lam)
    v, fun = least_of_planes(J, value + J @ (c - w), lam + 1 / eta)
    return c + v, fun + 0.5 * lam / (1 + eta * lam) * w @ w


def exactly(problem):
    """An inner solver that solves: the planes of all outputs to a quadratic programme."""
    planes = problem.objective.corners(problem.objective.zeros(), None, 50)
    m = int(np.max(np.asarray(planes.count)))
    v, fun = least_of_planes(np.asarray(planes.directions)[:, :m], np.asarray(planes.losses)[:, :m], problem.lam)
    x = Place.of(problem.start).floats(v)
    return Result(x, fun, 1, True, "solved", "last", problem.objective.n, 0.0, ())


def least_of_planes(J, b, lam):
    """argmin_v mean_i max_y (b_iy + <J_iy, v>) + lam/2 ||v||^2 and the value: SLSQP over v and the examples' maxima."""
    n, m, d = J.shape
    rows, right = np.concatenate([-J.reshape(-1, d), np.repeat(np.eye(n), m, axis=0)], axis=1), b.reshape(-1)

    def whole(x):
        return x[d:].mean() + 0.5 * lam * x[:d] @ x[:d], np.concatenate([lam * x[:d], np.full(n, 1 / n)])

    found = minimize(
        whole,
        np.concatenate([np.zeros(d), b.max(1)]),
        jac=True,
        constraints=[{"type": "ineq", "fun": lambda x: rows @ x - right, "jac": lambda x: rows}],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x[:d], found.fun
