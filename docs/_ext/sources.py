"""A page of each Python file, with an anchor a line; links to it, from names and from the Markdown pages.

``:source:`text <reference/gram.py#12>``` leads to a line. Markdown pages link to files of the checkout by paths, for
who reads them there: here those links lead to the pages of the files.
"""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from places import ROOT, place, write
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import ReferenceRole

LOG = logging.getLogger(__name__)
TEMPLATE = Path(__file__).parents[1] / "_templates" / "source.html"
LINKED = re.compile(r'href="(?:\.\./)*source/([^"#]+)\.html')


def address(docname: str, path: str, line: int | None = None) -> str:
    """The address of a file's page, or of a line on it, from a page of the site."""
    return "../" * docname.count("/") + f"source/{path.removesuffix('.py')}.html" + (f"#line-{line}" if line else "")


class SourceRole(ReferenceRole):
    """``:source:`text <path#line>```."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        path, _, line = self.target.partition("#")
        file = ROOT / path
        if not file.exists() or (line and int(line) > len(file.read_text(encoding="utf-8").splitlines())):
            LOG.warning("no such line: %s", self.target, location=self.get_location())
        uri = address(self.env.docname, path, int(line) if line else None)
        return [nodes.reference("", "", nodes.literal("", self.title), internal=True, refuri=uri)], []


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Where sphinx's links "source" lead, from a page in api/."""
    thing: Any = importlib.import_module(info["module"])
    try:
        for name in info["fullname"].split("."):
            thing = getattr(thing, name)
        where = place(thing.fget if isinstance(thing, property) else thing)
    except (AttributeError, TypeError, OSError, ValueError):
        return None  # a value has no lines of its own
    return address("api/page", where.path, where.first)


def compact(html: str) -> str:
    """Highlighted code without the spans that give blanks and plain names no colour."""
    return re.sub(r'<span class="(?:w|n|p)">([^<]*)</span>', r"\1", html)


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Of the files that other pages lead to."""
    others = [path for path in Path(app.outdir).rglob("*.html") if path.relative_to(app.outdir).parts[0] != "source"]
    linked = {name for path in others for name in LINKED.findall(path.read_text(encoding="utf-8"))}
    formatter = HtmlFormatter(linespans="line", cssclass="highlight")
    here = Path(app.outdir) / "source"
    for stale in {*here.rglob("*.html")} - {here / f"{name}.html" for name in linked}:
        stale.unlink()
    for name in sorted(linked):
        path, built = ROOT / f"{name}.py", here / f"{name}.html"
        if built.exists() and built.stat().st_mtime > max(path.stat().st_mtime, TEMPLATE.stat().st_mtime):
            continue  # highlighting takes most of a second build
        body = compact(highlight(path.read_text(encoding="utf-8"), PythonLexer(), formatter))
        yield f"source/{name}", {"title": f"{name}.py", "body": body}, "source.html"


def compact_page(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename.startswith("read/"):
        context["body"] = compact(context["body"])


def write_contributing(app: Sphinx) -> None:
    """CONTRIBUTING.md as a page: its links begin at the top of the checkout."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](../")
    text = re.sub(r"\]\((?=(?:conformance|reference|accelerated|diptych)/)", "](../../", text)
    write(Path(app.srcdir) / "read" / "contributing.md", text.splitlines())


def links_to_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = source[0].replace("](../CONTRIBUTING.md", "](read/contributing.md")
    source[0] = source[0].replace("](../benchmarks/)", "](benchmarks/index.rst)")  # their history


def links_to_files(app: Sphinx, doctree: nodes.document) -> None:
    """Links of Markdown pages to files outside of docs/."""
    docname, here = app.env.docname, Path(app.env.doc2path(app.env.docname)).parent
    for kind in (addnodes.download_reference, addnodes.pending_xref):
        for node in list(doctree.findall(kind)):
            path = (here / str(node.get("reftarget", ""))).resolve()
            if path.suffix == ".py" and path.is_relative_to(ROOT) and path.exists():
                uri = address(docname, path.relative_to(ROOT).as_posix())
                node.replace_self(nodes.reference("", "", *node.children, internal=True, refuri=uri))
