"""Step through: a page for each algorithm that runs on a small instance, its iterations as frames with a slider.

The pages are written into ``docs/step`` before sphinx reads its sources. Without a script, all frames are shown.
"""

import re
from collections.abc import Callable
from html import escape
from pathlib import Path

from drawing import Run
from papers import ROWS, block, plain
from places import place, write
from runs import RUNS
from sphinx.application import Sphinx

LABELS = {row.id: row.label for row in ROWS}


def page(statement: str, runs: Callable[[], Run]) -> list[str]:
    """The page of a function that runs an algorithm, and says in its docstring what is to be seen."""
    run, label = runs(), plain(LABELS[statement])
    title, about = re.split(r"\.\n\s*", (runs.__doc__ or "").format_map(runs.__globals__), maxsplit=1)
    where = place(run.code)
    lines = [f".. _step-{statement}:", "", title, "=" * len(title), ""]
    lines += [f":ref:`{label} <{statement}>`, step by step. {' '.join(about.split())}", "", ".. raw:: html", ""]
    lines += ["   <div class='frames'>", *(f"   {line}" for line in figures(run)), "   </div>", ""]
    lines += [f"What ran is :source:`{where.name} <{where.path}#{where.first}>`:", ""]
    return [*lines, *block("python", where.code, f":lineno-start: {where.first}")]


def figures(run: Run) -> list[str]:
    """The frames as HTML, a line for each."""
    of = len(run.frames)
    return [
        f"<figure>{frame.drawing.svg(f'Step {i} of {of}')}<figcaption>{escape(frame.says)}</figcaption></figure>"
        for i, frame in enumerate(run.frames, 1)
    ]


def write_pages(app: Sphinx) -> None:
    here = Path(app.srcdir) / "step"
    ordered = [statement for statement in LABELS if statement in RUNS]
    for stale in {*here.glob("*.rst")} - {here / f"{name}.rst" for name in (*ordered, "index")}:
        stale.unlink()
    for statement in ordered:
        write(here / f"{statement}.rst", page(statement, RUNS[statement]))
    title = "Step through"
    head = [title, "=" * len(title), "", "Algorithms on small instances, an iteration at a time: the pictures show the"]
    head += ["variables of the code that :doc:`../read/index` lists, as they were when it ran.", ""]
    write(here / "index.rst", [*head, ".. toctree::", "   :maxdepth: 1", "", *(f"   {name}" for name in ordered)])
