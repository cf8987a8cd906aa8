"""Rows of the claims ledger: named entity recognition (Pillutla et al., section 7.1.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["rows"]

TAGGING, TEMPLATES, CHUNKS = "test_tagging", "test_token_templates", "test_chunks"


def rows(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """The rows, made with the ledger's ``Claim``."""
    return (
        Claim(
            "P section 7.1.1, features",
            "tags of tokens from indicators of what is around each, one weight for each with each tag, or hashed "
            "onto at most 2^b weights",
            "holds under a condition",
            ("models.tagging.TaggingModel", "models.token_templates.attributes_of"),
            (
                f"{TEMPLATES}::test_attributes_are_equal_where_what_is_seen_is",
                f"{TAGGING}::test_scores_are_sums_of_the_weights_of_pairs",
                f"{TAGGING}::test_hashing_is_the_same_for_ever",
            ),
            condition="indicators of single words, tags and short runs of them; the print's Kronecker product is one "
            "indicator of all five words at once",
        ),
        Claim(
            "P section 7.1.1, evaluation",
            "the official CoNLL metric: F1 of chunks, what is outside (O) not counted",
            "holds",
            ("diptych.chunks.chunk_scores", "diptych.chunks.chunks"),
            (
                f"{CHUNKS}::test_scores_by_hand",
                f"{CHUNKS}::test_chunks_by_hand",
                f"{CHUNKS}::test_nothing_to_divide_by",
            ),
        ),
    )
