"""Layers of PyTorch beside pytorch-crf and torch-struct, on the same scores in float32: losses with gradients, and
decoding; log-partitions of dependency trees with gradients.

``python docs/figures.py layers`` prints milliseconds and ratios: `figures`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from diptych.experiments.clock import best_of

SIZES = {"B32 n30 L20": (32, 30, 20), "B128 n100 L50": (128, 100, 50)}
CALLS = ("loss", "decode")


def call(size: str, what: str, peer: bool) -> Callable[[], Any]:
    """A call on full rows. Raises ImportError where PyTorch or the peer is not installed."""
    import torch

    from diptych.layers.torch import ChainCRF

    if peer:
        from torchcrf import CRF as ChainCRF  # type: ignore[no-redef]
    B, n, L = SIZES[size]
    torch.manual_seed(0)
    crf, emissions, tags = ChainCRF(L), torch.randn(n, B, L, requires_grad=True), torch.randint(0, L, (n, B))
    return (lambda: crf(emissions, tags).backward()) if what == "loss" else lambda: crf.decode(emissions)


def trees(n: int, peer: bool) -> Callable[[], Any]:
    """Log-partitions and gradients of 32 sentences. Raises ImportError where PyTorch or the peer is not installed."""
    import torch

    torch.manual_seed(0)
    if peer:
        from torch_struct import NonProjectiveDependencyCRF

        arcs, lengths = torch.randn(32, n, n, requires_grad=True), torch.full((32,), n)  # the diagonal: the root's arcs
        return lambda: NonProjectiveDependencyCRF(arcs, lengths).partition.sum().backward()
    from diptych.layers.torch import arborescence

    values = torch.randn(32, n, n + 1, requires_grad=True)
    return lambda: arborescence.log_partition(values).sum().backward()


class Layers:
    """Seconds of a call, on the threads of PyTorch."""

    params: tuple[list[Any], ...] = ([*SIZES], CALLS, ["ours", "pytorch-crf"], [1, 2])
    param_names: tuple[str, ...] = ("size", "call", "library", "threads")
    made = staticmethod(call)

    def setup(self, *given: Any) -> None:
        *what, library, threads = given
        try:
            import torch

            self.run = self.made(*what, library != "ours")
        except ImportError:
            raise NotImplementedError(f"{library}: not installed") from None  # tells asv to skip
        torch.set_num_threads(threads)
        self.run()

    def time_call(self, *given: Any) -> None:
        self.run()


class Trees(Layers):
    """Seconds of log-partitions with gradients, on one thread."""

    params = ([30, 60], ["ours", "torch-struct"], [1])
    param_names = ("n", "library", "threads")
    made = staticmethod(trees)


def figures() -> Iterator[tuple[str, float, str, float | None, bool]]:
    """Name, value, unit, target and whether it is the least, of each figure; nothing without PyTorch."""
    try:
        import torch
    except ImportError:
        print("  layers: PyTorch is not installed", file=sys.stderr)
        return
    for size in SIZES:
        for what in CALLS:
            seconds = []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                seconds.append(best_of(call(size, what, False), 20))
                yield f"{what}, {size}, {threads} threads", 1e3 * seconds[-1], "ms", None, False
            yield f"{what}, {size}, one thread / two", seconds[0] / seconds[1], "ratio", None, True
            yield from _beside(f"{what}, {size}", "pytorch-crf", call, (size, what), seconds[0], 12.0)
    for n in (30, 60):
        torch.set_num_threads(1)
        ours = best_of(trees(n, False), 20)
        yield f"trees, B32 n{n}, one thread", 1e3 * ours, "ms", None, False
        yield from _beside(f"trees, B32 n{n}", "torch-struct", trees, (n,), ours, 3.0)


def _beside(
    name: str, peer: str, made: Callable[..., Any], given: tuple[Any, ...], ours: float, target: float
) -> Iterator[tuple[str, float, str, float | None, bool]]:
    """Of a peer, on one thread: its milliseconds, and how many times ours they are."""
    import torch

    torch.set_num_threads(1)
    try:
        theirs = best_of(made(*given, True), 5)
    except ImportError:
        print(f"  {peer} is not installed: no ratios", file=sys.stderr)
        return
    yield f"{name}, {peer}", 1e3 * theirs, "ms", None, False
    yield f"{name}, {peer} / ours, one thread", theirs / ours, "ratio", target, True
