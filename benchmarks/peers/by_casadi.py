"""CasADi: a graph of scalars (SX), written out as C, compiled by the system's compiler, and called for each element by a loop in C."""

from __future__ import annotations

import atexit
import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.benchmarks.peers import Prepared
from retrograd.benchmarks.workload import Embeddings, Measurements
from retrograd.isa.files import write_file

#: as one compiles numerical code for the machine at hand
FLAGS = ("-march=native", "-fPIC", "-shared")
#: bytes of source beyond which it is compiled with less effort: for a hundred thousand lines in a row -O3 takes minutes, and gains little
LONG = 1 << 20


@functools.cache
def _folder() -> Path:
    """The folder of C sources and libraries, until this process ends."""
    made = tempfile.mkdtemp(prefix="retrograd-casadi-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def _prepared(
    name: str, inputs: list[Any], output: Any, data: list[Any], shape: tuple[int, ...], note: str = ""
) -> Prepared:
    """The function as machine code, called for each row of the data by a loop in C.

    `shape`: the number of rows, then the shape of each result. Raises CalledProcessError, OSError.
    """
    import casadi

    f = casadi.Function(name, inputs, [output])
    writer = casadi.CodeGenerator(f"{name}.c")
    writer.add(f)
    writer.generate(f"{_folder()}/")
    source, library = _folder() / f"{name}.c", _folder() / f"{name}.so"
    sizes = [part.numel() for part in inputs]
    given = "".join(f"arg[{i}] = in{i} + {size} * row; " for i, size in enumerate(sizes))
    loop = (
        f"CASADI_SYMBOL_EXPORT void rows(casadi_int n, {', '.join(f'const casadi_real* in{i}' for i in range(len(sizes)))}, "
        f"casadi_real* out) {{\n"
        f"  const casadi_real* arg[{f.sz_arg() + 1}]; casadi_real* res[{f.sz_res() + 1}];\n"
        f"  static casadi_int iw[{f.sz_iw() + 1}]; static casadi_real w[{f.sz_w() + 1}];\n"
        f"  for (casadi_int row = 0; row < n; row++) {{ {given}res[0] = out + {f.nnz_out(0)} * row; "
        f"{name}(arg, res, iw, w, 0); }}\n}}\n"
    )
    write_file(source, source.read_text(encoding="utf-8") + loop)
    effort = "-O1" if source.stat().st_size > LONG else "-O3"
    subprocess.run(["cc", effort, *FLAGS, str(source), "-o", str(library), "-lm"], check=True)
    rows = ctypes.CDLL(str(library)).rows
    arrays = [np.ascontiguousarray(part, dtype=np.float64) for part in data]
    out = np.zeros((shape[0], f.nnz_out(0)))
    arguments = [ctypes.c_longlong(shape[0]), *(ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out))]

    def call() -> Any:
        assert arrays  # the pointers' owners
        rows(*arguments)
        return out

    def read(found: Any) -> Any:
        # CasADi's matrices are column by column.
        turned = found.reshape(shape[0], *shape[:0:-1])
        return turned.transpose(0, *range(len(shape) - 1, 0, -1))

    return Prepared(call, read, note)


def _embedding(d: Embeddings, what: str) -> Prepared:
    import casadi

    vertices, k = d.x.shape[1:]
    x = casadi.SX.sym("x", k, vertices)  # a vertex is a column, as its coordinates lie in memory
    lengths = [casadi.norm_2(x[:, int(i)] - x[:, int(j)]) for i, j in d.pairs]
    near, far = casadi.vertcat(*lengths[: d.edges]), casadi.vertcat(*lengths[d.edges :])

    def mean(a: Any) -> Any:
        return casadi.sum1(a) / a.numel()

    def spread(a: Any) -> Any:
        return casadi.sumsqr(a - mean(a)) / (a.numel() - 1)

    gap = mean(near) - mean(far) + 0.1
    loss = spread(near) + spread(far) + casadi.exp(casadi.fmax(gap, 0)) - 1
    flat = casadi.vec(x)
    name = f"embedding_{what}_{k}"
    if what == "value":
        return _prepared(name, [flat], loss, [d.x], (len(d.x), 1))
    if what == "gradient":
        return _prepared(name, [flat], casadi.gradient(loss, flat), [d.x], (len(d.x), vertices * k))
    whole, _ = casadi.hessian(loss, flat)
    half = casadi.cse(casadi.triu(casadi.densify(whole)))
    rows, columns = half.sparsity().get_triplet()
    done = _prepared(name, [flat], half, [d.x[:1]], (1, len(rows)))

    def read(found: Any) -> Any:
        square = np.zeros((vertices * k, vertices * k))
        square[rows, columns] = square[columns, rows] = done.read(found)[0]
        return square

    return Prepared(done.call, read, "symbolic, the upper triangle", 1)


def _projection(d: Measurements, what: str) -> Prepared:
    import casadi

    z, feature = casadi.SX.sym("z", 15), casadi.SX.sym("feature", 2)
    r, x = z[:3], z[11:14] - z[3:6]
    theta = casadi.norm_2(r)
    n = r / theta
    c = casadi.cos(theta)
    seen = c * x + casadi.sin(theta) * casadi.cross(n, x) + (1 - c) * casadi.dot(n, x) * n
    p = seen[:2] / seen[2]
    square = casadi.sumsqr(p)
    error = z[14] * (z[6] * (1 + (z[9] + z[10] * square) * square) * p + z[7:9] - feature)
    inputs, data, count = [z, feature], [d.inputs, d.features], len(d.weights)
    if what == "value":
        return _prepared("projection", inputs, error, data, (count, 2))
    blocks = casadi.densify(casadi.jacobian(error, z))
    return _prepared("blocks", inputs, blocks, data, (count, 2, 15), "symbolic")


TASKS: dict[tuple[type, str], Any] = {
    (Embeddings, "value"): lambda d: _embedding(d, "value"),
    (Embeddings, "gradient"): lambda d: _embedding(d, "gradient"),
    (Embeddings, "hessian"): lambda d: _embedding(d, "hessian"),
    (Measurements, "value"): lambda d: _projection(d, "value"),
    (Measurements, "jacobian"): lambda d: _projection(d, "jacobian"),
}
