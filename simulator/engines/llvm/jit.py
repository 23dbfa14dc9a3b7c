"""Cache of object code on disk, by keys.

    read(key) == code after write(key, code), in this process and in later ones; None where no sound file is found

A file holds a magic number, a checksum and the code. The checksum covers the key, so a file that was renamed is not taken for
another. Files appear whole or not at all. A file that is damaged, or that cannot be written, costs time only.

The folder may hold files of other programs. Only files whose name is a digest, and which begin with the magic number, are counted
and removed. The contents are executed. So a folder in which another user can write is not used, nor is a file of another user, which may
have been put into the folder while others could write there.
"""

from __future__ import annotations

import atexit
import os
import platform
import re
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from threading import RLock, Thread
from typing import Any

from retrograd.isa.files import distrust, read_own, write_own
from retrograd.isa.table import TABLE
from retrograd.simulator.engines.llvm.builder import ModuleBuilder, VectorUnit

_FAMILY = b"RGOBJ"
_MAGIC = _FAMILY + b"2\n"
_CHECKSUM = 32
#: the names of files of code, and of files that are still being written
_NAME = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = re.compile(r"[0-9a-f]{64}\.\w{8}\.part")

#: the size of compiled code on disk above which old files are removed
CACHE_BYTES = 256 << 20
#: seconds after which an unfinished file is taken to be left behind by a process that ended
ABANDONED = 3600.0


def cache_folder() -> Path | None:
    """The folder of object code; None where the cache is switched off (`RETROGRAD_CACHE` is empty) or there is no home."""
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


def trusted_folder(make: bool = False) -> Path | None:
    """The folder, if it is there and only this user can write in it; `make`: create it where it is missing."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = folder.stat()
    except (OSError, ValueError):
        return None
    why = distrust(about)
    if why:
        _note(folder, why)
        return None
    return folder


def has(key: str) -> bool:
    """Whether there is a file of code for the key."""
    folder = trusted_folder()
    if folder is None:
        return False
    try:
        about = os.lstat(folder / _digest(key))
    except OSError:
        return False
    return stat.S_ISREG(about.st_mode) and not distrust(about)


def read(key: str) -> bytes | None:
    """The code that was kept for the key, if it is there, sound, and this user's own."""
    folder = trusted_folder()
    if folder is None:
        return None
    content, why = read_own(folder / _digest(key))
    if content is None:
        if why:
            _note_file(folder, why)
        return None
    begin = len(_MAGIC) + _CHECKSUM
    code = content[begin:]
    return code if content[:begin] == _head(key, code) else None


def write(key: str, code: bytes) -> None:
    """Keep the code for the key, where the folder allows that."""
    folder = trusted_folder(make=True)
    if folder is not None and write_own(folder / _digest(key), _head(key, code) + code):
        _prune(folder)


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def _head(key: str, code: bytes) -> bytes:
    return _MAGIC + sha256(key.encode() + b"\0" + code).digest()


@cache
def _note(folder: Path, why: str) -> None:
    """Once in a process."""
    way = "RETROGRAD_CACHE names another folder."
    if "write" in why:
        way = f"Delete its contents, which others may have made, and then take the right away (chmod go-w). {way}"
    message = f"compiled code is neither kept in nor read from {folder}: {why}. {way}"
    warnings.warn(message, RuntimeWarning, stacklevel=2)


@cache
def _note_file(folder: Path, why: str) -> None:
    """Once in a process."""
    message = f"a file of compiled code in {folder} was not executed: {why}. Delete the contents of the folder."
    warnings.warn(message, RuntimeWarning, stacklevel=2)


@cache
def _prune(folder: Path) -> None:
    """Once in a process: remove the least recently used files above CACHE_BYTES.

    Code of earlier versions of this package is never read again, so it goes first.
    """
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process may have removed it
                about = entry.stat(follow_symlinks=False)
                if _has_our_name(entry.name, about):
                    found.append((max(about.st_atime, about.st_mtime), about.st_size, entry.path))
    size = sum(size for _, size, _ in found)
    for _, bytes_, path in sorted(found):
        if size <= CACHE_BYTES:
            break
        with suppress(OSError):
            # Read only now: reading a file makes it recently used.
            with open(path, "rb") as file:
                ours = file.read(len(_FAMILY)) == _FAMILY
            if ours:
                os.unlink(path)
        size -= bytes_


