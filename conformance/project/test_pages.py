"""README, CHANGELOG, CONTRIBUTING and docs: blocks run, commands exist, links lead somewhere, lines are short; examples
in docstrings run as they stand.

Pages are in a checkout only, an installed suite has none. Python blocks of a page run one after another, in the panel
that they import. Lines of ``console`` blocks are run; of ``sh`` blocks, which may need data of yours, options are
parsed.
"""

from __future__ import annotations

import argparse
import doctest
import importlib
import importlib.metadata
import json
import re
import shlex
import tomllib
from collections import Counter
from email.message import Message
from pathlib import Path
from types import SimpleNamespace

import pytest

import diptych
import reference
from conformance.ledger import ROWS
from conformance.project.test_declared import CHECKPOINTED
from conformance.project.test_source import python_files
from diptych.commands.main import main, parser
from diptych.documentation import page as where

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted((*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "learn").glob("*.md"))) if README.exists() else []
ALL = [README, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md")), *PAGES] if README.exists() else []
WIDTH = 120
COLUMNS = """the DT B-NP
duck NN I-NP
swims VBZ B-VP

dogs NNS B-NP
swim VBP B-VP
"""  # train.txt and test.txt of the commands


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: Path, language: str) -> list[list[str]]:
    whole = (block.replace("\\\n", " ") for block in blocks(page, language))
    lines = [shlex.split(line, comments=True) for block in whole for line in block.splitlines()]
    return [words[1:] for words in lines if words and words[0] == "diptych"]


def having(pages: list[Path], *languages: str) -> list:
    return [pytest.param(page, id=page.stem) for page in pages if any(blocks(page, each) for each in languages)]


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("page", having(PAGES, "python"))
def test_python_blocks_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks(page, "python")), {})


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("page", having(ALL, "console"))
def test_console_blocks_run(page, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_text(COLUMNS)
    for words in commands(page, "console"):
        assert main(words) == 0, (words, capsys.readouterr().err)


@pytest.mark.parametrize("page", having(ALL, "sh"))
def test_commands_have_the_options_that_pages_give_them(page, monkeypatch, capsys):
    class Parsed(BaseException):
        pass

    def parse_only(parser, args=None, namespace=None, parse=argparse.ArgumentParser.parse_args):
        parse(parser, args, namespace)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    for words in commands(page, "sh"):
        try:
            main(words)
        except Parsed:
            continue
        except SystemExit:
            pytest.fail(f"diptych {shlex.join(words)}: {capsys.readouterr().err}")


@pytest.mark.skipif(not ALL, reason="an installed suite has no pages")
class TestReadme:
    def test_it_is_one_page(self):
        lines = README.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 150 and max(map(len, lines)) <= WIDTH

    def test_its_python_blocks_run(self, monkeypatch, tmp_path, capsys):
        monkeypatch.chdir(tmp_path)
        exec("\n".join(blocks(README, "python")), {})
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 5 and all(line.isalpha() for line in lines[:4])  # what the model reads
        weights = json.loads(lines[4])
        assert weights[0] == 0 and weights == sorted(weights) and weights[-1] > 0

    def test_it_counts_what_the_ledger_has(self):
        text = " ".join(README.read_text(encoding="utf-8").split())
        found = re.search(r"(\d+) numbered .*? (\d+) hold as printed, (\d+) .*?, (\d+) are wrong as printed", text)
        counts = Counter(row.verdict for row in ROWS)
        expected = counts["holds"], counts["holds under a condition"], counts["wrong as printed"]
        assert found and tuple(map(int, found.groups())) == (len(ROWS), *expected)

    def test_the_index_names_every_page(self):
        index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
        names = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES]
        assert [name for name in names if f"({name})" not in index] == ["README.md"]


