"""Both sides of a statement, evaluated on a small instance when the site is built.

``docs/cells/IDENT.py`` is a few lines about the statement of that anchor. It sets ``corrected``, the value of the
statement's form here, ``printed``, that of the form as printed where it is wrong, and ``value``, the same number by
other means. The build fails where ``corrected`` is not ``value``, or ``printed`` is.
"""

import contextlib
import io
import runpy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conformance.ledger import Claim

HERE = Path(__file__).parents[1] / "cells"
IDS = sorted(path.stem for path in HERE.glob("*.py"))


class Cell(NamedTuple):
    """The lines of a cell, what they set and print, and why they do not show what they should ("": they do)."""

    code: str
    values: dict[str, str]
    shown: str
    problem: str


def of(row: Claim) -> Cell | None:
    """The cell of a statement, run now; None where it has none."""
    path = HERE / f"{row.id}.py"
    return run(path, bool(row.printed)) if path.exists() else None


def run(path: Path, erratum: bool) -> Cell:
    """Run a cell; one about an erratum has a printed form, too."""
    values: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        try:
            values = runpy.run_path(str(path))
            problem = _wrong(values, erratum)
        except Exception as raised:
            problem = f"{type(raised).__name__}: {raised}"
    names = [name for name in ("value", "corrected", "printed") if name in values]
    texts = {name: np.array2string(np.asarray(values[name]), precision=6).replace("\n", "") for name in names}
    return Cell(path.read_text(encoding="utf-8").rstrip(), texts, shown.getvalue().rstrip(), problem)


def _wrong(values: dict[str, Any], erratum: bool) -> str:
    """Why the cell does not show what it should; empty where it does."""
    value, corrected = np.asarray(values["value"]), np.asarray(values["corrected"])
    if value.shape != corrected.shape or not np.allclose(value, corrected, rtol=1e-9, atol=1e-12):
        return f"corrected is {corrected}, and the value is {value}"
    printed = np.asarray(values["printed"] if erratum else np.nan)  # which is no value
    same = printed.shape == value.shape and np.allclose(printed, value, rtol=1e-6, atol=1e-9)
    return f"the printed form gives the value, {value}" if same else ""
