"""A backend that has chains only: what is missing must be said, and the rest must run."""

from reference import Chain, ChainScores, InfeasibleError  # noqa: F401
