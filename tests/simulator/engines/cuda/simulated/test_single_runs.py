"""Single runs by stepped launches, the code of whose kernels the host runs: in lockstep with the reference machine."""

from __future__ import annotations

import pickle
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from retrograd.examples import full_waveform_inversion
from retrograd.examples.wave import medium, misfit, propagate, pulse
from retrograd.isa.diagnostics import DeviceError, InputError, PrecisionWarning
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.cuda import device_arrays, stepped_machine
from retrograd.simulator.engines.cuda.runtime import Device, numba_cuda
from retrograd.simulator.engines.cuda.stepped_machine import DeviceMachine, ResidentWords
from retrograd.simulator.engines.llvm.builder import I1, Pointer
from retrograd.simulator.engines.translator import row_sharing
from retrograd.simulator.engines.translator.translate import Translator
from support import kernel_on_host
from support.constant_factors import PROGRAMS, words_of_batch
from support.machines import Lockstep

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.runtime import _device
from retrograd.runtime._arrays import WordArray
from tests.simulator.engines.test_parallel_loops import MEMORY, UPDATE, fill, generate, neighbours, nest, run

SOME, SLOW, SLOW_CHUNK = 12, 300, 100


@pytest.fixture(autouse=True)
def transformations() -> None:
    """These runs skip no uncompute blocks, and need vector loops."""


