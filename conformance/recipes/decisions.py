"""Recipe: costs of decisions predicted from features, by four methods, compared by regret.

Riders are matched with drivers, and a path goes through layers of nodes. The true cost of a pair or an edge is a sum of
exponentials of its features, the prediction is linear: it cannot be right everywhere, and two-stage learning (least
squares, then the decision) is right where costs are large, which no good decision uses.

    python conformance/recipes/decisions.py
"""

import numpy as np

import accelerated as sp

FEATURES = 4


def matching(values):
    """A decision: which row goes with which column, at scores (p, q)."""
    return sp.Matching(values)


def path(values):
    """A decision: a node of each layer, at scores (layers - 1, nodes, nodes) of the edges."""
    layers, nodes, _ = values.shape
    return sp.Chain(np.zeros((layers + 1, nodes)), values)


SHAPES = {matching: (6, 6), path: (7, 4, 4)}


def draw(rng, hidden, n, shape):
    """Features (n, *shape, 5), the last 1, and scores: minus costs."""
    X = rng.normal(size=(n, *shape, FEATURES))
    scores = -np.sum(np.exp(X @ hidden), axis=-1)
    return np.concatenate([X, np.ones((n, *shape, 1))], axis=-1), scores


def parts(scores):
    """What a gradient says of pairs, or of edges."""
    return scores.values if hasattr(scores, "values") else scores.pairwise


def spo_plus(space, predicted, true, rng):
    """Of the SPO+ loss in the predicted scores."""
    return parts(sp.spo_plus(space(predicted), space(true))[1])


def perturbed(space, predicted, true, rng):
    """Of the Fenchel-Young loss of a perturbed maximum."""
    decision = space(true)
    _, gradient = sp.perturbed(space(predicted), samples=5, rng=rng)
    return parts(gradient) - parts(decision.parts(decision.best()[1]))


def sparsemap(space, predicted, true, rng):
    """Of the Fenchel-Young loss of SparseMAP."""
    decision = space(true)
    return parts(sp.sparsemap(space(predicted)).marginals) - parts(decision.parts(decision.best()[1]))


def trained(method, space, X, S, rng, epochs):
    """Weights by averaged stochastic gradients of a loss in the predicted scores."""
    w, mean, k = np.zeros(FEATURES + 1), np.zeros(FEATURES + 1), X.ndim - 2
    for t in range(epochs * len(X)):
        i = rng.integers(len(X))
        slope = np.tensordot(method(space, X[i] @ w, S[i], rng), X[i], k)
        w = w - 0.2 / np.sqrt(1 + t / len(X)) * slope
        mean = mean + (w - mean) / (t + 1)
    return mean


def two_stage(X, S):
    """Weights by least squares on the scores."""
    return np.linalg.lstsq(X.reshape(-1, X.shape[-1]), S.ravel(), rcond=None)[0]


def loss(space, X, S, w):
    """The mean regret over the mean cost of the best decisions."""
    lost = sum(float(sp.regret(space(x @ w), space(s))) for x, s in zip(X, S, strict=True))
    return lost / -sum(float(space(s).best()[0]) for s in S)


def compare(space, n=100, tests=200, epochs=10, seed=0):
    """The loss on new decisions, by method."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(FEATURES, 3))
    hidden = hidden / np.linalg.norm(hidden, axis=0)
    X, S = draw(rng, hidden, n, SHAPES[space])
    new = draw(rng, hidden, tests, SHAPES[space])
    weights = {"two-stage": two_stage(X, S)}
    weights |= {each.__name__: trained(each, space, X, S, rng, epochs) for each in (spo_plus, perturbed, sparsemap)}
    return {name: loss(space, *new, w) for name, w in weights.items()}


if __name__ == "__main__":
    for decision in (matching, path):
        runs = [compare(decision, seed=seed) for seed in range(3)]
        for name in runs[0]:
            each = np.array([100 * run[name] for run in runs])
            print(f"{decision.__name__:8}  {name:9}  loses {each.mean():.1f} % of the least cost: {each.round(1)}")
