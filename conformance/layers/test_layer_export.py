"""The best tags in PyTorch's own operators: those of ChainCRF, and, where ONNX's runtime is installed, there too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.specimens.pages import check_refusals
from diptych.layers.spans import allowed_transitions

torch = pytest.importorskip("torch")
export = pytest.importorskip("diptych.layers.torch.export", exc_type=ImportError)

import diptych.layers.torch as layers  # noqa: E402
from diptych.layers.torch import ChainCRF  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
LABELS = ["O", "B-A", "I-A", "B-B", "I-B"]


def crf_of(batch_first: bool, rule: bool) -> Any:
    """A CRF whose transitions are whole numbers, among which scores tie."""
    torch.manual_seed(0)
    crf = ChainCRF(5, batch_first, allowed=allowed_transitions(LABELS, "BIO") if rule else None)
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
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("rule", [False, True])
def test_tags_are_a_best_tagging(first, rule):
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

    def __init__(self, crf: Any) -> None:
        super().__init__()
        self.encoder, self.decoder = torch.nn.Linear(5, 5), export.ChainDecoder(crf)

    def forward(self, words: Any, mask: Any) -> Any:
        return self.decoder(self.encoder(words), mask)


@pytest.mark.beyond("exports a network")
def test_an_exported_tagger_gives_the_same_tags_in_onnxruntime(tmp_path):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    tagger, path = Tagger(crf_of(True, True)).eval(), tmp_path / "tagger.onnx"
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


def test_wrong_arguments_are_named():
    names = {"export": export, "torch": torch, "decoder": export.ChainDecoder(crf_of(True, False))}
    check_refusals("wrong_exports.txt", names)
