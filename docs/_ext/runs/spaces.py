"""Searches over outputs: Algorithms 7, 11, 12 and 13 of Pillutla et al."""

import itertools

import numpy as np
from drawing import Drawing, Frame, Point, Run
from watch import watch

from reference import Boxes, Cut, Matching, Tree
from reference.structures import cut_network, matching, search
from reference.structures.tree import max_product

NODES = [(200.0, 30.0), (110.0, 100.0), (300.0, 100.0), (60.0, 180.0), (160.0, 180.0), (300.0, 180.0)]
PARENTS = [-1, 0, 0, 1, 1, 2]
TREE = Tree([[0.0, 1], [2, 0], [0, 2.5], [0, 3], [2, 1], [1, 0]], [[1.0, 0], [0, 1]], PARENTS)


def tree() -> Run:
    """Max-product on a tree.

    Six nodes, numbered by level, have two labels; an edge scores 1 where its labels are equal. Boxes: the best scores
    of the tree below a node; a line is dark when a message has gone up, red when a label has come down.
    """
    places = {"total = best[v]": max_product, "labels[v] = take_last": max_product}
    moments, answer = watch(TREE.best, places, "v best back labels value")
    frames, known, before = [], list[int](), 0
    for moment in moments:
        down = moment.line != "total = best[v]"
        known = known if not down else [*known, before] if known else [0]
        before = v = getattr(moment, "v", 0)
        drawing = Drawing(380, 215)
        for u, parent in enumerate(PARENTS[1:], 1):
            drawing.line([NODES[u], NODES[parent]], "best" if u in known else "ink" if u in moment.back else "faint")
        for u, label in itertools.product(range(len(NODES)), (0, 1)):
            (x, y), chosen = NODES[u], u in known and int(moment.labels[u]) == label
            corner = (x - 36 + 36 * label, y - 13)
            drawing.box(corner, (36, 26), "paper", 1)
            drawing.box(corner, (36, 26), "best" if chosen else "ink", 0.3 if chosen else 0)
            drawing.text((corner[0] + 18, y), f"{moment.best[u][label]:g}")
        if moment.line == "return":
            says = f"The best labels are {', '.join(str(int(j)) for j in answer[1])}, of score {answer[0]:g}."
        elif down:
            says = f"Node {known[-1]} has label {int(moment.labels[known[-1]])}; the pointers of node {v} are next."
        elif moment.back:
            u = list(moment.back)[-1]
            says = f"Node {u} has sent its message: the scores of node {PARENTS[u]}, with what is below it so far, are "
            says += f"now {' and '.join(f'{x:g}' for x in moment.best[PARENTS[u]])}."
        else:
            says = "Each node has its own scores for the labels 0 and 1; the deepest node sends first."
        frames.append(Frame(drawing, says))
    return Run(max_product, frames, answer)


