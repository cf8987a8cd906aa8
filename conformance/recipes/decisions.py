"""Recipe: costs of decisions predicted from features, by four methods, compared by regret.

Riders are matched with drivers, and a path goes through layers of nodes. The true cost of a pair or an edge is a sum of
exponentials of its features, the prediction is linear: it cannot be right everywhere, and two-stage learning (least
squares, then the decision) is right where costs are large, which no good decision uses.

    python conformance/recipes/decisions.py
"""

import numpy as np

import accelerated as sp

FEATURES = 4


def path(values):
    """A decision: a node of each layer, at scores (layers - 1, nodes, nodes) of the edges."""
    layers, nodes, _ = values.shape
    return sp.Chain(np.zeros((layers + 1, nodes)), values)


SHAPES = {sp.Matching: (6, 6), path: (7, 4, 4)}  # a row goes with a column; a path through layers


def draw(rng, hidden, n, shape):
    """Features (n, *shape, 5), the last 1, and scores: minus costs."""
    X = rng.normal(size=(n, *shape, FEATURES))
    scores = -np.sum(np.exp(X @ hidden), axis=-1)
    return np.concatenate([X, np.ones((n, *shape, 1))], axis=-1), scores


def parts(scores):
    """What a gradient says of pairs, or of edges."""
    return scores.values if hasattr(scores, "values") else scores.pairwise


def less_truth(marginals, true):
    """The gradient of a Fenchel-Young loss: marginals less the parts of the true decision."""
    return parts(marginals) - parts(true.parts(true.best()[1]))


# gradients of losses in the predicted scores, of the decisions at these and at the true ones
METHODS = {
    "spo_plus": lambda predicted, true, rng: parts(sp.spo_plus(predicted, true)[1]),
    "perturbed": lambda predicted, true, rng: less_truth(sp.perturbed(predicted, samples=5, rng=rng)[1], true),
    "sparsemap": lambda predicted, true, rng: less_truth(sp.sparsemap(predicted).marginals, true),
}


def trained(method, space, X, S, rng, epochs):
    """Weights by averaged stochastic gradients of a loss in the predicted scores."""
    w, mean, k = np.zeros(FEATURES + 1), np.zeros(FEATURES + 1), X.ndim - 2
    for t in range(epochs * len(X)):
        i = rng.integers(len(X))
        slope = np.tensordot(METHODS[method](space(X[i] @ w), space(S[i]), rng), X[i], k)
        w = w - 0.2 / np.sqrt(1 + t / len(X)) * slope
        mean = mean + (w - mean) / (t + 1)
    return mean


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
    weights = {"two-stage": np.linalg.lstsq(X.reshape(-1, X.shape[-1]), S.ravel(), rcond=None)[0]}
    weights |= {method: trained(method, space, X, S, rng, epochs) for method in METHODS}
    return {name: loss(space, *new, w) for name, w in weights.items()}


if __name__ == "__main__":
    for decision in SHAPES:
        runs = [compare(decision, seed=seed) for seed in range(3)]
        for name in runs[0]:
            each = np.array([100 * run[name] for run in runs])
            print(f"{decision.__name__:8}  {name:9}  loses {each.mean():.1f} % of the least cost: {each.round(1)}")
