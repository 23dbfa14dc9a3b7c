"""Batches on GPUs, by both tiers: Numba's simulator runs the interpreter's kernel, and the host runs the code of the translated kernel.

Words, steps and words lost are those of the CPU's batches and of the reference machine, however the batch is cut up.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from retrograd.assembler.assemble import assemble
from retrograd.examples import bessel, bundle_adjustment
from retrograd.isa.diagnostics import DeviceError, ImageError
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.batch.layout import BatchLayout
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda import runtime
from retrograd.simulator.engines.cuda.batch import Setting, Timed
from retrograd.simulator.engines.llvm.instructions import step_of
from retrograd.simulator.engines.translator.translate import OUT_OF_LINE
from support import generator, kernel_on_host

import retrograd as rg

#: random programs in the default tier, and in the full one in pieces that can run side by side
PROGRAMS, SLOW, SLOW_CHUNK = 8, 1600, 100
#: the same, for the interpreter in the simulator
INTERPRETED, SLOW_INTERPRETED = 3, 100
DEFAULT = Setting()
#: of every way to cut a batch up: one thread, threads without work, one instance in a piece, pieces that are no multiple of
#: the block, one device, the other one, both, each twice
SETTINGS = (
    DEFAULT,
    Setting(block=1, piece=1),
    Setting(block=32, piece=7),
    Setting(block=256, piece=1000),
    Setting(block=1024, piece=50, devices=[1]),
    Setting(block=96, piece=33, devices=[1, 0]),
    Setting(block=64, piece=20, devices=[0, 0, 1, 1]),
)

#: n in memory[0], fib(n) to memory[1]; recursion, and an uncall on the way back
FIBONACCI = """
        .memory 64
        .reg z, r0
        .reg n, r1
        .reg x, r2
        .reg y, r3
        .reg sp, r6
        proc fib, r4, r5
test:   goto.eq n, z, base
        sub n, 1
        st.add [sp + 8], r4
        ld.sub r4, [sp + 8]
        add sp, 1
        call fib
        sub sp, 1
        ld.add r4, [sp + 8]
        st.sub [sp + 8], r4
        fadd x, y
        swap x, y
skip:   goto join
base:   from test
        add x, 1
        add y, 1
join:   from.ne x, y, skip
        endproc
        start
        ld.add n, [z]
        call fib
        st.add [z + 1], x
        uncall fib
        ld.sub n, [z]
        finish
"""

#: loses memory[0] words
ERASING = """
        .memory 2
        .reg z, r0
        .reg n, r1
        .reg i, r2
        .reg x, r3
        start
        ld.add n, [z]
top:    from.ne i, z, bottom
        add x, 5
        erase x
        add i, 1
bottom: goto.ne i, n, top
        st.add [z + 1], i
        sub i, n
        ld.sub n, [z]
        finish
"""


def same(found: on_cores.RowResults, expected: on_cores.RowResults) -> None:
    for part in ("rows", "steps", "lost_words", "failed"):
        of_failed = part in ("steps", "lost_words")  # no engine reports the steps of an instance that fails
        kept = np.setdiff1d(np.arange(len(expected.rows)), expected.failed) if of_failed else slice(None)
        assert np.array_equal(getattr(found, part)[kept], getattr(expected, part)[kept]), part


def compare(
    program: rg.Program, rows: Any, setting: Setting = DEFAULT, *, cores: bool = True, **modes: Any
) -> on_cores.RowResults:
    """The GPU's results, which equal those of the CPU (with `cores`) and of the reference machine."""
    rows = np.asarray(rows, dtype=np.uint64)
    before = rows.copy()
    found = on_gpus.run_batch(program, rows, setting=setting, **modes)
    assert np.array_equal(rows, before)
    if cores:
        same(found, on_cores.run_batch(program, rows, threads=1, **modes))
    backward, limit = modes.get("backward", False), modes.get("limit")
    for i, row in enumerate(rows.tolist()):
        machine = rg.Machine(program, overflow=modes.get("overflow", True), backward=backward)
        machine.load(0, row)
        try:
            ended = machine.run(limit).stop.name == "HALTED"
        except rg.Trap:
            ended = False
        if i in found.failed:
            assert found.rows[i].tolist() == row
            # Compiled code looks at its limit where loops come round, and gives up a little before.
            assert not ended or (limit is not None and machine.retired > limit - 2 * len(program.code))
            continue
        assert ended
        assert found.rows[i].tolist() == list(machine.memory[: len(row)])
        assert found.steps[i] == machine.retired
        assert found.lost_words[i] * program.format.width == machine.erased_bits
    return found


