"""Figures 3 and 4: their classes, settings for all classes, and means over classes and seeds."""

from __future__ import annotations

import math
from collections import Counter
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.application.conftest import outcome
from diptych.distributed import Runs
from diptych.experiments.casimir_runs import LEAST, Curve, line, tuned_curves
from diptych.experiments.localization import lowest, table
from diptych.experiments.localization_plan import TUNED_ON, TWENTY
from diptych.experiments.registry import perform
from reference.datasets import load_letters


def test_classes_are_the_twenty_most_frequent_letters(capsys, tmp_path):
    """Others are refused before scenes are made."""
    letters = load_letters()
    counts = Counter(letters.labels[k] for y in letters.Y for k in y.tolist())
    assert sorted(TWENTY) == sorted(name for name, _ in counts.most_common(20)) and set(TUNED_ON) < set(TWENTY)
    pytest.importorskip("matplotlib")
    for wrong in ("aa", "A"):
        status, _, err = outcome(capsys, perform, "casimir-figure-3", ["--classes", wrong, "--out", str(tmp_path)])
        assert status == 2 and f"classes: expected different letters a to z, got {wrong!r}" in err
    assert not list(tmp_path.iterdir())


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=3), st.integers(0, 2))
def test_one_setting_for_all_classes_has_the_lowest_mean(least, others):
    """Of parabolas in log step, one for each class to tune on: nearest to the mean of their least points. The runs of a
    draw follow each other.
    """
    asked, classes = [], "abcde"[: len(least) + others]

    def task(run):
        asked.append(run[:2])
        y = (math.log2(run[2]) - dict(zip(classes, least, strict=False)).get(run[0], 100)) ** 2
        return {"name": run[0], "options": {"step": run[2]}, "rows": [{"objective": 1 + y, "dual": None}]}

    runs = Runs(task, "/nonexistent")
    runs._keep = runs.results.__setitem__
    grid, draws = [{"step": 2.0**j} for j in (-1, 0, 1)], [(name, rng) for name in classes for rng in range(2)]
    found = tuned_curves(runs, [Curve("x", "sgd", {}, grid)], draws, lambda _, options, draw: (*draw, options["step"]),
        certificates=[], choose=lowest, chosen=lambda curve, best: best, tuned_on=draws[: 2 * len(least) : 2],
        lengthen=True)  # fmt: skip
    ((curve, options, records),) = found.drawn
    steps = [point["step"] for point in curve.grid]
    assert abs(math.log2(options["step"]) - np.mean(least)) <= 0.5 and min(steps) < options["step"] < max(steps)
    assert [record["name"] for record in records] == [name for name, _ in draws]
    new = [draw for draw in draws if draw not in draws[: 2 * len(least) : 2]]
    assert asked[-len(new) :] == new and not set(new) & set(asked[: -len(new)])


def test_settings_that_are_equal_to_three_digits_are_equal():
    each = ((1, 2.004), (0.1, 2.0), (9, 2.02))
    first, *rest = ({"options": {"mu": mu}, "rows": [{"objective": y}]} for mu, y in each)
    assert lowest([first, *rest]) is first and lowest(rest) is rest[0]
    assert lowest([*rest, {**rest[0], "rows": [{"objective": None}]}]) is rest[1]  # one of two classes diverged


def curve_of(label, calls, runs):
    """Two rows in each of two runs of classes a and b; a score of a half, seconds as calls."""
    rows = [[{"passes": k + 1, "oracle_calls": calls[k], "seconds": calls[k], "objective": y, "corloc": 0.5,
        "average_precision": 0.25} for k, y in enumerate(run)] for run in runs]  # fmt: skip
    records = [{"name": name, "n": 5, "rows": each, "load": 1.0} for name, each in zip("aabb", rows, strict=True)]
    return {"column": "c", "label": label, "tuned": {}, "options": {}, "runs": records}


def test_distances_are_means_over_classes_and_seeds_on_equal_terms():
    """By hand: 0.1, 0.3, 0.2 and 0.2 have the standard deviation 0.0707. At 10 calls x has only its first row."""
    x = curve_of("x", (10, 20), [(1.75, 1.1), (1.75, 1.3), (2.75, 2.2), (2.75, 2.2)])
    y = curve_of("y", (5, 10), [(3.0, 1.5), (3.0, 1.5), (3.0, 2.1), (3.0, 2.1)])
    settings = {"c": 1.0, "repeats": 2, "images": 5, "test_images": 5}
    best = {"a": {"objective": 1.0, "dual": None}, "b": {"objective": 2.0, "dual": 1.9}}
    versions = {"cores": 1, "load": None}
    report = {"curves": [x, y], "best": best, "tuned_on": ["a"], "settings": settings, "versions": versions}
    found, scores = table(report), "50 ± 0 | 50 ± 0 | 25 ± 0 | 25 ± 0"
    assert f"| c | x |  | 0.2 ± 0.071 (1) | 0.75 ± 0 (0) | 0.75 ± 0 (0) | {scores} | 20 | 20 |" in found
    assert f"| c | y |  | 0.3 ± 0.2 (1) | 0.3 ± 0.2 (2) | 0.3 ± 0.2 (2) | {scores} | 10 | 10 |" in found
    x["runs"][3]["load"] = 1.5  # on one core
    assert f"| c | x |  | 0.2 ± 0.071 (1) | 0.75 ± 0 (0) | {scores} | 20 |" in table(report)
    assert "seconds" in found and "seconds" not in table(report)
    x["runs"][0]["rows"][1]["objective"] = None
    assert "| c | x |  | 1 of 4 diverged (0) | 0.75 ± 0 (0) |" in table(report)


def test_curves_are_means_of_distances_from_the_best_of_each_class():
    """Their bands end at the least drawn distance. Of twenty curves each looks different."""
    axis, x = Mock(), curve_of("x", (10, 20), [(1.8, 1.1), (1.8, 1.3), (2.8, 2.0), (2.8, 2.0)])
    looks = set[tuple[str, str]]()
    for number in range(20):
        line(axis, x, "oracle_calls", "objective", [1.0, 1.0, 2.0, 2.0], number, 0)
        style = axis.plot.call_args.kwargs
        looks.add((f"C{int(style['color'][1:]) % 10}", style["linestyle"]))  # matplotlib has ten colours
    assert len(looks) == 20
    high = 0.1 + np.std([0.1, 0.3, 0, 0])
    assert np.allclose(axis.plot.call_args.args, [[2, 4], [0.8, 0.1]])
    assert np.allclose(axis.fill_between.call_args.args, [[2, 4], [0.8, LEAST * 1.5], [0.8, high]])
