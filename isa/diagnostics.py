"""Diagnostics: an error has a message, a place, a reason and a fix, under a code that never changes its meaning."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from heapq import nlargest
from types import FrameType, TracebackType
from typing import NamedTuple, ParamSpec, TypeVar


class Span(NamedTuple):
    """A piece of one line of a source: lines and columns count from 1, `end` is one past the last column."""

    file: str
    line: int
    column: int = 1
    end: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def lines(self) -> list[tuple[str, int]]:
        """(file, line) of the place, and of the calls to which it was copied, the outermost last."""
        return [(self.file, self.line)]


class CalledSpan(Span):
    """A place in a function that was copied to its call; `caller` is the place of the call. Comparison ignores `caller`."""

    caller: Span

    @staticmethod
    def at(span: Span, caller: Span) -> CalledSpan:
        """The span, called there; the outermost call of several is the last."""
        made = CalledSpan(*span)
        made.caller = CalledSpan.at(span.caller, caller) if isinstance(span, CalledSpan) else caller
        return made

    def lines(self) -> list[tuple[str, int]]:
        return [(self.file, self.line), *self.caller.lines()]


def shown(file: str) -> str:
    """A file's name as messages show it: relative to the working directory where it lies below it."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # on another drive
        return file
    return file if relative.startswith("..") else relative.replace(os.sep, "/")


def statement_of(frame: FrameType) -> tuple[Span, str | None]:
    """The place of the expression that a frame of Python executes, and its line."""
    line, last, column, end = [*frame.f_code.co_positions()][frame.f_lasti // 2]
    file = frame.f_code.co_filename
    text = linecache.getline(file, line or 0).rstrip("\n")
    if line is None or line != last or column is None or end is None or not text:
        return Span(shown(file), line or frame.f_lineno), text or None
    # Columns of Python count bytes.
    columns = [len(text.encode()[:n].decode(errors="replace")) + 1 for n in (column, end)]
    return Span(shown(file), line, *columns), text


@dataclass(frozen=True)
class ErrorKind:
    """A kind of error: its code, its title, the reason, and the fix."""

    code: str
    title: str
    why: str
    fix: str


#: code -> kind of error, of the parts that have been imported; `retrograd.catalogue` has those of all parts
KINDS: dict[str, ErrorKind] = {}


def register(*rows: tuple[str, str, str, str]) -> None:
    """Add kinds of errors: (code, title, why, fix) each.

    Each part lists its own in a file `errors.py` that its package imports, so a kind is known before any of its code runs.
    RG01 assembly text, RG02 the verifier, RG03 binary images, RG04 traps and limits, RG05 the command line, RG06 numbers and
    arguments, RG07 the compiler, RG08 traps of compiled programs, RG09 laws for tests, RG10 engines and devices, RG11 energy,
    RG12 benchmarks, RG13 the debugger, RG14 reversible netlists, RG15 work on several workers. A code, once released, keeps its meaning; the code of a removed kind is not used again.

    Raises ValueError for a code that another kind has. A module that is loaded again registers its kinds again.
    """
    for row in rows:
        kind = ErrorKind(*row)
        if KINDS.setdefault(kind.code, kind) != kind:
            raise ValueError(f"two kinds of error share the code {kind.code}")


#: columns of a source line that are shown
_LONGEST_LINE = 100


@dataclass(frozen=True)
class Diagnostic:
    """One finding: its kind, its message, its place, and a fix that is more specific than that of its kind."""

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None
    #: the text of the line that `span` points into, where the source was at hand
    line: str | None = None
    severity: str = "error"
    #: the place within a function that is called at `span`
    within: Span | None = None

    def __post_init__(self) -> None:
        # Programs show the message and the hint by themselves, too: editors do.
        object.__setattr__(self, "message", printable(self.message, lines=True))
        if self.hint is not None:
            object.__setattr__(self, "hint", printable(self.hint, lines=True))

    @property
    def kind(self) -> ErrorKind:
        return KINDS[self.code]

    def render(self) -> str:
        """The message, the line with a caret, the reason and the fix."""
        out = [f"{self.severity}[{self.code}]: {printable(self.message)}"]
        if self.span is not None:
            out.append(f"  --> {printable(str(self.span))}")
            if self.line is not None:
                text, column = _window(printable(self.line.rstrip()), self.span.column)
                gutter = f"{self.span.line:>5}"
                width = max(1, min(self.span.end - self.span.column, len(text) + 1 - column))
                out.append(f"{gutter} | {text}")
                out.append(f"{' ' * len(gutter)} | {' ' * (column - 1)}{'^' * width}")
        if self.within is not None:
            out.append(f"  in: {printable(str(self.within))}")
        out.append(f"  why: {self.kind.why}")
        out.append(f"  fix: {self.hint or self.kind.fix}")
        return "\n".join(out)


_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}


