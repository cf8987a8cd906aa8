"""Published results of the papers' experiments: what their files keep, and that tables on the pages are theirs."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.application.conftest import outcome
from conformance.application.test_app import PNG
from diptych.distributed import Runs
from diptych.experiments import everything, slopes, table2
from diptych.experiments.casimir_paper import CENTER, Entities, Run
from diptych.experiments.casimir_runs import CONST, Curve, ends, record_of, tuned_curves
from diptych.experiments.registry import EXPERIMENTS, perform
from diptych.experiments.results import GRIDS, MOST_BYTES, compact, marks, save_results, table_on, timed, write_table

DOCS = Path(__file__).parents[2] / "docs"
PUBLISHED = sorted((DOCS / "results").glob("*.json.gz"))
OF_PAPERS = [name for name, found in EXPERIMENTS.items() if found.paper]


def name_of(path):
    return path.name.removesuffix(".json.gz")


@pytest.mark.skipif(not PUBLISHED, reason="an installed suite has no pages")
def test_every_experiment_of_a_paper_is_published_or_said_to_be_missing():
    page = (DOCS / "experiments.md").read_text(encoding="utf-8")
    missing = page.partition("## Without data yet")[2].partition("\n## ")[0]
    published = [name_of(path) for path in PUBLISHED]
    for name in OF_PAPERS:
        assert (f"`{name}`" in missing) != (name in published), name
    assert set(published) <= set(OF_PAPERS)


@pytest.mark.beyond("draws every table and picture")
@pytest.mark.parametrize("path", [pytest.param(path, id=name_of(path)) for path in PUBLISHED])
def test_tables_of_the_pages_are_drawn_from_the_published_files(path, capsys, tmp_path):
    """By the command that the page names, which runs nothing. The page links the file."""
    pytest.importorskip("matplotlib")
    name, picture = name_of(path), tmp_path / "again.png"
    report = json.loads(gzip.decompress(path.read_bytes()))
    assert path.stat().st_size <= MOST_BYTES and compact(report) == report and report["versions"]["cores"] >= 1
    plot = [] if name == "casimir-table-2" else ["--plot", str(picture)]
    status, printed, err = outcome(capsys, perform, name, ["--draw", str(path), *plot])
    assert status == 0, err
    assert not plot or picture.read_bytes().startswith(PNG)
    pages = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    assert [table_on(page, name) for page in pages if marks(name)[0] in page] == [printed.strip()]
    assert any(f"(results/{path.name})" in page for page in pages)


numbers = st.floats(allow_nan=False) | st.integers() | st.none() | st.booleans() | st.text()
rows = st.lists(st.dictionaries(st.text(), numbers, max_size=3), min_size=1, max_size=4)
parts = st.recursive(numbers | st.fixed_dictionaries({"rows": rows}), lambda inner: st.lists(inner, max_size=3) |
    st.dictionaries(st.sampled_from(("curves", *GRIDS)), inner, max_size=3), max_leaves=8)  # fmt: skip


def kept(part, short, grid=False):
    """The compact part has all of the part, numbers to six digits; over a grid, the last row of each run."""
    if isinstance(part, dict):
        assert part.keys() == short.keys()
        for name, value in part.items():
            kept(value[-1:] if grid and name == "rows" else value, short[name], grid or name in GRIDS)
    elif isinstance(part, list):
        assert len(part) == len(short)
        for value, other in zip(part, short, strict=True):
            kept(value, other, grid)
    elif isinstance(part, float):
        assert part == short or math.isinf(short) or abs(part - short) <= max(5e-6 * abs(part), 5e-324)
    else:
        assert part == short and type(part) is type(short)


@given(parts)
def test_a_published_report_has_six_digits_and_of_grids_the_last_rows(part):
    short = compact(part)
    kept(part, short)
    assert compact(short) == short


@pytest.mark.beyond("long runs")
def test_files_have_the_same_bytes_again_and_a_largest_size(tmp_path, capsys):
    report = {"curves": [1 / 3, None, math.pi]}
    for name in ("a.json.gz", "b.json.gz"):
        save_results(tmp_path / name, report)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    for content in (b"", b"{}", (tmp_path / "a.json.gz").read_bytes()[:-9], gzip.compress(b"{")):
        (tmp_path / "cut.json.gz").write_bytes(content)
        status, out, err = outcome(capsys, perform, "casimir-table-2", ["--draw", str(tmp_path / "cut.json.gz")])
        assert status == 2 and out == "" and "cut.json.gz: expected the JSON of table 2, got" in err
    long = np.random.default_rng(0).random(MOST_BYTES).tolist()
    with pytest.raises(ValueError, match=r"c\.json\.gz: expected at most 300000 bytes to publish, got \d{6,7}"):
        save_results(tmp_path / "c.json.gz", {"curves": long})
    assert not (tmp_path / "c.json.gz").exists()


def test_a_table_is_written_between_its_marks_and_nothing_else_changes(tmp_path, capsys):
    page, (begin, end) = tmp_path / "page.md", marks("casimir-slopes")
    for before, after in (("# A page\n\n", "\n\nmore\n"), ("", "")):
        page.write_text(f"{before}{begin}\n\nan old table\n\n{end}{after}")
        for _ in range(2):
            write_table(page, "casimir-slopes", "| x |")
            assert page.read_text() == f"{before}{begin}\n\n| x |\n\n{end}{after}"
        assert table_on(page.read_text(), "casimir-slopes") == "| x |"
    status, out, err = outcome(capsys, perform, "casimir-table-2", ["--page", str(page)])  # before anything is run
    assert status == 2 and out == "" and "page.md: expected the marks <!-- casimir-table-2: diptych" in err


@pytest.mark.parametrize("load", [0.5, 2.0, 2.5, None])
@pytest.mark.parametrize("before", [1.0, None])
def test_seconds_of_a_busy_machine_are_not_shown(load, before):
    """At the end of any of the runs."""
    record = {"structure": "Chain", "size": "p = 1", "algorithm": "a", "complexity": "p", "operations": "1"}
    record["run"] = 1e-3  # seconds
    for first, last in ((before, load), (load, before)):
        report = {"versions": {"cores": 2, "load": first}, "records": [record, record, {**record, "load": last}]}
        assert timed(report) == (load != 2.5) == ("1.0 ms" in table2.table(report))


@given(st.integers(-6, 6), st.integers(-4, 4), st.booleans())
def test_a_lengthened_grid_ends_at_the_best_setting_of_all(j, i, flat):
    """The least of a convex function of log step and log mu, wherever it is; runs are not repeated. A setting without
    an effect does not lengthen its grid for ever.
    """
    asked = []

    def task(point):
        asked.append(tuple(point.values()))
        y = (math.log2(point["step"]) - j) ** 2 + (0 if flat else (math.log10(point["mu"]) - i) ** 2)
        return {"options": point, "rows": [{"objective": y, "dual": None}]}

    class InMemory(Runs):
        def __init__(self):
            super().__init__(task, "/nonexistent")

        def _keep(self, key, result):
            self.results[key] = result

    grid = [{"step": 2.0**a, "mu": 10.0**b} for a in (-1, 0, 1) for b in (-1, 0, 1)]
    curves = [Curve("tuned", "sgd", {}, grid, column="x"), Curve("as it", "sgd", {}, grid, "tuned", column="x")]
    for lengthen in (False, True):
        asked.clear()
        found = tuned_curves(InMemory(), curves, [0], lambda curve, options, rng: options, certificates=[],
            choose=lambda records: min(records, key=lambda record: record["rows"][-1]["objective"]),
            chosen=lambda curve, best: best, lengthen=lengthen)  # fmt: skip
        (curve, options, _), (_, same, _) = found.drawn
        assert options == same and len(asked) == len(set(asked)) and all(point in curve.grid for point in grid)
        if lengthen:
            assert options["step"] == 2.0**j and (flat or options["mu"] == pytest.approx(10.0**i))
            assert not any(ends(curve.grid, options).values()) or (flat and options["mu"] == 0.1)
        else:
            assert list(curve.grid) == grid


@pytest.mark.parametrize("change", [{"average": "last"}, {"average": "uniform"}, {"smoothing": "certified"}, {}])
def test_changes_of_casimir_change_what_they_name(change):
    """Not the last step in place of an average, nor certified outputs where the five best are all four of them: these
    give the method of Figure 2, bit for bit.
    """
    sentences = [{"word": [a, b], "tag": ["N", b], "label": ["B-X", "O"]} for a in "xyz" for b in "uv"]
    problem = Entities(sentences, sentences, 6)
    run = Run(CONST, 0.1, {**CENTER, "L": 8.0, "mu": 1.0}, 0, 4)
    rows, others = (record_of(problem, run._replace(options=options), 4)["rows"]
        for options in (run.options, {**run.options, **change}))  # fmt: skip
    same = [row["objective"] == other["objective"] for row, other in zip(rows, others, strict=True)]
    assert all(same) == (change.get("average", "last") == "last")


@given(st.floats(0.2, 2.0), st.floats(0, 1), st.integers(1, 4))
def test_slopes_of_powers_are_their_exponents(exponent, apart, seeds):
    """Also with deviations that are orthogonal to lines, as (1, -3, 3, -1); the interval is then that of their size:
    Student's t with two degrees of freedom, squared residuals of 20 apart^2, squares of 5 log(2)^2 of the abscissas.
    """
    eps = [0.04 / 2**j for j in range(4)]
    counts = [1e9 * x**-exponent * math.exp(apart * e) for x, e in zip(eps, (1, -3, 3, -1), strict=True)]
    report = {"accuracies": eps, "calls": dict.fromkeys(slopes.PROMISED, [counts] * seeds)}
    for line in slopes.lines(report):
        assert line["slope"] == pytest.approx(exponent)
        assert line["half"] == pytest.approx(4.30265273 * math.sqrt(2) * apart / math.log(2), abs=1e-5)
    report["calls"] = {name: [[5, 9, None, None]] for name in slopes.PROMISED}
    assert all(line["slope"] is None and line["calls"] == [5, 9, None, None] for line in slopes.lines(report))
    assert slopes.table(report).count("too few points") == len(slopes.PROMISED)


def test_all_goes_on_where_it_was_interrupted(monkeypatch, tmp_path, capsys):
    """What is done is left out; what fails is named by itself, and the others are run."""
    done, status_of = [], {"casimir-figure-5a": 130, "mkl-table-1": 2}

    def performed(name, words):
        done.append(name)
        file = EXPERIMENTS[name].data
        zipped = [str(tmp_path / file)] if file.endswith(".zip") else []
        expected = ["letters"] if name == "screening-chains" else zipped
        assert words[: len(expected)] == expected and tuple(words[len(expected) : -5]) == EXPERIMENTS[name].published
        assert words[-5:-1] == ["--json", "--out", str(tmp_path / "out" / EXPERIMENTS[name].module), "--results"]
        if name not in status_of:
            Path(words[-1]).write_bytes(b"")
        return status_of.get(name, 0)

    monkeypatch.setattr(everything, "perform", performed)
    words = [str(tmp_path), "--json", "--out", str(tmp_path / "out")]
    assert outcome(capsys, perform, "all", words)[0] == 130
    first, place = list(done), OF_PAPERS.index("casimir-figure-5a")
    assert first == OF_PAPERS[: place + 1]
    del status_of["casimir-figure-5a"], done[:]
    assert outcome(capsys, perform, "all", words)[0] == 2 and done == OF_PAPERS[place:]
    del status_of["mkl-table-1"], done[:]
    assert outcome(capsys, perform, "all", words)[0] == 0 and done == ["mkl-table-1"]
