"""The inverse program of a program of Janus (Yokoyama and Glück, A reversible programming language and its invertible self-interpreter).

    I(x += e) = x −= e          I(if p then s else t fi q) = if q then I(s) else I(t) fi p          I(s t) = I(t) I(s)
    I(call f) = call f          I(from p do s loop t until q) = from q do I(s) loop I(t) until p

Every procedure is replaced by its inverse, so a `call` stays a `call`. The inverse of the inverse is the program.
"""

from __future__ import annotations

from dataclasses import replace

from retrograd.compiler.frontends.janus import syntax

_UPDATES = {"+=": "-=", "-=": "+=", "^=": "^="}


def inverted(program: syntax.Program, main: bool = True) -> syntax.Program:
    """The inverse of a program, which runs from the final values of the variables to their initial values.

    `main` false: the statements of `main` stay, as in the inverse that the Jana interpreter prints; so `main` runs the inverses of
    the procedures that it calls.
    """
    return replace(
        program,
        procedures=tuple(
            p if p.name == "main" and not main else replace(p, body=_body(p.body)) for p in program.procedures
        ),
    )


def _body(body: syntax.Body) -> syntax.Body:
    return tuple(_statement(s) for s in reversed(body))


def _statement(s: syntax.Statement) -> syntax.Statement:
    match s:
        case syntax.Update():
            return replace(s, operator=_UPDATES[s.operator])
        case syntax.If():
            return replace(s, condition=s.exit, then=_body(s.then), orelse=_body(s.orelse), exit=s.condition)
        case syntax.Loop():
            return replace(s, entry=s.exit, do=_body(s.do), loop=_body(s.loop), exit=s.entry)
        case syntax.Iterate():
            return replace(s, start=s.stop, step=_negated(s.step), stop=s.start, body=_body(s.body))
        case syntax.Local():
            return replace(s, declarations=s.releases, body=_body(s.body), releases=s.declarations)
        case syntax.Push():
            return syntax.Pop(s.value, s.stack, span=s.span)
        case syntax.Pop():
            return syntax.Push(s.value, s.stack, span=s.span)
    return s


def _negated(step: syntax.Expression | None) -> syntax.Expression | None:
    """−step; None is a step of 1."""
    match step:
        case None:
            return syntax.Number(-1, span=syntax.NOWHERE)
        case syntax.Number(value=-1):
            return None
        case syntax.Number(value=value):
            return replace(step, value=-value)
        case syntax.Binary(operator="-", left=syntax.Number(value=0), right=x):
            return x
    return syntax.Binary("-", syntax.Number(0, span=step.span), step, span=step.span)