def printable(text: str, *, lines: bool = False) -> str:
    """Foreign text made safe for a terminal: tabs become blanks, and other control characters become a mark.

    `lines`: ends of lines are kept. Every text that this package did not write, such as a file name or a name in a program, passes
    through this function or through `markup` before it is printed or drawn.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or (lines and c == "\n") else " " if c == "\t" else "\ufffd" for c in text)


def markup(text: str, *, lines: bool = False) -> str:
    """A text for HTML, SVG and other XML, without the characters that XML does not have: see `printable`."""
    return "".join(_ENTITIES.get(c, c) for c in printable(text, lines=lines))


def _window(text: str, column: int) -> tuple[str, int]:
    """(the part of a long line around a column, the column in it)."""
    if len(text) <= _LONGEST_LINE:
        return text, column
    begin = max(0, min(column - _LONGEST_LINE // 2, len(text) - _LONGEST_LINE))
    end = begin + _LONGEST_LINE
    head, tail = "… " if begin else "", " …" if end < len(text) else ""
    return head + text[begin:end] + tail, column - begin + len(head)


class Diagnosed(Exception):
    """An exception that carries one or more diagnostics."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    @property
    def code(self) -> str:
        """The first diagnostic's code."""
        return self.diagnostics[0].code

    def __str__(self) -> str:
        return "\n".join(d.render() for d in self.diagnostics)

    def __reduce__(self) -> tuple[object, ...]:
        # The attributes are restored without a call of the class, whose constructor may take other arguments.
        return _restored, (type(self), self.diagnostics), vars(self)


def _restored(cls: type[Diagnosed], diagnostics: tuple[Diagnostic, ...]) -> Diagnosed:
    """An error, out of a pickle; its other attributes follow."""
    error = cls.__new__(cls, *diagnostics)
    Diagnosed.__init__(error, *diagnostics)
    return error


class RetrogradError(Diagnosed):
    """The root of every error that Retrograd raises on purpose."""


class CompilerFault(Diagnosed):
    """A fault of the compiler, and not of the program. It is no RetrogradError: code that handles wrong programs lets it pass."""


class AssemblyError(RetrogradError):
    """Assembly text that is no program."""


class VerificationError(RetrogradError):
    """A program that could not run backward."""


class ImageError(RetrogradError):
    """Bytes that are no image."""


class CompileError(RetrogradError):
    """A reversible function that cannot be compiled."""


class InputError(RetrogradError):
    """Registers, memory or options that do not fit the program."""


class DeviceError(RetrogradError):
    """A device that is missing, or an operation of a device that failed."""


class PrecisionWarning(UserWarning):
    """Numbers other than 0 lose more than half of their significant bits, or become 0, when they are converted to words."""

    #: the place of a number of the source
    span: Span | None = None


_E = TypeVar("_E", bound=Exception)


def advised(error: _E, hint: str | None) -> _E:
    """The exception of an operation without a place, with a way out. The caller reads the way out by `hint_of`, and adds the place."""
    error.hint = hint  # type: ignore[attr-defined]
    return error


