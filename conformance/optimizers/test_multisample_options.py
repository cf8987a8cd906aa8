"""Multi-sample dual updates as a user calls them: structures of the user's, the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from diptych.commands.main import main


def test_one_output_needs_nothing_but_the_best(backend):
    """A structure of the user's with best and parts; more outputs need topk, or sample."""

    class Two(backend.Structure):
        def best(self):
            return float(self.scores.max()), int(self.scores.argmax())

        def parts(self, y):
            return np.eye(2)[y]

    model = backend.ListModel(lambda x: np.eye(2) * x, Two, task_loss=lambda x, y: 1.0 - np.eye(2)[y], size=2)
    objective = backend.StructuralHinge(model, model.pack([1.0, 2.0], [0, 1]))
    assert backend.multisample(objective, lam=0.1, k=1, rng=0).success
    for sampler, method in (("topk", "topk"), ("gibbs", "sample")):
        with pytest.raises(backend.UnsupportedError, match=rf"Two does not implement {method}\(\)"):
            backend.multisample(objective, lam=0.1, k=2, sampler=sampler)


@pytest.mark.parametrize(
    "options",
    [
        ["multisample", "--k", "3"],
        ["multisample", "--sampler", "gibbs", "--mu", "0.5", "--update", "exact", "--average", "uniform"],
        ["cutting-planes"],
    ],
)
def test_the_command_line_trains_by_name(backend, capsys, options):
    job = ["--loss", "hinge", "--lam", "1", "--tol", "0.3", "--optimizer", *options]
    assert main(["train", "letters", "--limit", "8", *job, "--panel", backend.__name__, "--json", "--quiet"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["success"] and 0 <= report["certificate"] <= 0.3 * report["objective"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["multisample", "--mu", "1"], "--mu has no effect with no --sampler gibbs"),
        (["multisample", "--smoothing", "l2"], "--smoothing has no effect with --optimizer multisample"),
        (["cutting-planes", "--k", "3"], "--k has no effect with --optimizer cutting-planes"),
        (["bcfw", "--sampler", "gibbs"], "--sampler has no effect with --optimizer bcfw; these have it: multisample"),
        (["multisample", "--loss", "crf"], "--optimizer multisample needs --loss hinge"),
    ],
)
def test_options_without_effect_are_refused(capsys, options, message):
    optimizer, *rest = options
    loss = [] if "--loss" in rest else ["--loss", "hinge"]
    assert main(["train", "letters", "--limit", "8", "--optimizer", optimizer, *loss, *rest]) == 2
    assert message in capsys.readouterr().err
