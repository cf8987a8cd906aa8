"""``python -m conformance identities``: what the papers prove, measured on instances that are drawn now.

A residual is 0 where an identity holds, a slack >= 0 where an inequality holds, both up to rounding. Each law is
measured on several instances in each panel: of residuals the largest is printed, of slacks the least. It needs neither
pytest nor hypothesis. The same functions (``reference.identities``) are checked in the suite, on nastier instances.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from conformance.tolerances import RELATIVE
from diptych.files.logs import jsonable

__all__ = ["DRAWS", "Law", "Measured", "main", "measure"]

DRAWS = 8  # instances of each law
TOLERANCE = RELATIVE["float64"]
Measure = Callable[[Any, np.random.Generator], float]


class Law(NamedTuple):
    """One identity or inequality of a paper.

    number: of the statement in the paper; rows: of the ledger that it is about, by their ids, with blanks between;
    kind: "residual" or "slack"; measure: of one drawn instance in a panel, relative to the size of its numbers; panels:
    whether what it asks has an implementation in each panel.
    """

    number: str
    says: str
    rows: str
    kind: str
    measure: Measure
    panels: bool = True


class Measured(NamedTuple):
    """A law on drawn instances in a panel: the worst value seen (None: it raised ``problem``), and whether it holds."""

    panel: str
    worst: float | None
    holds: bool
    problem: str | None = None


def measure(law: Law, panel: ModuleType, seed: int, place: int) -> Measured:
    """The law on DRAWS instances; the same ones in each panel. place: the law's own, among those of one seed."""
    rng = np.random.default_rng([seed, place])
    try:
        values = [float(law.measure(panel, rng)) for _ in range(DRAWS)]
    except Exception as problem:
        return Measured(panel.__name__, None, False, f"{type(problem).__name__}: {problem}")
    # nan stays; 0.0 + makes -0.0 plain
    worst = 0.0 + float(np.min(values) if law.kind == "slack" else np.max(np.abs(values)))
    return Measured(panel.__name__, worst, worst >= -TOLERANCE if law.kind == "slack" else worst <= TOLERANCE)


def papers() -> dict[str, tuple[Law, ...]]:
    """The laws of each paper."""
    from conformance.identities import branson, martins, pillutla, zhang

    return {
        "Martins et al. 2010": martins.LAWS,
        "Pillutla et al. 2018": pillutla.LAWS,
        "Branson et al. 2013": branson.LAWS,
        "Zhang and Qiu 2019": zhang.LAWS,
    }


def main(arguments: Sequence[str]) -> int:
    """Print a line for each law; the exit status is 1 where a law fails."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance identities", description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument("--seed", type=int, default=0, help="of the instances (default: 0)")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    options = parser.parse_args(arguments)
    if options.seed < 0:
        parser.error(f"--seed: expected an integer >= 0, got {options.seed}")
    panels = [importlib.import_module(name) for name in ("reference", "accelerated")]
    rows, lines, place = [], [f"{'':71}{'reference':>10}{'accelerated':>12}"], 0
    for paper, laws in papers().items():
        lines.append(paper)
        for law in laws:
            found = [measure(law, panel, options.seed, place) for panel in panels[: 1 + law.panels]]
            rows.append({"paper": paper, **law._asdict(), "panels": [each._asdict() for each in found]})
            del rows[-1]["measure"]
            lines.append(f"  {law.number:19}{law.says:41}{law.kind:9}{_shown(found)}".rstrip())
            place += 1
    failed = [f"{row['paper']}, {row['number']}" for row in rows if not all(each["holds"] for each in row["panels"])]
    said = f"-: formulas that the panels share. {len(rows)} laws, {DRAWS} instances each, up to {TOLERANCE:g}: "
    lines.append(said + (f"{len(failed)} FAILED" if failed else "all hold"))
    report = {"seed": options.seed, "instances": DRAWS, "tolerance": TOLERANCE, "failed": failed, "laws": rows}
    print(json.dumps(jsonable(report), allow_nan=False) if options.json else "\n".join(lines))
    for row in rows:
        for each in row["panels"]:
            if each["problem"] is not None:
                print(f"{row['paper']}, {row['number']}, {each['panel']}: {each['problem']}", file=sys.stderr)
    return int(bool(failed))


def _shown(found: list[Measured]) -> str:
    cells = ["error" if each.worst is None else f"{each.worst:.1e}" for each in found]
    failed = " FAILED" if not all(each.holds for each in found) else ""
    return f"{cells[0]:>10}{cells[1] if len(cells) > 1 else '-':>12}{failed}"
