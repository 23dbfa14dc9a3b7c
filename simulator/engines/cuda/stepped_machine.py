"""Machines whose single runs execute parallel loops on a device, by stepped launches (stepped_code.py).

    machine = device_machine(program, device(0))
    machine.run()

A run copies registers and memory to the device, launches the three kernels until the program has ended, and copies the state back. One thread of
the device executes the code outside parallel loops. A run stays on the CPU if it does not begin at an end of its program, or if cotangents move along. It goes on
in the interpreter on the CPU before an instruction that the translation leaves out. A failed check is undone there, too.

Launches run in a thread of their own, so that Ctrl-C can stop the run between two launches, at a safepoint.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.program import Program
from retrograd.isa.table import Table
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda.batch import BLOCK
from retrograd.simulator.engines.cuda.runtime import Device, Kernel, address_of_array, device, on, profiled
from retrograd.simulator.engines.cuda.stepped_code import (
    ADD,
    STEPS,
    TEST,
    Plan,
    PlanSlot,
    device_loops,
    stepped_ptx,
)
from retrograd.simulator.engines.machines.array_machine import ArrayMachine
from retrograd.simulator.engines.machines.native import NativeEngine, variant_of
from retrograd.simulator.engines.state.control_block import Exit, Slot, TranslatedSlot
from retrograd.simulator.engines.state.words import ArrayWords, zeros
from retrograd.simulator.engines.translator.flow import Variant, flow_of
from retrograd.simulator.engines.translator.translations import executed_by, most_lost_words
from retrograd.simulator.machine import Machine

#: rounds of three launches between two looks at the plan: 1, 2, 4, … up to this number
MOST_ROUNDS = 64
#: exits behind which the run goes on in the next launch
_GOES_ON = (Exit.ROWS, Exit.PAUSED)


class SteppedKernels:
    """The three kernels of a program, on a device. Raises DeviceError RG1003 if the driver does not accept them."""

    def __init__(self, program: Program, variant: Variant, where: Device) -> None:
        text = stepped_ptx(program, variant, where.target)
        self.kernels = [Kernel(text, name, where) for name in (STEPS, TEST, ADD)]
        blocks = min(kernel.blocks_per_multiprocessor(BLOCK) for kernel in self.kernels[1:])
        self.grid = max(1, blocks) * where.multiprocessors

    def launch(self, run: list[Any], cells: list[Any], stream: Any) -> None:
        """Queue the three, in their order."""
        steps, test, add = self.kernels
        steps.launch(1, 1, run, stream)
        test.launch(self.grid, BLOCK, cells, stream)
        add.launch(self.grid, BLOCK, cells, stream)


@lru_cache(64)
def _kernels(code: tuple[int, ...], w: Format, table: Table, variant: Variant, where: Device) -> SteppedKernels:
    return SteppedKernels(Program(code, format=w, table=table), variant, where)


class DeviceEngine(NativeEngine):
    """Machine code for a machine, whose translation runs on a device."""

    def __init__(self, machine: Machine, where: Device) -> None:
        super().__init__(machine)
        self.device = where

    def translated(self, machine: Machine, left: int) -> int:
        if machine._differentiating:
            return super().translated(machine, left)
        steps = left
        if machine._pc == (machine.program.finish if machine._direction < 0 else machine.program.start):
            left -= 1
            self.step_over_end(machine)
        variant = replace(variant_of(machine), ghosts=None)
        run = _SteppedRun(self, machine, variant, left)
        with profiled("retrograd run"):
            interrupted = run.in_a_thread()
        self.leave_machine(machine, self.control, run.why, executed_by(run.flow), run.counts)
        self.name = "cuda"
        window = int(self.control[TranslatedSlot.WINDOW])
        if window:
            self._undo(machine, window)
        if interrupted is not None:
            raise interrupted
        return steps - int(self.control[Slot.LEFT]) - window


class _SteppedRun:
    """One run: its words on the device, and its launches."""

    def __init__(self, engine: DeviceEngine, machine: Machine, variant: Variant, left: int) -> None:
        self.engine, self.variant = engine, variant
        self.program = machine.program
        self.flow = flow_of(machine.program, variant)
        self.counts = np.zeros(len(self.flow.counters), dtype=np.int64)
        self.log = zeros(most_lost_words(self.flow) + 1, machine.format)
        self.plan = np.array(Plan(device_loops(machine.program, variant)).new(), dtype=np.int64)
        registers, memory = machine._registers, machine._memory
        assert isinstance(registers, ArrayWords)
        assert isinstance(memory, ArrayWords)
        self.registers, self.memory = registers.array, memory.array
        control = engine.control
        control[Slot.LEFT], control[Slot.BR], control[Slot.LOGGED] = left, 0, 0
        self.why: int = Exit.PAUSED
        self.stopping = False
        self.failure: BaseException | None = None

    def in_a_thread(self) -> BaseException | None:
        """Run it to its end. Returns the exception that stopped it early, such as Ctrl-C. Raises DeviceError."""
        ended = threading.Event()

        def work() -> None:
            try:
                self._run()
            except BaseException as error:
                self.failure = error
            ended.set()

        threading.Thread(target=work, daemon=True).start()
        interrupted = None
        while not ended.is_set():
            try:
                # A signal that arrives just before the wait does not end it, so that none lasts long.
                while not ended.wait(0.1):
                    pass
            except BaseException as error:
                interrupted, self.stopping = error, True
        if self.failure is not None:
            raise self.failure
        return interrupted

    def _run(self) -> None:
        program, control, where = self.program, self.engine.control, self.engine.device
        kernels = _kernels(program.code, program.format, program.table, self.variant, where)
        spare = np.zeros(1, self.memory.dtype)
        with on(where) as cuda:
            memory = cuda.to_device(np.concatenate([self.memory, spare]))
            log, registers = cuda.to_device(self.log), cuda.to_device(self.registers)
            counts, plan = cuda.to_device(self.counts), cuda.to_device(self.plan)
            control[Slot.LOG] = address_of_array(log)
            words = cuda.to_device(control)
            stream, rounds = cuda.stream(), 1
            while self.why in _GOES_ON and not (self.stopping and self.why == Exit.PAUSED):
                if self.stopping:
                    # The next safepoint ends the launch.
                    self.plan[PlanSlot.SLICE] = 0
                    plan = cuda.to_device(self.plan, stream)
                    rounds = 1
                for _ in range(rounds):
                    given = [words, registers, memory, len(self.memory), counts, plan]
                    kernels.launch(given, [memory, plan], stream)
                plan.copy_to_host(self.plan, stream)
                stream.synchronize()
                self.why = int(self.plan[PlanSlot.WHY])
                rounds = min(2 * rounds, MOST_ROUNDS)
            self._receive((words, control), (registers, self.registers), (log, self.log), (counts, self.counts))
            self.memory[:] = memory.copy_to_host()[:-1]
        control[Slot.LOG] = self.log.ctypes.data

    def _receive(self, *pairs: tuple[Any, NDArray[Any]]) -> None:
        for there, here in pairs:
            here[:] = there.copy_to_host()


class DeviceMachine(ArrayMachine):
    """A machine whose runs from one end of its program execute parallel loops on a device."""

    def __init__(self, program: Program, where: Device, **keywords: Any) -> None:
        super().__init__(program, engine="cuda", **keywords)
        self._device = where

    def _new_engine(self) -> NativeEngine:
        return DeviceEngine(self, self._device)


def has_parallel_loops(program: Program) -> bool:
    """Whether a device executes a loop of the program, forward or backward, in parallel."""
    return any(device_loops(program, Variant(backward=backward)) for backward in (False, True))


def device_machine(program: Program, where: Device | None = None, **modes: Any) -> DeviceMachine:
    """A machine of the engine `cuda`, by default on the first device. Raises DeviceError RG1002 if there is none."""
    return DeviceMachine(program, device() if where is None else where, **modes)
