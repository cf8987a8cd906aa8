"""Features of pairs of neighbours: their forms, B lines of CRF++, training, files, partitions, and who refuses them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.models.test_macros import naive, written
from conformance.specimens.models import EDGES, sentences
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from diptych.crfsuite.taggers import crfsuite_of
from diptych.distributed.vocabulary import tagging_model
from diptych.elastic_net import elastic_net, without_zeros
from reference.arrays import Rows
from reference.models.sequence import ChainData
from reference.models.token_templates import attributes_of
from reference.prox import HalfSquaredL2

X, Y = sentences(np.random.default_rng(0), 8)


def problem(panel, **options):
    """A tagger with attributes of pairs, and its data."""
    model = panel.TaggingModel.of(X, Y, ["bias", "word"], **EDGES, **options)
    return model, model.pack(X, Y)


# forms ----------------------------------------------------------------------------------------------------------------


def test_a_feature_of_every_pair_is_a_transition(backend, rng):
    """With the feature 1 at every pair, its weights and those of transitions add."""
    plain = backend.SequenceModel(2, 3)
    model = backend.SequenceModel(2, 3, n_edge_features=1)
    x = [rng.normal(size=(n, 2)) for n in (3, 0, 1, 4)]
    pairs = [(each, np.ones((max(len(each) - 1, 0), 1))) for each in x]
    y = [rng.integers(0, 3, len(each)) for each in x]
    w, more = rng.normal(size=plain.size), rng.normal(size=9)
    both = np.concatenate([w, more])
    w[-9:] += more
    one, other = plain.pack(x, y), model.pack(pairs, y)
    close(plain.gold_scores(one, np.arange(4), w), model.gold_scores(other, np.arange(4), both))
    mine, theirs = (backend.LogLoss(m, d).value_and_gradient(v) for m, d, v in ((plain, one, w), (model, other, both)))
    close(mine[0], theirs[0])
    close(mine[1], theirs[1][:-9])
    close(mine[1][-9:], theirs[1][-9:])


def test_forms_of_features_of_pairs(backend):
    """Dense, CSR, Rows and lists of active columns; row t + 1 holds the pair of t and t + 1."""
    dense = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    model = backend.SequenceModel(1, 2, n_edge_features=3, start_stop=False)
    rows = Rows.of(dense)
    for edges in (dense, rows, [[1, 2], [0]]):
        data = model.pack([(np.zeros((0, 1)), []), ([[0]], []), ([[0]] * 3, edges)])
        assert data.edges.indptr.tolist() == [0, 0, 0, 2, 3] and data.edges.indices.tolist() == [1, 2, 0]


def test_who_refuses_features_of_pairs(backend):
    model, data = problem(backend)
    names = {"b": backend, "np": np, "X": X, "model": model, "data": data, "crfsuite_of": crfsuite_of}
    check_refusals("wrong_edges.txt", {**names, "ChainData": ChainData, "Rows": Rows})


# templates ------------------------------------------------------------------------------------------------------------

cells = st.sampled_from(["a", "b", "_B-1"])
macros = st.builds("%x[{},{}]".format, st.integers(-2, 2), st.integers(0, 1))


@given(
    lines=st.lists(macros, min_size=1, max_size=3, unique=True),
    x=st.lists(st.lists(st.tuples(cells, cells), max_size=4), min_size=1, max_size=3),
)
def test_b_lines_are_attributes_of_all_tokens_but_the_first(backend, tmp_path_factory, lines, x):
    """CRF++: L x L weights for each string that a B line makes, and transitions only by a B alone."""
    columns = [{"word": [a for a, _ in each], "tag": [b for _, b in each]} for each in x]
    lines = [f"B{k:02}:{macro}" for k, macro in enumerate(lines)]
    templates = written(tmp_path_factory.mktemp("t"), "\n".join(["U:%x[0,0]", *lines]), "crfpp:")
    expected = [[naive(line, each, len(each["word"]))[1:] for line in lines] for each in columns]
    found = attributes_of(columns, templates)
    edges, names = found.edges, {name for each in expected for names in each for name in names}
    for i, each in enumerate(expected):
        for t, token in enumerate(zip(*each, strict=True), 1):
            p = found.offsets[i] + t
            assert [edges.names[k] for k in edges.numbers[edges.indptr[p] : edges.indptr[p + 1]]] == [*token]
    assert len(edges.numbers) == sum(len(names) for each in expected for names in each)
    labels = [["M", "N", "O", "P"][: len(each["word"])] for each in columns]
    if any(labels):
        L = max(map(len, labels))
        for more, transitions in (((), 0), (("crfpp:B",), L * L)):
            model = backend.TaggingModel.of(columns, labels, [*templates, *more], pairs="all")
            assert {*model.edge_vocabulary} == names
            assert model.size == model.width * L + transitions + L * L * len(names)


def test_a_line_for_both_and_functions(backend, tmp_path):
    """wapiti's * is a u line and a b line; a function of templates gives the same; a rare attribute is left out."""
    templates = written(tmp_path, "*1:%x[0,0]\nb:%x[-1,0]/%x[0,0]", "wapiti:")
    model = backend.TaggingModel.of(X, Y, templates, pairs="all")
    words = {f"*1:{word}" for x in X for word in x["word"][1:]}
    pairs = {f"b:{a}/{b}" for x in X for a, b in zip(x["word"], x["word"][1:], strict=False)}
    assert {*model.edge_vocabulary} == words | pairs and len(model.label_pairs) == 0
    assert {*model.vocabulary} == {f"*1:{word}" for x in X for word in x["word"]}
    own, named = (
        backend.TaggingModel.of(X, Y, ["bias"], edge_templates=given)
        for given in (lambda x, t: [f"word[-1]|word[0]={x['word'][t - 1]}|{x['word'][t]}"], ["word[-1]|word[0]"])
    )
    assert {*own.edge_vocabulary} == {*named.edge_vocabulary} and len(own.edge_pairs) == len(named.edge_pairs)
    often = backend.TaggingModel.of(X, Y, ["bias"], edge_templates=["word"], least=5)
    times = [f"word[0]={word}" for x in X for word in x["word"][1:]]
    assert {*often.edge_vocabulary} == {name for name in times if times.count(name) >= 5} != {*times}


