"""Memories of several sizes: the words between them, counted from the addresses of a run, and their prices;
generators of ramps."""

import math
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.counts import Counts, Ledger, Reuse, counts_of
from retrograd.simulator.energy.netlists import IrreversibleShape, ReversibleShape, price_netlist
from retrograd.simulator.energy.pricing import Covered, NotModelled, price
from retrograd.simulator.energy.technology import Range, Technology, exactly, from_text, technology

import retrograd as rg

TRACE = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=80)


def lru(trace: list[tuple[int, bool]], capacity: int) -> tuple[int, int]:
    """(reads of, writes to) what is behind a memory, by the definition of the least recently used word."""
    held: OrderedDict[int, bool] = OrderedDict()
    reads = writes = 0
    for word, written in trace:
        if word not in held:
            reads += 1
            held[word] = False
            if len(held) > capacity:
                writes += held.popitem(last=False)[1]
        held.move_to_end(word)
        held[word] |= written
    return reads, writes


@given(TRACE)
def test_memories_of_all_sizes(trace: list[tuple[int, bool]]) -> None:
    reuse = Reuse()
    for word, written in trace:
        reuse.access(word, 0, written=written)
    counts = Counts(rg.assemble("start\nfinish"), {}, traffic=reuse.counted())
    assert counts.traffic == reuse.counted()
    for capacity in range(1, 12):
        found = counts.between(capacity, written=False), counts.between(capacity, written=True)
        assert found == lru(trace, capacity)


#: adds words 0 … 9 to r1, forward; each is read once
SUM = "start\n" + "\n".join(f"ld.add r2, [r0+{k}]\nadd r1, r2\nld.sub r2, [r0+{k}]" for k in range(10)) + "\nfinish"


def observed(text: str = SUM, **modes: Any) -> Counts:
    machine = rg.Machine(rg.assemble(f".memory 40\n{text}"), **modes)
    ledger = Ledger(machine, addresses=True, silent=True)
    machine.run(observe=ledger)
    return ledger.counted(counts_of(machine))


FIGURE = 'unit = "pJ"\nsource = "a test"\nevidence = "assumed"\n'


def model(law: str, sizes: str, cause: str = "memory") -> Technology:
    head = 'schema = "retrograd.technology/1"\nid = "t"\nversion = "1"\ntitle = "t"\ndoc = "t"\n[temperature]\nvalue = 300\n'
    head += 'unit = "K"\nsource = "a test"\nevidence = "assumed"\n'
    return from_text(f'{head}[[charge]]\ncause = "{cause}"\nlabel = "data"\nlaw = "{law}"\n{sizes}', "t.toml")


def size(pj: float, capacity: str = "", of: str = "") -> str:
    more = f'capacity = "{capacity}"\n' * bool(capacity) + f'of = "{of}"\n' * bool(of)
    return f"[[charge.sizes]]\nbits = 64\nvalue = {pj}\n{more}{FIGURE}"


def joules(counts: Counts, by: Technology) -> float:
    found = price(counts, by).of("memory")
    assert isinstance(found, Range), found
    return found.nominal


def test_a_hierarchy() -> None:
    """Twenty reads of ten words; each second read finds its word in a memory of four words. Nothing is written."""
    counts, near = observed(), size(1, "32 B")
    assert (counts.accessed(written=False), counts.accessed(written=True)) == (20, 0)
    assert joules(counts, model("hierarchy", near + size(100, "1 KiB"))) == pytest.approx((20 + 10 * 100) * 1e-12)
    # A memory that holds all data has no further one behind it, and needs no addresses.
    small = model("hierarchy", near + size(3, "1 KiB") + size(1e6))
    assert joules(counts, small) == pytest.approx((20 + 10 * 3) * 1e-12)
    assert joules(counts - counts + counts, small) == joules(counts, small)
    unseen = Counts(counts.program, counts.executed)
    assert joules(unseen, model("hierarchy", size(1, "1 KiB"))) == joules(counts, model("access", size(1)))
    missing = price(unseen, small).of("memory")
    assert isinstance(missing, NotModelled)
    assert missing.why == "the addresses of the run were not observed"
    too_large = price(counts, model("hierarchy", near)).of("memory")
    assert isinstance(too_large, NotModelled)
    assert too_large.why == "no figure for a memory of 320 bytes"


def test_changed_words_are_written_back() -> None:
    """Ten words are exchanged for zeros: all but the last four leave a memory of four words, changed."""
    counts = observed("start\n" + "\n".join(f"exch r1, [r0+{k}]" for k in range(10)) + "\nfinish")
    found = model("hierarchy", size(1, "32 B") + size(100, of="reads") + size(1000, of="writes"))
    assert joules(counts, found) == pytest.approx((20 + 10 * 100 + 6 * 1000) * 1e-12)


