"""Compiled functions as text: assembly with the source beside it, the IR, and the page that a notebook shows."""

from __future__ import annotations

from typing import Any

from retrograd.assembler.disassemble import disassemble
from retrograd.compiler.compiled import Compiled, Options
from retrograd.compiler.ir.printer import as_text
from retrograd.functions.compilation import Compilable
from retrograd.isa.diagnostics import RetrogradError, markup
from retrograd.presentation.tables import shortened_text

#: lines of IR up to which a notebook shows it unfolded
_SHOWN = 60


class Listing:
    """A module of the IR as text: `str(listing)` is indented text, `~listing` the inverse module."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def as_text(self) -> str:
        """The IR as indented text."""
        return as_text(self.module)

    def __invert__(self) -> Listing:
        return Listing(~self.module)

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return shortened_text(self.as_text())


def assembly(compiled: Compiled) -> str:
    """The program as assembly text, which assembles to the same program.

    Each line of the source is a comment at its first instruction.
    """
    source = compiled.program.source
    previous: tuple[str, int] | None = None

    def comment(pc: int) -> str | None:
        nonlocal previous
        span = source.span(pc)
        if span is None or (span.file, span.line) == previous:
            return None
        previous = (span.file, span.line)
        text = (source.line(span) or "").strip()
        return f"{span.line}: {text}"

    return disassemble(compiled.program, comment=comment)


def html(function: Compilable) -> str:
    """Signature, documentation, and the IR that a call of the function runs."""
    out = [f"<div><code><b>{markup(function.signature)}</b></code>"]
    if function.__doc__:
        out.append(f"<p>{markup(function.__doc__.strip(), lines=True)}</p>")
    compiled = _default(function)
    if compiled is not None:
        text = as_text(compiled.module)
        size = len(compiled.program.code)
        opened = " open" if text.count("\n") <= _SHOWN else ""
        types = ", ".join(f"{a.name}: {a.type}" for a in compiled.arguments)
        label = f"{size} instructions for {types}; {compiled.format}, {_shown(compiled.options)}"
        out.append(f"<details{opened}><summary>{markup(label)}</summary>")
        out.append(f"<pre>{markup(text, lines=True)}</pre></details>")
    return "\n".join([*out, "</div>"])


def _default(function: Compilable) -> Compiled | None:
    """The function in its own format and options, for the annotated types.

    Where these are open, for the types that it was compiled for last.
    """
    try:
        return function.compiled()
    except RetrogradError:
        pass
    latest = function.latest()
    try:
        return None if latest is None else function.compiled_for(tuple(a.type for a in latest.arguments))
    except RetrogradError:
        return None


def _shown(options: Options) -> str:
    """The level in words, and each option that differs from its default."""
    out = [f"level {options.level}"]
    if options.erase:
        names = "" if options.erase is True else f" of {', '.join(sorted(options.erase))}"
        out.append(f"erase mode{names}" + ("" if options.temporaries else ", temporaries uncomputed"))
    if options.stack != Options().stack:
        out.append(f"stack of {options.stack} words")
    if options.forget:
        out.append(f"calls forgotten of {', '.join(sorted(options.forget))}")
    if options.memory:
        out.append(f"{options.memory} words for results of loops")
    return ", ".join(out)
