"""Algorithms 1 to 3 of Pillutla et al. on a sentence of five words."""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from drawing import Drawing, Frame, Point, Run
from watch import watch

from reference import Chain
from reference.structures.chain import forward_backward, top_k_viterbi, viterbi
from reference.structures.chain_sum import filtered

WORDS, TAGS = ["The", "old", "man", "the", "boats"], ["D", "N", "V"]
UNARY = np.array([[3.0, 0, 0], [0, 2, 0], [0, 2.5, 1], [3, 0, 0], [0, 2, 1]])
PAIRWISE = np.array([[-2.0, 2, -1], [-1, 0, 1], [1, 0, -2]])
CHAIN = Chain(UNARY, PAIRWISE)
SENTENCE = """The sentence is "The old man the boats", whose verb is "man"; the tags are D (determiner), N (noun) and V
(verb). """
K = 3


def _at(t: int, j: int, gap: float = 60.0) -> Point:
    return 40.0 + 80 * t, 35.0 + gap * j


def _trellis(gap: float = 60.0) -> Drawing:
    drawing = Drawing(400, 40 + gap * len(TAGS))
    for t, word in enumerate(WORDS):
        drawing.text((_at(t, 0)[0], 25 + gap * len(TAGS)), word)
    for j, tag in enumerate(TAGS):
        drawing.text((8, _at(0, j, gap)[1]), tag)
    return drawing


def _tags(labels: Iterable[Any]) -> str:
    return " ".join(TAGS[j] for j in labels)


def max_product() -> Run:
    """Max-product on a chain (Viterbi).

    {SENTENCE} A number is the best score of a labelling that ends there, a line the back pointer.
    """
    places = {"total = best": viterbi, "labels.append(": viterbi}
    moments, answer = watch(CHAIN.best, places, "t best back labels")
    bests, frames = [moment.best for moment in moments[: len(WORDS)]], []
    for step, moment in enumerate(moments):
        t, back = min(step, len(WORDS) - 1), [array.tolist() for array in moment.back]
        path = [int(j) for j in getattr(moment, "labels", [])][::-1]  # of the last positions
        drawing = _trellis()
        for s in range(1, t + 1):
            for j, i in enumerate(back[s - 1]):
                drawing.line([_at(s - 1, i), _at(s, j)])
        places_ = [_at(s, j) for s, j in zip(range(len(WORDS) - len(path), len(WORDS)), path, strict=True)]
        drawing.line(places_, "best", 3)
        for s, j in itertools.product(range(len(WORDS)), range(len(TAGS))):
            drawing.dot(_at(s, j), 16, "best" if _at(s, j) in places_ else "ink", 0.25 if s == t and not path else 0)
            drawing.text(_at(s, j), f"{bests[s][j]:g}" if s <= t else "")
        j = int(np.argmax(bests[t]))
        if moment.line == "return":
            says = f"The best labelling is {_tags(path)}, of score {bests[-1].max():g}."
        elif path:
            first = len(WORDS) - len(path)
            why = f"to which the pointer of {TAGS[path[1]]} leads" if len(path) > 1 else "the highest"
            says = f'"{WORDS[first]}" has {TAGS[path[0]]}, {why}: {bests[first][path[0]]:g}.'
        elif t == 0:
            says = f'Of one word, a labelling scores what the word does: at most {bests[0].max():g}, with "The" as D.'
        else:
            i = back[t - 1][j]
            says = f'The best labelling up to "{WORDS[t]}" scores {bests[t][j]:g} and ends in {TAGS[j]}: '
            says += f"{bests[t - 1][i]:g} up to {TAGS[i]} before it, {PAIRWISE[i, j]:g} for {TAGS[i]} {TAGS[j]}, "
            says += f"{UNARY[t, j]:g} for the word."
        frames.append(Frame(drawing, says))
    return Run(viterbi, frames, answer)


