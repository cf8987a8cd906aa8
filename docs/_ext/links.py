"""When the site is built: every link within it leads to a page and an anchor that exist, and no page loads anything
from elsewhere.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

LOADS = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"|<link\b[^>]*\bhref="([^"]+)"[^>]*>')
WITHIN = re.compile(r'<a\b[^>]*\bhref="(?![a-z]+:|//)([^"]+)"')
IMPORTS = re.compile(r"""(?:url\(|@import\s+)["']?((?:https?:)?//[^"')]+)""")


def problems(site: Path) -> Iterator[str]:
    """A line for each link that leads nowhere, and for each file that a page would fetch from elsewhere."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    anchors = {path: set(re.findall(r'\s(?:id|name)="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        name = path.relative_to(site)
        for link in dict.fromkeys(WITHIN.findall(text)):
            address, _, anchor = link.partition("#")
            target = (path.parent / unquote(address)).resolve() if address else path
            there = target.exists() if anchor in ("", "top") else unquote(anchor) in anchors.get(target, ())
            if not there:
                yield f"{name}: {link} leads nowhere"
        for loaded in ("".join(found) for found in LOADS.findall(text)):
            if re.match(r"(?:https?:)?//", loaded):
                yield f"{name}: loads {loaded}"
    for path in sorted(site.rglob("*.css")):
        for loaded in IMPORTS.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {loaded}"


def report(app: Any, problem: Exception | None) -> None:
    from sphinx.util import logging

    if problem is None and app.builder.name == "html":
        for line in problems(Path(app.outdir)):
            logging.getLogger(__name__).warning("%s", line)
