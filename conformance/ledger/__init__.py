"""The claims ledger: each numbered statement of the papers, whether it holds, its place in the code, and its tests.

Each paper has a file of rows beside this one. ``python -m conformance.ledger`` prints them as a Markdown page,
``--json`` as JSON. The suite reads them: a row without code or test fails, and so does a row printed wrong whose test
does not reject the printed form.

Papers: P = Pillutla et al. 2018 (smoothing, Casimir); M = Martins et al. 2010 (online multiple kernel learning);
B = Branson et al. 2013 (multi-sample dual updates, supplement); Z = Zhang and Qiu 2019 (safe screening); J = Jaggi et
al. 2014 and Ma et al. 2015 (CoCoA); N = Nocedal and Wright 2006 (L-BFGS); S = Shalev-Shwartz and Zhang 2014 (duals of
an elastic net); T = Tsuboi et al. 2008 (partly known labels); G = Gimpel and Smith 2010 (softmax-margin); D =
Niculae et al. 2018, Berthet et al. 2020, Elmachtoub and Grigas 2022 (losses over the best output); W =
Sarawagi and Cohen 2004 (segments).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance import modules

__all__ = ["ROWS", "Claim", "render"]

HERE = Path(__file__).parent
# a file of rows each
PAPERS = (
    "pillutla",
    "martins",
    "branson",
    "zhang",
    "cocoa",
    "nocedal",
    "shalev_shwartz",
    "tsuboi",
    "gimpel",
    "decisions",
    "sarawagi",
)
LEGEND = """\
Each of the {statements} numbered statements that the code builds on, as the papers have it or in words that fit on a
line. A row says whether the statement holds, where it is in the code (names in `reference`, and in `accelerated` where
it has a kernel), and which tests check it.

- **holds**: as printed; where the statement here is sharper than the print, it says so.
- **holds under a condition**: the verdict has the condition.
- **wrong as printed**: the statement is the corrected one. The verdict has the printed form and names the test that
  rejects it.

Labels begin with the paper's letter and give its numbers. `python -m conformance.ledger` prints this page, `--json` its
rows."""
VERDICTS = ("holds", "holds under a condition", "wrong as printed")


@dataclass(frozen=True)
class Claim:
    """One statement: a row of a paper's file.

    code: dotted names in ``reference`` (in ``diptych`` where they begin with that); tests: ``module::function``, the
    module without its folder. printed, rejected_by: the form as printed, where it is wrong, and the test that shows it
    wrong. condition: what the statement requires beyond the paper's words.
    """

    label: str
    statement: str
    verdict: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    condition: str = ""
    printed: str = ""
    rejected_by: str = ""


def _rows() -> Iterator[tuple[str, Claim]]:
    """The title of each paper's file with each of its rows, in the order of PAPERS."""
    for name in PAPERS:
        page = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
        for row in page["row"]:
            yield page["paper"], Claim(**{**row, "code": tuple(row["code"]), "tests": tuple(row["tests"])})


SECTIONS: dict[str, list[Claim]] = {}
for _title, _row in _rows():
    SECTIONS.setdefault(_title, []).append(_row)
ROWS = tuple(row for rows in SECTIONS.values() for row in rows)


def render() -> str:
    """The ledger as a Markdown page: a legend, then a table for each paper."""
    lines = ["# The claims ledger", "", LEGEND.format(statements=len(ROWS)), ""]
    for title, rows in SECTIONS.items():
        counts = ", ".join(f"{verdict} {sum(row.verdict == verdict for row in rows)}" for verdict in VERDICTS)
        lines += [f"- [{title}](#{_anchor(title)}): {len(rows)} rows,", f"  {counts}"]
    for title, rows in SECTIONS.items():
        lines += ["", f"## {title}", "", "| statement | says | verdict | code | checked by |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _line(row: Claim) -> str:
    verdict = f"**{row.verdict}**"
    if row.condition:
        verdict += f": {row.condition}"
    if row.printed:
        verdict += f". Printed: {row.printed} (rejected by {_test(row.rejected_by)})"
    code, tests = "<br>".join(f"`{name}`" for name in row.code), "<br>".join(map(_test, row.tests))
    return "| " + " | ".join(x.replace("|", "\\|") for x in (row.label, row.statement, verdict, code, tests)) + " |"


def _test(name: str) -> str:
    """A link from ``docs/`` to the file of a test."""
    module, _, function = name.partition("::")
    return f"[`{function}`](../conformance/{modules.module_path(module).relative_to(modules.HERE).as_posix()})"


def _anchor(title: str) -> str:
    """The name of a heading in links of Markdown viewers: lower case, punctuation dropped, a hyphen for each blank."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")
