"""The site: sphinx over these pages, and over what ``_ext`` writes from the ledger, the docstrings and the sources."""

import importlib.util
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

import api
import history
import links
import papers
import sources
import steps

from reference import __version__ as release

project, author, copyright = "Diptych", "the authors of Diptych", "the authors of Diptych"
html_baseurl = PROJECT.get("urls", {}).get("Documentation", "")
extensions = ["myst_parser", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.linkcode"]
extensions += ["formulas"]  # ours, as is what setup connects
linkcode_resolve = sources.linkcode_resolve
exclude_patterns = ["_build", "README.md", "cells", "node_modules"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]
suppress_warnings = ["misc.highlighting_failure"]  # a block of console output is no Python
autodoc_mock_imports = [name for name in ("jax", "torch", "tokenizers") if importlib.util.find_spec(name) is None]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # a docstring has shapes and dtypes, which say more
napoleon_google_docstring, napoleon_custom_sections = False, ["Source"]
napoleon_use_param = napoleon_use_rtype = False  # what stands at a parameter is a shape, no name to link
napoleon_use_ivar = True
smartquotes = False  # quotes are those of code
html_theme = "furo"
html_title = f"Diptych {release}"
html_static_path, templates_path = ["_static"], ["_templates"]
html_css_files = ["katex/katex.min.css", "site.css"]
html_js_files = ["site.js"]
html_copy_source = html_show_sourcelink = False
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"


def setup(app):
    """What is ours, by the moments of a build."""
    app.connect("builder-inited", sources.write_contributing)
    for module in (papers, api, steps, history):
        app.connect("builder-inited", module.write_pages)
    app.connect("source-read", sources.links_to_pages)
    app.add_role("source", sources.SourceRole())
    app.connect("autodoc-skip-member", api.skip)
    app.connect("autodoc-process-docstring", api.escape, priority=400)  # before napoleon, at 500
    app.connect("doctree-read", sources.links_to_files, priority=400)  # before sphinx collects downloads
    app.connect("doctree-read", papers.ledger)
    app.connect("doctree-read", api.ours)
    app.connect("html-page-context", api.sidebar, priority=400)  # before furo, at 500
    app.connect("html-page-context", sources.compact_page)
    app.connect("html-collect-pages", sources.pages)
    app.connect("build-finished", links.report, priority=900)  # after all files are there
