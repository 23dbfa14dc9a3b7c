"""Programs and functions on the simulated co-processor: the reference machine's words, and the model's cycles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from retrograd.examples import bundle_adjustment
from retrograd.examples.bessel import bessel
from retrograd.hdl.bus.links import BusError
from retrograd.hdl.simulation.runs import Place, parameters_for, run
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.hardware import run_on_hardware
from retrograd.runtime._reversible import use_format

LOOP = """
        .format 32, 16
        .memory 3
        .text
        start
top:    from.ne r1, r0, bottom
        add     r1, 1
        mul.add r3, r1, r1
bottom: goto.ne r1, r2, top
        exch    r3, [r0 + 1]
        finish
"""


@reversible
def spin(y: fixed, x: fixed, z: fixed):
    """Turns and products: what hardware and definition must agree on to the last bit."""
    with rg.routine() as r:
        a = x * z
        b = rg.sin(a)
    y += b * x
    ~r


@pytest.mark.long
def test_a_program(tmp_path: Path) -> None:
    program = rg.assemble(LOOP)
    file = tmp_path / "loop.vcd"
    (found,) = run(program, registers={2: 3}, vcd=str(file), steps=10**12)
    machine = rg.Machine(program)
    machine.registers[2] = 3
    machine.run()
    assert (found.stop, found.code, found.pc, found.br, found.direction) == ("halted", None, machine.pc, 0, 1)
    assert (found.registers, found.memory) == (machine.registers, machine.memory)
    assert (found.cycles, found.retired) == (machine.cycles, machine.retired)
    # The waveforms say what is executed in words, and a viewer finds its signals in order.
    text = file.read_text()
    for said in ("mul.add_r3,_r1,_r1", "goto.ne", "forward"):
        assert re.search(rf"^s\S*{re.escape(said)}", text, re.MULTILINE), said
    saved = file.with_suffix(".gtkw").read_text()
    names = re.findall(r"^bench\.top\.(\w+)", saved, re.MULTILINE)
    assert names[:7] == ["instruction", "rd", "ra", "rb", "PC", "BR", "DIR"]


@pytest.mark.long
def test_a_program_with_cotangents() -> None:
    program = rg.assemble(LOOP)
    there, back = run(program, registers={2: 2}, memory={0: 5}, loss=Place(1))
    machine = rg.Machine(program)
    machine.registers[2] = 2
    machine.load(0, [5])
    machine.run()
    assert there.memory == machine.memory
    machine.differentiating = True
    machine.memory_cotangents[1] = 1 << 16
    machine.turn()
    machine.run()
    assert (back.registers, back.memory) == (machine.registers, machine.memory)
    assert (back.cotangents, back.memory_cotangents) == (machine.cotangents, machine.memory_cotangents)
    assert there.cycles + back.cycles == machine.cycles
    assert (back.stop, back.direction, back.pc) == ("halted", -1, machine.pc)


@pytest.mark.parametrize(("steps", "stop"), [(3, "limit"), (100, "trap")])
def test_runs_that_do_not_come_to_the_end(steps: int, stop: str) -> None:
    program = rg.assemble(".format 32, 16\nstart\nadd r1, 1\nadd r1, 1\nadd r1, 1\ndiv.add r2, r1, r3\nfinish")
    (found,) = run(program, steps=steps)
    assert (found.stop, found.code) == (stop, "RG0402" if stop == "trap" else None)
    assert (found.pc, found.registers[1]) == ((3, 2) if stop == "limit" else (4, 3))


def test_room_is_made() -> None:
    program = rg.assemble(".memory 100\n.text\nstart\nfinish")
    p = parameters_for(program)
    assert (p.code_words, p.data_words) == (16, 128)
    with pytest.raises(ValueError, match="words of 8 to 64 bits, not 4"):
        parameters_for(rg.assemble(".format 4, 2\nstart\nfinish"))


@contextmanager
def used(w: Format) -> Iterator[None]:
    """Functions are compiled for this format."""
    before = use_format(w)
    try:
        yield
    finally:
        use_format(before)


@pytest.mark.parametrize("w", [Format(32, 16), pytest.param(Format(64, 32), marks=pytest.mark.long)], ids=str)
def test_a_function_and_its_gradient(w: Format) -> None:
    with used(w):
        found = run_on_hardware(spin, 0.25, 0.75, -0.5, loss="y")
        value, gradient = rg.value_and_grad(spin)(0.25, 0.75, -0.5)
        assert found.values == rg.run(spin, 0.25, 0.75, -0.5).values
    assert found.values.y == value
    assert found.gradients == gradient


@pytest.mark.long
def test_cycles_are_those_of_the_machine() -> None:
    """Without a loss it is the same program, which has no tests for cotangents."""
    found = run_on_hardware(spin, 0.0, 1.5, 0.25, format="16,8")
    ran = rg.run(spin, 0.0, 1.5, 0.25, format="16,8", engine="reference")
    assert (found.cycles, found.steps) == (ran.machine.cycles, ran.steps)


@pytest.mark.long
def test_a_function_that_traps() -> None:
    @reversible
    def f(y: fixed, x: fixed):
        y += 1.0 / x

    with pytest.raises(BusError, match=r"the run ended at PC = \d+: RG0402"):
        run_on_hardware(f, 0.0, 0.0, format=Format(32, 16))
    with pytest.raises(BusError, match="it takes more than 2 instructions"):
        run_on_hardware(f, 0.0, 1.0, format=Format(32, 16), max_steps=2)


@pytest.mark.long
def test_bessel() -> None:
    found = run_on_hardware(bessel, 0.0, 1.0, loss="out")
    value, gradient = rg.value_and_grad(bessel)(0.0, 1.0)
    assert (found.values.out, found.gradients.z) == (value, gradient.z)
    assert (found.steps, found.cycles, found.backward_cycles) == (215, 3258, 7514)  # as docs/coprocessor.md has it
    assert found.values.out == pytest.approx(0.1149034849298, abs=1e-8)
    assert found.gradients.z == pytest.approx(0.2102436158518, abs=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("w", [Format(32, 16), Format(64, 32)], ids=str)
def test_one_projection_of_bundle_adjustment(w: Format) -> None:
    """A measurement of ADBench's test file: on the hardware bit for bit, and as exact as the format allows."""
    problem = bundle_adjustment.read(Path(bundle_adjustment.__file__).parent / "data" / "ba" / "test.txt")
    camera, point, feature = problem.cameras[0], problem.points[0], problem.features[0]
    # Its pixels are some hundreds, which 15 bits before the point hold in one format and their squares in the other.
    args = 0.0, camera, point, float(problem.weights[0]), feature
    with used(w):
        found = run_on_hardware(bundle_adjustment.first_error, *args, loss="loss")
        value, gradient = rg.value_and_grad(bundle_adjustment.first_error)(*args)
    assert found.values.loss == value
    for name, expected in gradient._asdict().items():
        assert np.array_equal(getattr(found.gradients, name), expected), name
    weight = float(problem.weights[0])

    def error(x: np.ndarray) -> float:
        return float(bundle_adjustment.reference(x[:11], x[11:14], x[14], x[15:])[0])

    x = np.concatenate([camera, point, [weight], feature])
    # The bound is that of `reprojection_error`: of 2,000 cameras near this one the errors' root mean square is 1.8e-7.
    assert value == pytest.approx(error(x), abs=1e-6 if w.frac == 32 else 0.02)
    # The derivatives against central differences, in double precision.
    exact = np.array([(error(x + h) - error(x - h)) / 2e-5 for h in 1e-5 * np.eye(len(x))])
    parts = [np.atleast_1d(getattr(gradient, name)) for name in ("camera", "point", "weight", "feature")]
    worst = np.abs(np.concatenate(parts) - exact).max() / np.abs(exact).max()
    assert worst < (5e-9 if w.frac == 32 else 3e-4)