def _has_our_name(name: str, about: os.stat_result) -> bool:
    """Whether the file has a name of this cache, and no process is still writing it."""
    if not stat.S_ISREG(about.st_mode):
        return False
    if _UNFINISHED.fullmatch(name):
        return time.time() - about.st_mtime > ABANDONED
    return _NAME.fullmatch(name) is not None


# -----------------------------------------------------------------------------
# JIT compiler: LLVM IR to machine code in this process, with object code kept on disk.
#
# Code that was compiled before is loaded in about a millisecond. The key of the cache (object_cache.py) covers the sources that
# generate the code, the processor and LLVM's version.

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
#: Passes for a device. Those of LLVM's own O2 make values earlier than they are used: kernels of long straight code
#: spilled up to 340 bytes of
#: registers, and with these passes none, in as few instructions.
DEVICE_PASSES = (*PASSES[:2], "new_gvn", *PASSES[2:])


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
        if level > 1:
            builder = self._pass_builder(machine)
            builder.getModulePassManager().run(module, builder)
        elif level:
            self._run_passes(module, machine, PASSES)

    def _pass_builder(self, machine: Any) -> Any:
        options = self._llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_unrolling = self.unrolling
        return self._llvm.create_pass_builder(machine, options)

    def _run_passes(self, module: Any, machine: Any, names: Iterable[str]) -> None:
        builder, passes = self._pass_builder(machine), self._llvm.create_new_module_pass_manager()
        for name in names:
            getattr(passes, f"add_{name}_pass")()
        passes.run(module, builder)

    def device_assembly(self, text: str, arch: str, level: int) -> str:
        """The module as PTX for a compute capability.

        Level 2: DEVICE_PASSES; level 1: PASSES, and LLVM's quick code generator.
        """
        llvm = self._llvm
        with self._lock:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
            # At its highest level the code generator takes minutes for long straight code.
            machine = target.create_target_machine(cpu=arch, opt=3 if level > 1 else 0)
            module = llvm.parse_assembly(text)
            module.data_layout = str(machine.target_data)
            self._run_passes(module, machine, DEVICE_PASSES if level > 1 else PASSES)
            return str(machine.emit_assembly(module))

    def kept(self, key: str, make: Callable[[], str]) -> str:
        """The text that `make` returns for the key, made once and then kept on disk."""
        full = self._key(key, 0)
        found = read(full)
        if found is not None:
            try:
                return found.decode()
            except UnicodeDecodeError:
                pass  # no text of ours
        made = make()
        write(full, made.encode())
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
        code = read(key)
        if code is None:
            return None
        try:
            return self._link(code, symbols)
        except RuntimeError:
            return None

    def _make(self, key: str, symbols: Iterable[str], emit: Callable[[], str], level: int) -> dict[str, int]:
        code = self.compile(emit(), level)
        write(key, code)
        return self._link(code, symbols)

    def take(self, key: str, symbols: Iterable[str], code: bytes, level: int) -> dict[str, int]:
        """symbol -> address, in code that another process has compiled for the key. It is kept as that of `load`."""
        full = self._key(key, level)
        write(full, code)
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
        return full in self._linked or has(full)

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


# -----------------------------------------------------------------------------
# Background compilation: another process optimises modules while this process runs the code that it has.
#
#     BackgroundCompiler().compile(emit, level)  ->  Future of JitCompiler.compile(emit(), level)
#     BackgroundCompiler().run(emit, program)    ->  Future of the answer of another compiler's program to emit()
#
# A process of its own, not a thread, since llvmlite holds one lock during each call of LLVM: this process could neither compile nor load
# other code while a thread optimises. One module is compiled at a time, at low priority. The process ends with its module, at
# the exit of this process, or where a pipe breaks; it ignores Ctrl-C. A thread of this process emits the module, waits for the
# object code and fulfils the future.
#
# Traps: a forked process has no thread, so its futures of before the fork stay pending; `TieredCode` begins those anew. Where no process
# can be started, the thread compiles, and other compilation waits for it.

