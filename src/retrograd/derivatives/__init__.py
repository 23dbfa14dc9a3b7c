"""Derivatives: Python functions made from a reversible one, which run its gradient program or its tangent program.

    _arguments             positions and types of arguments; scales; parts of arguments; cotangents and tangents as words and values
    _programs              tangent, gradient and second-order programs of a compiled function
    _requests              a request for a gradient, and the program that answers it; vjp
    _gradients             grad, value_and_grad; the same of a batch
    _reversible_gradients  reversible_gradient: the gradient as a reversible function, to be called within others
    _jacobians             jacobian, whose rows that share no column run together; gradient_report
    _tangents              jvp, hvp, hessian
    _functional            functional functions and VLAD files, with derivatives as values
    _adapters, _jax, _torch

It imports `runtime`; `observe`, `physics` and `hardware` build on it. Start with `_gradients.py`.
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