#: three turns by two angles, of which one comes out of a turn itself
ROTATIONS = """
        .format {w}, {f}
        .memory 1
        .text
        start
        rot     r1, r2, r5
        rot     r3, r1, r6
        add     r7, r2
        rot     r3, r2, r7
        irot    r1, r4, r5
        fmul.add r8, r1, r3
        fmul.add r8, r2, r4
        st.add  [r0 + 0], r8
        finish
"""


@pytest.mark.long
@pytest.mark.parametrize("w", [Format(32, 16), Format(64, 32)], ids=str)
def test_a_chain_of_rotations(w: Format) -> None:
    program = rg.assemble(ROTATIONS.format(w=w.width, f=w.frac))
    x = np.array([0.75, -0.5, 1.25, 0.375, 0.6, -2.5])
    words = {r: int(v * 2**w.frac) & w.mask for r, v in enumerate(x, 1)}
    there, back = run(program, registers=words, loss=Place(0))
    machine = rg.Machine(program)
    for r, word in words.items():
        machine.registers[r] = word
    machine.run()
    assert (there.registers, there.memory, there.cycles) == (machine.registers, machine.memory, machine.cycles)
    machine.differentiating = True
    machine.memory_cotangents[0] = 1 << w.frac
    machine.turn()
    machine.run()
    assert (back.registers, back.memory) == (machine.registers, machine.memory)
    assert (back.cotangents, back.memory_cotangents) == (machine.cotangents, machine.memory_cotangents)
    assert there.cycles + back.cycles == machine.cycles

    def turned(x: np.ndarray) -> float:
        def rot(a: float, b: float, t: float) -> tuple[float, float]:
            return a * np.cos(t) - b * np.sin(t), a * np.sin(t) + b * np.cos(t)

        a, b, c, d, s, t = x
        a, b = rot(a, b, s)
        c, a = rot(c, a, t)
        c, b = rot(c, b, b)
        a, d = rot(a, d, -s)
        return float(a * c + b * d)

    exact = [(turned(x + h) - turned(x - h)) / 2e-6 for h in 1e-6 * np.eye(6)]
    found = [w.signed(back.cotangents[r]) / 2**w.frac for r in range(1, 7)]
    assert found == pytest.approx(exact, abs=1e-3 if w.frac == 16 else 1e-7)
