"""Errors about one example, which keep its place, so that who read the example from a file can name file and line."""

from __future__ import annotations

__all__ = ["ExampleError", "ExampleTypeError"]


class ExampleError(ValueError):
    """A wrong example: ``X[3][7]: size: expected a number, got nan``.

    argument: the name of the argument, such as "X" or "Y". example: its index. position: the token, node or row in the
    example; None: the whole example. problem: the rest of the message: field, what was expected, what came.
    """

    def __init__(self, argument: str, example: int, position: int | None, problem: str) -> None:
        super().__init__(argument, example, position, problem)
        self.argument, self.example, self.position, self.problem = argument, example, position, problem

    def __str__(self) -> str:
        position = "" if self.position is None else f"[{self.position}]"
        return f"{self.argument}[{self.example}]{position}: {self.problem}"


class ExampleTypeError(ExampleError, TypeError):
    """An example, or a value in it, of the wrong type."""
