"""Forward mode: a function on bundles, from a function on reals.

    lifted(f)(x ⊲ x') = f(x) ⊲ J f(x)·x'        J* of Pearlmutter and Siskind

A bundle of pairs is a pair of bundles, and that of a function is its lifted code with bundles of the values that it has captured. So only
reals change: a number c in lifted code is c ⊲ 0, and the primitives of reals choose their rule by the type of their operands. Code that is
lifted n times computes with reals of n levels, all of the same order. So a value of an outer derivative is a bundle inside all
bundles of an inner one, and perturbations cannot be confused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Core


class LiftedGlobal:
    """A definition, lifted when it is needed."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def functional_core(self, captures: Any) -> core.Lambda:
        """The definition, lifted."""
        return lifted(self._of.functional_core(captures))


def lifted(f: core.Lambda) -> core.Lambda:
    """The function on bundles, made once. The functions of one letrec are lifted together."""
    if "lifted" not in f.versions:
        members = [g for _, g in f.group] or [f]
        for g in members:
            made = g.versions["lifted"] = replace(g, group=(), versions={"original": g})
        group = tuple((b, g.versions["lifted"]) for b, g in f.group)
        for g in members:
            made = g.versions["lifted"]
            made.body, made.group = _lifted(g.body), group
    return f.versions["lifted"]


def original(f: core.Lambda) -> core.Lambda | None:
    """The function that was lifted; None for others."""
    return f.versions.get("original")


def level_of(f: core.Lambda) -> int:
    """How many times a function was lifted."""
    n, below = 0, original(f)
    while below is not None:
        n, below = n + 1, original(below)
    return n


def _lifted(e: Core) -> Core:
    match e:
        case core.Number(_, at):
            return core.Primitive(BUNDLE, (e, core.Number(0.0, at)), at)
        case core.Ref() | core.Refusal():
            return e
        case core.Lambda():
            return lifted(e)
        case core.Global(function, at):
            if not hasattr(function, "lifted"):
                function.lifted = LiftedGlobal(function)
            return core.Global(function.lifted, at)
        case core.Apply(f, args, at):
            return core.Apply(_lifted(f), tuple(map(_lifted, args)), at)
        case core.Let(binding, value, body, at):
            return core.Let(binding, _lifted(value), _lifted(body), at)
        case core.LetRec(functions, body, at):
            return core.LetRec(tuple((b, lifted(f)) for b, f in functions), _lifted(body), at)
        case core.Conditional(test, then, orelse, at):
            return core.Conditional(_lifted(test), _lifted(then), _lifted(orelse), at)
        case core.Record(items, at, form):
            return core.Record(tuple(map(_lifted, items)), at, form)
        case core.Primitive(rules, args, at):
            own = rules.lifted() if hasattr(rules, "lifted") else rules
            return core.Primitive(own, tuple(map(_lifted, args)), at)
    raise AssertionError(e)


#: bundle, the primitive of the code of level 0: it is the same at all levels
BUNDLE: Any = None
