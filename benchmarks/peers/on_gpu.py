"""jax and Warp on the workloads of the GPU benchmark: float64, on the same device, with their own derivatives.

Their data lie on the device before the clock starts, and their results stay there, so their times compare with our kernels' times
without copies. The clock is the host's, around a call and the wait for it. `absent` lists peers that are missing or have no GPU.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.benchmarks.peers import by_jax as definitions
from retrograd.benchmarks.peers import flat
from retrograd.benchmarks.workload import Measurements

Reals = NDArray[np.float64]

#: instances whose rows the host makes; a larger batch repeats them
CHUNK = 1 << 20

#: whether peers may run on the CPU: for the test of the script
anywhere = False


@dataclass
class Run:
    """A computation whose data lie on the device."""

    #: starts it and waits for it
    call: Callable[[], Any]
    #: the numbers in the result of `call`
    values: Callable[[Any], Any]
    #: numbers of it that are held against a reference
    shape: tuple[int, ...]

    def sample(self) -> Reals:
        found = np.asarray(self.values(self.call()), dtype=float)
        return found[tuple(slice(n) for n in self.shape)] if self.shape else found

    def best(self, repeats: int) -> float:
        """Milliseconds."""
        times = []
        for _ in range(max(3, repeats)):
            begun = time.perf_counter()
            self.call()
            times.append(1e3 * (time.perf_counter() - begun))
        return min(times)


@dataclass(frozen=True)
class Task:
    """A task of a peer; `exact` is the reference for the first elements."""

    system: str
    prepare: Callable[[], Run]
    exact: Any
    tolerance: float
    note: str = ""


def absent() -> dict[str, str]:
    """peer -> why it takes no part."""
    found = {"jax": _jax()[1], "Warp": _warp()[1]}
    out = {name: why for name, why in found.items() if why}
    if "Warp" not in out:
        out["Warp on graph, mixture, leapfrog and wave"] = "no kernels of them are written here"
    return out


@functools.cache
def _jax() -> tuple[Any, str]:
    # It would take three quarters of the device's memory for itself.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax
    except Exception as error:  # a broken installation is absent, too
        return None, f"{type(error).__name__}: {error}"
    jax.config.update("jax_enable_x64", True)
    if jax.default_backend() != "gpu" and not anywhere:
        return None, f"its devices are {jax.devices()}"
    return jax, ""


@functools.cache
def _warp() -> tuple[Any, str]:
    try:
        import warp

        warp.config.quiet = True
        warp.init()
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    if not warp.is_cuda_available() and not anywhere:
        return None, "it finds no CUDA device"
    return warp, ""


def _tasks(
    by_jax: Callable[[], Run], by_warp: Callable[[], Run] | None, exact: Any, tolerance: float, note: str
) -> list[Task]:
    out = []
    if _jax()[0] is not None:
        out.append(Task("jax", by_jax, exact, tolerance, note))
    if _warp()[0] is not None and by_warp is not None:
        out.append(Task("Warp", by_warp, exact, tolerance))
    return out


def _jitted(
    f: Callable[..., Any], arguments: tuple[Any, ...], shape: tuple[int, ...], join: Callable[[Any], Any] = np.asarray
) -> Run:
    jax = _jax()[0]
    compiled = jax.jit(f)
    there = [jax.device_put(np.asarray(a)) for a in arguments]
    return Run(lambda: jax.block_until_ready(compiled(*there)), join, shape)


def _warp_run(kernel: Any, count: int, inputs: list[Any], output: Any, shape: tuple[int, ...]) -> Run:
    warp = _warp()[0]

    def call() -> Any:
        warp.launch(kernel, dim=count, inputs=inputs, outputs=[output])
        warp.synchronize()
        return output

    return Run(call, lambda out: out.numpy(), shape)


def _on_device(*arrays: Reals, gradients: bool = False) -> list[Any]:
    warp = _warp()[0]
    return [warp.array(a, dtype=warp.float64, requires_grad=gradients) for a in arrays]


# ---------------------------------------------------------------------- Bessel


def _z(count: int) -> Reals:
    """As `benchmarks.gpu` has them: the same from the beginning on, and again."""
    return np.resize(np.linspace(0.5, 1.5, min(count, CHUNK)), count)


def bessel_value(count: int, exact: Any) -> list[Task]:
    """J₂ of many numbers."""

    def by_jax() -> Run:
        return _jitted(_jax()[0].vmap(definitions.bessel), (_z(count),), (len(exact),))

    def by_warp() -> Run:
        from retrograd.benchmarks.peers import warp_kernels as gpu_warp

        z, out = _on_device(_z(count), np.zeros(count))
        return _warp_run(gpu_warp.bessel, count, [z], out, (len(exact),))

    return _tasks(by_jax, by_warp, exact, 1e-8, "vmap of a while loop")


def bessel_gradient(count: int, exact: Any) -> list[Task]:
    """(J₂, its slope) of many numbers."""

    def by_jax() -> Run:
        jax = _jax()[0]
        both = jax.vmap(lambda z: jax.jvp(definitions.bessel, (z,), (1.0,)))
        return _jitted(
            both, (_z(count),), (len(exact), 2), lambda found: np.stack([np.asarray(part) for part in found], axis=1)
        )

    def by_warp() -> Run:
        from retrograd.benchmarks.peers import warp_kernels as gpu_warp

        warp = _warp()[0]
        z, out, by_z, by_out = _on_device(_z(count), np.zeros(count), np.zeros(count), np.ones(count))

        def call() -> Any:
            by_z.zero_()
            by_out.fill_(1.0)
            warp.launch(gpu_warp.bessel, dim=count, inputs=[z], outputs=[out])
            warp.launch(
                gpu_warp.bessel,
                dim=count,
                inputs=[z],
                outputs=[out],
                adj_inputs=[by_z],
                adj_outputs=[by_out],
                adjoint=True,
            )
            warp.synchronize()
            return out, by_z

        return Run(call, lambda found: np.stack([part.numpy() for part in found], axis=1), (len(exact), 2))

    # The loop ends at 1e-8, and so does the sum of its slopes.
    return _tasks(by_jax, by_warp, exact, 1e-6, "forward mode: reverse mode refuses the while loop")


# ---------------------------------------------------------------------- bundle adjustment


def _repeated(data: Measurements, total: int) -> Measurements:
    """`total` measurements, which repeat the given measurements."""
    return Measurements(*(np.resize(part, (total, *part.shape[1:])) for part in data.arguments))


def _inputs(data: Measurements, total: int) -> tuple[Reals, Reals]:
    whole = _repeated(data, total)
    return whole.inputs, whole.features


def bundle_errors(data: Measurements, total: int, exact: Any) -> list[Task]:
    """The errors of all measurements."""

    def by_jax() -> Run:
        return _jitted(_jax()[0].vmap(definitions.projection_error), _inputs(data, total), np.shape(exact))

    def by_warp() -> Run:
        from retrograd.benchmarks.peers import warp_kernels as gpu_warp

        *inputs, out = _on_device(*_repeated(data, total).arguments, np.zeros((total, 2)))
        return _warp_run(gpu_warp.errors, total, inputs, out, np.shape(exact))

    return _tasks(by_jax, by_warp, exact, 1e-10, "vmap")


def bundle_jacobian(data: Measurements, total: int, exact: Any) -> list[Task]:
    """The blocks of 2 × 15."""

    def by_jax(mode: str) -> Run:
        jax = _jax()[0]
        return _jitted(
            jax.vmap(getattr(jax, mode)(definitions.projection_error)), _inputs(data, total), np.shape(exact)
        )

    def by_warp() -> Run:
        from retrograd.benchmarks.peers import warp_kernels as gpu_warp

        warp = _warp()[0]
        *inputs, out = _on_device(*_repeated(data, total).arguments, np.zeros((total, 2)))
        rows = [_on_device(*(np.zeros_like(part) for part in _repeated(data, total).arguments)) for _ in range(2)]
        seed = np.zeros((2, total, 2))
        seed[0, :, 0] = seed[1, :, 1] = 1.0
        seeds = _on_device(*seed)
        adjoints = _on_device(*seed)

        def call() -> Any:
            for row, kept, of_out in zip(rows, seeds, adjoints, strict=True):
                for part in row:
                    part.zero_()
                warp.copy(of_out, kept)
                warp.launch(
                    gpu_warp.errors, dim=total, inputs=inputs, outputs=[out], adj_inputs=row, adj_outputs=[of_out], adjoint=True
                )  # fmt: skip
            warp.synchronize()
            return rows

        def values(found: Any) -> Any:
            n = np.shape(exact)[0]
            return np.stack(
                [np.concatenate([c.numpy()[:n], p.numpy()[:n], w.numpy()[:n, None]], axis=1) for c, p, w, _ in found],
                axis=1,
            )

        return Run(call, values, np.shape(exact))

    out = _tasks(lambda: by_jax("jacfwd"), by_warp, exact, 1e-9, "vmap of jacfwd")
    if out and out[0].system == "jax":
        out.insert(1, Task("jax", lambda: by_jax("jacrev"), exact, 1e-9, "vmap of jacrev"))
    return out


# ---------------------------------------------------------------------- Gaussian mixture


def mixture_value(data: Any, exact: float) -> list[Task]:
    """ADBench's objective."""

    def by_jax() -> Run:
        return _jitted(lambda a, b, c, x: definitions.mixture(a, b, c, x, data[4], data[5]), tuple(data[:4]), ())

    return _tasks(by_jax, None, exact, 1e-10, "all points in one array")


