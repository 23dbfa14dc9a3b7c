"""Derivatives by running backward.

    run forward;  L̄ := 1;  run back to `start` with cotangents;  the inputs' cotangents are ∂L/∂input

Nothing is stored on the way there: on the way back the machine computes every operand again by undoing what followed. So the
memory of a gradient is that of the program, twice, however long it runs.

    arguments    which arguments, of which types; cotangents <-> Python values
    course       one run, there and back as often as asked
    gradients    grad, value_and_grad, vjp, gradient_report
    jacobians    jacobian; rows that share no column go back together
    tangents     jvp, hvp, hessian: derivatives that run forward, as programs of their own (programs)
    functions    gradient: the gradient as a reversible function, to be called within others
"""

from retrograd.differentiation.arguments import NotDifferentiable
from retrograd.differentiation.functions import ReversibleGradient, reversible_gradient
from retrograd.differentiation.gradients import GradientReport, grad, gradient_report, value_and_grad, vjp
from retrograd.differentiation.jacobians import SparseJacobian, jacobian
from retrograd.differentiation.tangents import hessian, hvp, jvp

__all__ = [
    "GradientReport",
    "NotDifferentiable",
    "ReversibleGradient",
    "SparseJacobian",
    "grad",
    "gradient_report",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "reversible_gradient",
    "value_and_grad",
    "vjp",
]
