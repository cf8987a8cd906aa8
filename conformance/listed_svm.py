"""A structural SVM with every output listed: its dual and primal, and block-coordinate Frank-Wolfe by the equations."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from conformance.specimens.models import labellings


class Listed:
    """A structural SVM with every output listed: for example i, directions V[i] (m, d) and losses loss[i] (m,), the
    truth first.

    The others follow by the smallest last label, then backwards: the order in which ties are broken. The regulariser is
    l1 ||w||_1 + lam/2 ||w||^2.
    """

    def __init__(self, lam, l1=0.0):
        self.lam, self.l1, self.V, self.loss = lam, l1, [], []

    def add(self, features, cost):
        """An example: features and task losses of its outputs, the truth first."""
        self.V.append(np.array(features) - features[0])
        self.loss.append(np.array(cost, dtype=np.float64))

    def w(self, alpha):
        x = -sum(a @ V for a, V in zip(alpha, self.V, strict=True)) / (self.lam * len(self.V))
        return np.sign(x) * np.maximum(np.abs(x) - self.l1 / self.lam, 0.0)

    def dual(self, alpha):
        w = self.w(alpha)
        return sum(a @ loss for a, loss in zip(alpha, self.loss, strict=True)) / len(self.V) - 0.5 * self.lam * w @ w

    def step(self, alpha, i, towards, most):
        """The length up to ``most`` of the step of alpha[i] along ``towards`` that makes the dual highest."""
        if self.l1 > 0:
            return self.searched(alpha, i, towards, most)
        v = towards @ self.V[i]
        slope = towards @ (self.loss[i] + self.V[i] @ self.w(alpha))
        return min(most, self.lam * len(self.V) * slope / (v @ v)) if v @ v > 0 else 0.0

    def searched(self, alpha, i, towards, most):
        """The same by a search for the root of the dual's slope, which never increases."""

        def slope(gamma):
            w = self.w([*alpha[:i], alpha[i] + gamma * towards, *alpha[i + 1 :]])
            return towards @ (self.loss[i] + self.V[i] @ w)

        if slope(0.0) <= 0 or slope(most) >= 0:
            return 0.0 if slope(0.0) <= 0 else most
        return brentq(slope, 0.0, most, xtol=1e-15)

    def primal(self, w):
        worst = [np.max(loss + V @ w) for V, loss in zip(self.V, self.loss, strict=True)]
        return np.mean(worst) + 0.5 * self.lam * w @ w + self.l1 * np.sum(np.abs(w))


def listed(X, Y, L, lam, *, l1=0.0):
    """A small labelling problem, listed."""
    return svm(labellings(X, Y, X[0].shape[1], L), lam, l1)


def svm(problem, lam, l1=0.0):
    """A problem of the catalogue, listed."""
    found = Listed(lam, l1)
    for outputs, phi, loss, gold in problem.listed:
        order = sorted(range(len(loss)), key=lambda k: (k != gold, np.ravel(outputs[k]).tolist()[::-1]))
        found.add(phi[order], loss[order])
    return found


def by_hand(problem, epochs, seed, *, cached_passes, average, line_search=True):
    """(w, dual) to be returned after each epoch, by the equations: weights over every output, w computed afresh."""
    n, rng, t = len(problem.V), np.random.default_rng(seed), 0
    unit = [np.eye(len(loss)) for loss in problem.loss]
    alpha = [each[0] for each in unit]
    mean, known, restless, returned = [a.copy() for a in alpha], [[0] for _ in alpha], [False] * n, []

    def scores(i):
        return problem.loss[i] + problem.V[i] @ problem.w(alpha)

    def move(i, towards, most, gamma=None):
        alpha[i] = alpha[i] + (problem.step(alpha, i, towards, most) if gamma is None else gamma) * towards
        alpha[i][np.abs(alpha[i]) < 1e-15] = 0.0

    def pair(i):
        g, mine = scores(i), np.array(known[i])
        active = mine[alpha[i][mine] > 0]
        apart = g[mine].max() - g[active].min()
        worst = next(y for y in active if g[y] <= g[active].min() + 1e-6 * apart)
        return worst, next(y for y in mine if g[y] >= g[mine].max() - 1e-6 * apart), apart

    for _ in range(epochs):
        for number, order in enumerate([rng.permutation(n) for _ in range(1 + cached_passes)]):
            for i in order:
                if number > 0 and not restless[i]:
                    continue
                if number == 0:
                    s = int(np.argmax(scores(i)))
                    s = s if scores(i)[s] > scores(i)[0] else 0
                    known[i] += [s] if s not in known[i] else []
                _, s, violation = pair(i)
                restless[i] = violation > 1e-6 * problem.loss[i][known[i]].max()
                if number == 0:
                    move(i, unit[i][s] - alpha[i], 1.0, None if line_search else 2 * n / (2 * n + t))
                for _ in range(10 if cached_passes else 0):
                    worst, best, left = pair(i)
                    if left <= 0.05 * violation:
                        break
                    move(i, unit[i][best] - unit[i][worst], alpha[i][worst])
                t += 1
                share = 1.0 if average == "last" else 2 / (t + 1)
                mean = [m + share * (a - m) for m, a in zip(mean, alpha, strict=True)]
        returned.append((problem.w(mean), problem.dual(mean)))
    return returned


def labelling(rng, lengths, F=3, L=3):
    """X and Y of random sequences of these lengths."""
    return [rng.normal(size=(n, F)) for n in lengths], [rng.integers(0, L, n) for n in lengths]


def hinge(backend, X, Y, L=3, F=3, **options):
    """The library's objective of a labelling problem."""
    model = backend.SequenceModel(F, L, **options)
    return backend.StructuralHinge(model, model.pack(X, Y))
