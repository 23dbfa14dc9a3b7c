"""Functions of whole arrays in every format: each engine by name gives the words of the reference machine.

Arrays are longer than a vector, so that loops run in lanes; batches run in lanes, too. Numbers lie near both ends of the range of a format.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from retrograd.isa.words import Format

import retrograd as rg

LENGTH = 37
FORMATS = [*(f"64,{f}" for f in (1, 16, 32, 37, 38, 40, 48, 56, 60, 62)), "32,16", "32,30", "16,8", "8,4"]
#: functions of the instruction table and of the library: (expression of x and z, least and greatest argument)
FUNCTIONS: dict[str, tuple[str, float, float]] = {
    "product": ("x * z", -1.0, 1.0),
    "quotient": ("x / z", -0.5, 0.5),
    "remainder": ("x % z", -1.0, 1.0),
    "sqrt": ("rg.sqrt(x)", 0.0, 1e18),
    "root_of_sum": ("rg.sqrt(x * x + z * z)", -0.7, 0.7),
    "abs": ("abs(x)", -1e18, 1e18),
    "exp": ("rg.exp(x)", -3.0, 0.0),
    "log": ("rg.log(x)", 0.4, 1.9),
    "sin": ("rg.sin(x)", -1.5, 1.5),
    "cos": ("rg.cos(x)", -1.5, 1.5),
    "atan2": ("rg.atan2(x, z)", -1.0, 1.0),
    "largest": ("max(x, z)", -1e18, 1e18),
    "chosen": ("rg.select(x > z, x, -z)", -1e18, 1e18),
}
MADE = """
import retrograd as rg
from retrograd import Array, fixed, reversible
"""
FUNCTION = """
@reversible
def of_arrays_{name}(y: Array[fixed, "n"], x: Array[fixed, "n"], z: Array[fixed, "n"]):
    y += {expression}

@reversible
def {name}(y: fixed, x: fixed, z: fixed):
    y += {expression}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, written: Callable[[Path, str], ModuleType]) -> ModuleType:
    text = MADE + "".join(FUNCTION.format(name=n, expression=e) for n, (e, _, _) in FUNCTIONS.items())
    return written(tmp_path_factory.mktemp("arrays") / "array_functions_of_test.py", text)


def numbers(w: Format, least: float, greatest: float, seed: str) -> np.ndarray[Any, Any]:
    """Numbers of a format within bounds: some in the middle of them, some at the ends of the format."""
    rng = random.Random(seed)
    unit, most = 2.0**-w.frac, (2.0 ** (w.width - w.frac - 1)) * (1 - 2.0**-40)
    low, high = max(least, -most), min(greatest, most)
    if low > high - 2 * unit:
        low, high = (high / 2, high) if high > 0 else (low, low / 2)
    drawn = [rng.uniform(low, high) for _ in range(LENGTH - 4)] + [low, high, high / 3, high - (high - low) * 2.0**-20]
    rng.shuffle(drawn)
    return np.array([round(v / unit) * unit for v in drawn])


def outcome(run: Any) -> Any:
    """The words, or the code of the error."""
    try:
        return run()
    except rg.RetrogradError as error:
        return error.diagnostics[0].code


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("format", FORMATS)
def test_arrays_and_batches_have_the_words_of_the_reference_machine(made: ModuleType, name: str, format: str) -> None:
    _, least, greatest = FUNCTIONS[name]
    w = Format(*map(int, format.split(",")))
    x, z = numbers(w, least, greatest, f"{name} {format}"), numbers(w, least, greatest, f"second {name} {format}")
    z = np.where(z == 0, 2.0**-w.frac, z)
    f, one = getattr(made, f"of_arrays_{name}"), getattr(made, name)
    y = np.zeros(LENGTH)

    def of_arrays(engine: str) -> Any:
        return np.asarray(rg.run(f, y, x, z, format=w, engine=engine).words["y"]).tolist()

    def of_a_batch(engine: str) -> Any:
        return np.asarray(rg.run_batch(one, y, x, z, format=w, engine=engine).values.y).tolist()

    expected = outcome(lambda: of_arrays("reference"))
    for engine in ("native", "threaded", "translated"):
        assert outcome(lambda engine=engine: of_arrays(engine)) == expected, engine
    rows = outcome(lambda: of_a_batch("reference"))
    for engine in ("native", "threaded", "translated"):
        assert outcome(lambda engine=engine: of_a_batch(engine)) == rows, engine
