"""Interpreter kernel: the batch loop around `interpreter.interpret`, as a kernel of numba.cuda. It runs every program of a format.

    kernel(rows, out, count, columns, shared, n, memory, stride, limit, report, status, sums, code, length, modes)

The first twelve parameters and the effect are those of `kernel_loop.emit_kernel_loop`, except that words of memory are int64s;
`code` has the decoded program. A device compiles the kernel once for each format, and once more for programs with instructions of the user's own.
The CUDA simulator runs the same source.

Summed words of a block are added in shared memory, halving the number of threads that add, and one thread of a block adds the
total to global memory. Sums are those of integers, so neither the size of blocks nor their order changes them.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.instance_loop import REPORT
from retrograd.simulator.engines.batch.layout import HEAD
from retrograd.simulator.engines.cuda.interpreter import Opcodes, all_opcodes, interpreter_source
from retrograd.simulator.engines.cuda.runtime import compiled_by_numba, numba_cuda, simulated
from retrograd.simulator.engines.llvm.background import answer, background
from retrograd.simulator.engines.llvm.jit import jit_compiler, package_digest
from retrograd.simulator.engines.state.words import DTYPES

#: the most threads in a block of a CUDA device
MOST_THREADS = 1024
#: words of the kernel's name in PTX
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")

_KERNEL = """
def batch(rows, out, count, columns, shared, n, memory, stride, limit, report, status, sums, code, length, modes):
    rows, out, shared = view(rows, 1), view(out, 1), view(shared, 1)
    columns, memory, report = view(columns, 1), view(memory, 1), view(report, 1)
    status, sums, code = view(status, 1), view(sums, 1), view(code, (length, 2))
    lower = cuda.shared.array({threads}, np.int64)
    upper = cuda.shared.array({threads}, np.int64)
    thread = cuda.threadIdx.x
    t = cuda.grid(1)
    all_threads = cuda.gridsize(1)
    given, kept, summed = columns[0], columns[2], columns[3]
    at_shared = {head} + 2 * given
    at_kept = at_shared + 2 * columns[1]
    at_summed = at_kept + 2 * kept
    i = t
    # All threads of a block go on as long as one of them has an instance, because they add up together.
    while i - thread < count:
        good = False
        if i < count:
            c = i * columns[4]
            for k in range(given):
                first = columns[{head} + 2 * k]
                for a in range(first, first + columns[{head} + 2 * k + 1]):
                    memory[a * stride + t] = (np.int64(rows[c]) << {shift}) >> {shift}
                    c += 1
            for k in range(columns[1]):
                first = columns[at_shared + 2 * k]
                for a in range(first, first + columns[at_shared + 2 * k + 1]):
                    memory[a * stride + t] = (np.int64(shared[a]) << {shift}) >> {shift}
            why, steps, lost, cycles = interpret(code, memory, t, stride, n, limit, modes)
            report[{report} * i] = steps
            report[{report} * i + 1] = lost
            report[{report} * i + 2] = cycles
            good = why == 0
            status[i] = 0 if good else 1
            if good:
                c = i * columns[5]
                for k in range(kept):
                    first = columns[at_kept + 2 * k]
                    for a in range(first, first + columns[at_kept + 2 * k + 1]):
                        out[c] = memory[a * stride + t]{mask}
                        c += 1
        c = 0
        for k in range(summed):
            first = columns[at_summed + 2 * k]
            for a in range(first, first + columns[at_summed + 2 * k + 1]):
                lower[thread] = memory[a * stride + t] & 0xFFFFFFFF if good else 0
                upper[thread] = memory[a * stride + t] >> 32 if good else 0
                half = {threads} // 2
                while half > 0:
                    cuda.syncthreads()
                    if thread < half and thread + half < cuda.blockDim.x:
                        lower[thread] += lower[thread + half]
                        upper[thread] += upper[thread + half]
                    half //= 2
                if thread == 0:
                    cuda.atomic.add(sums, 2 * c, lower[0])
                    cuda.atomic.add(sums, 2 * c + 1, upper[0])
                cuda.syncthreads()
                c += 1
        i += all_threads
"""


def kernel_source(w: Format, opcodes: Opcodes) -> str:
    """The module of the kernel, for a format. `view` makes an array of a pointer; `device` and `cuda` are defined in front of it."""
    width = max(8, w.width)
    mask = "" if w.width == width else f" & {w.mask}"
    loop = _KERNEL.format(threads=MOST_THREADS, head=HEAD, shift=64 - w.width, report=REPORT, mask=mask)
    return interpreter_source(w, opcodes) + loop


def _defined(text: str, view: Callable[..., Any]) -> Any:
    """The kernel of a module as a Python function."""
    cuda = numba_cuda()
    name = f"<interpreter {sha256(text.encode()).hexdigest()[:12]}>"
    # Numba reads the text of a function from its file.
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    scope: dict[str, Any] = {"cuda": cuda, "device": cuda.jit(device=True), "view": view, "__name__": __name__}
    exec(compile(text, name, "exec"), scope)
    return scope["batch"]


@cache
def simulated_kernel(w: Format, opcodes: Opcodes) -> Any:
    """The kernel for the CUDA simulator, which is given arrays."""
    return numba_cuda().jit(_defined(kernel_source(w, opcodes), lambda array, shape: array))


def _key(w: Format, target: str, opcodes: Opcodes) -> str:
    known = opcodes == all_opcodes()
    sources = package_digest() if known else kernel_source(w, opcodes)
    return f"interpreter kernel {sources} {w} {target}"


def is_compiled(w: Format, target: str, opcodes: Opcodes) -> bool:
    """Whether the kernel for an architecture is kept on disk; otherwise it takes about a minute to compile."""
    return simulated() or jit_compiler().has(_key(w, target, opcodes), 0)


def _compiled(text: str, width: int, target: str) -> str:
    """PTX of the kernel of a module."""
    word, many, number = DTYPES[width], np.int64, None
    parameters = [
        word, word, number, many, word, number, many, number, number, many, np.uint8, many, many, number, number,
    ]  # fmt: skip
    return compiled_by_numba(lambda view: _defined(text, view), parameters, target)


def interpreter_ptx(w: Format, target: str, opcodes: Opcodes) -> tuple[str, str]:
    """(PTX, name of the kernel in it) for an architecture. It is compiled once, then kept on disk. Needs no device."""
    text = jit_compiler().kept(_key(w, target, opcodes), lambda: _compiled(kernel_source(w, opcodes), w.width, target))
    found = _ENTRY.search(text)
    if found is None:
        raise AssertionError("the PTX of the interpreter has no kernel")
    return text, found[1]


_begun: set[tuple[Format, str, Opcodes]] = set()


def begin_interpreter(w: Format, target: str, opcodes: Opcodes) -> None:
    """Compile the kernel in another process, at low priority, and keep it on disk for batches from then on. Later calls do nothing."""
    if (w, target, opcodes) in _begun:
        return
    _begun.add((w, target, opcodes))
    key = _key(w, target, opcodes)
    program = f"from {__name__} import serve; serve({w.width}, {target!r})"
    future = background("interpreter").run(lambda: kernel_source(w, opcodes), program)

    def keep(found: Future[bytes]) -> None:
        # A kernel that cannot be compiled is left out: batches stay with their translations.
        if not found.cancelled() and found.exception() is None:
            jit_compiler().kept(key, found.result().decode)

    future.add_done_callback(keep)


def serve(width: int, target: str) -> None:
    """The program of the other process: a module from stdin, its PTX to stdout."""
    answer(lambda text: _compiled(text, width, target).encode())
