"""The elastic-net CRF with every output listed: the paper's matrices A_i, its functions by their definitions, and a
plain solver.
"""

from __future__ import annotations

import numpy as np


class ListedCRF:
    """A[i] (d, m_i): columns psi_i(y) = F(x_i, y_i) - F(x_i, y), the true output being column gold[i]."""

    def __init__(self, A, gold, alpha, beta):
        self.A, self.gold, self.alpha, self.beta = A, gold, alpha, beta
        self.n, self.d = len(A), A[0].shape[0]

    def loss(self, w):
        return np.mean([_logsumexp(-A.T @ w) for A in self.A])

    def regulariser(self, w):
        return self.beta * (0.5 * self.alpha * w @ w + np.sum(np.abs(w)))

    def primal(self, w):
        return self.loss(w) + self.regulariser(w)

    def theta(self, w):
        """KKT-2: the softmax of each example, with its last entry."""
        z = [-A.T @ w for A in self.A]
        return [np.exp(x - _logsumexp(x)) for x in z]

    def moment(self, theta):
        """(1/n) sum_i A_i o theta_i."""
        return np.mean([A @ t for A, t in zip(self.A, theta, strict=True)], axis=0)

    def entropy(self, theta):
        return np.mean([-np.sum(t * np.log(np.where(t > 0, t, 1.0))) for t in theta])

    def dual(self, theta):
        """D(theta), to be minimised; alpha = 0: for theta with |moment| <= beta."""
        soft = soft_threshold(self.moment(theta), self.beta)
        square = soft @ soft / (2 * self.alpha * self.beta) if self.alpha > 0 else 0.0
        return square - self.entropy(theta)

    def shrunken(self, theta):
        """alpha = 0: the dual point s theta + (1 - s) gold, |moment| <= beta."""
        s = min(1.0, self.beta / np.max(np.abs(self.moment(theta))))
        return [s * t + (1 - s) * np.eye(len(t))[g] for t, g in zip(theta, self.gold, strict=True)]

    def dual_gradient(self, theta):
        """The gradient of D in coordinates without each example's last output, one vector an example."""
        w = soft_threshold(self.moment(theta), self.beta) / (self.alpha * self.beta)
        blocks = []
        for A, t in zip(self.A, theta, strict=True):
            B = A[:, :-1] - A[:, -1:]
            blocks.append((B.T @ w + np.log(t[:-1]) - np.log(t[-1])) / self.n)
        return blocks

    def reduced(self, columns):
        return ListedCRF([A[columns] for A in self.A], self.gold, self.alpha, self.beta)

    def solve(self, iterations=5000, tol=4e-16):
        """argmin P (d,) by accelerated proximal gradient with a fixed step and restarts, until the proximal step
        stands still.
        """
        L = np.mean([np.linalg.norm(A - A.mean(axis=1, keepdims=True), 2) ** 2 for A in self.A]) / 2 + 1e-12
        x = y = np.zeros(self.d)
        t = 1.0
        for _ in range(iterations):
            g = -self.moment(self.theta(y))
            new = soft_threshold(y - g / L, self.beta / L) / (1 + self.alpha * self.beta / L)
            if (y - new) @ (new - x) > 0:
                x = y = new
                t = 1.0
                continue
            further = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
            moved = np.max(np.abs(new - y))
            x, y, t = new, new + (t - 1) / further * (new - x), further
            if moved <= tol * np.max(np.abs(x)):
                break
        return x


def soft_threshold(u, beta):
    return np.sign(u) * np.maximum(np.abs(u) - beta, 0.0)


def _logsumexp(z):
    return z.max() + np.log(np.sum(np.exp(z - z.max())))


def as_list_model(backend, listed):
    """The same problem as a ListModel of the package: inputs are the feature matrices, with the truth's features
    taken off.
    """
    model = backend.ListModel(lambda A: -A.T, backend.Table, size=listed.d)
    return backend.LogLoss(model, model.pack(listed.A, listed.gold))
