"""Pages of the public names: one for each name of the panels, for each public module of ``diptych`` and
``conformance``, and for each command. They are written into ``docs/api`` before sphinx reads its sources.

Docstrings are plain text that a person reads in an editor. Here what reStructuredText would take for markup is escaped.
A name or a module without a docstring is a warning, which fails the build.
"""

import argparse
import ast
import inspect
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from papers import ROWS, Lines, block, formula_lines, plain
from places import ROOT, named, write
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

import accelerated
import reference
from conformance import options
from conformance.__main__ import COMMANDS, MODULES
from diptych.commands.main import parser

LOG = logging.getLogger(__name__)
VERBATIM = re.compile(r"(``(?:[^`\n]|\n(?!\s*\n))+``|:[a-z]+:`[^`]+`|^ *>>>.*(?:\n.*\S.*)*)", re.MULTILINE)
NAMES = re.compile(r'(<a\b[^>]*\bhref="[./]*api/index\.html">[^<]*</a>)<ul>.*?</ul>', re.DOTALL)


def modules(package: str) -> Iterator[str]:
    """The public modules: those with ``__all__`` that lie in no package that has it; recipes are to be copied."""
    seen: tuple[str, ...] = ()
    for path in sorted((ROOT / package).rglob("*.py"), key=lambda path: (len(path.parts), path)):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        lists = (node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Assign))
        public = any(ast.unparse(node).startswith("__all__ =") for node in lists)
        if public and not re.search(r"\.(conftest|recipes)\b", name) and not name.startswith(seen):
            seen += (f"{name}.",)
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
    rows = [row for row in ROWS if any(named(each) is ours for each in row.code)]
    lines += _title("Statements", "-") if rows else []
    for row in rows:
        lines += [f":ref:`{plain(row.label)} <{row.id}>`: {plain(row.statement)}.", "", *formula_lines(row.formula)]
    return lines


def helps() -> Iterator[tuple[str, str]]:
    """Each command of ``diptych`` and the suite's own, with their help, as wide as a listing."""
    os.environ["COLUMNS"] = "100"
    known: list[argparse.ArgumentParser] = [parser()]
    for each in known:  # and those that it adds
        yield each.prog, each.format_help()
        for choices in (action.choices for action in each._actions if isinstance(action.choices, dict)):
            known += [sub for sub in choices.values() if isinstance(sub, argparse.ArgumentParser)]
    yield "python -m conformance", options.help_text(COMMANDS, MODULES)


def _title(text: str, line: str = "=") -> Lines:
    return [text, line * len(text), ""]


def _tree(caption: str, pages: Iterable[str]) -> Lines:
    return [*_title(caption, "-"), ".. toctree::", "   :maxdepth: 1", "", *(f"   {page}" for page in pages), ""]


def write_pages(app: Sphinx) -> None:
    names: dict[str, Lines] = {}
    for name in sorted(reference.__all__, key=str.lower):
        thing = getattr(reference, name)
        kind = "module" if inspect.ismodule(thing) else "class" if inspect.isclass(thing) else "function"
        names[f"{kind}-{name}"] = name_page(name, kind)  # sparsemap and SparseMAP are two files
    groups = {"Names of both panels": names}
    for package, group in (("diptych", "The application"), ("conformance", "The suite")):
        options = ["   :members:", "   :show-inheritance:", ""]
        groups[group] = {name: [*_title(name), f".. automodule:: {name}", *options] for name in modules(package)}
    groups["Commands"] = {name.replace(" ", "-"): [*_title(name), *block("text", text)] for name, text in helps()}
    pages = {name: lines for group in groups.values() for name, lines in group.items()}
    pages["index"] = [*_title("All names"), *(line for group in groups.items() for line in _tree(*group))]
    here = Path(app.srcdir) / "api"
    for stale in {*here.rglob("*.rst")} - {here / f"{page}.rst" for page in pages}:
        stale.unlink()
    for page, lines in pages.items():
        write(here / f"{page}.rst", lines)


def escape(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: Lines) -> None:
    """Leave a docstring's words as they are read: no bars, stars or underscores of formulas become markup."""
    if not lines or not any(lines):
        if what in ("module", "class", "function"):
            LOG.warning("%s %s has no docstring", what, name)
        return
    parts = enumerate(VERBATIM.split("\n".join(lines)))  # those with an odd number are verbatim
    lines[:] = "".join(part if i % 2 else _plain(part) for i, part in parts).split("\n")


def _plain(text: str) -> str:
    text = re.sub(r"([|`\\])", r"\\\1", text)
    text = re.sub(r"\*(?!\w[\w ]*\*(?!\w))(?<!\w\*)", r"\\*", text)  # but *emphasis*
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def skip(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Modules as attributes, what scikit-learn adds to learners, and names that another page has."""
    module = str(getattr(thing, "__module__", ""))
    elsewhere = module.startswith("reference.") and app.env.docname.startswith(("api/diptych", "api/conformance"))
    left_out = inspect.ismodule(thing) or module.startswith("sklearn.") or (what == "module" and elsewhere)
    return True if left_out else None


def sidebar(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """All names are in the sidebar of their own pages: on every page they would be a tenth of the site."""
    whole = context.get("toctree")
    if whole is not None and not pagename.startswith("api/"):
        context["toctree"] = lambda **options: NAMES.sub(r"\1", whole(**options))


def ours(app: Sphinx, doctree: nodes.document) -> None:
    """A name that both panels have is the reference's, where a docstring does not say."""
    for link in doctree.findall(addnodes.pending_xref):
        if link.get("refdomain") == "py" and link["reftarget"] in reference.__all__:
            link["reftarget"] = f"reference.{link['reftarget']}"
