"""Retrograd: programs that run backward, exactly.

>>> import retrograd as rg
>>> machine = rg.Machine(rg.assemble("start\\n add r1, 5\\n mul.add r2, r1, r1\\n finish"))
>>> machine.run().steps, machine.registers[2]
(3, 25)
>>> machine.run_back().steps, machine.registers[2]
(3, 0)
"""

from retrograd.lazy import attach as _attach


def _other_names() -> dict[str, str]:
    """Names of JAX, NumPy and PyTorch -> what is written here: the hint of the AttributeError."""
    arrays = "arrays are those of NumPy: pass one for an argument `Array[fixed, 'n']`"
    loops = "a loop is `for` or `while` inside a @rg.reversible or @rg.functional function, and is differentiated"
    custom = "a derivative of your own is `@f.adjoint` (docs/language.md), of a new function `rg.instruction`"
    return {
        "jit": "functions are compiled at their first call",
        "jacrev": "it is rg.jacobian", "jacfwd": "it is rg.jacobian, or a column of it rg.jvp",
        "value_and_gradient": "it is rg.value_and_grad", "gradient": "it is rg.grad", "derivative": "it is rg.grad, or rg.jvp",
        "linearize": "it is rg.jvp", "pmap": "it is rg.run_batch or rg.vmap, with `executor=` on several machines",
        "checkpoint": "a reversible loop needs none; for others there is rg.checkpoints (docs/guides/time-and-space.md)",
        "custom_vjp": custom, "custom_jvp": custom, "custom_gradient": custom,
        "stop_gradient": "name the arguments to differentiate by, as in rg.grad(f, 'x')",
        "lax": loops, "scan": loops, "cond": loops, "while_loop": loops, "fori_loop": loops,
        "numpy": arrays, "jnp": arrays, "array": arrays, "asarray": arrays, "tensor": arrays, "Tensor": arrays,
        "tree_map": "structures are dicts, lists, tuples and data classes; derivatives have the same form",
        "backward": "it is rg.grad(f)(…); running a program back is (~f)(…)", "pi": "it is math.pi",
    }  # fmt: skip


__getattr__, __dir__ = _attach(__name__, __file__, _other_names)
