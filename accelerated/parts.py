"""Kernels called by kernels: translated and simplified, and left to the kernel that Python calls.

Numba optimises each function in full and turns it into machine code, then does the same to each of its callers with
the function's code inside. Of a kernel ten calls below the one that Python called, that is done eleven times, and ten
of the results are never run. A part has only the first, cheap passes of optimisation (without any, max-product loops
take a third longer). The kernel that Python calls is optimised in full and turned into machine code, with all its
parts.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.typed_passes import NativeLowering

__all__ = ["AS_PART", "CACHE_LINE", "EntryDispatcher", "PartDispatcher"]

CACHE_LINE = 64  # bytes; also of the widest registers


class _PartLibrary(JITCodeLibrary):
    """The code of a part, to be linked into the kernels that call it."""

    def _optimize_final_module(self) -> None:
        """The first half of numba's own: loops are vectorised, nothing is unrolled."""
        passes, builder = self._codegen._module_pass_manager(
            loop_vectorize=self._codegen._loopvect, slp_vectorize=False, opt=self._codegen._opt_level, cost="cheap"
        )
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """Numba's pass from typed code to LLVM's language, into a library of our own."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        result = state["cr"]
        name = result.fndesc.qualname
        nothing = _dynfunc.make_function(result.fndesc.lookup_module(), name, "", 0, result.env, (state.library,))
        state.targetctx.insert_user_function(nothing, result.fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = result._replace(cfunc=nothing)
        return True


class _PartCompiler(CompilerBase):
    """Numba's passes, with :class:`_PartLowering` for its own."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state, "part")
        passes.passes = [
            (_PartLowering, text) if kind is NativeLowering else (kind, text) for kind, text in passes.passes
        ]
        passes.finalize()
        return [passes]


AS_PART: Any = {"pipeline_class": _PartCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class PartDispatcher(CPUDispatcher):
    """A function as a part of kernels. Python cannot call it: it has no machine code."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        given = {**options, **AS_PART}
        super().__init__(function, targetoptions=given, pipeline_class=given.pop("pipeline_class"))

    def add_overload(self, compiled: Any) -> None:
        self.overloads[tuple(compiled.signature.args)] = compiled


class EntryDispatcher(CPUDispatcher):
    """A function as a kernel that Python calls; kernels that call it take it as a part."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions={**options, "no_cfunc_wrapper": True})
        self._options = options

    @cached_property
    def part(self) -> PartDispatcher:
        return PartDispatcher(self.py_func, self._options)

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self.part)

    def compile(self, signature: Any) -> Any:
        """As numba does, without collecting garbage in between, which would take a fifth of the time."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            with _arrays_at_cache_lines():
                return super().compile(signature)
        finally:
            if collecting:
                gc.enable()


@contextmanager
def _arrays_at_cache_lines() -> Iterator[None]:
    """Arrays that kernels allocate begin at a cache line if the kernels are compiled here.

    Numba's begin at 32 bytes, so that half of them have rows of which every register of 64 bytes crosses two lines:
    max-product and sum-product then take up to a third longer. Numba has no setting for this. Other code that numba
    compiles waits for the lock meanwhile.
    """
    name, context = "get_preferred_array_alignment", vars(cpu_target.target_context)
    with global_compiler_lock:
        context[name] = lambda dtype: CACHE_LINE
        try:
            yield
        finally:
            context.pop(name, None)
