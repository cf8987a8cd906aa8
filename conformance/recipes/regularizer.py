"""Recipe: add a regularizer. Here: x >= 0, whose prox cuts off what is negative."""

from reference.prox.base import Regularizer, indicator


class NonNegative(Regularizer):
    """The indicator of {x : x >= 0}; conjugate: the indicator of {y : y <= 0}."""

    def _value(self, point):
        return indicator(point.xp, point.xp.all(point.x >= 0, axis=-1))

    def _prox(self, point, step_size):
        return point.xp.where(point.x > 0, point.x, point.xp.zeros_like(point.x))

    def _conjugate(self, point):
        return indicator(point.xp, point.xp.all(point.x <= 0, axis=-1))

    def _prox_conjugate(self, point, step_size):  # by Moreau otherwise, which rounds: here it need not
        return point.xp.where(point.x < 0, point.x, point.xp.zeros_like(point.x))
