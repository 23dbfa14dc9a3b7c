"""The host's compiler: LLVM IR to machine code in this process, kept on disk by what it was made from.

What is compiled once is loaded in about a millisecond ever after. The cache holds object code under the digest of its
source, of the processor and of LLVM's version; a file that is damaged, or cannot be written, only costs time.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any

_MAGIC = b"RGOBJ1\n"

#: what compiled code on disk may take
CACHE_BYTES = 256 << 20

#: What pays most for straight integer code: half of what LLVM's own O2 gains, in a fraction of its time.
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


def cache_folder() -> Path | None:
    """Where object code is kept; None where that is switched off (`RETROGRAD_CACHE` is empty) or there is no home."""
    named = os.environ.get("RETROGRAD_CACHE")
    if named is not None:
        return Path(named) if named else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "retrograd") if base and not base.startswith("~") else None


class Host:
    """The processor that this runs on, and LLVM for it. One for a process: `host()`."""

    def __init__(self) -> None:
        # Imported here: its tenth of a second is for those who compile.
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
        self._machines: dict[int, Any] = {}
        self._linker: Any = None
        self._linked: dict[str, dict[str, int]] = {}
        self._keep: list[Any] = []
        version = f"{llvmlite.__version__} {llvm.llvm_version_info} {self.triple} {self.cpu} {self._features}"
        self._digest = sha256(version.encode()).hexdigest()
        arm = platform.machine().lower() in ("aarch64", "arm64")
        x86 = platform.machine().lower() in ("x86_64", "amd64")
        #: calls between handlers keep nothing in registers but their arguments, where the target has such a convention
        self.convention = "preserve_nonecc" if (x86 or arm) and sys.platform != "win32" else "tailcc"
        constraints = "={ax},={dx},r,{ax},{dx},~{flags},~{dirflag},~{fpsr}"
        #: the instruction that divides two words by one, with its constraints
        self.divide = ("divq $2", constraints) if x86 else None
        wide = {"+avx512f", "+avx512dq", "+avx512vl"} <= set(self._features.split(","))
        #: words that the vector unit takes side by side, where it has all that takes: masks, and doubles from words and back
        self.lanes = 8 if wide else 1

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

    def _optimise(self, module: Any, machine: Any, level: int) -> None:
        """Level 2: all that LLVM does at O2 but vector code; level 1: the passes that pay; level 0: nothing."""
        llvm = self._llvm
        if level == 0:
            return
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, options)
        if level > 1:
            builder.getModulePassManager().run(module, builder)
            return
        passes = llvm.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        passes.run(module, builder)

    def assembly(self, text: str, level: int = 2) -> str:
        """The module as the host's assembly, for looking at."""
        with self._lock:
            module = self._llvm.parse_assembly(text)
            machine = self._machine(level)
            self._optimise(module, machine, level)
            return str(machine.emit_assembly(module))

    def device_assembly(self, text: str, arch: str, level: int) -> str:
        """The module as PTX for a compute capability."""
        llvm = self._llvm
        with self._lock:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
            # The code generator at its best takes minutes for long straight code.
            machine = target.create_target_machine(cpu=arch, opt=3 if level > 1 else 0)
            module = llvm.parse_assembly(text)
            module.data_layout = str(machine.target_data)
            self._optimise(module, machine, level)
            return str(machine.emit_assembly(module))

    def kept(self, key: str, make: Callable[[], bytes]) -> bytes:
        """What `make` makes of what `key` names, made once and then kept on disk."""
        digest = self._name(key, 0)
        found = _read(digest)
        if found is None:
            found = make()
            _write(digest, found)
        return found

    def load(self, key: str, symbols: Iterable[str], emit: Callable[[], str], level: int = 2) -> dict[str, int]:
        """symbol -> address of its code, of the module that `emit` writes.

        `key` names all that the module is made from; a module of the same key is compiled once and then kept.
        """
        digest = self._name(key, level)
        with self._lock:
            found = self._linked.get(digest)
            if found is None:
                code = _read(digest)
                if code is None:
                    code = self.compile(emit(), level)
                    _write(digest, code)
                found = self._linked[digest] = self._link(digest, code, symbols)
            return found

    def _name(self, key: str, level: int) -> str:
        return sha256(f"{self._digest} {level} {key}".encode()).hexdigest()

    def has(self, key: str, level: int = 2) -> bool:
        """Whether the module of that key need not be compiled."""
        name, folder = self._name(key, level), cache_folder()
        return name in self._linked or (folder is not None and (folder / name).is_file())

    def _link(self, name: str, code: bytes, symbols: Iterable[str]) -> dict[str, int]:
        llvm = self._llvm
        if self._linker is None:
            self._linker = llvm.create_lljit_compiler(self._machine(2))
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        names = list(symbols)
        for symbol in names:
            library = library.export_symbol(symbol)
        tracker = library.link(self._linker, name)
        # The code lives as long as its tracker.
        self._keep.append(tracker)
        return {symbol: tracker[symbol] for symbol in names}


_starting = RLock()


@cache
def _host() -> Host:
    return Host()


def host() -> Host:
    """This process's compiler: one for all threads, since code is unmapped with the compiler that made it."""
    with _starting:
        return _host()


@cache
def definition() -> str:
    """The digest of what code is generated from: the definition, and the generators."""
    import retrograd.isa
    import retrograd.simulator

    digest = sha256()
    for package in (retrograd.isa, retrograd.simulator):
        for folder in package.__path__:
            for file in sorted(Path(folder).rglob("*.py")):
                digest.update(file.read_bytes())
    return digest.hexdigest()


def _read(digest: str) -> bytes | None:
    folder = cache_folder()
    if folder is None:
        return None
    try:
        content = (folder / digest).read_bytes()
    except OSError:
        return None
    head, checksum, code = content[: len(_MAGIC)], content[len(_MAGIC) : len(_MAGIC) + 32], content[len(_MAGIC) + 32 :]
    return code if head == _MAGIC and sha256(code).digest() == checksum else None


def _write(digest: str, code: bytes) -> None:
    folder = cache_folder()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + sha256(code).digest() + code)
        os.replace(name, folder / digest)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        return
    _prune(folder)


@cache
def _prune(folder: Path) -> None:
    """Once in a process: what was longest unused goes, where there is more than CACHE_BYTES.

    Code of every earlier version of this package is never asked for again.
    """
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process may have taken it away
                about = entry.stat()
                if not entry.is_file():
                    continue
                found.append((max(about.st_atime, about.st_mtime), about.st_size, entry.path))
    size = sum(size for _, size, _ in found)
    for _, bytes_, path in sorted(found):
        if size <= CACHE_BYTES:
            break
        with suppress(OSError):
            os.unlink(path)
        size -= bytes_