def k_best() -> Run:
    """The K best labellings of a chain.

    {SENTENCE} A box lists the {K} best scores of labellings that end there, a line is a pointer.
    """
    places = {"total = best": top_k_viterbi, "state = frozen": top_k_viterbi}
    moments, answer = watch(lambda: CHAIN.topk(K), places, "t best back state labels")
    bests = [moment.best for moment in moments[: len(WORDS)]]
    states: list[np.ndarray] = []  # entries of the K labellings, from the last position on
    gap = 75.0

    def entry(t: int, place: int) -> Point:
        j, rank = divmod(int(place), K)
        x, y = _at(t, j, gap)
        return x, y - 18 + 18 * rank

    frames = []
    for step, moment in enumerate(moments):
        t, labels = min(step, len(WORDS) - 1), [np.asarray(each) for each in getattr(moment, "labels", [])]
        drawing = _trellis(gap)
        for s in range(1, t + 1):
            for place, value in enumerate(bests[s].ravel()):
                if value > -np.inf:
                    drawing.line([entry(s - 1, moment.back[s - 1][place]), entry(s, place)], "ink", 1, 0.6)
        states += [moment.state] if labels else []
        for rank in range(K):
            points = [entry(len(WORDS) - 1 - s, each[rank]) for s, each in enumerate(states)]
            drawing.line(points, "best", 3.5 - rank, 1 - 0.25 * rank)
        for s, place in itertools.product(range(t + 1), range(K * len(TAGS))):
            if (value := bests[s].ravel()[place]) > -np.inf:
                x, y = entry(s, place)
                drawing.box((x - 15, y - 9), (30, 18), "paper", 1)
                drawing.box((x - 15, y - 9), (30, 18), "ink", 0.25 if s == t and not labels else 0)
                drawing.text((x, y), f"{value:g}")
        if moment.line == "return":
            found = [f"{_tags(y)} ({score:g})" for y, score in zip(answer.labels, answer.scores, strict=True)]
            says = f"The {K} best labellings are {', '.join(found)}."
        elif labels:
            s = len(WORDS) - len(labels)
            says = f'At "{WORDS[s]}" the {K} labellings have {", ".join(TAGS[j] for j in labels[-1])}: '
            says += "entries, not labels, have pointers, so that two of them may share a label."
        else:
            order = np.argsort(-bests[t].ravel(), kind="stable")[:K]
            kept = [f"{bests[t].ravel()[p]:g} ({TAGS[p // K]})" for p in order if bests[t].ravel()[p] > -np.inf]
            says = f'Up to "{WORDS[t]}", the best scores are {", ".join(kept)}; '
            says += f"each tag keeps its {K} best." if t else "one word has one labelling a tag."
        frames.append(Frame(drawing, says))
    return Run(top_k_viterbi, frames, answer)


def sum_product() -> Run:
    """Sum-product on a chain (forward-backward).

    {SENTENCE} A number is the probability of a tag: given the words up to it while the run goes forwards, given all
    of them (red) when it has come back. The reference keeps logarithms, and the marginals in place of backward
    messages: Algorithm 3, corrected.
    """
    places = {"message = unary": filtered, "conditional = softmax": forward_backward}
    moments, answer = watch(CHAIN.expectation, places, "t forward norms nodes log_z")
    frames = []
    for moment in moments[1:]:  # before the first position there is nothing
        later = [np.asarray(node) for node in getattr(moment, "nodes", [])]  # of the last positions, backwards
        known = [np.exp(np.asarray(each)) for each in moment.forward]
        shown = known[: len(WORDS) - len(later)] + later[::-1]
        now = len(WORDS) - len(later) if later else len(known) - 1
        drawing = _trellis()
        for s, j in itertools.product(range(1, len(WORDS)), range(len(TAGS))):
            for i in range(len(TAGS)):
                drawing.line([_at(s - 1, i), _at(s, j)], "faint", 1)
        for s, j in itertools.product(range(len(WORDS)), range(len(TAGS))):
            kind = "best" if later and s >= now else "ink"
            drawing.dot(_at(s, j), 16, kind, 0.6 * shown[s][j] if s < len(shown) else 0)
            drawing.text(_at(s, j), f"{shown[s][j]:.2f}" if s < len(shown) else "")
        j = int(np.argmax(shown[now]))
        if not later:
            total = float(np.sum(moment.norms))
            says = f'Up to "{WORDS[now]}", the log-partition is {total:.3f}, and {TAGS[j]} has probability '
            says += f"{shown[now][j]:.2f} there."
        else:
            says = f'With the words after it, "{WORDS[now]}" is {TAGS[j]} with probability {later[-1][j]:.2f}; '
            says += f"it was {known[now][j]:.2f} without them."
        frames.append(Frame(drawing, says))
    return Run(forward_backward, frames, answer)


RUNS = {"p-algorithm-1": max_product, "p-algorithm-2": k_best, "p-algorithm-3": sum_product}
