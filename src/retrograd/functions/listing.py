"""Compiled functions to be read: assembly beside the source, and what a notebook shows."""

from __future__ import annotations

import html as escape_html

from retrograd.assembler.disassemble import disassemble
from retrograd.compiler.compiled import Compiled, Options
from retrograd.functions.reversible import Reversible
from retrograd.isa.diagnostics import RetrogradError

#: lines of IR that a notebook shows unfolded
_SHOWN = 60


def assembly(compiled: Compiled) -> str:
    """The program as assembly text that assembles to it; each new line of the source stands beside its first instruction."""
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


def html(function: Reversible) -> str:
    """Signature, documentation, and the IR that a call without options runs."""
    out = [f"<div><code><b>{escape_html.escape(function.signature)}</b></code>"]
    if function.__doc__:
        out.append(f"<p>{escape_html.escape(function.__doc__.strip())}</p>")
    compiled = _default(function)
    if compiled is not None:
        from retrograd.compiler.ir.printer import as_text

        text = as_text(compiled.module)
        size = len(compiled.program.code)
        opened = " open" if text.count("\n") <= _SHOWN else ""
        types = ", ".join(f"{a.name}: {a.type}" for a in compiled.arguments)
        label = f"{size} instructions for {types}; {compiled.format}, {_shown(compiled.options)}"
        out.append(f"<details{opened}><summary>{escape_html.escape(label)}</summary>")
        out.append(f"<pre>{escape_html.escape(text)}</pre></details>")
    return "\n".join([*out, "</div>"])


def _default(function: Reversible) -> Compiled | None:
    """The function in its own format and options: for the types of its annotations, else for those that it was compiled for last."""
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
    """Options in words, those that are as by default left out but the level."""
    out = [f"level {options.level}"]
    if options.erase:
        names = "" if options.erase is True else f" of {', '.join(sorted(options.erase))}"
        out.append(f"erase mode{names}" + ("" if options.temporaries else ", temporaries uncomputed"))
    if options.stack != Options().stack:
        out.append(f"stack of {options.stack} words")
    return ", ".join(out)