def test_reads_and_writes_apart() -> None:
    counts = observed("start\nadd r1, 3\nexch r1, [r0+1]\nld.add r2, [r0+1]\nfinish")
    assert joules(counts, model("access", size(2, of="reads") + size(5, of="writes"))) == pytest.approx(
        (2 * 2 + 5) * 1e-12
    )
    for wrong in (size(2, of="reads"), size(2) + size(3, of="writes")):
        with pytest.raises(InputError, match="a memory has one figure for reads and writes"):
            model("access", wrong)
    with pytest.raises(InputError, match="two figures"):
        model("access", size(2, of="reads") + size(3, of="reads"))


def test_functions_gradients_and_batches() -> None:
    @rg.reversible
    def total(y: rg.fixed, x: rg.Array[rg.fixed, "n"]) -> None:
        for i in range(len(x)):
            y += x[i] * x[i]

    for f in (total, rg.grad(total)):
        report = rg.energy(f, 0.0, [1.0] * 4, tech="cmos45_caches", baseline=False)
        assert report.counts.traffic
        assert report.ledger is None
        plain = report.priced_by("cmos45").price.of("memory")
        assert report.price.of("memory") == plain
    batch = rg.energy(rg.vmap(total), [0.0], [[1.0] * 4], tech="cmos45_caches", baseline=False)
    assert isinstance(batch.price.of("memory"), Range)
    rows = rg.energy_sweep(total, [(0.0, [1.0] * 4)], techs=["cmos45_caches", "cmos45"])
    assert rows[0].price["causes"]["memory"] == rows[1].price["causes"]["memory"]


# ------------------------------------------------------------------ generators and static CMOS

DEVICE = {"resistance": exactly(1e4), "capacitance": exactly(1e-15), "voltage": exactly(1.0), "power": exactly(0.0)}
GATES = ReversibleShape(3, [((0, 1), (2,)), ((0,), (1,))], frozenset({0, 1, 2}), frozenset({0, 1, 2}))
CELLS = IrreversibleShape({"AND": 10}, {"AND": 10, "BUF": 4}, 2)


def by(name: str, **given: Range) -> Technology:
    return technology(name).with_figures({**DEVICE, **given})


@pytest.mark.parametrize("shape", [GATES, CELLS])
def test_a_generator(shape: Any) -> None:
    """A resonator loses 2π/Q of the energy of each node; a generator of efficiency η draws 1/η of what the ramps
    dissipate."""
    nodes = 5 + shape.timed({}).idle if isinstance(shape, ReversibleShape) else 14
    half = price_netlist(shape, by("adiabatic_rc", quality=Range(50, 100, 400)))
    clock = half.of("clock")
    assert isinstance(clock, Range)
    assert clock.nominal == pytest.approx(nodes * 0.5e-15 * 2 * math.pi / 100)
    assert clock.lo == pytest.approx(clock.nominal / 4 / 4)
    assert clock.hi == pytest.approx(clock.nominal * 2 * 3)
    efficient = price_netlist(GATES, by("adiabatic_rc", efficiency=exactly(0.8)))
    ramps, lost = efficient.of("logic"), efficient.of("clock")
    assert isinstance(ramps, Range)
    assert isinstance(lost, Range)
    assert lost.nominal == pytest.approx(ramps.nominal / 4)
    with pytest.raises(InputError, match="both are given"):
        by("adiabatic_rc", efficiency=exactly(0.8), quality=exactly(10))


def test_a_generator_without_a_figure() -> None:
    found = price_netlist(GATES, by("adiabatic_rc"))
    assert [item.energy.why for item in found.missing if isinstance(item.energy, NotModelled)] == ["give quality"]
    with pytest.raises(InputError, match="a generator has a `quality`"):
        model("power clock", "", "clock")


def test_static_cmos() -> None:
    """CV² for each of ten gates that rise once in ten cycles, and the leakage of a cycle."""
    found = price_netlist(
        CELLS,
        technology("cmos_switching").with_figures(
            {**{k: DEVICE[k] for k in ("capacitance", "voltage")}, "power": exactly(1e-9)}
        ),
    )
    logic, leakage = found.of("logic"), found.of("leakage")
    assert isinstance(logic, Range)
    assert isinstance(leakage, Range)
    assert (logic.nominal, leakage.nominal) == (pytest.approx(1e-15), pytest.approx(10 * 1e-9 / 1e9))
    assert isinstance(found.of("erasure"), Covered)
    assert str(found.of("erasure")) == "covered by the rises of gates"


def test_figures_to_give() -> None:
    @rg.reversible
    def copy(y: rg.fixed, x: rg.fixed) -> None:
        y += x

    text = str(rg.energy(copy, 0.0, 1.0, tech="adiabatic_rc"))
    assert "adiabatic_rc needs figures of a device: resistance (10kohm), capacitance (1fF), voltage (0.8V)," in text
    assert "quality or efficiency of the generator" in text
    assert "needs figures" not in str(rg.energy(copy, 0.0, 1.0, tech="cmos45"))
