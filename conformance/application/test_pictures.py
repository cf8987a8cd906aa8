"""Pictures of structures and results: what is drawn is the marginals and a best output."""

import itertools
import sys
import types

import numpy as np
import pytest

import reference
from conformance.tolerances import close
from diptych.pictures import notebook, plot, show

pytest.importorskip("matplotlib", reason="draws pictures: pip install 'diptych[plots]'")


def lines(figure, width):
    """Ends of the lines of this width, and how dark they are, in figure's only axes."""
    drawn = [line for line in figure.axes[0].get_lines() if line.get_linewidth() == width]
    return {tuple(map(tuple, line.get_xydata()[[0, -1]])): line.get_alpha() for line in drawn}


@pytest.mark.parametrize("mask", [None, [True, False, True, True]])
def test_the_trellis_of_a_chain_has_its_probabilities(backend, mask):
    rng = np.random.default_rng(3)
    chain = backend.Chain(2.0 * rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), mask=mask)
    kept = [0, 1, 2, 3] if mask is None else [0, 2, 3]
    alone = reference.Chain(chain.scores.unary[kept], chain.scores.pairwise)  # the kept positions
    scores = {y: alone.score(y) for y in itertools.product(range(3), repeat=len(kept))}
    total = np.logaddexp.reduce(list(scores.values()))
    chance = {y: np.exp(score - total) for y, score in scores.items()}
    figure = show(chain)
    (nodes,) = figure.axes[0].collections
    shades = np.asarray(nodes.get_array()).reshape(4, 3)
    for i, t in enumerate(kept):
        close(shades[t], [sum(p for y, p in chance.items() if y[i] == a) for a in range(3)])
    edges = lines(figure, 1.5)
    path = edges.pop(((0.0, max(chance, key=chance.get)[0]), (3.0, max(chance, key=chance.get)[-1])))
    assert path is None  # the best one is drawn throughout
    for i, (s, t) in enumerate(itertools.pairwise(kept)):
        for a, b in itertools.product(range(3), repeat=2):
            p = sum(p for y, p in chance.items() if y[i : i + 2] == (a, b))
            if p > 0.011:
                close(edges[(s, a), (t, b)], p)


def test_a_tree_of_arcs_and_a_matching_show_their_shares(backend):
    rng = np.random.default_rng(5)
    space = backend.Arborescence(rng.normal(size=(4, 5)))
    marginals, heads = space.marginals().values, space.best()[1]
    figure = show(space, items=list("abcd"))
    roots = {ends[0][0]: alpha for ends, alpha in lines(figure, 3).items() if ends[0][0] == ends[1][0]}
    for m in range(4):
        close(roots.get(m, 0.0), marginals[m, 0] if marginals[m, 0] > 0.01 else 0.0)
    ends = {tuple(sorted((round(x), round(z)))) for (x, _), (z, _) in lines(figure, 1)}
    assert ends == {(m, m) if h == 0 else (min(h - 1, m), max(h - 1, m)) for m, h in enumerate(heads.tolist())}
    matching = backend.Matching(rng.normal(size=(3, 4)))
    figure = show(matching, mu=0.5, items=(list("xyz"), range(4)))
    shares = reference.sparsemap(matching, 0.5).marginals.values
    drawn = lines(figure, 3)
    for i, j in np.ndindex(3, 4):
        close(drawn.get(((0.0, i), (1.0, j)), 0.0), shares[i, j] if shares[i, j] > 0.01 else 0.0)
    assert set(lines(figure, 1)) == {((0.0, i), (1.0, j)) for i, j in enumerate(matching.best()[1])}


def test_a_cut_lies_on_its_picture(backend):
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    unary = np.zeros((6, 2))
    unary[[0, 3], 1] = unary[[1, 2, 4, 5], 0] = 2.0  # the left column is ink
    cut = backend.Cut(unary, np.tile([[0.0, -0.5], [-0.5, 0.0]], (7, 1, 1)), edges)
    figure = show(cut, shape=(2, 3))
    assert figure.axes[0].get_images()[0].get_array().tolist() == [[1, 0, 0], [1, 0, 0]]
    assert set(lines(figure, 1)) == {((0.0, 0.0), (1.0, 0.0)), ((0.0, 1.0), (1.0, 1.0))}
    assert len(lines(show(cut), 1)) == 7


