"""The local variables of a function while it runs: what a debugger shows at a breakpoint."""

import copy
import inspect
import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any


def watch(call: Callable[[], Any], places: dict[str, Any], names: str) -> tuple[list[SimpleNamespace], Any]:
    """Copies of some variables each time that a line is about to run and when its function returns; and what ``call``
    returns.

    places maps the first words of a line to the function that has it; names: of the variables, with blanks between.
    Each copy has also ``line``, these first words, or "return". A variable that is not set yet is left out.

    Raises
    ------
    LookupError
        None of the function's lines begins so, or several do.
    """
    lines: dict[Any, dict[int, str]] = {}
    for words, function in places.items():
        code, (source, first) = inspect.unwrap(function).__code__, inspect.getsourcelines(function)
        found = [first + i for i, text in enumerate(source) if text.strip().startswith(words)]
        if len(found) != 1:
            raise LookupError(f"{function.__qualname__}: expected one line that begins {words!r}, got {len(found)}")
        lines.setdefault(code, {})[found[0]] = words
    moments = []

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        line = "return" if event == "return" else lines[frame.f_code].get(frame.f_lineno) if event == "line" else None
        if line is not None:
            kept = {name: copy.deepcopy(frame.f_locals[name]) for name in names.split() if name in frame.f_locals}
            moments.append(SimpleNamespace(line=line, **kept))
        return inside

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: inside if frame.f_code in lines else None)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return moments, result
