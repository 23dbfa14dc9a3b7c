"""Operand selection: where the words of memory that a program works on are read and written, in registers or in memory.

    promote to registers → substitute temporaries → use memory operands

The first step has two versions: words that are brought in anyway stay in registers, or all words that are used often do. For each body the
version that executes fewer instructions is taken, by the cost model.
"""

from __future__ import annotations

from dataclasses import replace

from retrograd.compiler.backend.memory_operands import Surveys, use_memory_operands
from retrograd.compiler.backend.register_promotion import promote_to_registers
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.cost_model import executed
from retrograd.compiler.passes.forward_substitution import forward_substitute, substitute_erased


def select_operands(module: ir.Module, *, derived: bool = False) -> ir.Module:
    """The module with words of memory in registers or as operands, as the fewest instructions are executed.

    `derived`: erasures in the module are the compiler's own, and may be left out.
    """
    if derived:
        module = substitute_erased(module)
    surveys: Surveys = {}
    promoted = [promote_to_registers(module, erased=derived, eager=x, surveys=surveys) for x in (False, True)]
    first = _selected(module, promoted[0], derived, surveys)
    if promoted[1] is module:
        return first
    second = _selected(module, promoted[1], derived, surveys)
    w = module.format

    def better(one: ir.Block, other: ir.Block) -> ir.Block:
        return other if one is not other and executed(other, w) < executed(one, w) else one

    procedures = {
        name: replace(p, body=better(p.body, second.procedures[name].body)) for name, p in first.procedures.items()
    }
    entry, discarded = better(first.entry, second.entry), first.discarded | second.discarded
    return replace(module, entry=entry, procedures=procedures, discarded=discarded)


def _selected(module: ir.Module, promoted: ir.Module, derived: bool, surveys: Surveys) -> ir.Module:
    """The promoted version with operands in memory; where no word was promoted, no temporary has become superfluous."""
    if promoted is module:
        return use_memory_operands(module, erased=derived, surveys=surveys)
    promoted = forward_substitute(substitute_erased(promoted) if derived else promoted)
    return use_memory_operands(promoted, erased=derived)