@pytest.mark.parametrize("kind", ["Tree", "Graph", "Boxes", "Table"])
def test_other_structures_are_drawn_with_names_that_hold_a_dollar(backend, kind, tmp_path):
    rng = np.random.default_rng(1)
    space, items = {
        "Tree": lambda: (backend.Tree(rng.normal(size=(4, 2)), rng.normal(size=(2, 2)), [-1, 0, 0, -1]), list("ab$$")),
        "Graph": lambda: (backend.Graph(rng.normal(size=(3, 2)), rng.normal(size=(1, 2, 2)), [[0, 2]]), list("$b$")),
        "Boxes": lambda: (backend.Boxes(rng.normal(size=(3, 4))), None),
        "Table": lambda: (backend.Table([0.5, -np.inf, 2.0]), ["$", "b", "$"]),
    }[kind]()
    figure = show(space, items=items)
    figure.savefig(tmp_path / "picture.png")
    if kind == "Table":
        close([bar.get_height() for bar in figure.axes[0].patches], space.marginals().values)
    if kind == "Tree":
        y, marginals = space.best()[1], space.marginals().unary
        close(figure.axes[0].collections[0].get_array(), 0.6 * marginals[np.arange(4), y])


def test_what_cannot_be_drawn_is_refused(backend):
    chains = backend.Chain(np.zeros((2, 3, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"structure: expected one space, got a batch of shape \(2,\)"):
        show(chains)
    with pytest.raises(ValueError, match="structure: expected at most 200 n in a picture, got 201"):
        show(backend.Chain(np.zeros((201, 2)), np.zeros((2, 2))))
    with pytest.raises(ValueError, match="items: expected 3 names, got 2"):
        show(chains.first(), items="ab")
    with pytest.raises(ValueError, match="shape: expected height times width 1, the number of variables, got 2 x 2"):
        show(backend.Cut(np.zeros((1, 2)), np.zeros((0, 2, 2)), []), shape=(2, 2))
    with pytest.raises(TypeError, match="structure: expected one of Chain, .*, got list"):
        show([])
    with pytest.raises(TypeError, match="what: expected a Result, a mapping to Results or a SparsePath, got Chain"):
        plot(chains)
    with pytest.raises(ValueError, match="what: expected results with rows of history, got one without, or none"):
        plot({})


def test_results_and_paths_are_drawn_and_notebooks_show_them(backend, monkeypatch):
    rng = np.random.default_rng(0)
    model = backend.SequenceModel(2, 2)
    data = model.pack([rng.normal(size=(3, 2)) for _ in range(4)], [rng.integers(0, 2, 3) for _ in range(4)])
    result = backend.svrg(backend.LogLoss(model, data), lam=0.1, epochs=3, rng=0)
    (line,) = plot(result).axes[0].get_lines()
    assert line.get_ydata().tolist() == [row.objective for row in result.history]
    assert len(plot({"one": result, "two": result}).axes[0].get_lines()) == 2
    path = backend.sparse_path(backend.LogLoss(model, data), count=3)
    close(plot(path).axes[1].get_lines()[0].get_ydata(), [point.nonzeros for point in path.points])
    registered = {}
    formatter = types.SimpleNamespace(for_type=registered.__setitem__)
    shell = types.SimpleNamespace(display_formatter=types.SimpleNamespace(formatters={"image/png": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    notebook()
    drawn = {kind.__name__: draw for kind, draw in registered.items()}
    chain = backend.Chain(np.zeros((3, 2)), np.zeros((2, 2)))
    assert isinstance(chain, reference.structures.base.Structure)
    for value, kind in ((result, "Result"), (path, "SparsePath"), (chain, "Structure")):
        assert drawn[kind](value).startswith(b"\x89PNG")
    assert drawn["Structure"](backend.Chain(np.zeros((2, 3, 2)), np.zeros((2, 2)))) is None
    shell = None
    with pytest.raises(RuntimeError, match="notebook: expected to be called in IPython or a notebook"):
        notebook()
