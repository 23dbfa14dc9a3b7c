"""Digests of what a change of layout must leave as it is: programs and their counts, messages, hardware, pages, schemas.

`python tests/test_frozen.py` writes tests/frozen.json anew. A commit that does so names each difference and its reason.

Each reversible function of the library and the examples is compiled at levels 0 and 1 for arguments that are drawn for
its annotations, and run once. A run that traps serves as well: the trap and the steps before it are recorded.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import random
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import rtlil
from retrograd.assembler.assemble import assemble_file
from retrograd.compiler.frontends.python.source import NOTHING
from retrograd.compiler.language.types import (
    ArrayAnnotation,
    StackAnnotation,
    StructType,
    element_of,
    scalar_of,
    static,
    struct_of,
)
from retrograd.examples.graph_embedding import EDGES
from retrograd.examples.turing import INCREMENT
from retrograd.hdl.bus.top import Coprocessor
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import bennett_states, relu
from retrograd.library.dictionaries import empty_dictionary, insert
from retrograd.library.random import PCG64, Xoshiro256
from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import Reversible

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(__file__).with_name("frozen.json")
FOLDERS = ("isa", "assembler", "simulator", "hdl", "compiler", "src/retrograd", "benchmarks")
#: steps after which a run is cut off
STEPS = 20_000
#: the length of a dimension whose name is not in LENGTHS
LENGTH = 4


@reversible
def add(total: fixed, x: fixed) -> None:
    """total += x. Inverse: −=."""
    total += x


@reversible
def positive(b: bool, x: fixed) -> None:
    """b ^= (x > 0). Inverse: itself."""
    b ^= x > 0


@reversible
def logistic(y: fixed, x: fixed) -> None:
    """y += 3.5 x (1 − x). Inverse: −=."""
    y += 3.5 * (x * (1 - x))


@reversible
def pull(out: Array[fixed, "n"], t: fixed, x: Array[fixed, "n"]) -> None:
    """out −= x (1 + t). Inverse: +=."""
    out -= x * (1 + t)


#: lengths of dimensions that others follow from
LENGTHS: dict[str, dict[str, int]] = {
    "examples.gmm.whiten": {"d": 3, "l": 3},
    "examples.gmm.log_likelihood": {"d": 3, "l": 3, "k": 2},
    "examples.gmm.gmm_objective": {"d": 3, "l": 6, "k": 2},
    "examples.mixture_training.misfit": {"d": 3, "l": 6, "k": 2},
    "examples.nice.flow": {"layers": 2},
    "examples.nice.loss": {"layers": 2},
    "examples.graph_embedding.add_distances": {"m": len(EDGES)},
    "examples.tropical.highest_energy": {"m": LENGTH - 1},
    "library.statistics.nice": {"half": 2, "layers": 2},
    "library.linear_algebra.rotate_planes": {"n": 3, "k": 3},
    "library.linear_algebra.qr": {"m": 3},
    "library.factorisations.diagonalise": {"n": 3, "k": 6},
    "library.factorisations.diagonalise_both_sides": {"m": 3, "k": 12},
    "library.factorisations.triangularise": {"n": 4, "m": 2, "t": 5},
    "library.factorisations.turn_to_triangle": {"n": 4, "t": 5},
    "library.factorisations.svd": {"n": 3, "m": 2},
    "library.factorisations._adjoint_of_svd": {"n": 3, "m": 2},
    "library.calculus.simpson": {"n": 5},
}
#: a dictionary with one key
TABLE = insert(empty_dictionary(LENGTH), 2, 0.5).d
#: places of an interpolation
ASCENDING = [0.125, 0.5, 0.75, 1.0]


@reversible
def placed(b: int, a: int, i: int):
    assert a != b


@reversible
def turned(kind: int, k: int, i: int, j: int):
    assert i >= 0


#: arguments that annotations do not give: functions, static values, arrays of any shape
GIVEN: dict[str, dict[str, Any]] = {
    **{f"library.dictionaries.{name}": {"d": TABLE, "key": 2} for name in ("full_places", "distance", "get", "add", "_last_gap")},
    "library.dictionaries.insert": {"d": TABLE, "key": 3},
    "library.dictionaries._gaps": {"d": TABLE, "key": 2, "gaps": np.zeros(LENGTH, dtype=int), "first": 0, "count": 1},
    "examples.graph_embedding.add_distances": {"pairs": EDGES},
    "examples.turing.apply": {"rule": [1, 2, 1, 2]},
    "examples.turing.run": {"q": 1, "symbol": 0, "left": [], "right": [2, 1, 2], "rules": INCREMENT},
    **{
        f"library.random.{name}": {"rng": PCG64.seeded(1)}
        for name in ["word", "uniform", "normal", "add_try", "add_below", "integer", "permutation", "bernoulli", "dropout"]
    },
    "library.factorisations.svd": {"sweeps": 4},
    "library.factorisations._adjoint_of_svd": {"sweeps": 4},
    **{f"library.calculus.{name}": {"x": 0.6, "xs": ASCENDING} for name in ("_find", "interpolate", "interpolate_cubic")},
    "library.calculus.spline": {"xs": ASCENDING},
    "library.calculus.gauss_legendre": {"f": logistic, "nodes": 3},
    "library.linear_algebra.permute": {"x": [0.25, 0.5, 0.75], "permutation": [2, 0, 1]},
    "library.linear_algebra.sort_pairs": {"x": [0.5, 0.25, 0.75], "y": [1, 2, 3], "permutation": [0, 0, 0]},
    "library.dynamics._add_slope": {"f": pull, "x": [0.25], "y": [0.5]},
    **{f"library.dynamics.{name}": {"a": pull, "x": [0.25], "v": [0.5], "steps": 2} for name in ("verlet", "yoshida4")},
    "library.dynamics.reversible_heun": {"f": pull, "y": [0.25], "z": [0.25], "steps": 2},
    "library.dynamics.rk4": {"f": pull, "y": [[0.25], [0.0], [0.0]]},
    "library.random.shuffle": {"x": [0.25, 0.5, 0.75], "rng": Xoshiro256.seeded(1)},
    "library.random.add_fraction": {"bits": 32},
    "library.linear_algebra.mapfold": {"function": relu, "fold": add},
    "library.linear_algebra.filter_into": {"predicate": positive},
    "library.linear_algebra.add_scaled": {"y": [0.25, 0.5], "x": [0.5, 0.75]},
    "library.linear_algebra.solve": {"x": np.zeros(LENGTH), "b": np.arange(1.0, LENGTH + 1)},
    "library.linear_algebra.sparse_dot_scattered": {"height": LENGTH},
    "library.time_space.bennett": {
        "step": logistic, "k": 2, "levels": 2, "states": [0.3] + [0.0] * (bennett_states(2, 2) - 1)
    },
    "library.time_space.bennett_any": {"step": logistic, "states": [0.3, 0.0, 0.0, 0.0], "steps": 3},
    "library.time_space.stride": {"step": logistic, "states": [0.3, 0.0, 0.0], "a": 0, "b": 1, "free": 2, "n": 2},
    "library.time_space.pebble_range": {"apply": placed, "a": 0, "b": 1, "free": 2, "rows": 4, "first": 0, "n": 3},
    "library.time_space.sweep_range": {"act": turned, "k": 0, "states": 2, "a": 0, "b": 4},
    "library.time_space.need_states": {"steps": 3, "states": 2},
    "library.time_space.pebble_split": {"steps": 11, "states": 4},
    "library.time_space.pebble": {"step": logistic, "level": 1, "states": [0.3, 0.0, 0.0], "a": 0, "b": 1},
}  # fmt: skip


def digest(text: str) -> str:
    """Sixteen hexadecimal digits of SHA-256."""
    return sha256(text.encode()).hexdigest()[:16]


# ---------------------------------------------------------------------- programs


def functions() -> Iterator[tuple[str, Reversible, Any]]:
    """(name, function, class of its first argument or None) of the library and the examples."""
    for package in ("library", "examples"):
        parent = importlib.import_module(f"retrograd.{package}")
        for info in pkgutil.iter_modules(parent.__path__):
            module = importlib.import_module(f"{parent.__name__}.{info.name}")
            for name, found in vars(module).items():
                if isinstance(found, Reversible) and found.fn.__module__ == module.__name__:
                    yield f"{package}.{info.name}.{name}", found, None
                elif isinstance(found, type) and found.__module__ == module.__name__:
                    for method, inner in vars(found).items():
                        if isinstance(inner, Reversible):
                            yield f"{package}.{info.name}.{name}.{method}", inner, found


def drawn(annotation: Any, lengths: dict[str, int], rng: random.Random) -> Any:
    """A value for an annotation: numbers between 0.1 and 0.9, integers 1 and 2, False."""
    if annotation is static:
        return 2
    if isinstance(annotation, ArrayAnnotation):
        dims = annotation.dims if annotation.dims is not None else (LENGTH,)
        names = {name: lengths.get(name, LENGTH) for d in dims for name in re.findall(r"[a-z]+", str(d))}
        shape = [d if isinstance(d, int) else eval(d, {}, names) for d in dims]
        element = element_of(annotation.element)
        assert element is not None, annotation
        if isinstance(element, StructType):
            values = np.empty(int(np.prod(shape)), dtype=object)
            values[:] = [drawn(annotation.element, lengths, rng) for _ in values]
            return values.reshape(shape)
        values = [drawn(annotation.element, lengths, rng) for _ in range(int(np.prod(shape)))]
        return np.array(values).reshape(shape)
    if isinstance(annotation, StackAnnotation):
        return [drawn(annotation.element, lengths, rng) for _ in range(LENGTH)]
    struct = struct_of(annotation)
    if struct is not None:
        return struct.cls(*(drawn(hint, lengths, rng) for hint in struct.cls.__retrograd_fields__.values()))
    scalar = scalar_of(annotation)
    assert scalar is not None, annotation
    if scalar.kind.value == "uint":
        return rng.randint(1, 2)
    return {"int": rng.randint(1, 2), "bool": False}.get(scalar.kind.value, round(rng.uniform(0.1, 0.9), 6))


def arguments(name: str, function: Reversible, cls: Any) -> list[Any]:
    """Arguments for a function: those of GIVEN, defaults, or drawn ones."""
    rng = random.Random(name)
    given, lengths = GIVEN.get(name, {}), LENGTHS.get(name, {})
    out = []
    for p in function.parameters:
        if p.name in given:
            out.append(given[p.name])
        elif p.default is not NOTHING:
            out.append(p.default)
        else:
            out.append(drawn(cls if p.annotation is NOTHING else p.annotation, lengths, rng))
    return out


def of_function(name: str, function: Reversible, cls: Any) -> dict[str, Any]:
    """Digests of the assembly at both levels; what a run at level 1 counts."""
    args = arguments(name, function, cls)
    code = [digest(function.with_options(level=level).assembly(*args)) for level in (0, 1)]
    trap = None
    try:
        machine = rg.run(function, *args, engine="reference", max_steps=STEPS).machine
    except ProgramTrap as error:
        machine, trap = error.machine, error.diagnostics[0].code
    return {
        "assembly": code, "steps": machine.retired, "erased": machine.erased_bits, "trap": trap,
        "counts": digest(json.dumps(machine.counts(), sort_keys=True)),
        "memory": digest(json.dumps(list(machine.memory))),
    }  # fmt: skip


def of_assembly(path: Path) -> dict[str, Any]:
    """The digest of the image of an example in assembly, and what a run counts."""
    program = assemble_file(path)
    machine = Machine(program)
    machine.run(max_steps=STEPS)
    code = digest(" ".join(str(i) for i in program.code))
    return {"assembly": code, "steps": machine.retired, "erased": machine.erased_bits}


# ---------------------------------------------------------------------- the rest


def files(pattern: str) -> str:
    """The digest of all files that match, with their names."""
    found = sorted(ROOT.glob(pattern))
    assert found, pattern
    return digest("".join(f"{path.name}\n{path.read_text()}" for path in found))


def schemas() -> list[str]:
    """The schemas that the sources name."""
    texts = (path.read_text() for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return sorted({name for text in texts for name in re.findall(r"\bretrograd\.[a-z-]+/[0-9]+\b", text)})


def frozen() -> dict[str, Any]:
    """All that is recorded."""
    top = Coprocessor(Parameters(Format(16, 8), 64, 64))
    return {
        "functions": {name: of_function(name, function, cls) for name, function, cls in functions()},
        "assembly": {path.name: of_assembly(path) for path in sorted((ROOT / "examples").glob("*.rga"))},
        "messages": {
            folder: files(f"tests/errors/{folder}/*.expected")
            for folder in ("assembly", "images", "traps", "language", "built", "commands")
        },
        "pages": {page: files(f"docs/reference/{page}.md") for page in ("isa", "timing", "errors")},
        "gates": files("hdl/flow/gates_*.json"),
        "hardware": digest(rtlil.convert(top, name="top", emit_src=False)),
        "schemas": schemas(),
    }


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Where two records differ, by the path of keys."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), f"{path}/{key}")
    elif before != after:
        yield f"{path}: {before} → {after}"


def test_nothing_has_changed() -> None:
    kept = json.loads(KEPT.read_text())
    assert len(kept["functions"]) > 90
    assert list(differences(kept, json.loads(json.dumps(frozen())))) == []


def test_a_difference_is_named() -> None:
    assert list(differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})) == ["/a/c: 2 → 3"]
    assert list(differences({"a": 1}, {})) == ["/a: 1 → None"]


if __name__ == "__main__":
    now = json.loads(json.dumps(frozen()))
    for line in differences(json.loads(KEPT.read_text()) if KEPT.is_file() else {}, now):
        print(line[:200])
    KEPT.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    sys.exit(0)
