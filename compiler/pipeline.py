"""The optimiser: a list of passes, each a function from module to module that keeps the program's meaning.

    optimise(module) = passₙ( … pass₂(pass₁(module)))

Level 0 returns the module unchanged; level 1, the default, runs all passes below.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from retrograd.compiler.ir.statements import Module
from retrograd.compiler.passes.alpha_renaming import rename_locals
from retrograd.compiler.passes.check_elimination import eliminate_checks
from retrograd.compiler.passes.common_subexpressions import eliminate_common_subexpressions
from retrograd.compiler.passes.constant_folding import fold_constants
from retrograd.compiler.passes.dead_code import eliminate_dead_code
from retrograd.compiler.passes.forward_substitution import forward_substitute
from retrograd.compiler.passes.induction_variables import reduce_induction_variables
from retrograd.compiler.passes.inlining import inline_calls
from retrograd.compiler.passes.inverse_pairs import cancel_inverse_pairs
from retrograd.compiler.passes.live_range_extension import extend_live_ranges
from retrograd.compiler.passes.loop_unrolling import unroll_loops
from retrograd.compiler.passes.scalar_replacement import replace_arrays_by_scalars
from retrograd.compiler.passes.strength_reduction import reduce_strength

Pass = Callable[[Module], Module]

#: The passes of level 1, in order. A pass stands twice where another pass makes new candidates for it.
PASSES: tuple[tuple[str, Pass], ...] = (
    # One body, and in it one birth of every local.
    ("inline_calls", inline_calls),
    ("rename_locals", rename_locals),
    # Constants arrive from calls and from unrolled loops.
    ("unroll_loops", unroll_loops),
    ("fold_constants", fold_constants),
    # Constant indices make arrays replaceable; the replaced arrays leave copies.
    ("replace_arrays_by_scalars", replace_arrays_by_scalars),
    ("fold_constants", fold_constants),
    ("reduce_induction_variables", reduce_induction_variables),
    ("reduce_strength", reduce_strength),
    ("eliminate_checks", eliminate_checks),
    # Temporaries that only carry a sum go first, so that the rest is shared.
    ("forward_substitute", forward_substitute),
    ("cancel_inverse_pairs", cancel_inverse_pairs),
    ("eliminate_common_subexpressions", eliminate_common_subexpressions),
    # Temporaries that live longer can be shared by more statements.
    ("extend_live_ranges", extend_live_ranges),
    ("eliminate_common_subexpressions", eliminate_common_subexpressions),
    ("eliminate_dead_code", eliminate_dead_code),
)

Observer = Callable[[str, Module], None]


def optimise(module: Module, level: int = 1, observe: Observer | None = None, without: Collection[str] = ()) -> Module:
    """The module with the same meaning at less cost. `observe(name, module)` sees it after each pass.

    `without`: passes that are left out. Raises ValueError for a level that is not 0 or 1.
    """
    if level not in (0, 1):
        raise ValueError(f"there is no level {level}: 0 leaves the program as it is, 1 runs all passes")
    for name, run in PASSES if level else ():
        if name in without:
            continue
        module = run(module)
        if observe is not None:
            observe(name, module)
    return module
