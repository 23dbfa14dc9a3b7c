"""Kinds of errors of stores of sweeps, and of entropies."""

from __future__ import annotations

from retrograd.isa.diagnostics import Diagnostic, InputError, register

register(
    ("RG1111", "not a store of sweeps", "The rows of sweeps are kept in an SQLite file of their own, each under a hash of all its inputs.",
     "Name a new file, or a file that a sweep by this version wrote."),
    ("RG1601", "not a distribution", "A distribution is a mapping from arguments to probabilities, from names to values that are drawn independently, a list of samples, or a "
     "function that draws arguments.",
     "docs/entropy.md has an example of each."),
    ("RG1602", "a mismatch that has no value", "The mismatch cost is finite where the prior gives a probability above 0 to all that occurs. It needs the probabilities of "
     "both distributions, and samples have none.",
     "Give probabilities, and let the prior include each value."),
    ("RG1603", "not a circuit of gates", "Each wire is an input or the output of one earlier gate, and a gate has as many inputs as its kind takes.",
     "Correct the gate that is named."),
)  # fmt: skip


def refuse(code: str, message: str, hint: str | None = None) -> InputError:
    """The error, to be raised."""
    return InputError(Diagnostic(code, message, hint=hint))
