"""Warp on the CPU: kernels of `retrograd.benchmarks.peers.warp_kernels`, and the adjoints that Warp makes of them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from retrograd.benchmarks.peers import Prepared
from retrograd.benchmarks.workload import Measurements, Numbers


@functools.cache
def _warp() -> Any:
    import warp

    warp.config.quiet = True
    if hasattr(warp, "LOG_ERROR"):  # the setting of newer versions
        warp.config.log_level = warp.LOG_ERROR
    warp.init()
    return warp


def _kernels() -> Any:
    """The kernels, imported after Warp has been set to be quiet."""
    _warp()
    from retrograd.benchmarks.peers import warp_kernels as gpu_warp

    return gpu_warp


def _there(*arrays: Any) -> list[Any]:
    return [_warp().array(a, dtype=_warp().float64, device="cpu") for a in arrays]


def _launch(kernel: Any, count: int, inputs: list[Any], outputs: list[Any], **more: Any) -> None:
    _warp().launch(kernel, dim=count, inputs=inputs, outputs=outputs, device="cpu", **more)


FIXED = "always nine terms: the adjoint of a loop that is not unrolled loses overwritten values"


def _bessel(d: Numbers) -> Prepared:
    kernels = _kernels()
    z, out = _there(d.z, np.zeros_like(d.z))
    return Prepared(lambda: _launch(kernels.bessel, len(d.z), [z], [out]), lambda _: out.numpy(), FIXED)


def _bessel_gradient(d: Numbers) -> Prepared:
    kernels = _kernels()
    z, out, by_z, by_out = _there(d.z, np.zeros_like(d.z), np.zeros_like(d.z), np.ones_like(d.z))

    def call() -> None:
        by_z.zero_()
        by_out.fill_(1.0)
        _launch(kernels.bessel, len(d.z), [z], [out], adj_inputs=[by_z], adj_outputs=[by_out], adjoint=True)

    return Prepared(call, lambda _: by_z.numpy(), FIXED)


def _errors(d: Measurements) -> Prepared:
    kernels = _kernels()
    *inputs, out = _there(*d.arguments, np.zeros_like(d.features))
    return Prepared(lambda: _launch(kernels.errors, len(d.weights), inputs, [out]), lambda _: out.numpy())


def _jacobian(d: Measurements) -> Prepared:
    kernels = _kernels()
    warp, count = _warp(), len(d.weights)
    *inputs, out = _there(*d.arguments, np.zeros_like(d.features))
    rows = [_there(*(np.zeros_like(part) for part in d.arguments)) for _ in range(2)]
    seed = np.zeros((2, count, 2))
    seed[0, :, 0] = seed[1, :, 1] = 1.0
    kept, adjoints = _there(*seed), _there(*seed)

    def call() -> None:
        for row, one, of_out in zip(rows, kept, adjoints, strict=True):
            for part in row:
                part.zero_()
            warp.copy(of_out, one)
            _launch(kernels.errors, count, inputs, [out], adj_inputs=row, adj_outputs=[of_out], adjoint=True)

    def read(_: Any) -> Any:
        whole = [np.concatenate([c.numpy(), p.numpy(), w.numpy()[:, None]], axis=1) for c, p, w, _ in rows]
        return np.stack(whole, axis=1)

    return Prepared(call, read, "a launch for each row of the blocks")


TASKS: dict[tuple[type, str], Any] = {
    (Numbers, "value"): _bessel,
    (Numbers, "gradient"): _bessel_gradient,
    (Measurements, "value"): _errors,
    (Measurements, "jacobian"): _jacobian,
}
