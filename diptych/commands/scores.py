"""Scores of predictions as counts, which add up over partitions: of labels, of chunks, of heads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from diptych.chunks import ChunkCounts, ChunkScores, chunk_counts, mark_chunks, scores_of
from diptych.distributed.partitions import Job, objective_of
from diptych.metrics import PUNCTUATION
from reference.arrays import host
from reference.example_errors import ExampleError
from reference.models.partial import is_partial


class Counts(NamedTuple):
    """Right positions, positions, right sequences, sequences (of trees: both without punctuation); chunks, if all
    labels are of chunks, and what is wrong with a label that is meant to mark one. Of partly known labels: those that
    are known, and sequences of them; left_out, left_out_sequences: the others.
    """

    right: int
    positions: int
    right_sequences: int
    sequences: int
    chunks: ChunkCounts | None = None
    no_chunks: str | None = None
    left_out: int = 0
    left_out_sequences: int = 0

    def __add__(self, other: Any) -> Counts:
        chunks = None if self.chunks is None or other.chunks is None else self.chunks + other.chunks
        right, positions, right_sequences, sequences = (a + b for a, b in zip(self[:4], other[:4], strict=True))
        others = (a + b for a, b in zip(self[6:], other[6:], strict=True))
        return Counts(right, positions, right_sequences, sequences, chunks, self.no_chunks or other.no_chunks, *others)


def counted(
    truth: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    known: Sequence[str] = (),
    scheme: str | None = None,
    examples: Callable[[], Sequence[Any]] = tuple,
) -> Counts:
    """The counts of predicted labels (n_i,) of sequences.

    truth: labels, or partly known ones, of which labels count, and chunks and sequences where there are no others.
    known: the model's labels, which help to see what labels mean. scheme: that of all labels; default: as they look.
    examples: gives the sequences, which may have a ``source``, the place where they were read.
    """
    if any(map(is_partial, truth)):
        return _counted_partly(truth, predicted, known, scheme, examples)
    same = [[a == b for a, b in zip(y, z, strict=True)] for y, z in zip(truth, predicted, strict=True)]
    chunks = problem = None
    if scheme is not None or mark_chunks({*known, *(label for y in (*truth, *predicted) for label in y)}):
        try:
            chunks = chunk_counts(truth, predicted, scheme)
        except ExampleError as wrong:
            i, t, made = wrong.example, wrong.position or 0, wrong.argument == "guess"
            source = getattr((examples() or truth)[i], "source", None)
            where = f"line {source.lines[t]} of {source.file}" if source else f"sentence {i + 1}, token {t + 1}"
            label = f"label {(predicted if made else truth)[i][t]!r}{', predicted' if made else ''}"
            problem = f"{label} in {where}; {wrong.problem.partition(', got ')[0]}"
    return Counts(sum(map(sum, same)), sum(map(len, same)), sum(map(all, same)), len(same), chunks, problem)


def _counted_partly(truth: Any, predicted: Any, known: Any, scheme: str | None, examples: Any) -> Counts:
    """The counts of :func:`counted` of the tokens whose label is known, and of the sequences that have no others."""
    whole = [i for i, y in enumerate(truth) if not is_partial(y)]
    true, mine, places = ([each[i] for i in whole] for each in (truth, predicted, examples() or truth))
    counts = counted(true, mine, known, scheme, lambda: places)
    pairs = [pair for y, z in zip(truth, predicted, strict=True) for pair in zip(y, z, strict=True)]
    right = [a == b for a, b in pairs if isinstance(a, str)]
    return counts._replace(
        right=sum(right),
        positions=len(right),
        chunks=counts.chunks if whole else None,
        left_out=len(pairs) - len(right),
        left_out_sequences=len(truth) - len(whole),
    )


def of_partition(job: Job, w: np.ndarray, k: int, scheme: str | None = None) -> Counts:
    """The counts of a model of sequences with weights w (d,) on partition k."""
    data, names = objective_of(job, k).objective.data, job.model.labels
    numbers = np.split(host(data.labels), data.offsets[1:-1]), job.model.predict(data, None, w)
    truth, predicted = ([[names[label] for label in y] for y in each] for each in numbers)
    return counted(truth, predicted, names, scheme, lambda: job.loaders[k]()[0])


def heads_of_partition(job: Job, w: np.ndarray, k: int) -> Counts:
    """The counts of a parser with weights w (d,) on partition k."""
    X, Y = job.loaders[k]()
    return counted_heads(Y, job.model.predict(objective_of(job, k).objective.data, None, w), [x["tag"] for x in X])


def counted_heads(truth: Sequence[Any], predicted: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> Counts:
    """The counts of predicted heads."""
    right = np.concatenate([np.zeros(0, bool), *(y == heads for y, heads in zip(truth, predicted, strict=True))])
    word = np.array([tag not in PUNCTUATION for sentence in tags for tag in sentence], bool)
    return Counts(int(np.sum(right)), len(right), int(np.sum(right & word)), int(np.sum(word)))


def parsing_scores(heads: Counts) -> dict[str, float | None]:
    """The scores of a parser for a report; None without tokens."""
    shares = shares_of(heads, "uas", "uas_without_punctuation")
    return {name: None if math.isnan(share) else share for name, share in shares.items()}


def shares_of(counts: Counts, positions: str, sequences: str) -> dict[str, float]:
    """The shares of right positions and sequences, under these names; nan without any."""
    pairs = {positions: (counts.right, counts.positions), sequences: (counts.right_sequences, counts.sequences)}
    return {name: right / of if of else float("nan") for name, (right, of) in pairs.items()}


def tagging_scores(counts: Counts) -> dict[str, Any]:
    """The scores of a tagger for a report: shares, None of nothing; chunks, or None and perhaps why. Of partly known
    labels also what is scored.
    """
    chunks = None if counts.chunks is None else _as_dict(scores_of(counts.chunks))
    why: dict[str, Any] = {} if counts.no_chunks is None else {"no_chunk_scores": counts.no_chunks}
    shares = {name: None if math.isnan(x) else x for name, x in shares_of(counts, "token", "sentence").items()}
    if counts.left_out:
        tokens, sentences = counts.positions + counts.left_out, counts.sequences + counts.left_out_sequences
        why["scored"] = {"tokens": counts.positions, "of_tokens": tokens}
        why["scored"] |= {"sentences": counts.sequences, "of_sentences": sentences}
    return {"accuracy": shares, "chunks": chunks, **why}


def _as_dict(scores: ChunkScores) -> dict[str, Any]:
    return {**scores._asdict(), "types": {kind: _as_dict(each) for kind, each in scores.types.items()}}


def tagging_lines(name: str, scores: dict[str, Any], types: bool = True) -> list[str]:
    """The lines of a report about a tagger's scores."""
    shares, chunks = scores["accuracy"], scores["chunks"]
    token, sentence = ("-" if x is None else f"{100 * x:.2f} %" for x in (shares["token"], shares["sentence"]))
    line = f"{name:5} tokens {token}, sentences {sentence}"
    if scored := scores.get("scored"):
        tokens, sentences = (f"{scored[what]} of {scored[f'of_{what}']} {what}" for what in ("tokens", "sentences"))
        line += f" (of the labels of {tokens}; sentences and chunks of {sentences} with all labels)"
    if chunks is None:
        return [line, *(f"{name:5} no chunk scores: {why}" for why in [scores.get("no_chunk_scores")] if why)]
    rows = [(kind, each) for kind, each in chunks["types"].items()] if types else []
    return [f"{line}, chunks {_chunk_line(chunks)}", *(f"  {kind:12} {_chunk_line(each)}" for kind, each in rows)]


def _chunk_line(scores: dict[str, Any]) -> str:
    precision, recall, f1 = (100 * scores[name] for name in ("precision", "recall", "f1"))
    counts = f"{scores['found']} found, {scores['expected']} true"
    return f"precision {precision:.2f}, recall {recall:.2f}, F1 {f1:.2f} ({counts})"
