"""Comparisons of models of equal scope.

scope of a price = the parts of which nothing is missing or that have a figure:  logic, leakage, clock, memory, erasure, cooling, overhead

A price with the overhead of instructions beside one without it does not compare the technologies. Models of different scope are refused, and
can be compared on the parts that they have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.pricing.report import EnergyReport
from retrograd.simulator.energy.technology import PARTS

#: the scope that all models have in common, as a word
COMMON = "common"


def compared(reports: Sequence[EnergyReport], scope: str | None = None) -> list[EnergyReport]:
    """Reports of one run by several models, on one scope: that of all, those parts that all have in `common`, or the parts that are named.

    Parts that a model covers by other figures cannot be taken out of these. Raises InputError RG1113 where scopes differ, RG0507 for a part that
    does not exist.
    """
    scopes = [report.price.scope for report in reports]
    common = frozenset.intersection(*scopes)
    if scope is None:
        wanted = frozenset.union(*scopes)
    elif scope == COMMON:
        wanted = common
    else:
        wanted = frozenset(scope.split(","))
        for unknown in sorted(wanted - set(PARTS)):
            hint = nearest(unknown, PARTS) or f"parts: {', '.join(PARTS)}; or `{COMMON}`"
            raise InputError(Diagnostic("RG0507", f"scope: `{unknown:.40}` is no part of a system", hint=hint))
    if not wanted:
        raise InputError(Diagnostic("RG1113", "the models have no part in common"))
    if wanted - common:
        lacking = []
        for report, own in zip(reports, scopes, strict=True):
            missing = [part for part in PARTS if part in wanted - own]
            if missing:
                lacking.append(f"`{report.by.technology.id}` does not model {_listed(missing)}")
        shared = [part for part in PARTS if part in common]
        offer: str | None = f"the scope `{COMMON}` compares {_listed(shared)}" if shared else None
        raise InputError(Diagnostic("RG1113", "; ".join(lacking), hint=offer))
    if scope is None:
        return list(reports)
    return [replace(report, by=replace(report.by, scope=wanted)) for report in reports]


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