def mixture_gradient(data: Any, exact: Any) -> list[Task]:
    """Its gradient by the parameters."""

    def by_jax() -> Run:
        gradient = _jax()[0].grad(lambda a, b, c, x: definitions.mixture(a, b, c, x, data[4], data[5]), (0, 1, 2))
        return _jitted(gradient, tuple(data[:4]), (), flat)

    return _tasks(by_jax, None, exact, 1e-8, "all points in one array")


# ---------------------------------------------------------------------- graph, planets, wave


def embedding(x: Reals, pairs: Any, edges: int, total: int, exact: Any, slopes: Any) -> tuple[list[Task], list[Task]]:
    """(the losses of `total` embeddings, their gradients)"""

    def by_jax(gradient: bool) -> Run:
        jax = _jax()[0]

        def loss(one: Any) -> Any:
            return definitions.embedding(one, pairs, edges)

        whole = np.resize(x, (total, *x.shape[1:]))
        return _jitted(
            jax.vmap(jax.grad(loss) if gradient else loss), (whole,), np.shape(slopes if gradient else exact)
        )

    value = _tasks(lambda: by_jax(False), None, exact, 1e-10, "vmap")
    return value, _tasks(lambda: by_jax(True), None, slopes, 1e-8, "vmap of grad")


def planets(
    q: Reals, v: Reals, gm: Reals, steps: int, h: float, exact: Any, by_v: Any
) -> tuple[list[Task], list[Task]]:
    """(places of many systems afterwards, gradients of the Earth's first coordinate by velocities)"""

    def places(q: Any, v: Any) -> Any:
        return definitions.planets(q, v, gm, steps, h)

    def by_jax(gradient: bool) -> Run:
        jax = _jax()[0]
        f = jax.grad(lambda v, q: places(q, v)[3, 0]) if gradient else lambda v, q: places(q, v)
        return _jitted(jax.vmap(f), (v, q), np.shape(by_v if gradient else exact))

    value = _tasks(lambda: by_jax(False), None, exact, 1e-10, "vmap of scan")
    return value, _tasks(lambda: by_jax(True), None, by_v, 1e-8, "vmap of grad of scan")


def wave(
    q: Reals, p: Reals, c: Reals, seen: Reals, line: int, steps: int, exact: Any, by_c: Any
) -> tuple[list[Task], list[Task]]:
    """(the field afterwards, the gradient of the misfit by the medium)"""

    def misfit(c: Any, q: Any, p: Any) -> Any:
        return ((definitions.wave(q, p, c, steps, 2)[:, line] - seen) ** 2).sum()

    def by_jax(gradient: bool) -> Run:
        jax = _jax()[0]
        f = jax.grad(misfit) if gradient else lambda c, q, p: definitions.wave(q, p, c, steps)
        return _jitted(f, (c, q, p), ())

    value = _tasks(lambda: by_jax(False), None, exact, 1e-6, "scan")
    return value, _tasks(lambda: by_jax(True), None, by_c, 1e-6, "two levels of checkpoints")
