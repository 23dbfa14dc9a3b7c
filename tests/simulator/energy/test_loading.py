"""Technology files: what is right is read as it is written, and each fault is told, with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.gates import gates_from, load_gates
from retrograd.simulator.energy.technology import UNITS, Range, from_file, from_text, quantity, shipped, technology

#: energies are smaller than 1e-12, the absolute tolerance of pytest.approx
approx = partial(pytest.approx, rel=1e-6, abs=0.0)

GOOD = """\
schema = "retrograd.technology/1"
id = "mine"
version = "1.0"
title = "Mine"
doc = "Says what it is."

[temperature]
value = 300
low = 250
high = 350
unit = "K"
source = "a room"
evidence = "assumed"

[frequency]
value = 1
unit = "GHz"
source = "a clock"
evidence = "assumed"

[[charge]]
cause = "logic"
label = "sums"
law = "operation"
unit = "logic unit"

[charge.exponent]
value = 1
unit = "1"
source = "linear"
evidence = "assumed"

[[charge.sizes]]
bits = 8
value = 0.03
unit = "pJ"
source = "somewhere"
evidence = "measured"

[[charge.sizes]]
bits = 32
value = 100
low = 90
high = 120
unit = "fJ"
source = "somewhere"
evidence = "measured"

[[charge]]
cause = "leakage"
label = "leaks"
law = "leakage"

[charge.power]
value = 3
unit = "fW"
source = "a paper"
evidence = "claimed"

