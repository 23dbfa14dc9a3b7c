"""The optimiser: passes in a row, each a function from module to module that keeps the program's meaning.

    optimise(module) = passₙ( … pass₂(pass₁(module)))

Level 0 is the module as it is; level 1, the default, all passes below.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from retrograd.compiler.ir import Module
from retrograd.compiler.passes.accumulate import accumulate
from retrograd.compiler.passes.cancel_pairs import cancel_pairs
from retrograd.compiler.passes.drop_checks import drop_checks
from retrograd.compiler.passes.drop_dead import drop_dead
from retrograd.compiler.passes.fold_constants import fold_constants
from retrograd.compiler.passes.inline import inline
from retrograd.compiler.passes.keep_temporaries import keep_temporaries
from retrograd.compiler.passes.promote_arrays import promote_arrays
from retrograd.compiler.passes.reduce_strength import reduce_strength
from retrograd.compiler.passes.rename_apart import rename_apart
from retrograd.compiler.passes.share_temporaries import share_temporaries
from retrograd.compiler.passes.step_addresses import step_addresses
from retrograd.compiler.passes.unroll import unroll

Pass = Callable[[Module], Module]

#: What runs at level 1, in order. A pass may stand twice: what one does makes work for another.
PASSES: tuple[tuple[str, Pass], ...] = (
    # One body, and in it one place for every local.
    ("inline", inline),
    ("rename_apart", rename_apart),
    # Constants arrive from calls, and from loops that are unrolled.
    ("unroll", unroll),
    ("fold_constants", fold_constants),
    # What is left of memory at constant places are variables, and copies of them.
    ("promote_arrays", promote_arrays),
    ("fold_constants", fold_constants),
    ("step_addresses", step_addresses),
    ("reduce_strength", reduce_strength),
    ("drop_checks", drop_checks),
    # What a temporary only carries needs none; what is left is shared.
    ("accumulate", accumulate),
    ("cancel_pairs", cancel_pairs),
    ("share_temporaries", share_temporaries),
    # What is kept longer is shared by more.
    ("keep_temporaries", keep_temporaries),
    ("share_temporaries", share_temporaries),
    ("drop_dead", drop_dead),
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
