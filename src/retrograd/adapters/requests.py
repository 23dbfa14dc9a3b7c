"""The part of an adapter that is the same for every system: which results are returned, and which arguments are static.

Adapted(f, outputs).run(args)        (the chosen results, the pullback of all)
Adapted(f, outputs).pulled(…)        cotangents of the chosen results → cotangents of the arguments, None where there are none
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from retrograd.compiler.compiled import Precision
from retrograd.compiler.frontends.python.source import NOTHING
from retrograd.compiler.language.types import ArrayAnnotation, static
from retrograd.differentiation.arguments import Which, direction_of, is_one
from retrograd.differentiation.parts import ArgumentPart, chosen_parts
from retrograd.differentiation.pullbacks import Pullback, vjp
from retrograd.differentiation.scales import Scale
from retrograd.functions.reversible import Inverse, Reversible
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format
from retrograd.simulator.engines.tiering import engine_named
from retrograd.values.binding import bind
from retrograd.values.named import FurtherArguments
from retrograd.values.trees import is_tree


class Adapted:
    """A reversible function whose results at the positions `chosen` are returned to another system."""

    def __init__(
        self,
        f: Reversible | Inverse,
        outputs: Which,
        scale: Scale,
        engine: str,
        format: Format | str | None,
        precision: Precision | None = None,
    ) -> None:
        self.function, _ = direction_of(f)
        self.f, self.single = f, is_one(outputs)
        #: the parts that are returned, and the arguments that hold them
        self.parts = chosen_parts(f, outputs) or [ArgumentPart(i) for i in range(len(self.function.parameters))]
        self.chosen = [*dict.fromkeys(p.position for p in self.parts)]
        # Checked now: JAX raises errors of a call as its own.
        self.function.format_for(format)
        engine_named(engine)
        self.settings: dict[str, Any] = {
            "scale": scale, "engine": engine, "format": format, "precision": precision,
        }  # fmt: skip
        self.static = [p.annotation is static for p in self.function.parameters]

    def values(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters. Raises InputError."""
        values = bind(self.function, args, keywords)
        given = zip(values, self.function.parameters, strict=True)
        return [tuple(v) if p.variadic else _array(v, p.annotation) for v, p in given]

    def run(self, values: Sequence[Any]) -> tuple[list[Any], Pullback]:
        """(the chosen results at plain values, the pullback). Raises CompileError, InputError, ProgramTrap."""
        given = zip(values, self.function.parameters, strict=True)
        results, pullback = vjp(self.f, *(FurtherArguments(v) if p.variadic else v for v, p in given), **self.settings)
        return [_plain(results[i]) for i in self.chosen], pullback

    def pulled(self, pullback: Pullback, cotangents: Sequence[Any]) -> list[Any]:
        """The cotangent of each argument; None for an argument without a derivative."""
        given: list[Any] = [None] * len(self.static)
        for i, value in zip(self.chosen, cotangents, strict=True):
            given[i] = value
        found = pullback(given)._asdict()
        return [_plain(found.get(p.name)) for p in self.function.parameters]

    def returned(self, results: Sequence[Any]) -> Any:
        """The results as `outputs` chose them: one by itself, or a tuple."""
        whole = dict(zip(self.chosen, results, strict=True))
        found = [_part(whole[p.position], p.steps) for p in self.parts]
        return found[0] if self.single else tuple(found)


def _part(value: Any, steps: Sequence[str | tuple[int, ...]]) -> Any:
    """The part of a result that fields and indices lead to, by operations of the other system."""
    for step in steps:
        match step, value:
            case str(), Mapping():
                value = value[step]
            case str(), _:
                # The parts of a complex number have other names there.
                value = (
                    getattr(value, step) if hasattr(value, step) else getattr(value, {"re": "real", "im": "imag"}[step])
                )
            case (i, *rest), list() | tuple():
                value = value[i][tuple(rest)] if rest else value[i]
            case _:
                value = value[step]
    return value


def _plain(value: Any) -> Any:
    """The values of `*xs` as a tuple, which other systems take for a tree."""
    return tuple(value) if isinstance(value, FurtherArguments) else value


def _array(value: Any, annotation: Any) -> Any:
    """A list of numbers for an array as an array: other systems take a list for a tree."""
    if not isinstance(value, list | tuple) or hasattr(value, "_fields"):
        return value
    listed = isinstance(annotation, ArrayAnnotation) if annotation is not NOTHING else not is_tree(value)
    if not listed:
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        return value
    return array if array.dtype.kind in "iufbc" else value


def plain_value(value: Any) -> Any:
    """An array without axes as a number; any other value unchanged."""
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def refuse_missing(adapter: str, module: str) -> NoReturn:
    """Raise InputError: the other system is not installed."""
    hint = f"Install it, for example by `pip install {module}`."
    raise InputError(
        Diagnostic("RG0603", f"`rg.{adapter}` needs the package `{module}`, which is not installed", hint=hint)
    )