[charge.cells.any]
value = 4
unit = "1"
source = "a paper"
evidence = "claimed"
"""


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as wrong:
        from_text(text, "mine.toml")
    return wrong.value


def test_what_is_right() -> None:
    found = from_text(GOOD, "mine.toml")
    assert (found.id, found.version, found.timed) == ("mine", "1.0", True)
    assert found.temperature.si == Range(250, 300, 350)
    sums, leaks = found.charges
    assert [(s.bits, s.energy.si) for s in sums.sizes] == [
        (8, approx(Range(3e-14, 3e-14, 3e-14))),
        (32, approx(Range(9e-14, 1e-13, 1.2e-13))),
    ]
    assert leaks.figures["power"].si == approx(Range(3e-15, 3e-15, 3e-15))
    assert [f.evidence for f in leaks.all_figures()] == ["claimed", "claimed"]


#: (what is replaced, by what, code, a part of the message, the line that is shown)
FAULTS: dict[str, tuple[str, str, str, str, str]] = {
    "no TOML": ("id = ", "id == ", "RG1102", "this is not TOML", 'id == "mine"'),
    "key twice": ('id = "mine"\n', 'id = "mine"\nid = "other"\n', "RG1102", "not TOML", 'id = "other"'),
    "no schema": ('schema = "retrograd.technology/1"\n', "", "RG1102", "names no schema", 'id = "mine"'),
    "another schema": ("technology/1", "technology/9", "RG1102", "technology/9", 'schema = "retrograd.technology/9"'),
    "unknown key": ('doc = "', 'docs = "', "RG1103", "the key `docs` means nothing", 'docs = "Says what it is."'),
    "unknown table": ("[frequency]", "[frequencies]", "RG1103", "`frequencies` means nothing", "[frequencies]"),
    "unknown key of a figure": ("low = 90", "lowest = 90", "RG1103", "`lowest`", "lowest = 90"),
    "unknown figure of a law": ("[charge.power]", "[charge.powers]", "RG1103", "`powers`", "[charge.powers]"),
    "unknown law": ('law = "leakage"', 'law = "leaks"', "RG1103", "law = 'leaks'", 'law = "leaks"'),
    "unknown cause": ('cause = "leakage"', 'cause = "leaking"', "RG1103", "cause = 'leaking'", 'cause = "leaking"'),
    "unknown evidence": ('"claimed"\n\n[charge.cells', '"known"\n\n[charge.cells', "RG1103", "'known'", 'evidence = "known"'),
    "evidence that is not a file's": ('"claimed"\n\n[charge.cells', '"given"\n\n[charge.cells', "RG1103", "'given'", 'evidence = "given"'),
    "cooling by another law": ('cause = "leakage"', 'cause = "cooling"', "RG1103", "do not go together", 'law = "leakage"'),
    "open with a value": ("value = 3\n", "value = 3\nopen = true\n", "RG1103", "in place of a value", "open = true"),
    "open temperature": ("value = 300\nlow = 250\nhigh = 350", "open = true", "RG1103", "figures of charges", "open = true"),
    "no id": ('id = "mine"\n', "", "RG1104", "`id` is missing", 'schema = "retrograd.technology/1"'),
    "empty title": ('"Mine"', '" "', "RG1104", "`title` is text", 'title = " "'),
    "no unit": ('unit = "fW"\n', "", "RG1104", "`unit` is missing in [charge 2 power]", "[charge.power]"),
    "no source": ('source = "linear"\n', "", "RG1104", "`source` is missing in [charge 1 exponent]", "[charge.exponent]"),
    "no evidence": ('source = "linear"\nevidence = "assumed"\n', 'source = "linear"\n', "RG1104", "`evidence`", "[charge.exponent]"),
    "no value": ("value = 3\n", "", "RG1104", "`value` is missing", "[charge.power]"),
    "no figure": (GOOD[GOOD.index("[charge.power]") : GOOD.index("[charge.cells")], "", "RG1104", "`power` is missing", "[[charge]]"),
    "no charge": (GOOD[GOOD.index("[[charge]]") :], "", "RG1104", "`charge` is missing", 'schema = "retrograd.technology/1"'),
    "no clock": (GOOD[GOOD.index("[frequency]") : GOOD.index("[[charge]]")], "", "RG1104", "no [frequency]", 'schema = "retrograd.technology/1"'),
    "no size": (GOOD[GOOD.index("[[charge.sizes]]") : GOOD.index('[[charge]]\ncause = "leakage"')], "", "RG1104", "`sizes` is missing", "[[charge]]"),
    "figure that is a number": ("[charge.power]\nvalue = 3\nunit = \"fW\"\nsource = \"a paper\"\nevidence = \"claimed\"", "power = 3", "RG1104", "is no table", "power = 3"),
    "unknown unit": ('"fW"', '"fw"', "RG1105", "there is no unit `fw`", 'unit = "fw"'),
    "unit of something else": ('"fW"', '"fF"', "RG1105", "`fF` measures capacitance, and this is power", 'unit = "fF"'),
    "negative": ("value = 3\n", "value = -3\n", "RG1106", "value = -3: figures are finite, and not negative", "value = -3"),
    "not a number": ("value = 3\n", "value = nan\n", "RG1106", "value = nan", "value = nan"),
    "infinite": ("value = 3\n", "value = inf\n", "RG1106", "value = inf", "value = inf"),
    "text for a number": ("value = 3\n", 'value = "3"\n', "RG1106", "is no number", 'value = "3"'),
    "truth for a number": ("value = 3\n", "value = true\n", "RG1106", "is no number", "value = true"),
    "range above": ("low = 90", "low = 101", "RG1106", "from 101 to 120 does not hold the value 100", "low = 101"),
    "range below": ("high = 120", "high = 99", "RG1106", "from 90 to 99 does not hold", "high = 99"),
    "temperature range": ("low = 250", "low = 310", "RG1106", "from 310 to 350 does not hold the value 300", "low = 310"),
    "no temperature": ("low = 250", "low = 0", "RG1106", "0 K is no temperature", "low = 0"),
    "bits": ("bits = 32", "bits = 0", "RG1106", "bits = 0", "bits = 0"),
    "size twice": ("bits = 32", "bits = 8", "RG1107", "two figures are for one size", "[[charge.sizes]]"),
    "label twice": ('cause = "leakage"\nlabel = "leaks"\nlaw = "leakage"', 'cause = "logic"\nlabel = "sums"\nlaw = "leakage"', "RG1107", "two charges are called `sums`", 'label = "sums"'),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told(fault: str) -> None:
    old, new, code, message, line = FAULTS[fault]
    assert old in GOOD
    error = refused(GOOD.replace(old, new, 1))
    assert error.code == code
    found = error.diagnostics[0]
    assert message in found.message
    assert found.span is not None
    assert found.line == line
    assert GOOD.replace(old, new, 1).splitlines()[found.span.line - 1] == line


def emptied(text: str) -> Iterator[tuple[str, str]]:
    """(a table, the text with that table empty), for each table of a text, those included that only hold tables."""
    blocks = re.split(r"(?m)^(?=\[)", text)
    heads = ["", *(re.match(r"\[+([\w.]+)", block)[1] for block in blocks[1:])]  # type: ignore[index]
    for k, head in enumerate(heads):
        if not head or blocks[k].startswith("[["):
            continue
        for depth in range(head.startswith("charge.") + 1, head.count(".") + 2):
            table = ".".join(head.split(".")[:depth])
            if f"{heads[k - 1]}.".startswith(f"{table}."):
                continue
            end = next((i for i in range(k, len(heads)) if not f"{heads[i]}.".startswith(f"{table}.")), len(heads))
            yield table, "".join([*blocks[:k], f"[{table}]\n", *blocks[end:]])


@pytest.mark.parametrize("name", shipped())
def test_a_table_that_is_empty_is_refused(name: str) -> None:
    """In every model, for every table: figures, cells, gates and their levels."""
    source = files("retrograd.simulator.energy").joinpath("models", f"{name}.toml").read_text(encoding="utf-8")
    found = dict(emptied(source))
    assert {"temperature", "frequency"} & found.keys()
    for table, text in found.items():
        error = refused(text)
        assert error.code == "RG1104", table
        assert error.diagnostics[0].line == f"[{table}]"


def test_the_fault_is_shown_in_the_right_table() -> None:
    """Of two keys alike, that in the table that is wrong."""
    text = GOOD.replace("high = 120", "high = 99")
    found = refused(text).diagnostics[0].span
    assert found is not None
    assert text.splitlines()[found.line - 3] == "value = 100"


COLD = (
    GOOD.replace("value = 300\nlow = 250\nhigh = 350", "value = 4.2\nlow = 4\nhigh = 5")
    + """
