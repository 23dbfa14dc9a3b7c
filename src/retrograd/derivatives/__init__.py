"""Derivatives: Python functions made from a reversible one, which run its gradient program or its tangent program.

    _arguments             positions and types of arguments; scales; parts of arguments; cotangents and tangents as words and values
    _requests              derived programs; a request for a gradient, and the program that answers it; vjp
    _gradients             grad, value_and_grad; the same of a batch; reversible_gradient, to be called within others
    _jacobians             jacobian, whose rows that share no column run together; gradient_report
    _tangents              jvp, hvp, hessian
    _functional            functional functions and VLAD files, with derivatives as values
    _adapters              functions for JAX, and what other systems share; _torch_adapter: for Torch

It imports `runtime`; `observe`, `physics` and `hardware` build on it. Start with `_gradients.py`.
"""

from __future__ import annotations

from retrograd.derivatives._gradients import ReversibleGradient, grad, reversible_gradient, value_and_grad
from retrograd.derivatives._jacobians import GradientReport, SparseJacobian, gradient_report, jacobian
from retrograd.derivatives._requests import vjp
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
