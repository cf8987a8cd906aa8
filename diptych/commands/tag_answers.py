"""What a saved tagger answers: labels of sentences, the K best and probabilities, here or in several processes; as
lines of JSON or in another scheme; and its mistakes.
"""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from diptych.chunks import convert
from diptych.files.columns import Columns
from diptych.files.models import load_model
from diptych.files.partial import partly_known
from diptych.files.sources import named
from reference.arrays import host
from reference.example_errors import ExampleError

PIECES = 8  # of the sentences for each process
LONGEST = 24  # characters of a word in a table


def answers(
    model: Any, w: np.ndarray, sentences: Sequence[Columns], top: int | None, probabilities: bool, known: bool
) -> list[dict[str, Any]]:
    """For each sentence its ``columns`` and ``labels``; on request ``best``, the ``top`` best label sequences with
    their scores, and ``probabilities`` of the labels. known: within the partly known labels of the column ``label``.
    """
    kept = [partly_known(sentence) for sentence in sentences] if known else None
    with named(sentences):
        data = model.pack(sentences)
        constrained = None if kept is None else model.constrained(data, kept)
        predicted = model.predict(data, None, w, **({} if kept is None else {"known": kept}))
    tagged: list[dict[str, Any]] = [
        {"columns": sentence, "labels": model.named(y)} for sentence, y in zip(sentences, predicted, strict=True)
    ]
    for piece in model.chunks(data, np.arange(data.n)) if top or probabilities else ():
        scores = model.scores(data, piece, w)
        scores = scores if constrained is None else model.within(constrained, piece, scores)
        structure = model.structure_type.unchecked(scores)
        if top:
            best = structure.topk(top)
            highest, labels, counts = host(best.scores), host(best.labels), host(best.count)
            for b, each in enumerate(tagged[i] for i in piece):  # best first
                several = (model.named(y[np.max(y, axis=tuple(range(1, y.ndim))) >= 0]) for y in labels[b, : counts[b]])
                each["best"] = [{"score": float(highest[b, j]), "labels": y} for j, y in enumerate(several)]
        if probabilities:
            marginals = structure.expectation()[1]
            for b, i in enumerate(piece):
                tagged[i]["probabilities"] = model.probabilities(marginals, b, predicted[i])
    return tagged


@cache
def _kept(path: str, panel: str, most_bytes: int) -> tuple[Any, np.ndarray]:
    """The model of a file and its weights, loaded once in a process."""
    return load_model(path, panel, most_bytes=most_bytes)[:2]


def _of_piece(model: tuple[str, str, int], sentences: list[Columns], how: tuple[Any, ...]) -> list[dict[str, Any]]:
    return answers(*_kept(*model), sentences, *how)


def answers_of_processes(
    model: tuple[str, str, int], sentences: Sequence[Columns], workers: int, *how: Any
) -> list[dict[str, Any]]:
    """:func:`answers` of a model file, given with the panel's name and its most bytes, in several processes of this
    machine. Each loads the file once and tags pieces of the sentences.
    """
    size = max(1, -(-len(sentences) // (PIECES * workers)))
    pieces = [list(sentences[i : i + size]) for i in range(0, len(sentences), size)]
    with ProcessPoolExecutor(min(workers, len(pieces)), multiprocessing.get_context("spawn")) as pool:
        found = pool.map(_of_piece, len(pieces) * [model], pieces, len(pieces) * [how])
        return [each for piece in found for each in piece]


def json_lines(tagged: Sequence[Mapping[str, Any]]) -> str:
    """A line of JSON for each sentence."""
    return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in tagged)


def in_scheme(tagged: Sequence[dict[str, Any]], scheme: str) -> None:
    """Write the chunks of all labels in a scheme. ValueError at a label that marks no chunk."""
    try:
        for each in tagged:
            for one in (each, *each.get("best", ())):
                one["labels"] = convert(one["labels"], None, scheme)
    except ExampleError as problem:
        raise ValueError(f"--format {scheme}: the model's labels mark no chunks; {problem.problem}") from None


# mistakes -------------------------------------------------------------------------------------------------------------


def mistakes(sentences: Sequence[Columns], predicted: Sequence[Sequence[str]]) -> dict[str, Any]:
    """How often each label is taken for which, the words with most mistakes, and the sentences, the worst first.

    The true labels are the column ``label``; words are the first column.
    """
    confusions: Counter[tuple[str, str]] = Counter()
    words: dict[str, Counter[tuple[str, str]]] = {}
    times: Counter[str] = Counter()
    worst = []
    for sentence, guess in zip(sentences, predicted, strict=True):
        tokens, truth = [_word(token) for token in next(iter(sentence.values()))], sentence["label"]
        wrong = [(word, (a, b)) for word, a, b in zip(tokens, truth, guess, strict=True) if a != b]
        times.update(tokens)
        confusions.update(pair for _, pair in wrong)
        for word, pair in wrong:
            words.setdefault(word, Counter())[pair] += 1
        if wrong:
            source = getattr(sentence, "source", None)
            line = source.lines[0] if source is not None and len(source.lines) else None
            worst.append({"line": line, "wrong": len(wrong), "tokens": len(tokens), "words": tokens,
                "true": list(truth), "predicted": list(guess)})  # fmt: skip
    ordered = sorted(words.items(), key=lambda item: (-item[1].total(), times[item[0]], item[0]))
    return {
        "tokens": times.total(),
        "wrong": confusions.total(),
        "confusions": _as_list(confusions),
        "words": [{"word": word, "wrong": each.total(), "of": times[word], "as": _as_list(each)}
            for word, each in ordered],
        "worst": sorted(worst, key=lambda each: (-each["wrong"], each["tokens"])),
    }  # fmt: skip


def _word(token: Any) -> str:
    """What a token is called: itself, or the items of crfsuite that it consists of."""
    return token if isinstance(token, str) else " ".join(map(str, token))


def _as_list(confusions: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    """Most frequent first, then in alphabetical order."""
    ordered = sorted(confusions.items(), key=lambda item: (-item[1], item[0]))
    return [{"true": a, "predicted": b, "count": count} for (a, b), count in ordered]


def mistake_lines(found: Mapping[str, Any], top: int) -> list[str]:
    """The report: the ``top`` most frequent confusions, words and sentences."""
    confusions, words, worst = (found[name][:top] for name in ("confusions", "words", "worst"))
    of, wide = found["tokens"], max((len(each["true"]) for each in confusions), default=0)
    lines = [f"{found['wrong']} of {of} tokens wrong ({100 * found['wrong'] / max(of, 1):.2f} %), "
        f"in {len(found['worst'])} of {found['sentences']} sentences"]  # fmt: skip
    if confusions:
        lines += ["", "true label, and what it was taken for"]
        lines += [f"{each['count']:7}  {each['true']:{wide}}  {each['predicted']}" for each in confusions]
        lines += ["", "words: mistakes, occurrences, the most frequent mistake"]
    for each in words:
        most = each["as"][0]
        lines.append(f"{each['wrong']:7} {each['of']:7}  {each['word']:{LONGEST}.{LONGEST}}  "
            f"{most['true']} as {most['predicted']} ({most['count']})")  # fmt: skip
    for each in worst:
        where = "" if each["line"] is None else f"line {each['line']}: "
        tokens = map(_marked, each["words"], each["true"], each["predicted"])
        lines += ["", f"{where}{each['wrong']} of {each['tokens']} wrong", " ".join(tokens)]
    return lines


def _marked(word: str, true: str, predicted: str) -> str:
    return word if true == predicted else f"{word}[{true} as {predicted}]"
