"""The page docs/OTHER_LIBRARIES.md: structure x law x library, and each failure with its smallest instance."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from conformance.adapters import PANELS, adapter, library, version
from conformance.adapters.laws import EXAMPLES, LAWS, Law, Outcome, note_of

__all__ = ["page"]

INTRODUCTION = """\
What other libraries answer, held to laws that both our panels hold. Every answer is compared with the enumeration of
all outputs of small drawn instances, in float64 and up to 1e-9 of the sum of their scores. Instances are the same ones
each time and come by size, so that a failure is shown on the smallest instance found. What a note says of a failure was
repeated by hand on the library alone.

A failure says that a law of ours does not hold. It does not say that the library promises it. Above all, -inf for what
is forbidden is our convention.

- **Methods**: `best` is an output of the highest score, with its value where the library returns one; `topk` the K
  best outputs, distinct and in order; `log_partition` the log of the sum of exp(score); `marginals` the probabilities
  of parts; `log_probability` that of a best and of a worst output. Ties may be broken in any way.
- **Kinds**: ordinary scores are -5 to 5, many of them equal; *one variable* is one position, token or pair; a *ragged
  batch* has chains of different lengths, one of them as long as the padding; *every output forbidden* has to be said,
  by an exception, -inf or no output; *more than there are* asks for a larger K; *arguments afterwards* compares what
  was handed over with what it was.

`python -m conformance.adapters` prints this page, and `--write FILE.md` writes it. `--json` prints everything,
`--library NAME` asks one library, `--examples N` draws more. A library that is not installed is left out;
`pip install "diptych[peers]"` installs all. An adapter is one file in `conformance/adapters/`: it maps scores to the
library's own and the answers back. None of these libraries has our `Tree`, labels on the nodes of a rooted tree;
torch-struct's trees are below."""
STRUCTURES = {
    "Chain": "Chains: label scores of each position and one matrix of transitions",
    "Arborescence": "Dependency trees: each token has a head, arcs may cross",
    "ProjectiveTree": "Dependency trees without crossing arcs",
    "SpanTree": "Binary trees over spans",
    "Cut": "Binary labels whose neighbours prefer to agree: minimum cuts",
    "Matching": "Matchings of rows and columns",
}
MARKS = {"holds": "holds", "fails": "**fails**", "not offered": "-"}
Results = Mapping[str, Mapping[Law, Outcome]]  # by library


def offered(results: Results, name: str, law: Law) -> bool:
    """Whether a library offers the structure of a law."""
    return any(
        outcome.verdict != "not offered" for each, outcome in results[name].items() if each.structure == law.structure
    )


def page(results: Results, examples: int = EXAMPLES) -> str:
    """The page in Markdown."""
    libraries = [name for name in results if name not in PANELS]
    lines = ["# Other libraries", "", INTRODUCTION, ""]
    versions = ", ".join(f"{adapter(name).PACKAGE} {version(name)}" for name in libraries)
    lines += [*wrap(f"Versions: {versions}. {examples} instances of each law and size."), ""]
    lines += ["| library | structure | laws that hold | that fail |", "|---|---|---|---|"]
    for name in results:
        for structure in STRUCTURES:
            if any(offered(results, name, law) for law in LAWS if law.structure == structure):
                verdicts = [outcome.verdict for law, outcome in results[name].items() if law.structure == structure]
                counts = f"{verdicts.count('holds')} | {verdicts.count('fails') or ''}"
                lines.append(f"| {title_of(name)} | {structure} | {counts} |")
    lines.append("")
    for structure, title in STRUCTURES.items():
        lines += section(results, structure, title)
    return "\n".join(lines).rstrip() + "\n"


def section(results: Results, structure: str, title: str) -> list[str]:
    laws = [law for law in LAWS if law.structure == structure]
    names = [name for name in results if offered(results, name, laws[0])]
    lines = [f"## {title}", ""]
    for name in names:
        if name not in PANELS:
            lines += wrap(f"- {adapter(name).PACKAGE}: {adapter(name).MAPPING[structure]}", "  ")
    if not any(hasattr(library(name), structure) for name in PANELS):
        lines += wrap("- Our panels do not have this structure.", "  ")
    lines += ["", f"| | {' | '.join(map(title_of, names))} |", "|---|" + "---|" * len(names)]
    for law in laws:
        verdicts = [results[name][law].verdict for name in names]
        if any(v != "not offered" for v, name in zip(verdicts, names, strict=True) if name not in PANELS):
            lines.append(f"| `{law.method}`, {law.kind} | {' | '.join(MARKS[v] for v in verdicts)} |")
    lines.append("")
    for name in names:
        lines += failures(name, {law: results[name][law] for law in laws})
    return lines


def title_of(name: str) -> str:
    return name if name in PANELS else adapter(name).PACKAGE


def failures(name: str, outcomes: Mapping[Law, Outcome]) -> list[str]:
    """Failures, grouped by the note of the check by hand, with the smallest instance of each law."""
    failed = {law: outcome for law, outcome in outcomes.items() if outcome.verdict == "fails"}
    notes: dict[str, list[Law]] = {}
    for law in failed:
        notes.setdefault(note_of(law, library(name)) or "Not yet checked by hand.", []).append(law)
    lines, refused = [], {}
    for law, outcome in outcomes.items():
        if outcome.verdict == "not offered" and outcome.seen:
            refused.setdefault(outcome.seen, []).append(f"`{law.method}`, {law.kind}")
    for why, which in refused.items():
        lines += [*wrap(f"**{title_of(name)}.** Not offered: {'; '.join(which)}: {why}."), ""]
    for note, laws in notes.items():
        lines += [*wrap(f"**{title_of(name)}.** {note}"), "", "| law | smallest instance | seen |", "|---|---|---|"]
        for law in laws:
            instance, seen = (text.replace("|", "\\|") for text in failed[law][1:])
            lines.append(f"| `{law.method}`, {law.kind} | `{instance}` | {seen} |")
        lines.append("")
    return lines


def wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
