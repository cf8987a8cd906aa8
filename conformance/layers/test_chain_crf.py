"""ChainCRF and DependencyCRF: their calls are the functions of layers; parameters and values of pytorch-crf, where that
is installed; exported tags, and where ONNX's runtime is installed, those that it gives.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.specimens.pages import check_refusals
from diptych.layers.spans import allowed_transitions

torch = pytest.importorskip("torch")

import diptych.layers.torch as layers  # noqa: E402

LABELS = ["O", "B-A", "I-A", "B-B", "I-B"]


def problem(n: int = 6, B: int = 4, L: int = 5) -> tuple[Any, Any, Any]:
    """Emissions (n, B, L), tags and a mask (n, B) with holes that is True at each first position."""
    rng = np.random.default_rng(0)
    mask = rng.random((n, B)) < 0.7
    mask[0] = True
    return torch.tensor(rng.normal(size=(n, B, L))), torch.tensor(rng.integers(0, L, (n, B))), torch.tensor(mask)


def test_calls_are_the_functions_of_chains():
    emissions, tags, mask = problem()
    crf = layers.ChainCRF(5).double()
    assert sorted(crf.state_dict()) == ["end_transitions", "start_transitions", "transitions"]
    assert "num_tags=5" in repr(crf)
    assert all(float(x.detach().min()) >= -0.1 and float(x.detach().max()) <= 0.1 for x in crf.parameters())
    where = {"starts": crf.start_transitions, "ends": crf.end_transitions, "mask": mask.T}
    unary = emissions.transpose(0, 1)
    loss = layers.crf_loss(unary, crf.transitions, tags.T, **where)
    for reduction, expected in (
        ("none", -loss), ("sum", -loss.sum()), ("mean", -loss.mean()), ("token_mean", -loss.sum() / mask.sum()),
    ):  # fmt: skip
        assert torch.allclose(crf(emissions, tags, mask, reduction=reduction), expected)
    assert torch.equal(crf(emissions, tags, mask.to(torch.uint8)), crf(emissions, tags, mask))
    best = layers.best(unary, crf.transitions, **where).labels
    assert crf.decode(emissions, mask) == [row[row >= 0].tolist() for row in best]
    first = layers.ChainCRF(5, batch_first=True).double()
    first.load_state_dict(crf.state_dict())
    assert torch.allclose(first(unary, tags.T, mask.T), crf(emissions, tags, mask))
    assert first.decode(unary, mask.T) == crf.decode(emissions, mask)
    assert torch.allclose(crf.marginals(emissions, mask), first.marginals(unary, mask.T).transpose(0, 1))
    assert torch.equal(crf.k_best(emissions, 3, mask).labels[:, 0], best)
    crf(emissions, tags, mask).backward()
    assert all(x.grad is not None and bool(torch.any(x.grad != 0)) for x in crf.parameters())


def test_only_allowed_labels_are_decoded_and_have_probability():
    emissions, _, mask = problem()
    rule = allowed_transitions(LABELS, "BIO")
    crf = layers.ChainCRF(5, allowed=rule).double()
    assert sorted(crf.state_dict()) == ["end_transitions", "start_transitions", "transitions"]
    for row in crf.decode(emissions, mask):
        assert rule.starts[row[0]] and all(rule.pairs[a, b] for a, b in itertools.pairwise(row))
    first = crf.marginals(emissions, mask)[0]
    assert torch.all(first[:, ~rule.starts] == 0) and torch.allclose(first.sum(-1), torch.ones(4, dtype=torch.float64))


@pytest.mark.beyond("another library")
def test_values_are_those_of_pytorch_crf():
    theirs_of = pytest.importorskip("torchcrf").CRF
    emissions, tags, mask = problem()
    n = mask.sum(0)
    mask = torch.arange(len(mask))[:, None] < n  # pytorch-crf's numerator takes no holes
    for first in (False, True):
        theirs, ours = theirs_of(5, batch_first=first).double(), layers.ChainCRF(5, batch_first=first).double()
        ours.load_state_dict(theirs.state_dict())
        given = [x.transpose(0, 1) if first else x for x in (emissions, tags, mask)]
        for reduction in ("none", "sum", "mean", "token_mean"):
            a, b = (crf(*given, reduction=reduction) for crf in (ours, theirs))
            assert torch.allclose(a, b)
            assert torch.allclose(*(torch.autograd.grad(x.sum(), crf.transitions)[0]
                                    for x, crf in ((a, ours), (b, theirs))))  # fmt: skip
        assert ours.decode(given[0], given[2]) == theirs.decode(given[0], given[2])


def test_a_dependency_crf_is_the_trees_of_its_scores():
    torch.manual_seed(1)  # rectified units may be 0 throughout, and then have no gradient
    lengths, heads = torch.tensor([4, 1, 0, 3]), torch.tensor([[2, 0, 2, 1], [0] * 4, [0] * 4, [0, 3, 1, 0]])
    crf, encodings = layers.DependencyCRF(6, 5).double(), torch.randn(4, 4, 6, dtype=torch.float64)
    values = crf.scores(encodings)
    d = torch.nn.functional.pad(crf.dependents(encodings[0, 1]).relu(), (0, 1), value=1.0)
    e = torch.nn.functional.pad(crf.heads(encodings[0, 2]).relu(), (0, 1), value=1.0)
    assert torch.allclose(values[0, 1, 3], d @ crf.biaffine @ e)  # the third token as head of the second
    loss = layers.arborescence.crf_loss(values, heads, lengths=lengths, single_root=True)
    for reduction, expected in (
        ("none", -loss), ("sum", -loss.sum()), ("mean", -loss.mean()), ("token_mean", -loss.sum() / 8),
    ):  # fmt: skip
        assert torch.allclose(crf(encodings, heads, lengths, reduction=reduction), expected)
    best = layers.arborescence.best(values, lengths=lengths, single_root=True).labels
    assert crf.decode(encodings, lengths) == [row[row >= 0].tolist() for row in best]
    assert torch.allclose(crf.marginals(encodings, lengths).sum((1, 2)), lengths.double())
    crf(encodings, heads, lengths).backward()
    assert all(bool(torch.any(x.grad != 0)) for x in crf.parameters())


@pytest.mark.parametrize("start_stop", [True, False])
def test_a_model_of_sequences_is_a_chain_crf_and_back(backend, start_stop):
    model, rng = backend.SequenceModel(3, 4, start_stop=start_stop), np.random.default_rng(0)
    w, X, Y = rng.normal(size=model.size), [rng.normal(size=(n, 3)) for n in (4, 2)], [[0, 3, 2, 1], [1, 1]]
    linear, crf = layers.ChainCRF.of(model, w)
    for x, y, labels in zip(X, Y, model.predict(model.pack(X), None, w), strict=True):
        emissions = linear(torch.tensor(x)[None])
        assert crf.decode(emissions) == [np.asarray(labels).tolist()]
        loss = backend.LogLoss(model, model.pack([x], [y])).value(w)
        assert torch.allclose(-crf(emissions, torch.tensor([y])), torch.tensor(loss, dtype=torch.float64))
    if start_stop:
        assert np.array_equal(crf.weights_of(linear), w)


@pytest.mark.beyond("long runs")
def test_the_page_about_layers_runs():
    page = Path(__file__).parents[2] / "docs" / "layers.md"
    if not page.exists():
        pytest.skip("an installed suite has no pages")
    exec("\n".join(re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)), {})


# the best tags in PyTorch's own operators, for programs that leave it -------------------------------------------------

quiet = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture
def export():
    return pytest.importorskip("diptych.layers.torch.export", exc_type=ImportError)


def crf_of(batch_first: bool, rule: bool) -> Any:
    """A CRF whose transitions are whole numbers, among which scores tie."""
    torch.manual_seed(0)
    crf = layers.ChainCRF(5, batch_first, allowed=allowed_transitions(LABELS, "BIO") if rule else None)
    for parameter in crf.parameters():
        parameter.data = (2.0 * torch.randn(parameter.shape)).round()
    return crf


def batch(B: int, n: int, seed: int) -> tuple[Any, Any]:
    """Whole emissions (B, n, 5), and a mask with holes that keeps a position of each row."""
    rng = np.random.default_rng(seed)
    mask = rng.random((B, n)) < 0.6
    mask[np.arange(B), rng.integers(0, n, B)] = True
    return torch.tensor(3 * rng.normal(size=(B, n, 5)), dtype=torch.float32).round(), torch.tensor(mask)


@pytest.mark.beyond("exports a network")
@quiet
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("rule", [False, True])
def test_exported_tags_are_a_best_tagging(export, first, rule):
    """Sums of whole numbers are exact, so that ties are ties."""
    crf = crf_of(first, rule)
    for seed, (B, n) in enumerate([(4, 6), (1, 1), (3, 2), (4, 5)]):
        given = batch(B, n, seed)
        for x, mask in (given, (given[0], None), (given[0].bfloat16(), given[1].byte())):
            turned = [x, mask] if first else [each if each is None else each.transpose(0, 1) for each in (x, mask)]
            tags = export.ChainDecoder(crf)(*turned)
            tags, kept = tags if first else tags.T, torch.ones(B, n).bool() if mask is None else mask.bool()
            assert torch.equal(tags >= 0, kept)
            found = layers.score(x.float(), labels=tags, mask=kept, **crf._tables())
            assert torch.equal(found, crf.k_best(turned[0].float(), 1, turned[1]).scores[:, 0])


class Tagger(torch.nn.Module):
    """What a program exports: an encoder and the decoder of its CRF."""

    def __init__(self, decoder: Any) -> None:
        super().__init__()
        self.encoder, self.decoder = torch.nn.Linear(5, 5), decoder

    def forward(self, words: Any, mask: Any) -> Any:
        return self.decoder(self.encoder(words), mask)


@pytest.mark.beyond("exports a network")
@quiet
def test_an_exported_tagger_gives_the_same_tags_in_onnxruntime(export, tmp_path):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    tagger, path = Tagger(export.ChainDecoder(crf_of(True, True))).eval(), tmp_path / "tagger.onnx"
    axes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("positions")}
    torch.onnx.export(tagger, batch(3, 4, 0), path, dynamo=True, dynamic_shapes=(axes, axes), verbose=False)
    model = onnx.load(path)
    assert {node.domain for graph in (model.graph, *model.functions) for node in graph.node if node.domain} <= {
        function.domain for function in model.functions
    }  # operators of ONNX only
    session = runtime.InferenceSession(path)
    for seed, (B, n) in enumerate([(3, 4), (1, 1), (5, 9)]):
        words, mask = batch(B, n, seed)
        names = [each.name for each in session.get_inputs()]
        (found,) = session.run(None, dict(zip(names, (words.numpy(), mask.numpy()), strict=True)))
        assert np.array_equal(found, tagger(words, mask))


@quiet
def test_wrong_arguments_of_exports_are_named(export):
    names = {"export": export, "torch": torch, "decoder": export.ChainDecoder(crf_of(True, False))}
    check_refusals("wrong_exports.txt", names)
