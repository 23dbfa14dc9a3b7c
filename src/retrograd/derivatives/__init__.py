"""Derivatives: Python functions made from a reversible one, which run the gradient program or the tangent program of that.

    arguments             which arguments, of which types; cotangents and tangents as words and as Python values
    programs              tangent, gradient and second-order programs of a compiled function
    gradient_requests     a request for a gradient, and the program that answers it
    gradients, batches    grad, value_and_grad; the same of a batch
    pullbacks             vjp
    jacobians             jacobian; rows that share no column run together
    tangents              jvp, hvp, hessian
    reversible_gradients  reversible_gradient: the gradient as a reversible function, to be called within others
    reports               gradient_report: the cost of a gradient in differentiation mode

Order of imports: values → functions → batch → differentiation → pricing. Start with `gradients.py`.
"""

from __future__ import annotations

from retrograd.derivatives._gradients import grad, value_and_grad
from retrograd.derivatives._jacobians import GradientReport, SparseJacobian, gradient_report, jacobian
from retrograd.derivatives._requests import vjp
from retrograd.derivatives._reversible_gradients import ReversibleGradient, reversible_gradient
from retrograd.derivatives._tangents import hessian, hvp, jvp
from retrograd.runtime._reversible import NotDifferentiable

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
