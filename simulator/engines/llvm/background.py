"""Background compilation: another process optimises modules while this process runs the code that it has.

    BackgroundCompiler().compile(emit, level)  ->  Future of JitCompiler.compile(emit(), level)
    BackgroundCompiler().run(emit, program)    ->  Future of the answer of another compiler's program to emit()

A process of its own, not a thread, since llvmlite holds one lock during each call of LLVM: this process could neither compile nor load
other code while a thread optimises. One module is compiled at a time, at low priority. The process ends with its module, at
the exit of this process, or where a pipe breaks; it ignores Ctrl-C. A thread of this process emits the module, waits for the
object code and fulfils the future.

Traps: a forked process has no thread, so its futures of before the fork stay pending; `TieredCode` begins those anew. Where no process
can be started, the thread compiles, and other compilation waits for it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from threading import RLock, Thread

from retrograd.simulator.engines.llvm.jit import jit_compiler

#: the program of the process. It finds modules where this process finds them.
_PROGRAM = "import sys; sys.path[:] = {!r}; {}"
_SERVE = "from retrograd.simulator.engines.llvm.background import serve; serve({})"
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
_starting = RLock()


def background(name: str = "llvm") -> BackgroundCompiler:
    """The background compiler of that name in this process, begun when it is first used. Those of different names work side by side."""
    with _starting:
        if name not in _compilers:
            _compilers[name] = BackgroundCompiler()
        return _compilers[name]


def _forked() -> None:
    for compiler in _compilers.values():
        compiler.abandon()
    _compilers.clear()
    _starting.release()


if hasattr(os, "register_at_fork"):
    # The lock is held during a fork, so that no thread of the parent holds it in the child.
    os.register_at_fork(before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_forked)
