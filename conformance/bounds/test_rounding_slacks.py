"""What counts as rounding, and what does not any more: slacks at their very bounds, in both panels."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.prox.test_selection import agrees, as_promised, exact_weighted
from conformance.specimens.models import all_boxes
from conformance.tolerances import close


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_edge_may_lack_four_units_of_its_magnitudes(backend, dtype, order):
    """psi_00 = psi_11 = psi_01 = 1 and psi_10 = 1 + k eps: a lack of k eps, of 4 eps (4 + k eps) allowed."""
    eps, first, second = float(np.finfo(dtype).eps), *order
    for k, allowed in ((2, True), (16, True), (18, False), (32, False), (10000, False)):
        pairwise = np.ones((1, 2, 2), dtype)
        pairwise[0, first, second] += dtype(k * eps)
        scores = np.zeros((2, 2), dtype), pairwise, [[0, 1]]
        plain = backend.Cut(scores[0], np.zeros_like(pairwise), scores[2])
        augmented = plain.augment(plain.scores._replace(pairwise=pairwise))  # asks the oracle, which checks as well
        for ask in (lambda: backend.Cut(*scores).best(), augmented.best, augmented.max_marginals):  # noqa: B023
            if not allowed:
                with pytest.raises(ValueError, match=r"pairwise: .* edge 0 \(0, 1\)"):
                    ask()
            else:
                ask()
        if allowed:
            close(augmented.best()[0], 1.0, np.dtype(dtype).name)


@pytest.mark.parametrize("exponent", [-20, -30, -40, -45])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_boxes_that_differ_by_more_than_rounding_do_not_tie(backend, exponent, sign):
    """A pixel far below the others belongs to the best box iff it is positive; 8 (H + W) eps of their sum is 2^-45."""
    for shape in ((1, 3), (3, 1), (2, 2)):
        for place in np.ndindex(*shape):
            pixels = np.full(shape, 0.25)
            pixels[place] = sign * 2.0**exponent
            boxes = all_boxes(*shape)
            scores = [float(pixels[t:b, l:r].sum()) for t, l, b, r in boxes]  # powers of two: exact
            value, box = backend.Boxes(pixels).best()
            assert float(value) == max(scores)
            found = backend.Boxes(pixels).topk(len(boxes))
            assert np.asarray(found.scores).tolist() == sorted(scores, reverse=True)
            assert scores[boxes.index(tuple(np.asarray(box).tolist()))] == max(scores)


@pytest.mark.parametrize("lam", [1e-10, 0.3, 1.0, 1e10])
@pytest.mark.parametrize("exponent", [-500, -390, -300, -100, -40, 0, 40, 100, 199, 260, 500])
def test_weights_of_any_size_leave_what_they_should(backend, lam, exponent):
    """Coordinates whose weights differ by 2^5 keep different shares, up to where the heaviest keep nothing at all."""
    if exponent == 500 and lam > 1.0 and not backend.promises("exact selections"):
        pytest.skip("lam d^2 is beyond the range of float64, where the printed sums promise nothing")
    d = np.ldexp([1.0, 2.0**-5, 2.0**-20, 0.0], exponent)
    for x in (np.ones(4), np.array([1.0, -0.25, 3.0, 2.0]), np.ldexp([1.0, -0.25, 3.0, 2.0], 400)):
        as_promised(backend, backend.prox_weighted_squared_l1(x, d, lam), exact_weighted(x, d, lam), x, support=False)


@pytest.mark.parametrize("gap", [-52, -50, -45, -40, -35, -30, -27, -20, -10])
def test_a_heavy_weight_at_its_threshold_does_not_hide_the_others(backend, gap):
    """x_2 / d_2 lies below the threshold of x_1 by a share of 2^gap: less than an equation with both can tell."""
    for light in (2.0**-4, 2.0**-9, 2.0**-14, 2.0**-18):
        for lam in (2.0**40, 2.0**60):
            tau = lam * light / (1.0 + lam * light**2)
            x, d = np.array([1.0, tau * (1.0 - 2.0**gap)]), np.array([light, 1.0])
            got, exact = backend.prox_weighted_squared_l1(x, d, lam), exact_weighted(x, d, lam)
            agrees(got, exact, float(x.max()), support=False)