[ambient]
value = 300
unit = "K"
source = "a room"
evidence = "assumed"

[[charge]]
cause = "erasure"
label = "bits"
law = "erased bit"

[charge.energy]
value = 100
low = 50
high = 200
unit = "yJ"
source = "made up"
evidence = "assumed"

[[charge]]
cause = "cooling"
label = "helium"
law = "cooling"

[charge.overhead]
value = 400
low = 75
high = 1000
unit = "W/W"
source = "made up"
evidence = "assumed"
""".replace('"yJ"', '"zJ"').replace("100\nlow = 50\nhigh = 200", "0.1\nlow = 0.05\nhigh = 0.2")
)

#: (what is replaced, by what, a part of the message, the line that is shown)
BELOW_BOUNDS = {
    # kT ln 2 at 5 K is 0.0478 zJ: the model is for up to 5 K.
    "low end of a bit": ("low = 0.05", "low = 0.047", "less than kT ln 2 at 5 K", "low = 0.047"),
    "bit without a range": ("value = 0.1\nlow = 0.05\nhigh = 0.2", "value = 0.04", "less than kT ln 2 at 4.2 K", "value = 0.04"),
    "bit for nothing": ("value = 0.1\nlow = 0.05\nhigh = 0.2", "value = 0", "less than kT ln 2", "value = 0"),
    "share of kT ln 2": ('value = 0.1\nlow = 0.05\nhigh = 0.2\nunit = "zJ"', 'value = 0.9\nunit = "kT ln2"', "less than kT ln 2", "value = 0.9"),
    "temperatures": ("high = 5\n", "high = 6\n", "less than kT ln 2 at 6 K", "low = 0.05"),
    "dropped charge": (
        'law = "erased bit"\n\n[charge.energy]\nvalue = 0.1\nlow = 0.05\nhigh = 0.2\nunit = "zJ"',
        'law = "dropped charge"\n\n[charge.voltage]\nvalue = 1\nunit = "mV"\nsource = "x"\nevidence = "assumed"\n\n'
        '[charge.capacitance]\nvalue = 0.09\nunit = "fF"',
        "less than kT ln 2 at 5 K", "value = 0.09",
    ),
    # (300 − 4) / 4 = 74
    "cooling": ("low = 75", "low = 73", "less than Carnot's (300 K − 4 K) / 4 K = 74", "low = 73"),
    "cooling without a range": ("value = 400\nlow = 75\nhigh = 1000", "value = 70", "less than Carnot's", "value = 70"),
    "cooling to less": ("low = 4\n", "low = 3\n", "(300 K − 3 K) / 3 K = 99", "low = 75"),
}  # fmt: skip


def test_bounds_of_thermodynamics_are_kept() -> None:
    assert from_text(COLD, "cold.toml").id == "mine"
    # A figure that is left open is compared when it is given, for a price.
    left_open = from_text(COLD.replace("value = 0.1\nlow = 0.05\nhigh = 0.2", "open = true", 1), "cold.toml")
    assert [*left_open.open] == ["energy"]


@pytest.mark.parametrize("fault", BELOW_BOUNDS)
def test_below_a_bound_of_thermodynamics(fault: str) -> None:
    old, new, message, line = BELOW_BOUNDS[fault]
    assert old in COLD
    text = COLD.replace(old, new, 1)
    error = refused(text)
    found = error.diagnostics[0]
    assert error.code == "RG1112"
    assert message in found.message
    assert found.span is not None
    assert text.splitlines()[found.span.line - 1] == found.line == line


@pytest.mark.parametrize(
    ("covered", "code", "message"),
    [
        ('"leakage"', "RG1104", "is a list"), ('["leaks"]', "RG1103", "'leaks' is none"), ("[3]", "RG1104", "is a list"),
        ("[[]]", "RG1104", "is a list"), ("{ clock = 3 }", "RG1104", "what covers it is text"), ('{ leaks = "a" }', "RG1103", "'leaks' is none"),
        ('["cooling"]', "RG1103", "'cooling' is none"), ('["leakage"]', "RG1107", "has a charge"),
    ],
)  # fmt: skip
def test_what_is_covered(covered: str, code: str, message: str) -> None:
    assert from_text(GOOD.replace("doc = ", 'covered = ["clock"]\ndoc = '), "mine.toml").covered == {
        "clock": "other figures"
    }
    named = from_text(GOOD.replace("doc = ", 'covered = { clock = "the adder" }\ndoc = '), "mine.toml")
    assert named.covered == {"clock": "the adder"}
    error = refused(GOOD.replace("doc = ", f"covered = {covered}\ndoc = "))
    assert (error.code, message in error.diagnostics[0].message) == (code, True)
    assert error.diagnostics[0].line == f"covered = {covered}"


MEMORY = (
    GOOD[: GOOD.index('[[charge]]\ncause = "leakage"')]
    + """