def program_of(function: Any, *args: Any, **options: Any) -> tuple[rg.Program, Any]:
    """A reversible function's program for arguments like those of a batch, and the batch as words."""
    from retrograd.runtime._batch_arguments import Batch
    from retrograd.runtime._execution import Request

    batch = Batch(Request(function), args, {}, options.pop("in_axes", 0))
    compiled = function.compiled_for(batch.types(), **options)
    return compiled.program, batch.words(compiled).matrix


def bessels(count: int) -> tuple[Any, ...]:
    return np.zeros(count), np.linspace(0.2, 2, count)


def measurements(count: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(5)
    camera = np.array([0.1, -0.2, 0.05, 1, 2, -3, 500, 3, -2, 1e-3, 1e-5])
    cameras = camera * (1 + 0.01 * rng.normal(size=(count, 11)))
    return np.zeros((count, 2)), cameras, np.array([2.0, 1, 9]) + rng.normal(size=(count, 3))


# ---------------------------------------------------------------------- the same words


@pytest.mark.parametrize("share", [10, pytest.param(1, marks=pytest.mark.long)])
def test_examples(bare: Any, share: int) -> None:
    """`share`: one element in `share` is run."""
    these = (bessel.bessel, bessels(150 // share)), (bundle_adjustment.project, measurements(20 // share))
    for function, arguments in these:
        program, rows = program_of(function, *arguments)
        there = compare(program, rows)
        assert not len(there.failed)
        back = compare(program, there.rows, backward=True)
        assert np.array_equal(back.rows, rows)
        assert np.array_equal(back.steps, there.steps)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_however_it_is_cut_up(translated: Any, setting: Setting) -> None:
    program, rows = program_of(bessel.bessel, *bessels(300))
    rows[7, 1] = rows[200, 1] = 1 << 62  # whose square is too large
    found = on_gpus.run_batch(program, rows, setting=setting)
    same(found, on_cores.run_batch(program, rows))
    assert found.failed.tolist() == [7, 200]
    assert {block for _, block, _ in translated.launches} == {setting.block}
    assert all(count <= setting.piece for *_, count in translated.launches)
    assert sum(count for *_, count in translated.launches) == 300


def test_recursion_and_calls(tier: str) -> None:
    program = assemble(FIBONACCI)
    # The last two never come to the end: −1 counts down for ever, and 60 runs beside the stack.
    rows = np.array([[n, 0] for n in range(12)] + [[(1 << 64) - 1, 0], [60, 0]], dtype=np.uint64)
    found = compare(program, rows, limit=20_000, setting=Setting(block=4, piece=5))
    assert found.rows[:12, 1].tolist() == [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]
    assert found.failed.tolist() == [12, 13]


def test_words_lost(tier: str) -> None:
    found = compare(assemble(ERASING), [[n, 0] for n in range(1, 70)], setting=Setting(block=16, piece=9))
    assert found.lost_words.tolist() == list(range(1, 70))
    assert found.rows[:, 1].tolist() == list(range(1, 70))


def test_an_erasing_program_backward_fails_everywhere(tier: str) -> None:
    found = compare(assemble(ERASING), [[n, n] for n in range(1, 5)], backward=True)
    assert found.failed.tolist() == [0, 1, 2, 3]


def test_limits(tier: str) -> None:
    program = assemble(ERASING)
    rows = np.array([[n, 0] for n in range(1, 60)], dtype=np.uint64)
    steps = on_cores.run_batch(program, rows).steps
    for limit in (0, 1, int(steps[0]), int(steps[20]), int(steps[-1]), int(steps[-1]) + 40):
        found = on_gpus.run_batch(program, rows, limit=limit)
        done = np.setdiff1d(np.arange(len(rows)), found.failed)
        assert all(found.steps[done] <= limit)
        assert np.array_equal(found.rows[done, 1], rows[done, 0])
        assert np.array_equal(found.rows[found.failed], rows[found.failed])
        # Who has much more than is needed comes to the end.
        assert set(np.flatnonzero(steps + 2 * len(program.code) < limit)) <= set(done.tolist())
    assert len(done) == len(rows)


def test_who_runs_past_the_limit_fails(tier: str) -> None:
    """Without a loop no code tests the limit on the way: with too few steps no instance is begun."""
    program = assemble(".memory 1\nstart\nadd r1, 1\nadd r1, 2\nst.add [r0], r1\nfinish\n")
    steps = int(on_cores.run_batch(program, np.zeros((1, 1), dtype=np.uint64)).steps[0])
    for limit, failed in ((steps + 2, []), (steps - 1, [0, 1, 2]), (0, [0, 1, 2])):
        found = on_gpus.run_batch(program, np.full((3, 1), 7, dtype=np.uint64), limit=limit)
        assert found.failed.tolist() == failed
        assert found.rows[:, 0].tolist() == [7 if failed else 10] * 3


def test_updates_of_a_long_function_have_code_of_their_own(bare: Any) -> None:
    """d += f(a, b), d −= f(a, b) and d ^= f(a, b) in one program: calls share a function where it computes the same only."""
    words = rg.Format(32, 16)
    updates: dict[str, list[Opcode]] = {}
    for opcode in TABLE:
        if {"rd", "ra"} <= set(opcode.fields) <= {"rd", "ra", "rb", "imm"}:
            found = step_of(Instruction(opcode, rd=3, ra=1, rb=2, imm=1), words)
            if found.size > OUT_OF_LINE and found.update and not found.memory:
                updates.setdefault(opcode.entry.name, []).append(opcode)
    assert {"fexp", "flog", "fsin", "fcos", "fatan2"} <= updates.keys()
    for opcodes in updates.values():
        assert len(opcodes) > 1
        lines = [".memory 11", "start", "ld.add r1, [r0]", "ld.add r2, [r0 + 1]"]
        written = [(o, imm) for o in opcodes for imm in ((1, 2) if "imm" in o.fields else (None,))]
        for d, (opcode, imm) in enumerate(written, 3):
            given = [name for name, field in (("r1", "ra"), ("r2", "rb")) if field in opcode.fields]
            lines += [f"add r{d}, 3", ", ".join([f"{opcode.name} r{d}", *given, *([] if imm is None else [str(imm)])])]
            lines += [f"st.add [r0 + {d}], r{d}"]
        program = assemble("\n".join([*lines, "finish"]), format=words)
        rows = [[3 << 15, 5 << 14, *[0] * 9], [1 << 13, 1 << 18, *[0] * 9]]
        found = compare(program, rows)
        assert len(found.failed) < 2


def test_batches_of_none_and_one(translated: Any) -> None:
    program, rows = program_of(bessel.bessel, *bessels(3))
    for count in (0, 1):
        found = compare(program, rows[:count])
        assert found.rows.shape == (count, 2)
    assert len(translated.launches) == 1


def test_memory_behind_the_row_is_the_data(tier: str) -> None:
    """Word 0 is given; 1 and 2 are the program's data and 3 is zero, for an instance after another on the same thread too."""
    program = assemble(
        ".memory 4\n.data\n.word 0, 11, 22\n.text\nstart\nld.add r1, [r0 + 1]\nld.add r1, [r0 + 2]\nld.add r1, [r0 + 3]\n"
        "st.add [r0], r1\nst.add [r0 + 3], r1\nld.sub r1, [r0 + 2]\nst.add [r0 + 2], r1\nfinish\n"
    )
    found = compare(program, [[n] for n in range(40)], setting=Setting(block=1, piece=40))
    assert found.rows[:, 0].tolist() == [n + 33 for n in range(40)]


def test_rows_as_wide_as_memory_and_wider(tier: str) -> None:
    program = assemble(".memory 2\nstart\nld.add r1, [r0]\nst.add [r0 + 1], r1\nfinish\n")
    for width in (1, 2):
        compare(program, np.arange(1, 1 + 6 * width).reshape(6, width), setting=Setting(block=2, piece=3))
    wider = np.arange(30, dtype=np.uint64).reshape(6, 5)
    same(on_gpus.run_batch(program, wider, setting=Setting(block=2, piece=3)), on_cores.run_batch(program, wider))


def test_without_checks_words_wrap(tier: str) -> None:
    program = assemble(
        ".memory 3\nstart\nld.add r1, [r0]\nld.add r2, [r0 + 1]\nmul.add r3, r1, r2\nst.add [r0 + 2], r3\nfinish\n"
    )
    rows = np.array([[3, 5, 0], [1 << 62, 12, 0]], dtype=np.uint64)
    for modes in ({}, {"overflow": False}, {"checks": False}):
        expected = on_cores.run_batch(program, rows, **modes)
        same(on_gpus.run_batch(program, rows, **modes), expected)
    assert not len(expected.failed)


def test_hostile_addresses_without_checks(bare: Any) -> None:
    """A thread that leaves its memory fails; the next element that it runs finds none of its words there."""
    failed = total = 0
    for seed in range(4, 8):
        text, rows = generator.hostile_addresses(seed, rg.Format(64, 32), 20)
        program, words = assemble(text), np.array(rows, dtype=np.uint64)
        setting = Setting(block=(1, 4)[seed % 2], piece=(5, 20)[seed % 3 == 0])
        modes = {"checks": False, "backward": seed % 3 == 1, "limit": 3000}
        found = on_gpus.run_batch(program, words, setting=setting, **modes)
        same(found, on_cores.run_batch(program, words, **modes))
        failed, total = failed + len(found.failed), total + len(rows)
    assert 0.1 < failed / total < 0.9


# ---------------------------------------------------------------------- random programs


def loaded(case: Any) -> tuple[rg.Program, list[int]]:
    """A program that begins by loading the case's registers from memory, and the row that holds them; RG0306 where words are
    too narrow for the longer jumps. Instances of a batch begin with registers of zero."""
    p = case.program
    at, size = p.start + 1, len(case.registers)
    zero = next(r for r in range(256) if r not in case.registers)
    load = next(o for o in p.table if o.name == "ld.add")
    code = []
    for pc, i in enumerate(p.instructions):
        if "br" in i.opcode.writes and "imm" in i.opcode.reads:
            # A branch that turns round jumps in the mirrored code.
            to = pc - i.imm if i.opcode.turns else pc + i.imm
            moved = to + size * (to >= at) - pc - size * (pc >= at)
            code.append(encode(replace_imm(i, -moved if i.opcode.turns else moved)))
        else:
            code.append(encode(i))
    front = [encode(Instruction(load, rd=r, ra=zero, imm=p.memory + k)) for k, r in enumerate(case.registers)]
    longer = replace(p, code=[*code[:at], *front, *code[at:]], memory=p.memory + size)
    _ = longer.instructions
    memory = [*case.memory, *p.data[len(case.memory) :]]
    return longer, [*memory, *[0] * (p.memory - len(memory)), *case.registers.values()]


def replace_imm(i: Instruction, imm: int) -> Instruction:
    return i._replace(imm=imm)


def check_random(seed: int, widths: set[int]) -> tuple[int, int]:
    """(instances, of which failed) of a random program: as it is meant, and with registers that it does not expect."""
    case = generator.generate(seed)
    try:
        program, row = loaded(case)
    except ImageError:  # only words of 8 bits are too narrow for a jump, and of a shorter program they are not
        assert case.program.format.width == 8
        case = generator.generate(seed, sizes=(6, 20), formats=[(case.program.format, 1)])
        program, row = loaded(case)
    w, rng = program.format, random.Random(seed)
    rows = [row]
    for _ in range(11):
        other = row.copy()
        # A few registers at random, or one of the words in memory.
        for _ in range(rng.choice((1, 1, 2, 5))):
            place = rng.choice((rng.randrange(len(row)), len(row) - 1 - rng.randrange(len(case.registers))))
            other[place] = rng.getrandbits(w.width) >> rng.choice((0, 0, w.width // 2, w.width - 3))
        rows.append(other)
    setting = Setting(rng.choice((1, 4, 32, 64)), rng.choice((1, 5, 12, 100)), rng.choice(([0], [1], [0, 1])))
    limit = 2 * case.bound + 10 * len(program.code)
    modes = {"overflow": rng.random() < 0.7, "backward": rng.random() < 0.2}
    found = compare(program, rows, setting, cores=seed % 4 == 0, limit=limit, **modes)
    widths.add(w.width)
    return len(rows), len(found.failed)


def test_random_programs(bare: Any) -> None:
    widths: set[int] = set()
    total = [check_random(seed, widths) for seed in range(PROGRAMS)]
    assert widths == {8, 16, 32, 64}
    failed = sum(f for _, f in total)
    assert 0.1 < failed / sum(n for n, _ in total) < 0.9
    # On the same threads, side by side with others that go on.
    assert any(0 < f < n for n, f in total)


def test_random_programs_are_interpreted() -> None:
    total = [check_random(seed, set()) for seed in range(INTERPRETED)]
    assert 0 < sum(f for _, f in total) < sum(n for n, _ in total)


@pytest.mark.long
@pytest.mark.parametrize("first", range(INTERPRETED, INTERPRETED + SLOW_INTERPRETED, 10))
def test_many_random_programs_are_interpreted(first: int) -> None:
    for seed in range(first, first + 10):
        try:
            check_random(seed, set())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.long
@pytest.mark.parametrize("first", range(PROGRAMS, PROGRAMS + SLOW, SLOW_CHUNK))
def test_many_random_programs(bare: Any, first: int) -> None:
    for seed in range(first, first + SLOW_CHUNK):
        try:
            check_random(seed, set())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


# ---------------------------------------------------------------------- memory


def test_pieces_shrink_to_the_memory_there_is(translated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program, rows = program_of(bessel.bessel, *bessels(4000))
    expected = on_cores.run_batch(program, rows)
    monkeypatch.setattr(on_gpus, "memory_of_device", lambda _: (200_000, 1 << 20))
    same(on_gpus.run_batch(program, rows, setting=Setting(block=32)), expected)
    pieces = [count for *_, count in translated.launches]
    assert len(pieces) > 2
    assert sum(pieces) == 4000


def test_too_little_memory(translated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program, rows = program_of(bessel.bessel, *bessels(10))
    monkeypatch.setattr(on_gpus, "memory_of_device", lambda _: (100, 1000))
    with pytest.raises(DeviceError, match="has no room for") as caught:
        on_gpus.run_batch(program, rows)
    assert caught.value.code == "RG1004"


# ---------------------------------------------------------------------- failing calls


class CudaAPIError(Exception):
    """An error as Numba raises it: it is known by its name."""


@pytest.fixture(scope="module")
def work() -> tuple[rg.Program, Any, on_cores.RowResults]:
    program, rows = program_of(bessel.bessel, *bessels(60))
    return program, rows, on_cores.run_batch(program, rows)


#: calls that a batch makes, each of which may fail
CALLS = ("stream", "device_array", "pinned_array", "to_device", "event")
ERRORS = {"CUDA_ERROR_OUT_OF_MEMORY": "RG1004", "CUDA_ERROR_UNKNOWN": "RG1005", "CUDA_ERROR_INVALID_PTX": "RG1003"}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_may_fail(translated: Any, work: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The first and a later call; afterwards all works again."""
    program, rows, expected = work
    cuda = runtime.numba_cuda()
    original = getattr(cuda, name)
    for text, code in ERRORS.items():
        for nth in (0, 2):
            left = [nth]

            def failing(*args: Any, left: list[int] = left, text: str = text, **more: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise CudaAPIError(f"[999] Call to a function results in {text}")
                return original(*args, **more)

            with monkeypatch.context() as patch:
                patch.setattr(on_gpus, "pinned_memory", on_gpus.KeptMemory("pinned_array"))
                patch.setattr(on_gpus, "device_memory", on_gpus.KeptMemory("device_array"))
                patch.setattr(cuda, name, failing)
                with pytest.raises(DeviceError, match=text) as caught:
                    on_gpus.run_batch(program, rows, setting=Setting(8, 11), timed=Timed())
            assert caught.value.code == code
            same(on_gpus.run_batch(program, rows, setting=Setting(8, 11), timed=Timed()), expected)


def test_a_kernel_that_faults(translated: Any, work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program, rows, _ = work

    def fault(*_: Any) -> None:
        raise CudaAPIError("[700] Call to cuStreamSynchronize results in CUDA_ERROR_ILLEGAL_ADDRESS")

    monkeypatch.setattr(translated, "launch", fault)
    with pytest.raises(DeviceError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        on_gpus.run_batch(program, rows, setting=Setting(devices=[0]))
    assert caught.value.code == "RG1005"
    assert "new process" in str(caught.value)


def test_faults_of_ours_are_no_device_errors(translated: Any, work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translated, "launch", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        on_gpus.run_batch(*work[:2])


def test_no_such_device(translated: Any, work: Any) -> None:
    program, rows, _ = work
    with pytest.raises(DeviceError) as caught:
        on_gpus.run_batch(program, rows, setting=Setting(devices=[0, 2]))
    assert caught.value.code == "RG1002"


# ---------------------------------------------------------------------- progress


def test_progress_is_told_piece_by_piece(translated: Any, work: Any) -> None:
    program, rows, _ = work
    for devices, pieces in (([0], [25, 25, 10]), ([0, 1], [25, 25, 5, 5])):
        told: list[int] = []
        on_gpus.run_batch(program, rows, setting=Setting(piece=25, devices=devices), progress=told.append)
        assert sorted(told, reverse=True) == pieces
        assert len(devices) > 1 or told == pieces


def test_copies_overlap(translated: Any, work: Any) -> None:
    """Three pieces are under way before the first is waited for."""
    program, rows, _ = work
    seen: list[int] = []
    on_gpus.run_batch(
        program, rows, setting=Setting(piece=10, devices=[0]), progress=lambda _: seen.append(len(translated.launches))
    )
    assert seen == [3, 4, 5, 6, 6, 6]


# ---------------------------------------------------------------------- the public face


def test_run_batch(tier: str) -> None:
    arguments = bessels(50)
    found, expected = (rg.run_batch(bessel.bessel, *arguments, engine=e) for e in ("cuda", "reference"))
    assert found.engine == "cuda"
    for part in ("matrix", "steps", "erased_bits"):
        assert np.array_equal(getattr(found, part), getattr(expected, part))
    back = rg.run_batch(bessel.bessel, *found.values[:2], engine="cuda", backward=True)
    assert not back.values.out.any()


def test_traps(tier: str) -> None:
    out, z = bessels(20)
    z[[3, 17]] = 60_000.0
    found, expected = (rg.run_batch(bessel.bessel, out, z, engine=e, traps="return") for e in ("cuda", "reference"))
    assert sorted(found.traps) == [3, 17]
    assert np.array_equal(found.matrix, expected.matrix)
    for i, trap in found.traps.items():
        assert str(trap) == str(expected.traps[i])
        assert trap.machine.state() == expected.traps[i].machine.state()
    with pytest.raises(rg.ElementTrap, match="element 3") as caught:
        rg.run_batch(bessel.bessel, out, z, engine="cuda")
    assert np.array_equal(caught.value.result.matrix, expected.matrix)


def test_steps_are_limited_to_the_step(translated: Any) -> None:
    """Who stops early on the GPU is run by a machine that counts exactly."""
    out, z = bessels(20)
    steps = rg.run_batch(bessel.bessel, out, z).steps
    for limit in (int(steps[10]), int(steps[10]) - 1):
        found = rg.run_batch(bessel.bessel, out, z, engine="cuda", max_steps=limit, traps="return")
        assert sorted(found.traps) == np.flatnonzero(steps > limit).tolist()


def test_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.numba_cuda(), "is_available", lambda: False)
    with pytest.raises(DeviceError) as caught:
        rg.run_batch(bessel.bessel, *bessels(3), engine="cuda")
    assert caught.value.code == "RG1002"


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Divide the batches of the public face in some way."""
    original = on_gpus.run_arrays

    def cut(setting: Setting) -> None:
        monkeypatch.setattr(on_gpus, "run_arrays", lambda *a, **k: original(*a, **{**k, "setting": setting}))

    return cut


def test_gradients_have_the_same_bits_however_they_are_cut_up(translated: Any, cut: Any) -> None:
    out, z = bessels(40)
    gradient = rg.value_and_grad(bessel.bessel, "z", scale=14)
    values, slopes = rg.vmap(gradient, engine="native")(out, z)
    alone = [gradient(0.0, x) for x in z[:5]]
    assert [(float(v), float(s)) for v, s in zip(values[:5], slopes[:5], strict=True)] == [
        (float(v), float(s)) for v, s in alone
    ]
    bits: list[Sequence[bytes]] = []
    for setting in SETTINGS:
        cut(setting)
        there = rg.vmap(gradient, engine="cuda")(out, z)
        bits.append([part.tobytes() for part in there])
        assert translated.launches[-1][1] == setting.block
    assert bits == [[values.tobytes(), slopes.tobytes()]] * len(SETTINGS)
    assert math.isclose(slopes[-1], bessel_slope(z[-1]), abs_tol=1e-8)


def bessel_slope(z: float) -> float:
    """d/dz J₂(z), by its series in float64."""
    terms = [
        (-1) ** k * (2 * k + 2) / (math.factorial(k) * math.factorial(k + 2)) * z ** (2 * k + 1) / 2 ** (2 * k + 2)
        for k in range(20)
    ]
    return math.fsum(terms)


# ---------------------------------------------------------------- shared words, and sums over the batch


#: M[3] += M[0]·M[2], M[1] −= M[2] / M[0]: of shared words and an instance's own
MIXED = """
        .memory 5
        .text
        start
        ld.add r1, [r0]
        ld.add r2, [r0 + 2]
        mul.add r3, r1, r2
        st.add [r0 + 3], r3
        div.add r4, r2, r1
        st.sub [r0 + 1], r4
        finish
"""
OWN = BatchLayout(given=((2, 1), (0, 1)), kept=((3, 1),), summed=((1, 1), (3, 2)))


@pytest.mark.parametrize("block", [*(pytest.param(n, marks=pytest.mark.long) for n in (1, 32, 96)), 33])
@pytest.mark.parametrize("piece", [1 << 18, 7, pytest.param(40, marks=pytest.mark.long)])
def test_sums_are_those_of_the_cores(tier: str, block: int, piece: int) -> None:
    """Sums depend neither on blocks nor on pieces nor on devices; an instance that traps adds nothing."""
    rng = np.random.default_rng(block * piece)
    count = 150 if tier == "translated" else 30
    rows = rng.integers(0, 1 << 64, (count, 2), dtype=np.uint64)
    rows[::13, 1] = 0
    program, modes = (
        rg.assemble(MIXED),
        {"columns": OWN, "shared": np.array([0, 5, 0, 7], np.uint64), "overflow": False},
    )
    expected = on_cores.run_batch(program, rows, **modes)
    assert len(expected.failed) == -(-count // 13)
    for devices in ([0], [0, 1]):
        found = on_gpus.run_batch(program, rows, setting=Setting(block=block, piece=piece, devices=devices), **modes)
        same(found, expected)
        assert found.sums == expected.sums


def test_a_warp_adds_up() -> None:
    """Its threads run at once, here, and exchange words by the kernel's own code: two warps of which the second is not full."""
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 1 << 64, (32 + 13, 2), dtype=np.uint64)
    rows[::5, 1] = 0
    program, modes = rg.assemble(MIXED), {"columns": OWN, "shared": np.zeros(5, np.uint64), "overflow": False}
    expected = on_cores.run_batch(program, rows, **modes)
    sums, exchanges = kernel_on_host.in_warps(program, rows, OWN, warps=2, overflow=False)
    assert sums == expected.sums
    # Each of three words is two numbers, each of them exchanged five times, in halves: by all threads of both warps.
    assert exchanges == 3 * 2 * 5 * 2 * 64


def test_pinned_memory_is_kept(gpu: runtime.Device, translated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later batch takes the blocks of an earlier one; blocks beyond the limit are given up, the oldest first."""
    taken: list[int] = []
    numba_cuda = runtime.numba_cuda()
    pinned_array = numba_cuda.pinned_array
    monkeypatch.setattr(numba_cuda, "pinned_array", lambda size, *rest: taken.append(size) or pinned_array(size, *rest))
    monkeypatch.setattr(on_gpus, "pinned_memory", on_gpus.KeptMemory("pinned_array"))
    program = assemble(".memory 2\nstart\nld.add r1, [r0]\nst.add [r0 + 1], r1\nld.sub r1, [r0]\nfinish\n")
    rows = np.arange(40, dtype=np.uint64).reshape(20, 2)
    setting = Setting(piece=5, devices=[0])
    first = on_gpus.run_batch(program, rows, setting=setting)
    assert len(taken) == on_gpus.LANES
    again = on_gpus.run_batch(program, rows[::-1].copy(), setting=setting)
    assert len(taken) == on_gpus.LANES
    assert again.rows.tolist() == first.rows[::-1].tolist()
    on_gpus.run_batch(program, rows, setting=Setting(piece=20, devices=[0]))  # larger pieces
    assert len(taken) == on_gpus.LANES + 1

    memory = on_gpus.KeptMemory("pinned_array")
    monkeypatch.setattr(on_gpus, "KEPT", 100)
    with runtime.on(gpu) as cuda:
        blocks = [memory.take(cuda, gpu, size) for size in (60, 30, 50)]
        for block in blocks:
            memory.keep(gpu, block)
        taken.clear()
        assert memory.take(cuda, gpu, 25) is blocks[1]
        assert memory.take(cuda, gpu, 25) is blocks[2]
        assert memory.take(cuda, gpu, 60) is not blocks[0]
    assert taken == [60]
