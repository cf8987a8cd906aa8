"""Recipe: a hinge trained smoothed, by SparseMAP, by the K best outputs, by l2: how far from the least hinge it ends.

python conformance/recipes/smooth_hinges.py
"""

import time

import numpy as np

import accelerated as sp

SMOOTHINGS = {
    "SparseMAP": sp.SparseMAP(),
    "top-5": sp.smoothings.TopK(5),
    "top-20": sp.smoothings.TopK(20),
    "l2": sp.smoothings.SquaredL2(),
}


def matchings(rng, n=40, p=8, F=10):
    """Alignments whose true ones are those of noisy scores."""
    X, w = rng.normal(size=(n, p, p, F)), rng.normal(size=F)
    Y = [sp.Matching(x @ w + 1.5 * rng.normal(size=(p, p))).best()[1] for x in X]
    model = sp.AlignmentModel(F)
    return model, model.pack(list(X), Y)


def chains(rng, n=40, T=10, F=10, L=5):
    """Sequences whose true labels are those of noisy scores."""
    X, W, pairs = rng.normal(size=(n, T, F)), rng.normal(size=(F, L)), rng.normal(size=(L, L))
    Y = [sp.Chain(x @ W + 2.0 * rng.normal(size=(T, L)), pairs).best()[1] for x in X]
    model = sp.SequenceModel(F, L)
    return model, model.pack(list(X), Y)


def compare(draw, promise, smoothings=SMOOTHINGS, lam=0.05, seed=0, **sizes):
    """(optimizer, smoothing): share of the least objective above it, oracle calls, processor seconds. mu is that with
    which L-BFGS is at most a share ``promise`` above the least.
    """
    model, data = draw(np.random.default_rng(seed), **sizes)
    hinge, rows = sp.StructuralHinge(model, data), {}
    exact = sp.bcfw(hinge, lam=lam, epochs=400, tol=1e-5, rng=0)
    least = exact.fun - exact.certificate
    for name, smoothing in smoothings.items():
        smooth = sp.StructuralHinge(model, data, smoothing=smoothing)
        runs = {
            "L-BFGS": lambda smooth=smooth: sp.lbfgs(smooth, lam=lam, mu=promise * least / smooth.width()),
            "Casimir": lambda smooth=smooth: sp.casimir(smooth, lam=lam, epochs=10, rng=0),
        }
        for optimizer, run in runs.items():
            start = time.process_time()
            result = run()
            seconds, w = time.process_time() - start, result.x
            above = (hinge.value_and_gradient(w)[0] + lam / 2 * w @ w) / least - 1
            rows[optimizer, name] = above, result.oracle_calls, seconds
    return rows


if __name__ == "__main__":
    for draw in (matchings, chains):
        for (optimizer, name), (above, calls, seconds) in compare(draw, 0.03).items():
            print(f"{draw.__name__:10} {optimizer:8} {name:9} {100 * above:6.2f} % {calls:6} calls {seconds:6.2f} s")
