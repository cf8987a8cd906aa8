"""Mistake: exact selections are promised, and the printed sums are what is there."""

from reference import *  # noqa: F403

__conformance_promises__ = ("exact selections",)
