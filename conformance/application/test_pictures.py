"""What pictures show: labels that do not overlap, whole numbers of what is counted, error bars of several runs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import reference
from diptych.pictures import plots
from reference.training.result import Row

pytest.importorskip("matplotlib")


@pytest.fixture
def figure(monkeypatch):
    """Draws, and gives the figure instead of writing it."""
    kept = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: kept.append(figure))

    def draw(function, *arguments, **options):
        function("figure.png", *arguments, **options)
        kept[-1].draw_without_rendering()
        return kept[-1]

    return draw


def labels(axis):
    """The shown labels of an axis; they must not overlap."""
    shown = [tick for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()) if tick.label1.get_text()]
    low, high = sorted(axis.get_view_interval())
    shown = sorted((tick.label1.get_window_extent().x0, tick) for tick in shown if low <= tick.get_loc() <= high)
    for (_, one), (_, other) in pairwise(shown):
        assert one.label1.get_window_extent().x1 < other.label1.get_window_extent().x0
    return [tick.label1.get_text() for _, tick in shown]


def whole(axis):
    """Whether all labels are integers."""
    return all(float(text).is_integer() for text in labels(axis))


@pytest.mark.beyond("draws many pictures")
@pytest.mark.parametrize("last", [0.0101, 0.011, 0.021, 0.035, 0.4, 7.0, 3e5, 1e13])
@pytest.mark.parametrize("count", [1, 2, 12])
def test_labels_of_runs_do_not_overlap(figure, last, count):
    rows = [Row(k + 1, 97 * (k + 1), s, 2.0 - k / 99, 1.0, 1.0) for k, s in enumerate(np.geomspace(0.01, last, count))]
    epochs, seconds, gaps = (each.xaxis for each in figure(plots.convergence, {"one": rows}, "title").axes)
    assert labels(seconds) and whole(epochs) and whole(gaps)
    run = {"name": "one", "distance": None, "objective": [row.objective for row in rows]}
    run |= {"calls": [row.oracle_calls for row in rows], "epochs": [row.epoch for row in rows]}
    run["seconds"] = [row.seconds for row in rows]
    calls, seconds, epochs = (x.xaxis for x in figure(plots.runs, [run], ["calls", "seconds", "epochs"]).axes)
    assert labels(seconds) and whole(calls) and whole(epochs)


LOGARITHMIC = ["0.001 0.01", "0.1 0.2", "1e-9 1e-5 3 1e6", "1 10"]


@pytest.mark.beyond("draws many pictures")
@pytest.mark.parametrize("values", [*LOGARITHMIC, "0 1 2", "1 2 3", "0.5", "1 a"])
def test_a_grid_has_a_logarithmic_axis_from_two_positive_numbers_on(figure, values):
    (axes,) = figure(plots.grid, {"": [(value, 0.5, None) for value in values.split()]}, "lam", "score").axes
    assert axes.get_xscale() == ("log" if values in LOGARITHMIC else "linear") and not axes.containers
    assert labels(axes.xaxis) and (values != "0 1 2" or labels(axes.xaxis) == ["0", "1", "2"])


def test_error_bars_are_of_several_runs(figure):
    points = [("1e-3", 0.5, 0.1), ("1e-2", 0.6, None), ("1e-1", None, None)]
    (axes,) = figure(plots.grid, {"a": points, "b": [("1e-3", 0.4, None)]}, "lam", "score").axes
    (bars,) = axes.containers
    assert np.allclose(bars.lines[2][0].get_segments(), [[[1e-3, 0.4], [1e-3, 0.6]]])


def test_a_path_counts_weights_in_whole_numbers(figure, rng):
    model = reference.MulticlassModel(2, 2)
    loss = reference.LogLoss(model, model.pack(rng.normal(size=(6, 2)), [0, 1, 0, 1, 0, 1]))
    for count in (1, 2):
        weights, sizes = figure(plots.plot_path, reference.sparse_path(loss, count=count)).axes
        assert labels(weights.xaxis) and all(tick.is_integer() for tick in sizes.get_yticks())
