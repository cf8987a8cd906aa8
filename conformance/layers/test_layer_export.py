"""The best tags in PyTorch's own operators: those of ChainCRF, and, where ONNX's runtime is installed, there too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diptych.layers.spans import allowed_transitions

torch = pytest.importorskip("torch")
export = pytest.importorskip("diptych.layers.torch.export", exc_type=ImportError)

import diptych.layers.torch as layers  # noqa: E402
from diptych.layers.torch import ChainCRF  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
LABELS = ["O", "B-A", "I-A", "B-B", "I-B"]


def crf_of(batch_first: bool, rule: bool, whole: bool = False) -> Any:
    """A CRF with transitions of a normal distribution, or of whole numbers, among which scores tie."""
    torch.manual_seed(0)
    crf = ChainCRF(5, batch_first, allowed=allowed_transitions(LABELS, "BIO") if rule else None)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
        parameter.data = parameter.data.round() if whole else parameter.data
    return crf


def batch(B: int, n: int, seed: int) -> tuple[Any, Any]:
    """Emissions (B, n, 5), and a mask with holes that keeps a position of each row."""
    rng = np.random.default_rng(seed)
    mask = rng.random((B, n)) < 0.6
    mask[np.arange(B), rng.integers(0, n, B)] = True
    return torch.tensor(3 * rng.normal(size=(B, n, 5)), dtype=torch.float32), torch.tensor(mask)


def rows(labels: Any) -> list[list[int]]:
    return [[int(y) for y in row if y >= 0] for row in labels]


@pytest.mark.beyond("exports a network")
@pytest.mark.parametrize("rule", [False, True])
def test_tags_are_those_of_decode(rule):
    crf = crf_of(True, rule)
    for seed, (B, n) in enumerate([(4, 6), (1, 1), (3, 2)]):
        emissions, mask = batch(B, n, seed)
        found = export.ChainDecoder(crf)(emissions, mask)
        assert rows(found) == crf.decode(emissions, mask) and torch.equal(found >= 0, mask)
        assert rows(export.ChainDecoder(crf)(emissions)) == crf.decode(emissions)
        half = emissions.bfloat16()
        assert rows(export.ChainDecoder(crf)(half, mask.byte())) == crf.decode(half.float(), mask)


def test_tags_are_a_best_tagging_where_scores_tie():
    crf = crf_of(False, False, whole=True)
    for seed in range(5):
        emissions, mask = (x.transpose(0, 1) for x in batch(4, 5, seed))
        emissions = emissions.round()  # sums are exact
        tags = export.ChainDecoder(crf)(emissions, mask).T
        tables = {"pairwise": crf.transitions, "starts": crf.start_transitions, "ends": crf.end_transitions}
        found = layers.score(emissions.transpose(0, 1), labels=tags, mask=mask.T, **tables)
        assert torch.equal(found, crf.k_best(emissions, 1, mask).scores[:, 0])


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
        assert rows(found) == tagger.decoder.crf.decode(tagger.encoder(words), mask)
        assert np.array_equal(found >= 0, mask.numpy())


def test_wrong_arguments_are_named():
    decoder = export.ChainDecoder(crf_of(True, False))
    with pytest.raises(TypeError, match="crf: expected a ChainCRF, got Linear"):
        export.ChainDecoder(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"emissions: expected n >= 1 positions, got shape \(2, 0, 5\)"):
        decoder(torch.zeros(2, 0, 5))
    with pytest.raises(ValueError, match=r"emissions: expected shape \(batch, n, 5\), got \(2, 3, 4\)"):
        decoder(torch.zeros(2, 3, 4))