@pytest.mark.parametrize("page", [pytest.param(page, id=f"{page.parent.name}-{page.stem}") for page in ALL])
def test_links_lead_somewhere_and_lines_are_short_but_for_rows_of_tables(page):
    text = page.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > WIDTH and not line.startswith("|")] == []
    for link in (link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}, link


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_files_that_are_named_exist(page):
    """In the checkout, or in reference/ as the maps of the papers say them."""
    names = re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)*/(?:[a-z_0-9]+\.py)?)`", page.read_text(encoding="utf-8"))
    missing = [name for name in names if not (ROOT / name).exists() and not (ROOT / "reference" / name).exists()]
    assert missing == []


@pytest.mark.skipif(not ALL, reason="an installed suite has no pages")
def test_the_oldest_versions_on_the_page_and_those_tried_are_those_promised():
    """Tried: of everything but torch, whose oldest CPU build is far larger than all others, and developers' tools."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed, extras = project["dependencies"], project["optional-dependencies"]
    page = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+)(?: \(`\w+`\))? \| ([\d.]+) \|$", page, re.MULTILINE)
    shown = [*needed, *(extras[name][0] for name in ("plots", "estimators", "distributed", "torch"))]
    expected = [f"Python{project['requires-python']}", *shown]
    assert [f"{name}>={version}" for name, version in rows] == [each.replace(" ", "") for each in expected]
    promised = [*needed, *(each for name in ("plots", "estimators", "tests", "distributed") for each in extras[name])]
    lines = (ROOT / ".ci" / "minimum.txt").read_text().splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    bounds = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", each).groups() for each in promised)
    assert bounds.keys() == tried.keys()
    for name, bound in bounds.items():  # 1.2 is the bound of 1.2 and of 1.2.0
        assert re.fullmatch(rf"{re.escape(bound)}(\.0)*", tried[name]), name


@pytest.mark.parametrize("page", [page for page in ALL if page.parent.name in ("docs", "learn")], ids=lambda p: p.stem)
def test_links_say_the_title_of_a_page_and_not_its_file(page):
    links = re.findall(r"\[([^][]+)\]\(([^)#]+\.md)\)", page.read_text(encoding="utf-8"))
    assert not [text for text, _ in links if text.endswith(".md")]
    if page == ROOT / "docs" / "README.md":
        titles = [(page.parent / file).read_text(encoding="utf-8").partition("\n")[0] for _, file in links]
        found = [text.lower().split() for text, _ in links]
        assert found == [title.removeprefix("# ").lower().split() for title in titles] and len(found) > 20


@pytest.mark.skipif(not ALL, reason="an installed suite has no pages")
def test_readme_and_docstrings_name_files_of_docs_until_the_site_has_an_address():
    published = "Documentation" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    for path in [README, *(path for _, path in python_files("reference", "accelerated", "diptych"))]:
        named = re.findall(r"\bdocs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
        assert not any(published or not (ROOT / name).exists() for name in named), path


def test_messages_name_the_site_once_it_has_an_address(monkeypatch):
    metadata = Message()
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: [SimpleNamespace(metadata=metadata)])
    assert [where(name) for name in ("layers", "commands")] == ["docs/layers.md", "docs/commands.md"]
    assert "documentation: docs/commands.md" in parser().format_help()
    metadata["Project-URL"] = "Documentation, https://a.example/diptych/"
    assert "documentation: https://a.example/diptych/commands.html" in parser().format_help()


def modules(package):
    """By their files: nothing is imported."""
    (folder,) = map(Path, package.__path__)
    for path in sorted(folder.rglob("*.py")):
        name = ".".join((package.__name__, *path.relative_to(folder).with_suffix("").parts))
        if not name.endswith("__main__"):
            yield name.removesuffix(".__init__")


MODULES = [*modules(reference), *modules(diptych)]
MODULES += [f"accelerated.structures.{name}" for name in ("arborescence", "cut", "matching")]  # oracles have no twins


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        assert name.startswith(("diptych.layers.", "diptych.experiments.lstm"))
        pytest.skip(f"{missing.name} is not installed")
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("optimiser", CHECKPOINTED)
def test_every_optimiser_has_an_example(optimiser):
    function = getattr(reference, optimiser)
    module = importlib.import_module(function.__module__)
    (example,) = doctest.DocTestFinder(recurse=False).find(function, module=module)
    assert any(f"result = {optimiser}(" in line.source for line in example.examples)
    assert doctest.DocTestRunner().run(example).failed == 0  # decorated: not found in its module
