"""What compilation takes of the process: a larger stack for deep nests, and no pauses of the garbage collector.

The compiler works by recursion over blocks and expressions. Python's limit of 1000 frames serves most functions. A deep nest, such as
an `elif` chain of 400 conditions, is compiled again in a thread whose stack has room for `_FRAMES` frames.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")
#: a function whose nesting needs more is refused
_FRAMES = 16_000
#: bytes of the thread's stack; a frame of C beside each frame of Python takes less than this share
_STACK = _FRAMES << 14
#: `deep`: whether the next compilation of the thread begins with a deep stack
_next = threading.local()


def with_deep_stack(make: Callable[[], T]) -> T:
    """make(), and if it raises RecursionError once more with a deep stack. `make` may not keep a part of the failed try."""
    begins_deep = getattr(_next, "deep", False)
    if not begins_deep:
        try:
            return make()
        except RecursionError:
            pass
    # A function that needs it for its types needs it for its program: the first try would be in vain.
    _next.deep = not begins_deep
    made: list[T] = []
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            made.append(make())
        except BaseException as error:  # raised again in the thread of the caller
            errors.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK)
    try:
        sys.setrecursionlimit(max(limit, _FRAMES))
        thread = threading.Thread(target=copy_context().run, args=(attempt,))
        thread.start()
        threading.stack_size(size)
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return made[0]


@contextmanager
def collector_paused() -> Iterator[None]:
    """In the block, cycles of garbage are not searched for, as a quarter of a compilation's time was spent on that.

    Nearly all objects of the compiler live until its end, so little is left lying. Blocks of several threads may
    overlap: the first that found the collector at work starts it again.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