def hint_of(error: BaseException) -> str | None:
    """The way out that an exception carries, if any."""
    return getattr(error, "hint", None)


# ---------------------------------------------------------------------- tracebacks

#: environment variable that keeps all frames in tracebacks
FULL_TRACEBACK = "RETROGRAD_FULL_TRACEBACK"
_STANDARD_LIBRARY = (os.path.dirname(os.__file__) + os.sep, "<frozen ")
_P = ParamSpec("_P")
_T = TypeVar("_T")


def api_boundary(f: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function of the public API: a RetrogradError leaves it without the frames of Retrograd in its traceback.

    Frames of user code below it stay. Errors of other classes are not touched. A bare `raise` keeps the traceback that the
    error has, so the frame of the wrapper itself does not come back.
    """

    @wraps(f)
    def call(*args: _P.args, **keywords: _P.kwargs) -> _T:
        try:
            return f(*args, **keywords)
        except RetrogradError as error:
            shorten_traceback(error)
            raise

    return call


def shorten_traceback(error: RetrogradError) -> None:
    """Remove the frames of Retrograd and of the standard library from an error, and the errors that Retrograd caught before it.

    An error that the user was handling at the call stays in the chain. So does an error that the user's own code raised below it,
    with the frames of that code. With FULL_TRACEBACK set, nothing is removed.
    """
    if os.environ.get(FULL_TRACEBACK):
        return
    error.__traceback__ = _joined(_frames_of_others(error))
    cause, context = error.__cause__, _next_of_others(error.__context__)
    if cause is not None and _next_of_others(cause) is not cause:
        # Setting a cause hides the context, too.
        hidden = context is None
        error.__cause__ = None
        error.__suppress_context__ = hidden
    error.__context__ = context


def _frames_of_others(error: BaseException) -> list[TracebackType]:
    """The entries of a traceback that belong neither to Retrograd nor to the standard library."""
    kept, trace = [], error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not _is_ours(trace) and ("site-packages" in file or not file.startswith(_STANDARD_LIBRARY)):
            kept.append(trace)
        trace = trace.tb_next
    return kept


def _is_ours(trace: TracebackType) -> bool:
    return bool(trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "retrograd")


def _joined(entries: Sequence[TracebackType]) -> TracebackType | None:
    found: TracebackType | None = None
    for entry in reversed(entries):
        found = TracebackType(found, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return found


def _next_of_others(error: BaseException | None) -> BaseException | None:
    """The first error of a chain that concerns the user: caught by the user's code, or raised by it."""
    while error is not None:
        trace = error.__traceback__
        if trace is not None and not _is_ours(trace):
            return error  # The user was handling it.
        frames = _frames_of_others(error)
        if any("site-packages" not in entry.tb_frame.f_code.co_filename for entry in frames):
            error.__traceback__ = _joined(frames)
            error.__context__ = _next_of_others(error.__context__)
            return error
        error = error.__context__
    return None


#: the longest word that is compared, since the time grows with the square of its length; the most names that it is compared with
_LONGEST_WORD, _COMPARED = 64, 100


def nearest(word: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """`did you mean …`, or None where no name is near. If there are many names, only those with the most similar beginnings and
    ends are compared."""
    if len(word) > _LONGEST_WORD:
        return None
    among = [name for name in names if len(name) <= 2 * _LONGEST_WORD]
    if len(among) > _COMPARED:
        ends = word, word[::-1]
        among = nlargest(
            _COMPARED, among, key=lambda name: sum(_common(a, b) for a, b in zip(ends, (name, name[::-1]), strict=True))
        )
    found = get_close_matches(word, among, n=1, cutoff=cutoff)
    return f"did you mean `{found[0]}`?" if found else None


def _common(a: str, b: str) -> int:
    """The length of the longest common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a.startswith(b[:middle]) else (low, middle - 1)
    return low
