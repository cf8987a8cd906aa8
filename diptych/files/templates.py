"""Files of templates: those of CRF++ and wapiti (:mod:`reference.models.macros`), and TOML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from diptych.files.text import load_text
from reference.models import token_templates
from reference.models.macros import FLAVOURS, line_of, with_names

_THEIRS = re.compile(r"[UuBb*].*%[xXtTmM]\[|[UuBb*]\d*\s*$")
_WAPITI = re.compile(r"[ub*]|.*%(?:[XtTmM]|x\[[@ +]|x\[[^]]*, )")


def load_templates(path: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The templates of a file, as ``TaggingModel`` takes them.

    Parameters
    ----------
    path : str
        A file of CRF++ or wapiti, or TOML; ``crfpp:FILE`` and ``wapiti:FILE`` say which, else it is recognised.
    columns : sequence of str
        The names of the columns of the data, "label" among them. Macros have their numbers.

    Raises
    ------
    ValueError
        Naming the file and the line: a column that does not exist, an unknown macro, a line that occurs
        twice.
    """
    flavour, _, file = path.partition(":")
    if flavour not in FLAVOURS:
        flavour, file = "", path
    if not flavour and not Path(file).is_file():
        return token_templates.load_templates(file)
    text = load_text(file)
    if not flavour:
        lines = [line for line in text if line.strip() and not line.startswith("#")]
        if not lines or not _THEIRS.match(lines[0]):
            return token_templates.load_templates(file)
        flavour = "wapiti" if any(map(_WAPITI.match, lines)) else "crfpp"
    templates: dict[str, int] = {}
    transitions = 0  # the line that asks for them
    for number, line in _lines(text, flavour):
        try:
            template = with_names(flavour, line, columns)
            parsed = line_of(template)
            earlier = templates.get(template, 0) or (transitions if parsed and parsed.transitions else 0)
            if earlier:
                raise ValueError(f"asks for the same weights as line {earlier}: {line!r:.80}")
        except ValueError as problem:
            raise ValueError(f"{file}, line {number}: {str(problem).removeprefix('templates: ')}") from None
        templates[template] = number
        if parsed and parsed.transitions:
            transitions = number
    if not templates:
        raise ValueError(f"{file}: no templates")
    return tuple(templates)


def _lines(text: list[str], flavour: str) -> Iterator[tuple[int, str]]:
    """The numbers and texts of the lines that are templates."""
    for number, line in enumerate(text, 1):
        if flavour == "wapiti":
            line = line.partition("#")[0].rstrip()
        if line.strip() and not line.startswith("#"):
            yield number, line
