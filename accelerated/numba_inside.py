"""Every private name of numba that the package uses. Without them kernels are plain ones (:mod:`accelerated.kernel`).

Parts are kernels called by kernels: translated and simplified, and left to the kernel that Python calls. Numba
optimises each function in full and turns it into machine code, then does the same to each of its callers with the
function's code inside. Of a kernel ten calls below the one that Python called, that is done eleven times, and ten of
the results are never run. A part has only the first, cheap passes of optimisation (without any, max-product loops take
a third longer). The kernel that Python calls is optimised in full and turned into machine code, with all its parts.

The cache keeps machine code in files of our own: all processes read, change and write numba's index files without a
lock.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from llvmlite.binding import Linkage, parse_assembly
from numba import _dynfunc, types  # type: ignore[attr-defined]
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.typed_passes import NativeLowering

from accelerated.kernel_archive import PROCESSOR
from accelerated.kernel_files import KernelFiles, KernelPlace, warn_once

__all__ = ["AS_PART", "CACHE_LINE", "entry"]

CACHE_LINE = 64  # bytes; also of the widest registers


def entry(function: Callable[..., Any], options: dict[str, Any], place: KernelPlace | None) -> Any:
    """A function as a kernel that Python calls. place: where it is kept; None: nowhere."""
    dispatcher: Any = EntryDispatcher(function, options)
    if place is not None:
        dispatcher._cache = _Cache(function, place)
    return dispatcher


class _EntryLibrary(JITCodeLibrary):
    """The code of a kernel that Python calls, with all its parts."""

    def _optimize_final_module(self) -> None:
        """As numba does, without what nobody looks up, a quarter of a file: environments of parts that never read them,
        and names of parts, each as long as the types of all its arguments.
        """
        for each in self._final_module.global_variables:
            if each.linkage == Linkage.common:  # an environment
                each.linkage = Linkage.linkonce_odr  # deleted if it is not read
        super()._optimize_final_module()
        parts = [each for each in self._final_module.functions if each.linkage == Linkage.linkonce_odr]
        constants = [each for each in self._final_module.global_variables if each.name.startswith(".const.")]
        for each in (*parts, *constants):
            each.linkage = Linkage.private


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
class _EntryLowering(NativeLowering):
    """Numba's pass from typed code to LLVM's language, into a library of our own."""

    _name = "entry_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _EntryLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


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


class _EntryCompiler(CompilerBase):
    """Numba's passes, with one of ours for its lowering."""

    lowering: type[NativeLowering] = _EntryLowering

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state, self.lowering._name)
        passes.passes = [
            (self.lowering, text) if kind is NativeLowering else (kind, text) for kind, text in passes.passes
        ]
        passes.finalize()
        return [passes]


class _PartCompiler(_EntryCompiler):
    lowering = _PartLowering


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
        given = {**options, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions=given, pipeline_class=_EntryCompiler)
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


# the cache ------------------------------------------------------------------------------------------------------------


class _Implementation(CompileResultCacheImpl):
    """Numba's, without its search for a folder."""

    def __init__(self, function: Callable[..., Any]) -> None:
        code = function.__code__  # named in numba's warnings
        self._lineno, self._locator = code.co_firstlineno, SimpleNamespace(_py_file=code.co_filename)

    def reduce(self, cres: Any) -> Any:
        """What is kept of a compiled kernel: neither its types as a text, nor LLVM's code, which is for kernels that
        call this one and take its part instead. Numba reads in LLVM's code which functions the machine code has.
        """
        (name, kind, (code, _)), description, *others = super().reduce(cres)
        functions = (description.llvm_func_name, description.llvm_cpython_wrapper_name)
        stub = parse_assembly("".join(f'define void @"{function}"() {{ ret void }}\n' for function in functions))
        others = ["" if isinstance(each, str) else each for each in others]
        return ((name, kind, (code, stub.as_bitcode())), description, *others)


class _Cache(FunctionCache):
    """Numba's cache of a function, in files of our own."""

    def __init__(self, function: Callable[..., Any], place: KernelPlace) -> None:
        self._py_func, self._name = function, f"{function.__module__}.{function.__qualname__}"
        self._impl, self._cache_path = _Implementation(function), str(place.folder)
        self._cache_file = KernelFiles(place, self._name, dumps)
        self._writable = place.writable
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kept machine code, or None.

        Numba would first import everything that a kernel can call, which takes a fifth of a second. Compiling does so
        by itself. Kept code needs only the runtime, which allocates arrays.
        """
        rtsys.initialize(target_context)
        signature, (system, *processor), hashes = self._index_key(sig, target_context.codegen())
        keys = ((signature, (system, *each), hashes) for each in (processor, PROCESSOR))
        code = self._cache_file.load(*keys) if self._enabled else None
        if code is not None:
            return self._impl.rebuild(target_context, code)
        logging.getLogger("accelerated.kernel").info("compiling %s: the first use on this machine", self._name)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not (self._writable and self._enabled and self._impl.check_cachable(data)):  # said at the start
            return
        try:
            self._cache_file.save(self._index_key(sig, data.codegen), self._impl.reduce(data))
        except OSError as problem:
            warn_once("compiled kernels are not kept: %s", problem)