@pytest.fixture
def host(translated: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The kernels, and those of words and numbers, run by the host."""
    found = kernel_on_host.HostSteppedKernels
    device_arrays._converters.clear()
    monkeypatch.setattr(stepped_machine, "SteppedKernels", found)
    monkeypatch.setattr(stepped_machine, "FEW_PASSES", 4)
    stepped_machine._kernels.cache_clear()
    found.rounds.clear()
    found.refused = found.tested = found.measured = found.graphs = 0
    yield found
    stepped_machine._kernels.cache_clear()
    device_arrays._converters.clear()


@pytest.fixture
def make(host: Any, gpu: Device) -> Callable[..., rg.Machine]:
    return lambda program, **modes: DeviceMachine(program, gpu, **modes)


def test_rows_and_the_last_row(make: Any, host: Any) -> None:
    """All rows but the last, and then the passes of the last; both ways."""
    both = run(make, nest(neighbours(20)), list(range(MEMORY)), 0, [None])
    assert host.rounds == [(0, 14, 13), (1, 1, 13)] * 2
    assert both.tested.engine == "cuda"


@pytest.mark.parametrize("at", [402, 425, 470, 690])
def test_rows_that_fail(make: Any, host: Any, at: int) -> None:
    """A word that is too large: no cell is stored, and scalar code raises the trap. Only such words need tests."""
    words = [1 << 40] * MEMORY
    words[at] = (1 << 63) - 3
    both = run(make, nest(UPDATE), words, 0, [None])
    assert host.refused
    assert host.tested
    assert len(both.traps) == 1


#: one thread stores five times the largest word; p += q in the passes of a loop, six times
GROWING = """
        .memory 1200
        start
        ld.add r1, [r0 + 201]
        ld.add r2, [r0 + 201]
        fadd r1, r2
        fadd r2, r1
        fadd r1, r2
        st.add [r0 + 399], r1
        add r250, 100
        add r251, 6
again:  from.ne r6, r0, againb
        add r6, 1
loop:   from.ne r7, r0, next
        add r7, 1
        ld.add r8, [r7 + 200]
        exch r9, [r7]
        fadd r9, r8
        exch r9, [r7]
        ld.sub r8, [r7 + 200]
next:   goto.ne r7, r250, loop
        sub r7, 100
againb: goto.ne r6, r251, again
        finish
"""


@pytest.mark.parametrize(("word", "tested", "measured"), [(1, 0, 1), (1 << 47, 0, 1), (1 << 50, 5, 4)])
def test_cells_are_tested_where_the_bound_says_too_little(
    make: Any, host: Any, word: int, tested: int, measured: int
) -> None:
    """The bound grows with the terms; behind a test, the words are measured again."""
    both = Lockstep(make, rg.assemble(GROWING))
    both.set(lambda m: fill(m, [*range(200), *[word] * 200]))
    both.run()
    assert len(host.rounds) == 6
    assert (host.tested, host.measured, host.refused) == (tested, measured, 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_constant_factors_in_batches(tier: str, name: str) -> None:
    """By each tier: the words of the reference machine, there and back."""
    found = words_of_batch(name, engine="cuda")
    assert found == words_of_batch(name, engine="reference")


def test_random_nests(make: Any, host: Any) -> None:
    for seed in range(SOME):
        print(f"seed {seed}")
        run(make, *generate(random.Random(seed)))
    assert len(host.rounds) > SOME // 2


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, SLOW_CHUNK))
def test_many_random_nests(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Some of them in launches of few steps."""
    for seed in range(first + 5000, first + 5000 + SLOW_CHUNK):
        print(f"seed {seed}")
        monkeypatch.setattr(stepped_machine, "SLICE", 40 if seed % 4 == 0 else 1 << 18)
        run(make, *generate(random.Random(seed)))


def test_short_launches(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch ends at a safepoint after a few steps, and the next one goes on there."""
    monkeypatch.setattr(stepped_machine, "SLICE", 25)
    monkeypatch.setattr(stepped_machine, "FEW_ROWS", 1 << 20)
    both = run(make, nest(UPDATE), list(range(MEMORY)), 0, [None])
    assert {found[1] for found in host.rounds} == {1}
    assert both.tested.retired > 1000


def test_an_interrupt_leaves_a_state_that_goes_on(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepped_machine, "SLICE", 25)
    begin, launch = stepped_machine._SteppedRun._run, host.launch
    runs: list[Any] = []

    def noted(run: Any) -> None:
        runs.append(run)
        begin(run)

    def interrupting(*arguments: Any) -> None:
        launch(*arguments)
        if len(runs) == 1:
            runs.append(None)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            while not runs[0].stopping:
                time.sleep(0.001)

    monkeypatch.setattr(stepped_machine._SteppedRun, "_run", noted)
    monkeypatch.setattr(host, "launch", interrupting)
    both = Lockstep(make, nest(UPDATE))
    both.set(lambda m: fill(m, list(range(MEMORY))))
    # A process that a shell starts in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            both.tested.run()
    finally:
        signal.signal(signal.SIGINT, before)
    taken = both.tested.retired
    assert 0 < taken < 2000
    both.reference.run(taken)
    both.check()
    both.run()


def test_many_rounds_are_launched_at_once(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that need no test, and rounds behind a test that no launch made."""
    monkeypatch.setattr(stepped_machine, "MOST_ROUNDS", 2)
    for word, graphs in ((1, 3), (1 << 50, 1)):
        host.graphs = 0
        both = Lockstep(make, rg.assemble(GROWING))
        both.set(lambda m, word=word: fill(m, [*range(200), *[word] * 200]))
        both.run()
        assert host.graphs == graphs
    assert host.tested


def test_a_longer_slice_takes_fewer_launches(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    launch, launches = host.launch, []

    def counted(*arguments: Any) -> None:
        launches.append(arguments)
        launch(*arguments)

    def number(steps: int) -> int:
        monkeypatch.setattr(stepped_machine, "SLICE", steps)
        launches.clear()
        both = Lockstep(make, nest(UPDATE))
        both.set(lambda m: fill(m, list(range(MEMORY))))
        both.run()
        return len(launches)

    monkeypatch.setattr(host, "launch", counted)
    assert number(25) > number(10**6)


def all_pass(self: Any) -> Any:
    """Words are not compared with their bounds."""
    self._begin("test", I1)
    self.always_tested = False
    self.code.ret(0)
    return self.code.callee


def plain_stores(self: Any, amount: Any) -> None:
    """A word is overwritten by the sum of two others."""
    self.store(amount + amount)


def unchecked(self: Any, holds: Any) -> None:
    """Words that a row reads may be written by another."""


#: p += q, where row r reads the words of row r + 2
LATER = ("ld.add r8, [r5 + 45]", "exch r9, [r5]", "fadd r9, r8", "exch r9, [r5]", "ld.sub r8, [r5 + 45]")


@pytest.mark.parametrize(
    ("owner", "name", "fault", "body", "large"),
    [
        (stepped_machine._CellEmitter, "emit_test", all_pass, UPDATE, 425),
        (Pointer, "atomic_add", plain_stores, UPDATE, None),
        (row_sharing.RowDistributionEmitter, "_unless", unchecked, LATER, None),
        (stepped_machine._PlannedLoopEmitter, "_is_tested", lambda *_: 0, UPDATE, 425),
        (stepped_machine._PlannedLoopEmitter, "_grown", lambda _, bound, terms: bound, UPDATE, None),
        (stepped_machine.SteppedTranslator, "_write", Translator._write, None, None),
    ],
    ids=["test", "sum", "read", "bound", "grown", "stored"],
)
def test_planted_faults_are_found(
    make: Any,
    host: Any,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    fault: Any,
    body: Any,
    large: int | None,
) -> None:
    words = list(range(MEMORY, 0, -1))
    if large is not None:
        words[large] = (1 << 63) - 3
    program = nest(body) if body else rg.assemble(GROWING)
    run(make, program, words, 0, [None])
    monkeypatch.setattr(owner, name, fault)
    stepped_machine._kernels.cache_clear()
    with pytest.raises(AssertionError):
        run(make, program, words, 0, [None])


def test_a_program_without_parallel_loops_is_refused() -> None:
    with pytest.raises(InputError, match=r"RG1001.*single run without parallel loops"):
        machine_for(rg.assemble("start\nadd r1, 1\nfinish\n"), "cuda")


@pytest.mark.parametrize("argument", ["q", "c"])
def test_the_gradient_of_a_wave(host: Any, argument: str) -> None:
    """Each update of the gradient adds to the cotangents of five cells."""
    n, steps = 12, 4
    given = pulse(n), np.zeros((n, n)), medium(n), np.zeros(n), 3, steps
    expected = rg.grad(misfit, argument, engine="native", scale=0)(0.0, *given)
    assert (rg.grad(misfit, argument, engine="cuda", scale=0)(0.0, *given) == expected).all()
    # Forward, and back with the cotangents; then the last row of each.
    assert [rows for _, rows, _ in host.rounds] == [n - 3, 1] * (2 * steps)
    assert (host.tested, host.measured) == (0, 1)


@pytest.mark.parametrize("gpu", ["cells", "shots"])
def test_an_inversion_has_the_gradient_of_the_cpu(host: Any, translated: Any, gpu: str) -> None:
    """With threads for cells, by parallel loops, and with threads for shots, on arrays of the device."""
    survey = full_waveform_inversion.survey(17, 2, 3)
    survey = survey._replace(pulse=survey.pulse[8:14])
    seen = np.ones((2, 6, 3))
    v = full_waveform_inversion.phantom(17)
    value, slope = full_waveform_inversion.objective(survey, seen)(v)
    found, by_device = full_waveform_inversion.objective(survey, seen, gpu)(v)
    assert found == value
    assert (by_device == slope).all()
    assert slope.any()
    assert bool(host.rounds) == (gpu == "cells")
    # Others are of numbers that become words.
    assert (2 in {instances for _, _, instances in translated.launches}) == (gpu == "shots")


def test_the_simulator_refuses_a_single_run() -> None:
    with pytest.raises(DeviceError, match="runs no PTX") as caught:
        rg.run(propagate, pulse(8), np.zeros((8, 8)), medium(8), 1, engine="cuda")
    assert "run a batch" in str(caught.value)


def test_a_wave_forward_and_back(host: Any) -> None:
    n, steps = 14, 5
    given = pulse(n), np.zeros((n, n)), medium(n), steps
    there, expected = (rg.run(propagate, *given, engine=engine) for engine in ("cuda", "native"))
    assert (there.values.q == expected.values.q).all()
    assert (there.steps, there.engine) == (expected.steps, "cuda")
    back, expected = (rg.run(~propagate, *there.values, engine=engine) for engine in ("cuda", "native"))
    assert (back.values.q == expected.values.q).all()
    assert back.steps == expected.steps
    assert len(host.rounds) == 4 * steps
    # No cell is tested: a sum reads and writes each word once.
    assert (host.tested, host.measured) == (0, 2)


# ---------------------------------------------------------------------- arrays of the device

N, STEPS = 20, 3


def given(large: float = 1.0) -> tuple[Any, ...]:
    """The arguments of `misfit`, the loss apart."""
    return large * pulse(N), np.zeros((N, N)), medium(N), np.zeros(N), 3, STEPS


def there(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(rg.on_device(a) if isinstance(a, np.ndarray) else a for a in arguments)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of the host become words on the device, too."""
    monkeypatch.setattr(_device, "_MANY", 8)


class Copies:
    """The numbers of each copy to and from the device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        cuda = numba_cuda()
        array = type(cuda.device_array(1))
        for owner, name in ((cuda, "to_device"), (array, "copy_to_host"), (array, "copy_to_device")):
            monkeypatch.setattr(owner, name, self._noted(getattr(owner, name)))

    def _noted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(first: Any, *more: Any) -> Any:
            self.sizes.append(int(np.prod(first.shape)))
            return call(first, *more)

        return noted

    @property
    def large(self) -> list[int]:
        """Those of as many numbers as an array has, or more."""
        return [size for size in self.sizes if size >= N * N]


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Copies:
    return Copies(monkeypatch)


@pytest.mark.parametrize("argnums", ["c", ("q", "c"), None])
def test_gradients_by_arrays_of_the_device(host: Any, argnums: Any) -> None:
    """The loss is a number of the host, and gradients lie on the device."""
    value, slopes = rg.value_and_grad(misfit, argnums, engine="native")(0.0, *given())
    found, by_device = rg.value_and_grad(misfit, argnums, engine="cuda")(0.0, *there(given()))
    assert (found, type(found)) == (value, type(value))
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (by_device, slopes)), strict=True):
        assert isinstance(one, rg.DeviceArray)
        assert one.numpy().tobytes() == other.tobytes()
    assert host.rounds


def test_no_array_is_copied(host: Any, copies: Copies) -> None:
    """From arrays to arrays of the device, the host reads the loss."""
    f = rg.value_and_grad(misfit, "c", engine="cuda")
    args = there(given())
    f(0.0, *args)
    copies.sizes.clear()
    f(0.0, *args)
    assert copies.sizes
    # That of the simulator's kernels on the host, which compare all words with their bound.
    rounds, copies.sizes = len(host.rounds), [n for n in copies.sizes if n < 4 * N * N]
    assert rounds
    assert copies.large == []


def test_arrays_of_the_host_are_copied_once(host: Any, many: None, copies: Copies) -> None:
    """Three arrays to the device as numbers, one back as numbers; and the same bits."""
    args = given()
    expected = rg.grad(misfit, "c", engine="native")(0.0, *args)
    copies.sizes.clear()
    found = rg.grad(misfit, "c", engine="cuda")(0.0, *args)
    assert found.tobytes() == expected.tobytes()
    assert [n for n in copies.sizes if N * N <= n < 4 * N * N] == [N * N] * 4


def test_values_on_the_device_keep_their_words(host: Any) -> None:
    """A chain of runs, forward and back: words that a float64 would round are kept between them."""
    q, p, c, _, _, steps = given(1 << 26)
    expected = rg.run(propagate, q, p, c, steps, engine="native").values
    found = rg.run(propagate, *there((q, p, c)), steps, engine="cuda")
    assert found.steps == rg.run(propagate, q, p, c, steps, engine="native").steps
    assert found.values.q.numpy().tolist() == expected.q.tolist()
    assert isinstance(found.values.q.numpy(), WordArray)
    back = rg.run(~propagate, *found.values, engine="cuda").values
    before = rg.run(~propagate, *expected, engine="native").values
    assert (back.q.numpy().tolist(), back.p.numpy().tolist()) == (before.q.tolist(), before.p.tolist())
    assert not back.p.numpy().any()


def test_a_run_that_ends_on_the_host(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results lie on the device like those of others, empty arrays too."""
    monkeypatch.setattr(stepped_machine.DeviceMachine, "_can_translate", lambda *_: False)
    q, p, c, *others = given()
    expected = rg.run(propagate, q, p, c, STEPS, engine="native").values
    found = rg.run(propagate, *there((q, p, c)), STEPS, engine="cuda").values
    assert not host.rounds
    assert found.q.numpy().tobytes() == expected.q.tobytes()
    slope = rg.grad(misfit, "c", engine="cuda")(0.0, *there((q, p, c)), *others)
    assert slope.numpy().tobytes() == rg.grad(misfit, "c", engine="native")(0.0, q, p, c, *others).tobytes()
    none = rg.run(smoothed, 0.0, rg.on_device(np.zeros(90)), rg.on_device(np.zeros(90)), 0.5, engine="cuda")
    assert isinstance(none.values.y, rg.DeviceArray)


def test_a_refused_array_is_named(host: Any) -> None:
    class Lent:
        def __init__(self, array: Any) -> None:
            at = array.ctypes.data, True
            self.__cuda_array_interface__ = {
                "shape": array.shape, "typestr": array.dtype.str, "data": at, "version": 3, "strides": array.strides,
            }  # fmt: skip

    q, *others = given()
    with pytest.raises(DeviceError, match="`q` is not contiguous"):
        rg.grad(misfit, "c", engine="cuda")(0.0, Lent(q.T), *others)


def test_values_of_the_host_keep_their_words(host: Any, many: None) -> None:
    for large in (1, 1 << 26):
        args = (*given(large)[:3], STEPS)
        expected, found = (rg.run(propagate, *args, engine=engine).values for engine in ("native", "cuda"))
        assert found.q.tolist() == expected.q.tolist()
        assert type(found.q) is type(expected.q)


@reversible
def smoothed(loss: fixed, y: Array[fixed[40]], x: Array[fixed[40], "n"], keep: fixed):
    for i in range(1, len(x) - 1):
        y[i] += x[i - 1] + x[i + 1]
    loss += keep * fixed(y[5])


def test_binary_points_of_their_own(host: Any) -> None:
    """Words, and gradients that are scaled by them."""
    args = 0.0, np.zeros(90), np.linspace(-1, 1, 90), 0.5
    expected = rg.run(smoothed, *args, engine="native").values
    found = rg.run(smoothed, *there(args), engine="cuda").values
    assert [a.numpy().tobytes() for a in found[1:3]] == [a.tobytes() for a in expected[1:3]]
    assert host.rounds
    slope = rg.grad(smoothed, "x", engine="native")(*args)
    by_device = rg.grad(smoothed, "x", engine="cuda")(*there(args))
    assert isinstance(by_device, rg.DeviceArray)
    assert by_device.numpy().tobytes() == slope.tobytes()
    assert slope.any()


def test_float32s_and_arrays_of_other_libraries(host: Any) -> None:
    narrow = tuple(a.astype(np.float32) if isinstance(a, np.ndarray) else a for a in given())
    expected = rg.grad(misfit, "c", engine="native")(0.0, *narrow)
    found = rg.grad(misfit, "c", engine="cuda")(0.0, *there(narrow))
    assert found.numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("on_device", [False, True])
def test_numbers_that_lose_bits_are_reported_once(host: Any, many: None, on_device: bool) -> None:
    args = 0.0, np.zeros(90), np.linspace(-1, 1, 90), 0.5
    args[2][[7, 9]] = 3e-12, 1e-13
    with pytest.warns(PrecisionWarning, match=r"2 numbers .* `x\[7\]`") as expected:
        rg.grad(smoothed, "x", engine="native")(*args)
    with pytest.warns(PrecisionWarning) as found:
        rg.grad(smoothed, "x", engine="cuda")(*(there(args) if on_device else args))
    assert [str(w.message) for w in found] == [str(w.message) for w in expected]
    f = smoothed.with_options(precision="error")
    for one in (args, there(args)):
        with pytest.raises(InputError, match="RG0607"):
            rg.run(f, *one, engine="cuda")


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("number", [np.nan, 1e12])
def test_numbers_without_a_word_are_refused(host: Any, many: None, on_device: bool, number: float) -> None:
    args = list(given())
    args[2][4, 5] = number
    messages = []
    for engine in ("native", "cuda"):
        own = there(tuple(args)) if on_device and engine == "cuda" else args
        with pytest.raises(InputError) as caught:
            rg.grad(misfit, "c", engine=engine)(0.0, *own)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "(4, 5)" in messages[0]


@pytest.mark.parametrize("on_device", [False, True])
def test_traps_and_scales(host: Any, many: None, on_device: bool) -> None:
    """A loss that overflows, and a gradient that does at the first scale."""
    for large in (3e4, 300.0):
        found = []
        for engine in ("native", "cuda"):
            own = there(given(large)) if on_device and engine == "cuda" else given(large)
            try:
                slope = rg.grad(misfit, "c", engine=engine)(0.0, *own)
                found.append((slope.numpy() if isinstance(slope, rg.DeviceArray) else slope).tobytes())
            except rg.ProgramTrap as trap:
                found.append(str(trap))
        assert found[0] == found[1]


def test_a_program_without_parallel_loops_says_so(host: Any) -> None:
    with pytest.raises(InputError, match="single run without parallel loops"):
        rg.grad(chain, "x", engine="cuda")(0.0, rg.on_device(np.ones(3)))


@reversible
def chain(y: fixed, x: Array[fixed]):
    for i in range(len(x)):
        y += x[i] * x[i]


def test_arguments_on_two_devices_are_refused(host: Any) -> None:
    args = given()
    with pytest.raises(DeviceError, match="cuda:0 and cuda:1"):
        rg.grad(misfit, "c", engine="cuda")(0.0, rg.on_device(args[0]), rg.on_device(args[1], 1), *args[2:])


def test_the_second_device(host: Any) -> None:
    args = tuple(rg.on_device(a, 1) if isinstance(a, np.ndarray) else a for a in given())
    found = rg.grad(misfit, "c", engine="cuda")(0.0, *args)
    assert found.device == 1
    assert (found.numpy() == rg.grad(misfit, "c", engine="native")(0.0, *given())).all()


# ---------------------------------------------------------------------- memory here and there


@pytest.mark.parametrize("w", [rg.Format(64, 32), rg.Format(16, 8), rg.Format(4, 2)])
def test_words_wherever_they_lie(host: Any, gpu: Device, w: rg.Format) -> None:
    """A list of words, whatever is on the device in between."""
    draw, count = random.Random(5), 90
    words, model = ResidentWords(count, w, gpu), [0] * count
    moves = 0
    for _ in range(400):
        a, b = sorted(draw.randrange(count + 1) for _ in range(2))
        value = [draw.getrandbits(w.width) for _ in range(b - a)]
        match draw.randrange(9):
            case 0:
                words.there()
                moves += 1
            case 1:
                assert words.array.tolist() == model
                assert not words.is_there
            case 2:
                words[a:b] = model[a:b] = value
            case 3:
                words[a:b] = np.array(value, dtype=np.uint64)
                model[a:b] = value
            case 4 if a < count:
                words[a] = model[a] = draw.getrandbits(w.width)
            case 5 if a < count:
                assert words[a] == model[a]
                assert words[a - count] == model[a]
            case 6:
                assert words[a:b] == model[a:b]
                assert words[::3] == model[::3]
            case 7 if draw.random() < 0.1:
                words.clear_there()
                model = [0] * count
            case _:
                words._parts = 0
                assert words == model
                assert len(words) == count
        with pytest.raises(TypeError):
            words[a:b] = [1] * (b - a + 1)
    assert moves > 20


def test_a_machine_that_steps_gets_all_words(host: Any, gpu: Device) -> None:
    """Some parts are copied one by one, and then all of them."""
    words = ResidentWords(200, rg.Format(64, 32), gpu)
    words[:] = range(200)
    words.there()
    assert [words[i] for i in range(60)] == list(range(60))
    assert words.is_there
    assert [words[i] for i in range(200)] == list(range(200))
    assert not words.is_there


def test_memory_stays_on_the_device_from_run_to_run(make: Any, host: Any, copies: Copies) -> None:
    """Forward and back; then the machine goes step by step, and out of a pickle."""
    machine = make(nest(UPDATE))
    fill(machine, list(range(MEMORY)))
    machine.run()
    copies.sizes.clear()
    machine.turn()
    machine.run()
    assert machine.resident.is_there
    assert all(size < MEMORY for size in copies.sizes if size != MEMORY + 1), copies.sizes
    again = pickle.loads(pickle.dumps(machine))
    for one in (machine, again):
        assert one.memory[: len(machine.memory)] == list(range(MEMORY))
        one.turn()
        one.step()
        one.run()
    assert again.memory == machine.memory
    assert again.resident is not None