# training -------------------------------------------------------------------------------------------------------------

L2 = {"lam": 0.3, "rng": 0}
RUNS = [
    # first, as the instance of the first tier on kernels: its loop needs those of values and gradients alone
    ("LogLoss", "online_proximal", {"rng": 0, "regularizer": HalfSquaredL2(0.3), "step_size": 0.03, "epochs": 60}),
    ("LogLoss", "sgd", {**L2, "epochs": 100}),
    *(("LogLoss", name, {**L2, "epochs": 60}) for name in ("svrg", "casimir", "exponentiated_gradient")),
    ("StructuralHinge", "cutting_planes", {"lam": 0.3, "epochs": 40}),
    *(
        ("StructuralHinge", name, {**L2, "epochs": 40})
        for name in ("bcfw", "multisample", "sgd", "exponentiated_gradient")
    ),
]


@pytest.mark.parametrize(("loss", "name", "options"), RUNS, ids=lambda x: x if isinstance(x, str) else "")
def test_optimisers_meet_at_the_optimum(backend, loss, name, options):
    """Any two certified duals and objectives bound one another."""
    loss = getattr(backend, loss)(*problem(backend))
    hinge = {"tol": 1e-3, "epochs": 300, "rng": 0}
    best = backend.bcfw(loss, lam=0.3, **hinge) if loss.loss_augmented else backend.lbfgs(loss, lam=0.3, tol=1e-6)
    assert best.success
    result = getattr(backend.module, name)(loss, **options)
    value = loss.value(result.x) + 0.15 * result.x @ result.x
    assert best.fun - best.certificate - 1e-9 <= value <= best.fun * (1.1 if loss.loss_augmented else 1.02)


@pytest.mark.parametrize("options", [{}, {"transitions": "bio"}, {"bits": 8}], ids=str)
def test_elastic_nets_drop_weights_and_keep_scores(backend, options):
    """A certified optimum by either solver; the model of the weights that are left labels alike."""
    model, data = problem(backend, pairs="all", **options)
    loss = backend.LogLoss(model, data)
    found = elastic_net(loss, l1=0.02, lam=0.1, tol=1e-6)
    dual = backend.exponentiated_gradient(loss, lam=0.1, l1=0.02, epochs=150, rng=0)
    assert found.success and found.certificate <= 1e-6 * found.fun * 1.01
    assert found.fun - found.certificate <= dual.fun <= found.fun * 1.001
    edges = np.asarray(model.edge_weights(found.x))
    assert 0 < np.count_nonzero(edges) < edges.size
    smaller, w = without_zeros(model, found.x)
    assert smaller.size == np.count_nonzero(found.x) == len(w)
    batch = np.arange(len(X))
    close(smaller.gold_scores(smaller.pack(X, Y), batch, w), model.gold_scores(data, batch, found.x))


# partitions, other packages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"pairs": "all"}, {"bits": 8, "transitions": "bio"}, {"least": 99}], ids=str)
def test_partitions_hold_attributes_of_pairs(backend, options):
    templates = ["crfpp:U:%x[0,word]", "crfpp:B", "crfpp:B1:%x[0,tag]"]
    model = backend.TaggingModel.of(X, Y, templates, **options)
    parts = [lambda: (X[:3], Y[:3]), lambda: (X[3:], Y[3:])]
    spread = tagging_model(backend.module, parts, templates, **options)
    assert spread.size == model.size and {*(spread.edge_vocabulary or ())} == {*(model.edge_vocabulary or ())}
    close(*(backend.lbfgs(backend.LogLoss(m, m.pack(X, Y)), lam=0.1).fun for m in (spread, model)), scale=1e3)


def test_layers_have_no_features_of_pairs(backend):
    modules = pytest.importorskip("diptych.layers.torch.modules")
    chains = backend.SequenceModel(2, 3, n_edge_features=2)
    with pytest.raises(TypeError, match="n_edge_features = 0, as ChainCRF has none, got 2"):
        modules.ChainCRF.of(chains, np.zeros(chains.size))
