"""Errors about one example, which contain its place, so that a reader of files can add the file and the line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["Example", "ExampleError", "ExampleTypeError"]


class ExampleError(ValueError):
    """A wrong example: ``X[3][7]: size: expected a number, got nan``.

    argument: the name of the argument, such as "X" or "Y". example: its index. position: the token, node or row in the
    example; None: the whole example. problem: the rest of the message: the field, what was expected and what it got.
    """

    def __init__(self, argument: str, example: int, position: int | None, problem: str) -> None:
        super().__init__(argument, example, position, problem)
        self.argument, self.example, self.position, self.problem = argument, example, position, problem

    def __str__(self) -> str:
        position = "" if self.position is None else f"[{self.position}]"
        return f"{self.argument}[{self.example}]{position}: {self.problem}"


class ExampleTypeError(ExampleError, TypeError):
    """An example, or a value in it, of the wrong type."""


class Example(str):
    """The name of an example in messages, ``X[3]``, or of one of its fields, ``X[3] edges``."""

    argument: str
    example: int
    field: str

    def __new__(cls, argument: str, example: int, field: str = "") -> Example:
        made = super().__new__(cls, f"{argument}[{example}]{field and ' '}{field}")
        made.argument, made.example, made.field = argument, example, field
        return made


def example_error(name: str, position: int | None, problem: str, kind: type = ValueError) -> Exception:
    """The error at a position of an Example, or at an item of the argument ``name`` whose items are the examples."""
    made = ExampleTypeError if issubclass(kind, TypeError) else ExampleError
    if isinstance(name, Example):
        return made(name.argument, name.example, position, f"{name.field}{name.field and ': '}{problem}")
    return kind(f"{name}: {problem}") if position is None else made(name, position, None, problem)


def located(error: Exception, name: Example, position: int | None = None) -> Exception:
    """An error whose message may begin with the example's name, as one about that example."""
    if isinstance(error, ExampleError):
        return error
    begins = name if position is None else f"{name}[{position}]"
    return example_error(name, position, str(error).removeprefix(begins).lstrip(": "), type(error))


def each_example(argument: str, given: Any, read: Callable[[Example, Any], Any]) -> list[Any]:
    """``read(name, example)`` of each; ValueError and TypeError as those about the example."""
    results = []
    for i, x in enumerate(listed(argument, given)):
        try:
            results.append(read(Example(argument, i), x))
        except (TypeError, ValueError) as error:
            raise located(error, Example(argument, i)) from error
    return results


def listed(argument: str, given: Any) -> Any:
    """Examples that can be iterated over twice: generators and series become lists, others are returned as they are."""
    if is_frame(given):
        raise TypeError(f"{argument}: expected a list of examples, got a single data frame; [frame] is a list of one")
    iterable = any(hasattr(given, name) for name in ("__iter__", "__getitem__", "__array__"))
    if isinstance(given, (str, bytes, Mapping)) or not iterable:
        raise TypeError(f"{argument}: expected a list of examples, got {type(given).__name__}")
    if hasattr(given, "iloc") or not (hasattr(given, "__len__") or hasattr(given, "__array__")):
        return list(given)
    return given


def values_of(x: Any) -> Any:
    """The numbers (n, d) of a data frame, or x."""
    if not is_frame(x):
        return x
    columns = [*x.to_dict("list").values()]
    numbers = np.array(columns)
    return (numbers if numbers.dtype.kind in "fiub" else np.array(columns, object)).reshape(len(columns), len(x)).T


def is_frame(x: Any) -> bool:
    """Whether x has the interface of a pandas data frame."""
    return hasattr(x, "columns") and hasattr(x, "to_dict")