GRID = [(110.0 + 80 * (v % 3), 45.0 + 80 * (v // 3)) for v in range(6)]
LINKS = np.array([(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)])
CUT = Cut(
    [[0.0, 4], [0, 1], [2, 0], [0, 2], [1, 0], [4, 0]], [np.eye(2) * c for c in (1.5, 1, 1.5, 2, 1, 2, 0.5)], LINKS
)


def cut() -> Run:
    """Maximum flow, minimum cut.

    Six variables with two labels, and edges that score equal labels. Numbers are what arcs can still carry, there and
    back; a faint arc is full.
    """
    flow_type = cut_network.Flow
    moments, answer = watch(CUT.best, {"total += amount": flow_type.block}, "self path amount level")
    network = cut_network.Network.of(CUT.scores)
    unit = 2.0**network.exponent
    frames, total = [], 0.0
    for moment in [m for m in moments if m.line != "return"] + moments[-1:]:
        flow, last = moment.self, moment.line == "return"
        sides = np.array(flow.levels()) >= 0
        nodes = [flow.head[a ^ 1] for a in moment.path] + [flow.sink]
        drawing = Drawing(380, 150)
        names = {flow.source: "s", flow.sink: "t"} | {v: str(v) for v in range(len(GRID))}
        places: dict[int, Point] = {**dict(enumerate(GRID)), flow.source: (25.0, 85.0), flow.sink: (355.0, 85.0)}
        for arc in range(0, len(flow.head), 2):
            ends = flow.head[arc ^ 1], flow.head[arc]
            free = min(flow.residual[arc], flow.residual[arc ^ 1]) if max(ends) < 6 else flow.residual[arc]
            on = not last and any({*pair} == {*ends} for pair in itertools.pairwise(nodes))
            drawing.line([places[v] for v in ends], "best" if on else "ink" if free else "faint", 3 if on else 1.5)
            (x1, y1), (x2, y2) = places[ends[0]], places[ends[1]]
            capacities = [flow.residual[arc] * unit, flow.residual[arc ^ 1] * unit]
            label = "/".join(f"{x:g}" for x in capacities[: 1 if max(ends) > 5 else 2])
            drawing.text((0.6 * x1 + 0.4 * x2 + 14 * (x1 == x2), 0.6 * y1 + 0.4 * y2 - 8), label, size=10)
        for v, place in places.items():
            drawing.dot(place, 12, "best" if last and sides[v] else "ink", 0.4 if last and sides[v] else 0)
            drawing.text(place, names[v])
        if last:
            ones = ", ".join(str(v) for v in np.flatnonzero(sides[: len(GRID)]))
            says = f"No path to t is left: the labels are 1 where s still leads, at {ones}, and the arcs out of there "
            says += f"have the capacity {total:g}, which is the flow."
        else:
            total += moment.amount * unit
            says = f"{moment.amount * unit:g} more flows along {' '.join(names[v] for v in nodes)}: {total:g} in all."
        frames.append(Frame(drawing, says))
    return Run(flow_type.block, frames, answer)


P = 4
MATCHING = Matching([[7.0, 5, 4, 1], [6, 5, 2, 2], [3, 4, 5, 4], [1, 2, 5, 3]])


def matchings() -> Run:
    """Max-marginals of matchings.

    Four rows and columns. A number is the least loss of a path by which a row takes another's column: the weights of
    the residual graph of the best matching, less the potentials.
    """
    run = matching.best_with_each_pair
    moments, answer = watch(MATCHING.max_marginals, {"loss = np.minimum": run}, "k loss column marginals reduced")
    frames, before = [], moments[0].loss
    for moment in moments:
        last = moment.line == "return"
        shown = moment.marginals if last else moment.loss[:P, :P]
        drawing = Drawing(320, 240)
        for a, b in np.ndindex(P, P):
            corner = (50.0 + 60 * b, 40.0 + 45 * a)
            own = moment.column[a] == b if last else shown[a, b] != before[a, b]
            drawing.box(corner, (60, 45), "best" if own else "ink", 0.3 if own else 0)
            drawing.text((corner[0] + 30, corner[1] + 22), f"{shown[a, b]:g}")
        for a in range(P):
            drawing.text((25, 62 + 45 * a), f"row {a}")
            drawing.text((80 + 60 * a, 25), f"col. {a if last else moment.column[a]}")
        if last:
            says = f"The best matching (red) scores {answer.values.max():g}; with another pair the best scores that, "
            says += "less the pair's loss."
        elif moment.k == 0:
            says = "A row that gives up its column for another loses what stands in the table; its own costs nothing."
        else:
            changed = int(np.count_nonzero(shown != before[:P, :P]))
            says = f"Paths may now pass row {moment.k - 1}: {changed} losses became less."
        before = moment.loss
        frames.append(Frame(drawing, says))
    return Run(run, frames, answer)


PIXELS = np.array([[-1.0, 1, -2, -1, 1], [-2, 3, 2, -1, -1], [-1, 2, -1, 3, -2], [1, -1, 1, 2, -1]])
BOXES = Boxes(PIXELS)


def boxes() -> Run:
    """The best box by branch and bound.

    An image of 4 x 5 pixels with their scores; a set of boxes has an interval for each side. Thick: the largest box
    of the set, whose positive pixels count; red: what all its boxes have, whose negative pixels count.
    """
    places = {"y = space.single(outputs)": search.branch_and_bound}
    moments, answer = watch(BOXES.best, places, "outputs negative queue results space")
    frames = []
    for moment in moments[:-1]:
        (t1, t2), (l1, l2), (b1, b2), (r1, r2) = moment.outputs
        drawing = Drawing(300, 240)
        for (i, j), pixel in np.ndenumerate(PIXELS):
            corner = (25.0 + 50 * j, 20.0 + 50 * i)
            drawing.box(corner, (50, 50), "best" if pixel > 0 else "ink", abs(pixel) / 6)
            drawing.text((corner[0] + 25, corner[1] + 25), f"{pixel:g}")
        drawing.box((25 + 50 * l1, 20 + 50 * t1), (50 * (r2 - l1), 50 * (b2 - t1)), "ink", 0, 4)
        if t2 < b1 and l2 < r1:
            drawing.box((28 + 50 * l2, 23 + 50 * t2), (50 * (r1 - l2) - 6, 50 * (b1 - t2) - 6), "best", 0, 3)
        single = moment.space.single(moment.outputs) is not None
        ways = " x ".join(str(b - a + 1) for a, b in moment.outputs)
        if single:
            says = f"The highest bound, {-moment.negative:g}, is that of one box, the best; {len(moment.queue)} "
            says += "sets need not be split."
        else:
            says = f"The highest bound is {-moment.negative:g}, of {ways} sides (top, left, bottom, right), while "
            says += f"{len(moment.queue)} other sets wait: it is split."
        frames.append(Frame(drawing, says))
    return Run(search.branch_and_bound, frames, answer)


RUNS = {"p-algorithm-7": tree, "p-algorithm-11": cut, "p-algorithm-12": matchings, "p-algorithm-13": boxes}
