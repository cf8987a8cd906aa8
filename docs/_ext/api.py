"""Pages of the public names: one for each name of the panels, for each public module of ``diptych`` and
``conformance``, and for each command. They are written into ``docs/api`` before sphinx reads its sources.

Docstrings are plain text that a person reads in an editor. Here what reStructuredText would take for markup is escaped.
A name or a module without a docstring is a warning, which fails the build.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from papers import block, formula_lines, plain, statements
from places import ROOT, write
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

import accelerated
import reference
from conformance import options
from conformance.__main__ import COMMANDS, MODULES
from diptych.commands.main import parser

LOG = logging.getLogger(__name__)
VERBATIM = re.compile(r"``(?:[^`\n]|\n(?!\s*\n))+``|:[a-z]+:`[^`]+`")  # what keeps its meaning
NAMES = re.compile(r'(<a\b[^>]*\bhref="[./]*api/index\.html">[^<]*</a>)<ul>.*?</ul>', re.DOTALL)
Lines = list[str]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _ours)
    app.connect("html-page-context", _sidebar, priority=400)  # before furo, at 500
    app.connect("autodoc-process-docstring", _escape, priority=400)  # before napoleon, at 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def modules(package: str) -> Iterator[str]:
    """The public modules: those with ``__all__`` that lie in no package that has it; recipes are to be copied."""
    seen: set[str] = set()
    for path in sorted((ROOT / package).rglob("*.py"), key=lambda path: (len(path.parts), path)):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        names = (node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Assign))
        public = any(isinstance(each, ast.Name) and each.id == "__all__" for node in names for each in node.targets)
        hidden = {"conftest", "recipes"} & {*parts} or any(name.startswith(f"{other}.") for other in seen)
        if public and not hidden:
            seen.add(name)
            yield name


def name_page(name: str, kind: str) -> Lines:
    """The page of a name that both panels have."""
    ours, fast = getattr(reference, name), getattr(accelerated, name)
    members = {"module": ["   :members:"], "class": ["   :members:", "   :show-inheritance:"], "function": []}[kind]
    lines = [*_title(name), f".. auto{kind}:: reference.{name}", *members, ""]
    if kind == "module":
        return lines
    if fast is ours:
        lines += ["The accelerated panel has the reference's.", ""]
    else:
        lines += [*_title("In the accelerated panel", "-"), f".. auto{kind}:: accelerated.{name}", ""]
    rows = list(statements(ours))
    lines += _title("Statements", "-") if rows else []
    for row in rows:
        lines += [f":ref:`{plain(row.label)} <{row.id}>`: {plain(row.statement)}.", "", *formula_lines(row.formula)]
    return lines


def helps() -> Iterator[tuple[str, str]]:
    """Each command of ``diptych`` and the suite's own, with their help, as wide as a listing."""
    os.environ["COLUMNS"] = "100"
    waiting: list[argparse.ArgumentParser] = [parser()]
    while waiting:
        each = waiting.pop(0)
        yield each.prog, each.format_help()
        for choices in (action.choices for action in each._actions if isinstance(action.choices, dict)):
            waiting += [sub for sub in choices.values() if isinstance(sub, argparse.ArgumentParser)]
    yield "python -m conformance", options.help_text(COMMANDS, MODULES)


def _title(text: str, line: str = "=") -> Lines:
    return [text, line * len(text), ""]


def _tree(caption: str, pages: list[str]) -> Lines:
    return [*_title(caption, "-"), ".. toctree::", "   :maxdepth: 1", "", *(f"   {page}" for page in pages), ""]


def _write(app: Sphinx) -> None:
    pages: dict[str, Lines] = {}
    groups: dict[str, list[str]] = {}

    def add(group: str, page: str, lines: Lines) -> None:
        pages[page] = lines
        groups.setdefault(group, []).append(page)

    for name in sorted(reference.__all__, key=str.lower):
        thing = getattr(reference, name)
        kind = "module" if inspect.ismodule(thing) else "class" if inspect.isclass(thing) else "function"
        add("Names of both panels", f"{kind}-{name}", name_page(name, kind))  # sparsemap and SparseMAP are two files
    for package, group in (("diptych", "The application"), ("conformance", "The suite")):
        for name in modules(package):
            add(group, name, [*_title(name), f".. automodule:: {name}", "   :members:", "   :show-inheritance:", ""])
    for name, text in helps():
        add("Commands", name.replace(" ", "-"), [*_title(name), *block("text", text)])
    here = Path(app.srcdir) / "api"
    for stale in {path for path in here.rglob("*.rst")} - {here / f"{page}.rst" for page in (*pages, "index")}:
        stale.unlink()
    for page, lines in pages.items():
        write(here / f"{page}.rst", lines)
    write(here / "index.rst", [*_title("All names"), *(line for group in groups.items() for line in _tree(*group))])


def _escape(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: Lines) -> None:
    """Leave a docstring's words as they are read: no bars, stars or underscores of formulas become markup."""
    if not lines or not any(lines):
        if what in ("module", "class", "function"):
            LOG.warning("%s %s has no docstring", what, name)
        return
    kept: list[str] = []
    text = VERBATIM.sub(lambda found: kept.append(found[0]) or f"\0{len(kept) - 1}\0", "\n".join(lines))  # type: ignore
    example = False
    for i, line in enumerate(escaped := text.split("\n")):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example and not re.fullmatch(r"\s*(-+|=+)\s*", line):
            escaped[i] = _plain(line)
    lines[:] = re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], "\n".join(escaped)).split("\n")


def _plain(text: str) -> str:
    text = re.sub(r"([|`\\])", r"\\\1", text)
    text = re.sub(r"\*(?!\w[\w ]*\*(?!\w))(?<!\w\*)", r"\\*", text)  # but *emphasis*
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def _skip(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Modules as attributes, what scikit-learn adds to learners, and names that another page has."""
    module = str(getattr(thing, "__module__", ""))
    elsewhere = module.startswith("reference.") and app.env.docname.startswith(("api/diptych", "api/conformance"))
    left_out = inspect.ismodule(thing) or module.startswith("sklearn.") or (what == "module" and elsewhere)
    return True if left_out else None


def _sidebar(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """All names are in the sidebar of their own pages: on every page they would be a tenth of the site."""
    whole = context.get("toctree")
    if whole is not None and not pagename.startswith("api/"):
        context["toctree"] = lambda **options: NAMES.sub(r"\1", whole(**options))


def _ours(app: Sphinx, doctree: nodes.document) -> None:
    """A name that both panels have is the reference's, where a docstring does not say."""
    for link in doctree.findall(addnodes.pending_xref):
        if link.get("refdomain") == "py" and link["reftarget"] in reference.__all__:
            link["reftarget"] = f"reference.{link['reftarget']}"