[[charge]]
cause = "memory"
label = "memory"
law = "access"

[[charge.sizes]]
capacity = "8 KiB"
bits = 64
value = 10
unit = "pJ"
source = "made up"
evidence = "assumed"
"""
)


@pytest.mark.parametrize(
    "capacity",
    [
        '"8 KB"', '"8KiB"', '"8.5 KiB"', '"-8 KiB"', '"0 KiB"', '"08 KiB"', '"eight KiB"', '"8 J"', '"8 KiB "', '"KiB"', '""',
        "8", "8192.0", "true", '["8 KiB"]', '"' + "9" * 400 + ' KiB"', '"' + "9" * 3900 + ' KiB"', '"٣ KiB"',
    ],
)  # fmt: skip
def test_what_is_no_size_of_a_memory(capacity: str) -> None:
    error = refused(MEMORY.replace('"8 KiB"', capacity))
    assert error.code == "RG1105"
    assert "is no size of a memory" in error.diagnostics[0].message
    assert error.diagnostics[0].line == f"capacity = {capacity}"


@pytest.mark.parametrize(("capacity", "size"), [("1 B", 1), ("8 KiB", 8192), ("3 MiB", 3 << 20), ("2 GiB", 2 << 30)])
def test_sizes_of_memories(capacity: str, size: float) -> None:
    assert from_text(MEMORY.replace("8 KiB", capacity), "mine.toml").charges[1].sizes[0].capacity == size


#: (what is replaced, by what, the line that is shown): numbers with which a price would overflow, or divide by zero
OUTSIDE = {
    "clock of 0 Hz": ("value = 1\nunit = \"GHz\"", "value = 1\nlow = 0\nunit = \"GHz\"", "low = 0"),
    "clock without end": ("value = 1\nunit = \"GHz\"", "value = 1e300\nunit = \"GHz\"", "value = 1e300"),
    "exponent": ("[charge.exponent]\nvalue = 1", "[charge.exponent]\nvalue = 5", "value = 5"),
    "energy": ("high = 120", "high = 1e300", "high = 1e300"),
    "devices": ("value = 4", "value = 1e7", "value = 1e7"),
    "temperature": ("low = 250", "low = 1e-300", "low = 1e-300"),
}  # fmt: skip


@pytest.mark.parametrize("fault", OUTSIDE)
def test_numbers_that_no_price_could_follow_from(fault: str) -> None:
    old, new, line = OUTSIDE[fault]
    assert old in GOOD
    error = refused(GOOD.replace(old, new, 1))
    assert error.code == "RG1106"
    assert "it may be from" in error.diagnostics[0].message
    assert error.diagnostics[0].line == line


@pytest.mark.parametrize("name", shipped())
def test_shipped_models_say_where_their_figures_are_from(name: str) -> None:
    model = technology(name)
    assert model.id == name
    for charge in model.charges:
        for figure in charge.all_figures():
            assert figure.written is None or len(figure.source) > 8, figure


@pytest.mark.parametrize("name", shipped())
def test_shipped_models_have_a_range_for_every_figure(name: str) -> None:
    """low and high are stated; they are equal for numbers of devices, parameters and bounds only."""
    text = files("retrograd.simulator.energy").joinpath("models", f"{name}.toml").read_text(encoding="utf-8")

    def figures(data: Any) -> Iterator[dict[str, Any]]:
        if isinstance(data, list):
            for part in data:
                yield from figures(part)
        elif isinstance(data, dict):
            yield from [data] if "value" in data else [x for part in data.values() for x in figures(part)]

    for figure in figures(tomllib.loads(text)):
        assert figure["low"] <= figure["value"] <= figure["high"]
        if figure["unit"] in ("pJ", "zJ", "W/W", "zJ s"):
            assert figure["low"] < figure["high"], figure


def test_all_models_are_shipped() -> None:
    root = Path(__file__).resolve().parents[3]
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert "retrograd.simulator.energy" in settings["packages"]
    assert settings["package-data"]["retrograd.simulator.energy"] == ["models/*.toml"]
    assert {p.stem for p in (root / "simulator/energy/models").iterdir()} == set(shipped())
    assert {"landauer", "cmos45", "cmos7", "adiabatic_rc", "aqfp"} <= set(shipped())


def test_a_file_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert technology(path).id == technology(str(path)).id == "mine"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("landaur", "RG1101", "did you mean `landauer`?"),
        ("xyz", "RG1101", "models: adiabatic_rc"),
        ("no/such.toml", "RG0501", ""),
    ],
)
def test_no_such_model(name: str, code: str, message: str) -> None:
    with pytest.raises(InputError) as wrong:
        technology(name)
    assert wrong.value.code == code
    assert message in str(wrong.value)


def test_the_id_of_a_shipped_model_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace('"mine"', '"landauer"'))
    with pytest.raises(InputError, match="RG1107"):
        from_file(path)


def test_what_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="RG1102"):
        from_file(path)
    path.write_bytes(b"#" * (1 << 21))
    with pytest.raises(InputError, match="RG0514"):
        from_file(path)


def test_units() -> None:
    assert UNITS["zJ"].factor == 1e-21
    assert UNITS["kohm"].factor == UNITS["kΩ"].factor == 1e3
    assert UNITS["meV"].factor == approx(1.602176634e-22)
    assert UNITS["KiB"].factor == 1024
    # No two units that read alike are of different things.
    assert len({name.lower() for name in UNITS}) > len(UNITS) * 0.7
    assert all(re.fullmatch(r"[\wµΩ/ ]+", name) for name in UNITS)


# ------------------------------------------------------------------ gate counts

GATES = {
    "schema": "retrograd.gates/1",
    "format": {"width": 32, "frac": 16},
    "units": {"logic unit": {"AND": 3}, "ROM": {"AND": 4, "DFF": 1}},
}


def test_gate_counts() -> None:
    found = gates_from(GATES, "gates.json")
    assert str(found.format) == "Q16.16"
    assert found.cells() == {"AND": 7, "DFF": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "other"}, "its schema"), ({"format": "Q16.16"}, "`format`"), ({"format": {"width": 32}}, "`format`"),
        ({"format": {"width": 0, "frac": 0}}, "`format`"), ({"units": {}}, "`units`"), ({"units": {"ROM": 3}}, "`ROM`"),
        ({"units": {"ROM": {"AND": -1}}}, "-1 cells of `AND`"), ({"units": {"ROM": {"AND": True}}}, "True cells"),
        ({"units": {"ROM": {"AND": 1 << 51}}}, "cells of `AND`"), ({"units": {"ROM": {"AND": 10**5000}}}, "too many cells of `AND`"),
    ],
)  # fmt: skip
def test_gate_counts_that_are_none(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match="RG1110") as wrong:
        gates_from({**GATES, **changes}, "gates.json")
    assert message in str(wrong.value)


def test_a_file_of_gate_counts(tmp_path: Path) -> None:
    path = tmp_path / "gates.json"
    with pytest.raises(InputError, match="RG0501"):
        load_gates(path)
    path.write_text("{")
    with pytest.raises(InputError, match="RG1110"):
        load_gates(path)


# ------------------------------------------------------------------ quantities as people write them


@pytest.mark.parametrize(
    ("text", "measures", "expected"),
    [
        ("10kohm", "resistance", (1e4, 1e4, 1e4)), ("8:10:12 kΩ", "resistance", (8e3, 1e4, 1.2e4)),
        ("300", "temperature", (300, 300, 300)), ("4.2 K", "temperature", (4.2, 4.2, 4.2)), ("1e-3K", "temperature", (1e-3,) * 3),
        ("5GHz", "frequency", (5e9,) * 3), ("2.5 fF", "capacitance", (2.5e-15,) * 3), ("0", "power", (0, 0, 0)), ("1e3K", "temperature", (1e3,) * 3), ("5eV", "energy", (5 * 1.602176634e-19,) * 3),
        ("400 W/W", "ratio of powers", (400,) * 3),
    ],
)  # fmt: skip
def test_quantities(text: str, measures: str, expected: tuple[float, float, float]) -> None:
    assert quantity(text, measures, "it") == approx(expected)


@pytest.mark.parametrize(
    ("text", "measures", "code"),
    [
        ("", "temperature", "RG0507"), ("K", "temperature", "RG0507"), ("-3K", "temperature", "RG0507"),
        ("nan", "temperature", "RG0507"), ("1e999", "temperature", "RG0507"), ("1:2K", "temperature", "RG0507"),
        ("3:2:4K", "temperature", "RG0507"), ("4.2V", "temperature", "RG1105"), ("5 furlongs", "frequency", "RG1105"),
        ("1 kT ln2", "energy", "RG1105"), ("1 2", "temperature", "RG0507"), ("1" * 5000 + "K", "temperature", "RG0507"),
        ("1e308 GHz", "frequency", "RG0507"), ("1:2:1e308 kohm", "resistance", "RG0507"),
    ],
)  # fmt: skip
def test_what_is_no_quantity(text: str, measures: str, code: str) -> None:
    with pytest.raises(InputError) as wrong:
        quantity(text, measures, "it")
    assert wrong.value.code == code
    assert len(wrong.value.diagnostics[0].message) < 120


# ------------------------------------------------------------------ texts without end


def test_nested_without_end() -> None:
    with pytest.raises(InputError, match="RG1102"):
        from_text("a = " + "[" * 100_000, "deep.toml")
    with pytest.raises(InputError, match="RG1102"):
        from_text("a = " + "9" * 10_000, "long.toml")
