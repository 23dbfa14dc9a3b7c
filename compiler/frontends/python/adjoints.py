"""The user's own adjoints of functions: whether a function can be one."""

from __future__ import annotations

from typing import NoReturn

from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.source import SourceFunction


def need_adjoint(function: SourceFunction, adjoint: SourceFunction) -> None:
    """Raise RG0727 unless the parameters of `adjoint` are those of the function and cotangents of some of them, each once."""
    names = [p.name for p in function.parameters]
    own = [p.name for p in adjoint.parameters]
    cotangents = [f"d_{name}" for name in names]
    called = f"the adjoint of `{function.__name__}`"
    declared = (
        f"Declare it as `def {adjoint.__name__}({', '.join([*names, *cotangents])})`, without cotangents of ints."
    )

    def refuse(message: str, name: str = "", hint: str = declared) -> NoReturn:
        Errors(adjoint.source).fail("RG0727", message, adjoint.argument(name) or adjoint.tree, hint)

    if function.was_lowered:
        hint = f"Define the adjoint before the first use of `{function.__name__}`."
        refuse(f"`{function.__name__}` was compiled before its adjoint was defined", "", hint)
    if function.gradient_of is not None or function.variadic is not None or adjoint.variadic is not None:
        refuse(
            f"`{function.__name__}` can have no adjoint of its own",
            "",
            "Give one to a function with a fixed number of parameters.",
        )
    wrong = next((x for x, name in zip(own, names, strict=False) if x != name), None)
    if len(own) < len(names) or wrong is not None:
        refuse(f"{called} begins with the parameters {', '.join(f'`{name}`' for name in names)}", wrong or "")
    for i, name in enumerate(own[len(names) :]):
        if name not in cotangents or name in own[len(names) : len(names) + i]:
            refuse(f"`{name}` is no cotangent of a parameter of `{function.__name__}`", name)
    if len(own) == len(names):
        refuse(f"{called} has no cotangents")
