"""Random transfers of a host against a model of the co-processor, and planted faults that they find."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from retrograd.hdl.bus.register_map import Area, HostRegister
from retrograd.isa.words import Format
from support import bench, bus_model

Q32, Q64 = Format(32, 16), Format(64, 32)


def random_host(w: Format, seed: int, transfers: int, fresh: bool = False, dma: bool = False) -> Counter[str]:
    """Random transfers against the model. How often runs ended in each way, and transfers were refused."""
    p, rng, seen = bench.parameters(w, dma=dma), random.Random(seed), Counter[str]()
    model, host = bus_model.Model(p), bus_model.Random(rng, p)
    memory = bench.Memory(host.host_memory(), bus_model.HOST, seed=seed)
    memory.refused = {bus_model.HOST + 8 * p.code_words + 4 * rng.randrange(20, 48) for _ in range(2 * dma)}
    model.host, model.first, model.refused = list(memory.words), bus_model.HOST, memory.refused
    sent = 0

    async def script(bus: Any) -> None:
        nonlocal sent
        ctx, made = bus.ctx, bus.made

        def busy() -> bool:
            return bool(ctx.get(made.busy))

        async def settle() -> None:
            """Let the run end, and words become zero; a run that may not end is stopped."""
            if model.limit is not None and model.limit > 100 and busy():
                await do(bus_model.Transfer(HostRegister.CONTROL.value << 3, bus_model.STOP))
            for _ in range(1000):
                if not busy():
                    break
                await ctx.tick().repeat(20)
            else:
                raise AssertionError("the core does not end")
            if model.copying:
                left = await bus.get(HostRegister.DMA_LENGTH)
                model.kept = {HostRegister.DMA_LENGTH.value: 0}
                seen[model.copied(await status_now(), left)] += 1
                assert memory.words == model.host, f"the host's memory, seed {seed}"
                # The last words of both are compared with those of the model by reads.
                for area in (Area.DATA, Area.REGISTERS) if rng.random() < 0.2 else ():
                    for at in range(8):
                        await do(bus_model.Transfer(bus_model.address(area, at)))
            if model.limit is not None:
                # These reads keep their high halves, in the model too.
                retired = await bus.get(HostRegister.RETIRED)
                model.kept = {HostRegister.RETIRED.value: retired >> 32}
                seen[model.ended(await status_now(), retired)] += 1

        async def status_now() -> int:
            found = await bus.transfer(HostRegister.STATUS.value << 3)
            model.kept = {HostRegister.STATUS.value: 0}
            return found

        async def do(transfer: Any) -> bool:
            """Whether it was carried out, or lost."""
            if transfer.lost:
                return True
            if transfer.waits:
                await settle()
            now = busy()
            if not now:
                await settle()
            expected = model.transfer(transfer.address, transfer.word, transfer.sel, now, transfer.cut)
            what = f"{transfer} number {sent}, seed {seed}"
            if transfer.cut:
                await bus.give_up(transfer.address, transfer.word, transfer.sel)
                return expected is not None
            try:
                found = await bus.transfer(transfer.address, transfer.word, transfer.sel)
            except bench.Refused:
                assert expected is None, what
                seen["refused"] += 1
                return False
            assert expected is not None, what
            if transfer.word is None and expected >= 0:
                assert found == expected, (what, hex(found), hex(expected))
            return True

        # Words that an earlier script has left.
        await bus.set(HostRegister.CONTROL, bus_model.ZERO_WORDS | bus_model.ZERO_COTANGENTS)
        await bus.finished()
        model.interrupt_pending, model.kept = 8, {HostRegister.STATUS.value: 0}
        for transfer in host.load():
            await do(transfer)
        for _ in range(transfers):
            # Of a run that goes on some transfers are refused; then it ends.
            if rng.random() < (0.3 if model.limit is not None else 0.8):
                await settle()
            for transfer in host.any():
                sent += 1
                # After a refused half the other is not sent: half an instruction is illegal.
                if not await do(transfer) and transfer.word is not None:
                    break
        await settle()
        for area, size in (
            (Area.REGISTERS, 8),
            (Area.DATA, bench.DATA_WORDS),
            (Area.DATA_COTANGENTS, bench.DATA_WORDS),
        ):
            for at in range(size):
                await do(bus_model.Transfer(bus_model.address(area, at)))

    bench.on_bus(p, script, memory=memory, fresh=fresh)
    return seen


@pytest.mark.long
@pytest.mark.parametrize(("w", "seed", "transfers"), [
    (Q32, 1, 200), *(pytest.param(w, seed, 2000, marks=pytest.mark.long) for w in (Q32, Q64) for seed in range(2, 6)),
])  # fmt: skip
def test_a_random_host(w: Format, seed: int, transfers: int) -> None:
    seen = random_host(w, seed, transfers)
    assert min(seen[how] for how in ("refused", "limit", "halted", "trapped")) > 0, seen


@pytest.mark.long
@pytest.mark.parametrize(
    ("w", "seed", "transfers"), [(Q32, 1, 500), *((w, seed, 2000) for w in (Q32, Q64) for seed in (2, 3))]
)
def test_a_random_host_with_copies(w: Format, seed: int, transfers: int) -> None:
    seen = random_host(w, seed, transfers, dma=True)
    ends = ("refused", "limit", "halted", "trapped", "copied", "copy_failed", "copy stopped")
    assert min(seen[how] for how in ends) > 0, seen


#: A simulator whose script has failed is dropped within a clock cycle, and Python complains about its coroutine.
DROPPED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
#: what stands in host.py, and what is planted there
FAULTS = [
    ("waiting.valid & (waiting.slot == here)", "waiting.valid"),
    ("kept.valid & (kept.slot == here)", "kept.valid"),
    ("waiting.valid.eq(0)", "waiting.valid.eq(waiting.valid)"),
    ("running.eq(Mux(obeyed.step | (steps != 0), commanded, 0))", "running.eq(1)"),
    ("place.eq(Mux(inside, place + 1, 0))", "place.eq(Mux(inside, place + 2, 0))"),
    ("pointer.index.eq(pointer.index + 1)", "pointer.index.eq(pointer.index)"),
    ("pending.as_value() & ~cleared.as_value()", "pending.as_value()"),
    ("~busy & (bus.sel.all() | ~bus.we)", "(bus.sel.all() | ~bus.we)"),
    ("allowed.eq(bus.sel.all() & (~busy | free) & ~fixed)", "allowed.eq(bus.sel.all() & ~fixed)"),
]


@pytest.mark.long
@DROPPED
@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_a_random_host_finds_planted_faults(planted: Callable[[str, str, str], type], old: str, new: str) -> None:
    planted("bus.host_interface", old, new)
    w = Format(16, 8)
    with pytest.raises(AssertionError):
        random_host(w, 2, 2000, fresh=True)


#: places in the sources of direct memory access, and faults that are planted there
COPY_FAULTS = [
    ("bus.host_interface", "address.eq(address + 1)", "address.eq(address + 2)"),
    ("bus.host_interface.DirectMemoryAccess", "with m.Elif(memory.ack):", "with m.Else():"),
    ("bus.host_interface", "stops | (length == 0)", "stops | (length <= 1)"),
    ("bus.host_interface", "memory.cyc.eq(~last)", "memory.cyc.eq(0)"),
    ("bus.host_interface", "high.eq(~ends_word)", "high.eq(0)"),
    ("bus.host_interface", "self.read.eq(outwards & ends_word & ~last)", "self.read.eq(outwards & ends_word)"),
    ("bus.host_interface", "refused.eq(bus.dat_w[:2].any())", "refused.eq(0)"),
    ("bus.host_interface", "pointer.index + dma.length <= size", "pointer.index <= size"),
    ("bus.host_interface", "write.index.eq(Mux(streams, pointer.index, number))", "write.index.eq(index)"),
    ("bus.host_interface", "goes_on = goes_on | dma.read | dma.write", "goes_on = goes_on | dma.write"),
]


@pytest.mark.long
@DROPPED
@pytest.mark.parametrize(("part", "old", "new"), COPY_FAULTS)
def test_copies_find_planted_faults(planted: Callable[[str, str, str], type], part: str, old: str, new: str) -> None:
    planted(part, old, new)
    with pytest.raises(AssertionError):
        random_host(Format(16, 8), 2, 600, fresh=True, dma=True)
