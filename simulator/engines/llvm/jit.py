"""JIT compiler: LLVM IR to machine code in this process, with object code kept on disk.

Code that was compiled before is loaded in about a millisecond. The key of the cache (object_cache.py) covers the sources that
generate the code, the processor and LLVM's version.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any

from retrograd.isa.table import TABLE
from retrograd.simulator.engines.llvm import object_cache
from retrograd.simulator.engines.llvm.builder import ModuleBuilder, VectorUnit

#: Passes for straight integer code: half of the gain of LLVM's own O2, in a fraction of its time.
PASSES = (
    "always_inliner",
    "sroa",
    "simplify_cfg",
    "instruction_combine",
    "simplify_cfg",
    "instruction_combine",
    "sccp",
    "jump_threading",
    "simplify_cfg",
    "dead_store_elimination",
    "aggressive_dce",
)


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


#: processors on which LLVM takes a shift of two words into one for fast, and three other instructions take less time: on Zen 4 a checked
#: product that is added to a word took 1.67 ns, and 1.14 ns without it
_SLOW_DOUBLE_SHIFTS = ("znver3", "znver4")


class JitCompiler:
    """LLVM for the processor of this process. There is one for a process: `jit_compiler()`."""

    def __init__(self) -> None:
        # Imported here: it takes a tenth of a second, which only compiling needs.
        import llvmlite
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        self._llvm = llvm
        self._lock = RLock()
        self.triple: str = llvm.get_process_triple()
        self.cpu: str = llvm.get_host_cpu_name()
        self._features: str = llvm.get_host_cpu_features().flatten()
        if self.cpu in _SLOW_DOUBLE_SHIFTS:
            self._features += ",+slow-shld"
        self._machines: dict[int, Any] = {}
        self._linker: Any = None
        self._linked: dict[str, dict[str, int]] = {}
        self._libraries = 0
        self._keep: list[Any] = []
        arm = platform.machine().lower() in ("aarch64", "arm64")
        x86 = platform.machine().lower() in ("x86_64", "amd64")
        #: the convention of calls between handlers: only arguments stay in registers, where the target has such a convention
        self.convention = "preserve_nonecc" if (x86 or arm) and sys.platform != "win32" else "tailcc"
        constraints = "={ax},={dx},r,{ax},{dx},~{flags},~{dirflag},~{fpsr}"
        #: the instruction that divides two words by one, with its constraints
        self.divide = ("divq $2", constraints) if x86 else None
        features = set(self._features.split(","))
        wide = {"+avx512f", "+avx512dq", "+avx512vl"} <= features
        #: loops are unrolled: long rows are copied faster, and short programs take twice as long to compile
        self.unrolling = True
        #: instances of a batch that run side by side; 1 where they gain nothing
        self.lanes = 8 if wide else 4 if "+avx2" in features else 1
        #: instances that take different ways gain, too: memory is read and written in some lanes only
        self.diverging = wide
        #: the vector unit for the loops of a single run
        threads = sys.platform != "win32" and cores() > 1
        narrow = VectorUnit(4, True, threads) if "+avx2" in features else VectorUnit(2, False)
        self.vector_unit = VectorUnit(8, True, threads) if wide else narrow
        version = f"{llvmlite.__version__} {llvm.llvm_version_info} {self.triple} {self.cpu} {self._features}"
        self._digest = sha256(f"{version} {self.vector_unit}".encode()).hexdigest()

    def module(self) -> ModuleBuilder:
        """A new module for this processor."""
        return ModuleBuilder(divide=self.divide, vector_unit=self.vector_unit)

    def _machine(self, level: int) -> Any:
        found = self._machines.get(level)
        if found is None:
            target = self._llvm.Target.from_triple(self.triple)
            found = target.create_target_machine(cpu=self.cpu, features=self._features, opt=level, jit=True)
            self._machines[level] = found
        return found

    def compile(self, text: str, level: int) -> bytes:
        """Object code of a module."""
        with self._lock:
            llvm = self._llvm
            machine = self._machine(level)
            module = llvm.parse_assembly(text)
            module.triple = self.triple
            module.data_layout = str(machine.target_data)
            self._optimise(module, machine, level)
            return bytes(machine.emit_object(module))

    def assembly(self, text: str, level: int) -> str:
        """The module as assembly of this processor."""
        with self._lock:
            machine = self._machine(level)
            module = self._llvm.parse_assembly(text)
            module.triple = self.triple
            module.data_layout = str(machine.target_data)
            self._optimise(module, machine, level)
            return str(machine.emit_assembly(module))

    def _optimise(self, module: Any, machine: Any, level: int) -> None:
        """Level 2: all passes of O2 except vectorisation; level 1: PASSES; level 0: none."""
        llvm = self._llvm
        if level == 0:
            return
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_unrolling = self.unrolling
        builder = llvm.create_pass_builder(machine, options)
        if level > 1:
            builder.getModulePassManager().run(module, builder)
            return
        passes = llvm.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        passes.run(module, builder)

    def device_assembly(self, text: str, arch: str, level: int) -> str:
        """The module as PTX for a compute capability."""
        llvm = self._llvm
        with self._lock:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
            # At its highest level the code generator takes minutes for long straight code.
            machine = target.create_target_machine(cpu=arch, opt=3 if level > 1 else 0)
            module = llvm.parse_assembly(text)
            module.data_layout = str(machine.target_data)
            self._optimise(module, machine, level)
            return str(machine.emit_assembly(module))

    def kept(self, key: str, make: Callable[[], str]) -> str:
        """The text that `make` returns for the key, made once and then kept on disk."""
        full = self._key(key, 0)
        found = object_cache.read(full)
        if found is not None:
            try:
                return found.decode()
            except UnicodeDecodeError:
                pass  # no text of ours
        made = make()
        object_cache.write(full, made.encode())
        return made

    def load(self, key: str, symbols: Iterable[str], emit: Callable[[], str], level: int = 2) -> dict[str, int]:
        """symbol -> address of its code, in the module that `emit` returns as text.

        `key` determines the module: modules of the same key are compiled once, and then kept.
        """
        full = self._key(key, level)
        with self._lock:
            found = self._linked.get(full)
            if found is None:
                found = self._linked[full] = self._read(full, symbols) or self._make(full, symbols, emit, level)
            return found

    def _read(self, key: str, symbols: Iterable[str]) -> dict[str, int] | None:
        """The code that is kept for the key; None where LLVM can load none."""
        code = object_cache.read(key)
        if code is None:
            return None
        try:
            return self._link(code, symbols)
        except RuntimeError:
            return None

    def _make(self, key: str, symbols: Iterable[str], emit: Callable[[], str], level: int) -> dict[str, int]:
        code = self.compile(emit(), level)
        object_cache.write(key, code)
        return self._link(code, symbols)

    def take(self, key: str, symbols: Iterable[str], code: bytes, level: int) -> dict[str, int]:
        """symbol -> address, in code that another process has compiled for the key. It is kept as that of `load`."""
        full = self._key(key, level)
        object_cache.write(full, code)
        with self._lock:
            found = self._linked.get(full)
            if found is None:
                found = self._linked[full] = self._link(code, symbols)
            return found

    def _key(self, key: str, level: int) -> str:
        return sha256(f"{self._digest} {level} {key}".encode()).hexdigest()

    def has(self, key: str, level: int = 2) -> bool:
        """Whether the module of that key need not be compiled."""
        full = self._key(key, level)
        return full in self._linked or object_cache.has(full)

    def _link(self, code: bytes, symbols: Iterable[str]) -> dict[str, int]:
        llvm = self._llvm
        if self._linker is None:
            self._linker = llvm.create_lljit_compiler(self._machine(2))
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        names = list(symbols)
        self._libraries += 1  # the name of a library that could not be linked stays taken
        for symbol in names:
            library = library.export_symbol(symbol)
        tracker = library.link(self._linker, str(self._libraries))
        # The code lives as long as its tracker.
        self._keep.append(tracker)
        return {symbol: tracker[symbol] for symbol in names}


_starting = RLock()


@cache
def _jit_compiler() -> JitCompiler:
    return JitCompiler()


def jit_compiler() -> JitCompiler:
    """The compiler of this process, shared by all threads, because code is unmapped with the compiler that made it."""
    with _starting:
        return _jit_compiler()


def source_digest() -> str:
    """The digest of all sources that determine generated code: the definition and the generators, and the user's own instructions."""
    return package_digest() + TABLE.own_digest()


@cache
def package_digest() -> str:
    """The digest of the package's own sources."""
    import retrograd.isa
    import retrograd.simulator

    digest = sha256()
    for package in (retrograd.isa, retrograd.simulator):
        for folder in package.__path__:
            for file in sorted(Path(folder).rglob("*.py")):
                digest.update(file.read_bytes())
    return digest.hexdigest()
