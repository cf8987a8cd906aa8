"""Values that are kept as long as their owner, and no longer."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np

from accelerated.kept import Kept


@dataclass(frozen=True)
class Owner:
    """Equal to others, and without a hash."""

    x: np.ndarray


def test_a_value_is_made_once_and_goes_with_its_owner():
    kept, made = Kept(), []
    one, other = Owner(np.zeros(2)), Owner(np.zeros(2))

    def count():
        made.append(None)
        return len(made)

    for _ in range(2):
        assert kept.once(one, count) == 1 and kept.once(other, count) == 2
    made.clear()
    assert kept.put(one, 7) == kept.get(one) == 7 and kept.get(other) == 2
    del one
    gc.collect()
    assert kept._values == {id(other): 2}
    del other
    gc.collect()
    assert not kept._values and kept.get(Owner(np.zeros(2))) is None
