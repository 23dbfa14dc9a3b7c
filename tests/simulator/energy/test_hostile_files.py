"""Whatever is written into a technology file, a file of gate counts or a quantity: it is read and priced, or refused by a diagnostic.

Lines and numbers of good files are lost, doubled, exchanged, given other values; what is read is priced in all the ways there are.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import pytest
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.counts import Counts, HostTraffic, counts_of
from retrograd.simulator.energy.gates import gates_from, load_gates
from retrograd.simulator.energy.netlists import IrreversibleShape, ReversibleShape, price_netlist, seconds_of
from retrograd.simulator.energy.pricing import PricingContext, at_frequencies, price, sensitivities
from retrograd.simulator.energy.technology import UNITS, Technology, exactly, from_file, from_text, quantity, shipped

import retrograd as rg
from retrograd.physics.report import EnergyReport

T = TypeVar("T")
MODELS = files("retrograd.simulator.energy").joinpath("models")
TEXTS = [MODELS.joinpath(f"{name}.toml").read_text(encoding="utf-8") for name in shipped()]
GATES = {
    w: json.dumps({"schema": "retrograd.gates/1", "format": {"width": w, "frac": w // 2},
                   "units": {"logic unit": {"AND": 100, "XOR": 10, "any": 3}, "ROM": {"AND": 7, "memory bits": 512}},
                   "in levels": {"levels": 30, "cells": {"AND": 120, "BUF": 900, "any": 3}}}, indent=1)
    for w in (8, 32)
}  # fmt: skip

SHAPES = (
    ReversibleShape(4, [((0, 1), (2,)), ((0,), (1,)), ((0,), (1, 3)), ((0, 1, 3), (2,))], frozenset({0, 1}), frozenset({0, 2}), 1),
    IrreversibleShape({"AND": 3, "MAJ3": 1}, {"AND": 3, "MAJ3": 1, "BUF": 9, "splitter": 2}, 7),
)  # fmt: skip

NUMBERS = (
    "0", "-0.0", "-1", "0.5", "1", "2", "1e6", "1e15", "1e30", "1e100", "1e200", "1e308", "1e400", "1e-30", "1e-300", "5e-324", "nan",
    "inf", "-inf", "9" * 300, "9" * 5000, "0x7fffffffffffffff", "0x" + "f" * 3000,
)  # fmt: skip
VALUES = (
    *NUMBERS, "true", '"x"', '""', "[]", "{}", "[1, 2]", f"[0x{'f' * 5000}]", "{ value = 1 }", "1979-05-27", "07:32:00", "[[1], [2]]", '["a"]', "'''a\nb'''",
    '"8 KiB"', '"0 KiB"', f'"{"9" * 5000} KiB"', '"kT ln2"', '"J"', '"K"', '"Hz"', '"W/W"', '"1"', '"\\u0000"', "open", "null",
    *(f'"{law}"' for law in ("operation", "cooling", "cell", "ramp", "access", "instruction", "erased bit", "dropped charge", "leakage")),
    *(f'"{cause}"' for cause in ("logic", "memory", "erasure", "clock")),
)  # fmt: skip


def counted(width: int) -> Counts:
    text = f".format {width}, {width // 2}\n.memory 3\nstart\nadd r1, 5\nmul.add r2, r1, r1\nst.add [r0+1], r2\nerase r1\nfinish"
    machine = rg.Machine(rg.assemble(text))
    machine.run()
    return counts_of(machine, HostTraffic(64, 32, 96))


COUNTS = {width: counted(width) for width in (8, 32, 64)}


def with_other_numbers(text: str, rng: random.Random) -> str:
    """One figure or two have other numbers, and no range or another."""
    lines = text.splitlines()
    for _ in range(rng.randint(1, 2)):
        i = rng.choice([n for n, line in enumerate(lines) if line.startswith("value = ")] or [0])
        while i + 1 < len(lines) and lines[i + 1].startswith(("low", "high")):
            del lines[i + 1]
        lines[i] = "open = true" if rng.random() < 0.15 else f"value = {rng.choice(NUMBERS)}"
        if rng.random() < 0.2:
            lines.insert(i + 1, f"{rng.choice(['low', 'high'])} = {rng.choice(NUMBERS)}")
    return "\n".join(lines)


def damaged(text: str, rng: random.Random, equals: str = " = ") -> str:
    """Lines are lost, doubled, exchanged, given other values, and signs put into them."""
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(8):
            case 0 if len(lines) > 2:
                del lines[i]
            case 1:
                lines.insert(i, lines[j])
            case 2:
                lines[i], lines[j] = lines[j], lines[i]
            case 3:
                at = rng.randrange(len(lines[i]) + 1)
                lines[i] = lines[i][:at] + rng.choice('[]="#.{}\\x,:\0é') + lines[i][at:]
            case _:
                lines[i] = f"{lines[i].partition(equals)[0]}{equals}{rng.choice(VALUES)}"
    return "\n".join(lines)


def priced(model: Technology, rng: random.Random) -> None:
    """All that is made of a model: prices, curves, sensitivities, reports. A number that JSON has not is a fault."""
    given = {
        name: exactly(float(rng.choice([*NUMBERS[3:12], "1e-9", "1e-15"]))) for name in model.open if rng.random() < 0.7
    }
    model = model.with_figures(given)
    width = rng.choice((8, 32, 64))
    gates = gates_from(json.loads(GATES[width]), "gates.json") if width in GATES else None
    json.dumps(price(COUNTS[width], model, gates=gates).as_dict(), allow_nan=False)
    for shape in SHAPES:
        found = price_netlist(shape, model, garbage=rng.choice(("erased", "left")))
        json.dumps(found.as_dict(), allow_nan=False)
        seconds_of(shape, found)
    at_frequencies(COUNTS[width], model, gates, points=3)
    sensitivities(COUNTS[width], model, gates)
    if rng.random() < 0.2:
        report = EnergyReport("f", PricingContext(model, gates=gates), COUNTS[width], "reference", COUNTS[width])
        json.dumps(report.as_dict(), allow_nan=False)
        assert str(report)
        assert report._repr_html_()


def attempted(read: Callable[..., T], *args: Any) -> T | InputError:
    try:
        return read(*args)
    except InputError as error:
        return error


def hostile_models(seed: int, inputs: int) -> None:
    rng = random.Random(seed)
    read = refused = 0
    for _ in range(inputs):
        text = rng.choice((with_other_numbers, damaged))(rng.choice(TEXTS), rng)
        model = attempted(from_text, text, "mine.toml")
        if isinstance(model, InputError):
            refused += 1
            assert model.code.startswith("RG11"), text
            assert model.diagnostics[0].span is not None, text
            continue
        read += 1
        error = attempted(priced, model, rng)
        assert error is None or error.code in ("RG0507", "RG1112"), text
    assert read > inputs / 20
    assert refused > inputs / 4


def hostile_gates(seed: int, inputs: int) -> None:
    rng = random.Random(seed)
    model = from_text(TEXTS[shipped().index("aqfp")], "aqfp.toml")
    read = 0
    for _ in range(inputs):
        text = damaged(GATES[32], rng, ": ")
        try:
            document = json.loads(text)
        except ValueError:
            continue
        found = attempted(gates_from, document, "gates.json")
        if isinstance(found, InputError):
            assert found.code == "RG1110", text
            continue
        read += 1
        json.dumps(price(COUNTS[32], model, gates=found).as_dict(), allow_nan=False)
    assert read > inputs / 100


def hostile_quantities(seed: int, inputs: int) -> None:
    rng = random.Random(seed)
    units = [*UNITS, "", "furlong", "kT ln2 ", "W/", "Ωm"]
    read = 0
    for _ in range(inputs):
        numbers = ":".join(rng.choice(NUMBERS) for _ in range(rng.choice((1, 1, 2, 3))))
        text = f"{numbers}{rng.choice(('', ' '))}{rng.choice(units)}"
        if rng.random() < 0.3:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice("eE.:+-_ \0é٣") + text[at:]
        measures = rng.choice(["energy", "frequency", "temperature", "resistance", "ratio of powers", "number"])
        found = attempted(quantity, text, measures, "it")
        if isinstance(found, InputError):
            assert found.code in ("RG0507", "RG1105"), text
            assert len(found.diagnostics[0].message) < 160
            continue
        read += 1
        assert 0 <= found[0] <= found[1] <= found[2] < math.inf
    assert read > inputs / 100


HOSTILE: dict[str, Callable[[int, int], None]] = {
    "models": hostile_models, "gates": hostile_gates, "quantities": hostile_quantities,
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_is_written_is_read_or_refused(kind: str) -> None:
    HOSTILE[kind](0, 250)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("kind", HOSTILE)
def test_ten_thousand_times(kind: str, seed: int) -> None:
    HOSTILE[kind](seed, 3000)


@pytest.mark.parametrize("given", [b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"a = 1\r\n", b"[" * 3000, b"{" * 3000])
def test_bytes(tmp_path: Path, given: bytes) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(given)
    with pytest.raises(InputError, match="RG1102"):
        from_file(path)
    with pytest.raises(InputError, match="RG1110"):
        load_gates(path)


@pytest.mark.parametrize("name", ["bits", "capacity", "value", "schema", "covered", "id", "unit"])
@pytest.mark.parametrize("given", ["0x" + "f" * 3000, f"[0b{'1' * 65}]", "-9223372036854775809"])
def test_integers_that_are_no_toml(name: str, given: str) -> None:
    text = next(t for t in TEXTS if "capacity" in t)
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{name} = "))
    lines[at] = f"{name} = {given}"
    error = attempted(from_text, "\n".join(lines), "mine.toml")
    assert isinstance(error, InputError)
    assert error.code == "RG1106"
    assert error.diagnostics[0].span is not None
    assert error.diagnostics[0].span.line == at + 1
