"""The words that operands of the overlapped core are selected from: the microcode selects exactly the recorded ones, and the network has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from amaranth.hdl import Shape
from amaranth.sim import Simulator
from retrograd.hdl.core.overlapped import OperandNetwork
from retrograd.hdl.microcode import Microcode, Selections, microcode_for
from retrograd.hdl.microword import LATCHES, WIDE_PROMPT, Select, wide_select
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

FORMATS = [Format(8, 4), pytest.param(Format(32, 16), marks=pytest.mark.long)]
SLOTS = 2
PORTS = [f"{port}{slot}" for slot in range(SLOTS) for port in "xyz"]


def code_of(w: Format) -> Microcode:
    return microcode_for(Parameters(w, code_words=8, data_words=4, core="fast"))


def reader(layout: Any, *path: str) -> Callable[[int], int]:
    """The function that takes a field out of a packed record."""
    offset = 0
    for name in path:
        offset, layout = offset + layout[name].offset, layout[name].shape
    mask = (1 << Shape.cast(layout).width) - 1
    return lambda packed: packed >> offset & mask


def programs(code: Microcode) -> Iterator[tuple[int, list[int]]]:
    """Each entry of the dispatch memory, with the rows of its program."""
    legal, word, start = (reader(code.entry, name) for name in ("legal", "word", "start"))
    last = reader(code.microword, "commit", "last")
    for head in code.dispatch:
        if legal(head):
            body, at = [word(head)], start(head)
            while not last(body[-1]):
                body.append(code.rows[at])
                at += 1
            yield head, body


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_the_packed_rows_select_exactly_what_is_recorded(w: Format) -> None:
    """No selection is packed as 0, the number of D; so D is compared only where it is recorded."""
    code = code_of(w)
    word = code.microword
    first = {port: reader(code.entry, port.removesuffix("0")) for port in PORTS}
    select = {f"{x}{k}": reader(word, *([f"slot{k}"] if k else []), x, "select") for k in range(SLOTS) for x in "xyz"}
    changes = ("first", "last", "field", "shadow", "memory", "memory_cotangent")
    commit = {name: reader(word, "commit", name) for name in changes}
    ending = {name: reader(word, "ending", name) for name in ("last", "field", "shadow", "stores")}
    found = {port: Selections() for port in PORTS}
    for head, body in programs(code):
        for port, at in found.items():
            lines = first[port](head)
            at.first.update(k for k in range(lines.bit_length()) if lines >> k & 1)
            for row, following in pairwise(body):
                writes = any(commit[name](following) for name in changes)
                (at.written if writes else at.later).add(select[port](row))
        # The row before the last write has the fields that it writes.
        assert [ending["last"](row) for row in body] == [0] * (len(body) - 2) + [1, 0]
        assert all(ending[name](body[-2]) == commit[name](body[-1]) for name in ("field", "shadow"))
        stores = commit["memory"](body[-1]) | commit["memory_cotangent"](body[-1])
        assert ending["stores"](body[-2]) == stores
    for port, at in found.items():
        for kind in ("first", "later", "written"):
            assert getattr(at, kind) | {0} == getattr(code.selections[port], kind) | {0}, (port, kind)


def driven(code: Microcode, asked: Sequence[tuple[str, int]]) -> list[dict[str, int]]:
    """For each kind and selection, the word of each port when all select this."""
    network = OperandNetwork(8, SLOTS, code.constants, code.prompts, code.selections)
    found: list[dict[str, int]] = []

    async def bench(context: Any) -> None:
        for k in range(LATCHES):
            context.set(network.latches[k], 1 + k)
            context.set(network.entering[k], 32 + k)
        for k in range(SLOTS):
            context.set(getattr(network, f"result{k}"), 200 + k)
            context.set(getattr(network, f"write{k}"), 1)
        for kind, selection in asked:
            context.set(network.fresh, kind == "first")
            for port in PORTS:
                context.set(getattr(network, f"{port}_first"), 1 << selection)
                context.set(getattr(network, f"{port}_source").select, selection % 32)
            await context.tick().repeat(4)
            found.append({port: context.get(getattr(network, port)) for port in PORTS})
            found[-1] |= {f"{x}_written": context.get(getattr(network, f"{x}_written")) for x in "xyz"}

    simulator = Simulator(network)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def meaning(code: Microcode, kind: str, selection: int) -> int:
    """The word that `driven` gives to a selection."""
    if selection >= WIDE_PROMPT:
        return code.prompts[selection - WIDE_PROMPT]
    if selection < LATCHES:
        return selection + (32 if kind == "first" else 1)
    return 200 + (selection - LATCHES) % SLOTS


def test_the_network_has_these_sources() -> None:
    code = code_of(Format(8, 4))
    known = {
        "first": [*range(LATCHES), *range(WIDE_PROMPT, WIDE_PROMPT + len(code.prompts))],
        "later": [*range(wide_select(Select.EARLIER, 0, SLOTS) + SLOTS)],
    }
    asked = [(kind, selection) for kind, selections in known.items() for selection in selections]
    for (kind, selection), words in zip(asked, driven(code, asked), strict=True):
        for port, use in code.selections.items():
            wanted = {port: getattr(use, kind)}
            if kind == "later" and port[1] == "0":
                wanted[f"{port[0]}_written"] = use.written
            for name, used in wanted.items():
                assert used <= {*known[kind]}
                if selection in used:
                    assert words[name] == meaning(code, kind, selection), (name, kind, selection)
