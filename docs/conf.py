"""The site: sphinx over these pages, and over what ``_ext`` writes from the ledger, the docstrings and the sources."""

import importlib.util
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

from sources import linkcode_resolve  # noqa: E402, F401

from reference import __version__ as release  # noqa: E402

project, author, copyright = "Diptych", "the authors of Diptych", "the authors of Diptych"
html_baseurl = PROJECT.get("urls", {}).get("Documentation", "")
extensions = ["myst_parser", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.linkcode"]
extensions += ["formulas", "sources", "papers", "api", "links", "steps", "history"]  # ours
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