#: the program of the process. It finds modules where this process finds them.
_PROGRAM = "import sys; sys.path[:] = {!r}; {}"
_SERVE = "from retrograd.simulator.engines.llvm.jit import serve; serve({})"
#: seconds that the thread may take to notice that its process was ended
_PATIENCE = 1.0

Emit = Callable[[], str]
Compile = Callable[[str], bytes]
#: a module, the program of the other process, the compiler of this one where no process can be started, the result
_Job = tuple[Emit, str, Compile | None, "Future[bytes]"]


class BackgroundError(RuntimeError):
    """A module that could not be compiled in the background."""


class BackgroundCompiler:
    """Compiles modules in another process, one after the other. See `background`."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._lock = RLock()
        self._thread = Thread(target=self._work, name="retrograd background compiler", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def compile(self, emit: Emit, level: int) -> Future[bytes]:
        """The object code of the module that `emit` returns. The future fails with the error of `emit`, or with BackgroundError."""
        return self.run(emit, _SERVE.format(level), lambda text: jit_compiler().compile(text, level))

    def run(self, emit: Emit, program: str, otherwise: Compile | None = None) -> Future[bytes]:
        """The answer of a program of Python, which calls `answer`, to the module that `emit` returns.

        `otherwise`: compiles it in this process where no other can be started; without it the future fails there.
        """
        future: Future[bytes] = Future()
        self._jobs.put((emit, program, otherwise, future))
        return future

    def close(self) -> None:
        """End the process and the thread. Modules that are not compiled by then fail."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
        self._jobs.put(None)
        self._thread.join(_PATIENCE)
        atexit.unregister(self.close)

    def abandon(self) -> None:
        """Close the ends of the pipes in a forked process, to which the other process does not belong."""
        atexit.unregister(self.close)
        process = self._process
        for pipe in () if process is None else (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    os.close(pipe.fileno())

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closed:
            emit, program, otherwise, future = job
            try:
                code = self._compiled(emit(), program, otherwise)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(code)

    def _compiled(self, text: str, program: str, otherwise: Compile | None) -> bytes:
        process = self._started(program)
        if process is None:
            if otherwise is None:
                raise BackgroundError("no process could be started")
            return otherwise(text)
        code, errors = process.communicate(text.encode())
        with self._lock:
            self._process = None
        if process.returncode:
            last = errors.decode(errors="replace").strip().rpartition("\n")[2]
            raise BackgroundError(f"the compiler in the background ended with status {process.returncode}: {last:.500}")
        return code

    def _started(self, program: str) -> subprocess.Popen[bytes] | None:
        """A new process; None where none can be started."""
        if not sys.executable or getattr(sys, "frozen", False):
            return None
        command = [sys.executable, "-c", _PROGRAM.format(sys.path, program)]
        with self._lock:
            if self._closed:
                raise BackgroundError("this process ends")
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    # Ctrl-C goes to all processes of a session, and on Windows of a group.
                    start_new_session=True,
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                )
            except OSError:
                return None
            return self._process


def serve(level: int) -> None:
    """The program of the other process for modules of LLVM."""
    answer(lambda text: jit_compiler().compile(text, level))


def answer(compile_: Compile) -> None:
    """Compile the module from stdin at low priority, and write its code to stdout."""
    if hasattr(os, "nice"):
        os.nice(5)
    code = compile_(sys.stdin.buffer.read().decode())
    sys.stdout.buffer.write(code)
    sys.stdout.buffer.flush()


_compilers: dict[str, BackgroundCompiler] = {}
_thread_starting = RLock()


def background(name: str = "llvm") -> BackgroundCompiler:
    """The background compiler of that name in this process, begun when it is first used. Those of different names work side by side."""
    with _thread_starting:
        if name not in _compilers:
            _compilers[name] = BackgroundCompiler()
        return _compilers[name]


def _forked() -> None:
    for compiler in _compilers.values():
        compiler.abandon()
    _compilers.clear()
    _thread_starting.release()


if hasattr(os, "register_at_fork"):
    # The lock is held during a fork, so that no thread of the parent holds it in the child.
    os.register_at_fork(
        before=_thread_starting.acquire, after_in_parent=_thread_starting.release, after_in_child=_forked
    )
