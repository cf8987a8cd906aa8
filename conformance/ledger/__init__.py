"""The claims ledger: each numbered statement of the papers, whether it holds, its place in the code, and its tests.

Each paper has a file of rows beside this one, in the paper's order. ``python -m conformance.ledger`` prints them as a
Markdown page, ``--json`` as JSON. The suite reads them: a row without formula, code or test fails, and so does a row
printed wrong whose test does not reject the printed form.

Papers: P = Pillutla et al. 2018 (smoothing, Casimir); M = Martins et al. 2010 (online multiple kernel learning);
B = Branson et al. 2013 (multi-sample dual updates, supplement); Z = Zhang and Qiu 2019 (safe screening); J = Jaggi et
al. 2014 and Ma et al. 2015 (CoCoA); N = Nocedal and Wright 2006 (L-BFGS); S = Shalev-Shwartz and Zhang 2014 (duals of
an elastic net); T = Tsuboi et al. 2008 (partly known labels); G = Gimpel and Smith 2010 (softmax-margin); D =
Niculae et al. 2018, Berthet et al. 2020, Elmachtoub and Grigas 2022 (losses over the best output); W =
Sarawagi and Cohen 2004 (segments); E = Eisner 1996 (projective trees).
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance import modules

__all__ = ["MACROS", "ROWS", "Claim", "render"]

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
    "eisner",
)
# what rows may use beside the commands of KaTeX; a claim has it written out
MACROS = {
    "argmax": r"\operatorname*{arg\,max}",
    "argmin": r"\operatorname*{arg\,min}",
    "conv": r"\operatorname{conv}",
    "maxk": r"\operatorname*{max^{\mathit{(k)}}}",
    "proj": r"\operatorname{proj}",
    "prox": r"\operatorname{prox}",
    "sign": r"\operatorname{sign}",
    "soft": r"\operatorname{soft}",
    "softmax": r"\operatorname{softmax}",
}
WIDTH = 120
LEGEND = """\
Each of the {statements} numbered statements that the code builds on, in the order of its paper: in words, and as a
formula in the notation of this project. A row says whether the statement holds, where it is in the code (names in
`reference`, and in `accelerated` where it has a kernel), and which tests check it.

- **holds**: as printed; where the statement here is sharper than the print, it says so.
- **holds under a condition**: the verdict has the condition.
- **wrong as printed**: statement and formula are the corrected ones. The printed form stands below the verdict, with
  the test that rejects it.

What the papers measured, and what we find, is on [the page of verdicts](verdicts.md).

Labels begin with the paper's letter and give its numbers; a link to `#p-definition-6` leads to "P Definition 6".
`python -m conformance.ledger` prints this page, `--json` its rows."""
VERDICTS = ("holds", "holds under a condition", "wrong as printed")


@dataclass(frozen=True)
class Claim:
    """One statement: a row of a paper's file.

    formula, printed_formula: the statement as it holds here, and the form as printed where it is wrong, in the LaTeX of
    KaTeX, to be displayed. code: dotted names in ``reference`` (in ``diptych`` where they begin with that); tests:
    ``module::function``, the module without its folder. printed, rejected_by: the form as printed, where it is wrong,
    and the test that shows it wrong. condition: what the statement requires beyond the paper's words. section: number
    and title of the paper's section, in a file one of `sections` by its first word; "": none. measured: the part of the
    page of verdicts that has what experiments found.
    """

    label: str
    statement: str
    formula: str
    verdict: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    condition: str = ""
    measured: str = ""
    printed: str = ""
    printed_formula: str = ""
    rejected_by: str = ""
    section: str = ""

    @property
    def id(self) -> str:
        """The label in lower case, a hyphen for each run of other characters than letters and digits."""
        return re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")


def _rows() -> Iterator[tuple[str, Claim]]:
    """The title of each paper's file with each of its rows, in the order of PAPERS."""
    for name in PAPERS:
        page = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
        headings = {heading.split()[0]: heading for heading in page.get("sections", ())}
        for row in page["row"]:
            own = {key: _written_out(row[key]) for key in ("formula", "printed_formula") if key in row}
            own |= {key: tuple(row[key]) for key in ("code", "tests")}
            own |= {key: headings[row[key]] for key in ("section",) if key in row}
            yield page["paper"], Claim(**row | own)


def _written_out(formula: str) -> str:
    return re.sub(r"\\([a-z]+)", lambda found: MACROS.get(found[1], found[0]), formula)


SECTIONS: dict[str, list[Claim]] = {}
for _title, _row in _rows():
    SECTIONS.setdefault(_title, []).append(_row)
ROWS = tuple(row for rows in SECTIONS.values() for row in rows)


def render() -> str:
    """The ledger as a Markdown page: a legend, then for each paper its statements, each with an anchor of its id."""
    lines = ["# The claims ledger", "", LEGEND.format(statements=len(ROWS)), ""]
    for title, rows in SECTIONS.items():
        counts = ", ".join(f"{verdict} {sum(row.verdict == verdict for row in rows)}" for verdict in VERDICTS)
        lines += [f"- [{title}](#{_anchor(title)}): {len(rows)} rows,", f"  {counts}"]
    for title, rows in SECTIONS.items():
        lines += ["", f"## {title}"]
        for row in rows:
            lines += _entry(row)
    tests = {name for row in ROWS for name in (*row.tests, row.rejected_by) if name}
    lines += ["", *(f"[{name}]: ../conformance/{path}" for name, path in sorted({_file(name) for name in tests}))]
    return "\n".join(lines) + "\n"


def _entry(row: Claim) -> Iterator[str]:
    verdict = f"**{row.verdict}**" + (f": {_text(row.condition)}" if row.condition else "")
    yield from ("", f'<a id="{row.id}"></a>', "", f"### {row.label}", "", *_wrapped(_text(row.statement)))
    yield from ("", *_displayed(row.formula), "", *_wrapped(verdict))
    if row.printed:
        yield from ("", *_wrapped(f"Printed: {_text(row.printed)}, rejected by {_test(row.rejected_by)}"))
        yield from ("", *_displayed(row.printed_formula))
    code, tests = ", ".join(f"`{name}`" for name in row.code), ", ".join(map(_test, row.tests))
    yield from ("", *_wrapped(f"Code: {code}"), "", *_wrapped(f"Checked by: {tests}"))
    if row.measured:
        yield from ("", f"Measured: [verdicts](verdicts.md#{row.measured})")


def _displayed(formula: str) -> list[str]:
    return ["```math", *(part for line in formula.splitlines() for part in _wrapped(line)), "```"]


def _text(text: str) -> str:
    """Words of a row in Markdown, where these characters are markup."""
    return re.sub(r"[*<_~]", lambda found: f"\\{found[0]}", text)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _test(name: str) -> str:
    """A link to the file of a test, which the end of the page defines."""
    return f"[`{name.partition('::')[2]}`][{_file(name)[0]}]"


def _file(name: str) -> tuple[str, str]:
    """The module of a test with its path in ``conformance/``."""
    module = name.partition("::")[0]
    return module, modules.module_path(module).relative_to(modules.HERE).as_posix()


def _anchor(title: str) -> str:
    """The name of a heading in links of Markdown viewers: lower case, punctuation dropped, a hyphen for each blank."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")
