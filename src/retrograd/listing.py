"""Compiled functions to be read: assembly beside the source, and what a notebook shows."""

from __future__ import annotations

import html as escape_html

from retrograd.assembler.disassemble import disassemble
from retrograd.compiler.compiled import Compiled
from retrograd.functions import Reversible
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
    """Signature, documentation, and the IR of the version compiled last, if there is one."""
    out = [f"<div><code><b>{escape_html.escape(function.signature)}</b></code>"]
    if function.__doc__:
        out.append(f"<p>{escape_html.escape(function.__doc__.strip())}</p>")
    found = list(function._compiled.values())
    if not found:
        try:
            found = [function.compiled()]
        except RetrogradError:
            found = []
    if found:
        from retrograd.compiler.text import as_text

        compiled = found[-1]
        text = as_text(compiled.module)
        size = len(compiled.program.code)
        opened = " open" if text.count("\n") <= _SHOWN else ""
        types = ", ".join(f"{a.name}: {a.type}" for a in compiled.arguments)
        out.append(f"<details{opened}><summary>{size} instructions for {escape_html.escape(types)}</summary>")
        out.append(f"<pre>{escape_html.escape(text)}</pre></details>")
    return "\n".join([*out, "</div>"])
