"""The page of verdicts: each claim has one and a link, and what a row quotes stands in the table that it names."""

import re
from collections import Counter
from pathlib import Path

import pytest

from diptych.experiments.registry import EXPERIMENTS
from diptych.experiments.results import table_on

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "verdicts.md").read_text(encoding="utf-8") if DOCS.exists() else ""
VERDICTS = re.findall(r"^- \*\*(.+)\*\*: ", PAGE, re.MULTILINE)
QUOTE = re.compile(r"`([\w.-]+): ([^`]+)`")
pytestmark = pytest.mark.skipif(not PAGE, reason="an installed suite has no pages")


def cells(text):
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("| ")]


def stands(quote, line):
    """The parts of a quote in one line, in their order, none of them a piece of a longer word or number."""
    parts = (rf"(?<![\w.,-]){re.escape(part)}(?![\w-]|[.,]\d)" for part in quote.split(", "))
    return re.search(".*".join(parts), re.sub("[`*]", "", line)) is not None


@pytest.mark.parametrize("row", [row for row in cells(PAGE) if row[0] != "paper" and not row[-1].isdigit()])
def test_a_claim_has_a_verdict_a_link_and_figures(row):
    _, claim, verdict, here, where = row
    assert claim and verdict in VERDICTS and "](" in where
    quotes = QUOTE.findall(here)
    assert quotes
    assert all(f"](results/{x}.json.gz)" in where for x, _ in quotes if (DOCS / "results" / f"{x}.json.gz").exists())


@pytest.mark.parametrize(("place", "quote"), dict.fromkeys(QUOTE.findall(PAGE)))
def test_a_quote_stands_in_a_row_of_its_table(place, quote):
    """The table of an experiment, which is drawn from its data, or any table of a page."""
    pages = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md" if place in EXPERIMENTS else place)]
    (text,) = filter(None, (table_on(page, place) for page in pages)) if place in EXPERIMENTS else pages
    assert any(stands(quote, line) for line in text.splitlines() if line.startswith("| "))
    assert not (quote[-2:].isdigit() and stands(quote[:-1], f"| {quote} |"))


def test_verdicts_are_counted_and_every_experiment_is_named():
    for linked, *numbers in (row for row in cells(PAGE) if row[-1].isdigit()):
        section = PAGE.partition(f"\n## {linked[1:].partition(']')[0]} (")[2].partition("\n## ")[0]
        count = Counter(row[2] for row in cells(section))
        assert numbers == [str(count[verdict]) for verdict in VERDICTS], linked
    assert all(name in PAGE for name, experiment in EXPERIMENTS.items() if experiment.paper)
