"""The history of the benchmarks: a row and a curve for each, from the results that asv keeps in ``.asv/results``.

The page is written into ``docs/benchmarks`` before sphinx reads its sources. asv's own pages load scripts from
elsewhere.
"""

import itertools
import json
import math
from html import escape
from pathlib import Path
from typing import Any

from drawing import Drawing
from places import ROOT, write

RESULTS = ROOT / ".asv" / "results"  # a worktree of the branch "benchmarks"
WIDTH, HEIGHT = 160.0, 24.0  # of a curve
HEAD = "<tr><th>benchmark</th><th>unit</th><th>first</th><th>last</th><th>last / first</th><th>curve</th></tr>"


def values(results: Path) -> dict[str, list[float]]:
    """What each benchmark measured, by the dates of commits, since its last change."""
    points: dict[str, list[tuple[int, str, float]]] = {}
    for path in (path for path in results.glob("nightly/*.json") if path.name != "machine.json"):
        kept = json.loads(path.read_text(encoding="utf-8"))
        for name, columns in kept["results"].items():
            row = dict(zip(kept["result_columns"], columns, strict=False))  # empty columns at the end are left out
            settings = itertools.product(*row.get("params") or ())
            for setting, value in zip(settings, row.get("result") or (), strict=False):
                if value is not None and math.isfinite(value):
                    title = f"{name}({', '.join(setting)})" if setting else name
                    points.setdefault(title, []).append((kept["date"], str(row.get("version")), value))
    ordered = {title: sorted(each) for title, each in sorted(points.items())}
    return {title: [value for _, version, value in each if version == each[-1][1]] for title, each in ordered.items()}


def curve(heights: list[float]) -> str:
    """A picture of values, from 0 to the highest; commits are equally far from each other."""
    drawing, step = Drawing(WIDTH, HEIGHT), (WIDTH - 8) / max(len(heights) - 1, 1)
    places = [(4 + i * step, HEIGHT - 4 - (HEIGHT - 8) * y / (max(heights) or 1.0)) for i, y in enumerate(heights)]
    drawing.line(places)
    drawing.dot(places[-1], radius=2.5)
    return drawing.svg(f"{len(heights)} values, at most {max(heights):.3g}")


def table(results: Path) -> str:
    """The history as HTML; ``benchmarks.json`` has the units."""
    known = json.loads((results / "benchmarks.json").read_text(encoding="utf-8"))
    rows = [HEAD]
    for title, each in values(results).items():
        unit = known.get(title.partition("(")[0], {}).get("unit", "")
        ratio = f"{each[-1] / each[0]:.3g}" if each[0] else ""
        cells = f"<code>{escape(title)}</code>", escape(unit), f"{each[0]:.3g}", f"{each[-1]:.3g}", ratio, curve(each)
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f"<div class='table-wrapper curves'><table class='docutils'>{''.join(rows)}</table></div>"


def write_pages(app: Any) -> None:
    title = "The history of the benchmarks"
    lines = [title, "=" * len(title), "", "Each night asv measures main. A curve begins at 0 and has a point for each"]
    lines += ["commit since the benchmark was last changed. How to measure: :doc:`../results`.", ""]
    if (RESULTS / "benchmarks.json").exists():
        lines += [".. raw:: html", "", f"   {table(RESULTS)}"]
    else:
        lines += ["There are no results here: ``.asv/results`` was no worktree of the branch ``benchmarks``."]
    write(Path(app.srcdir) / "benchmarks" / "index.rst", lines)
