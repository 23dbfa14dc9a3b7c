"""`rg.energy` of netlists: reversible and irreversible, of one function; refused options."""

from __future__ import annotations

import json

import pytest
from retrograd.hdl.reversible.builder import cuccaro_adder
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.technology import Range, thermal_energy

import retrograd as rg
from retrograd import fixed, reversible


@reversible
def product(z: fixed, x: fixed, y: fixed) -> None:
    z += x * y


def test_garbage_is_the_price_of_a_reversible_netlist() -> None:
    """Without garbage it costs nothing by `landauer`; with garbage kT ln 2 for each bit."""
    clean = rg.energy(rg.netlist(product, format="Q8.8"))
    assert clean.price.program == Range(0.0, 0.0, 0.0)
    netlist = rg.netlist(product, format="Q8.8", strategy="garbage")
    kept = rg.energy(netlist)
    assert isinstance(kept.price.program, Range)
    assert kept.price.program.nominal == pytest.approx(netlist.counts.garbage * thermal_energy(300.0), abs=0)
    assert not rg.energy(netlist, garbage="left").price.complete()


def test_the_irreversible_netlist_pays_for_each_gate() -> None:
    found = rg.energy(rg.netlist(product, format="Q8.8").irreversible)
    told = found.as_dict()
    assert told["reversible"] is False
    assert isinstance(found.price.program, Range)
    assert found.price.program.nominal == pytest.approx(told["lost_bits"] * thermal_energy(300.0), abs=0)


def test_an_irreversible_netlist_is_cheaper_fast_and_dearer_slow() -> None:
    netlist = rg.netlist(product, format="Q8.8")
    ratios = []
    for clock in ("5 GHz", "1 kHz"):
        reversible, irreversible = (
            rg.energy(n, tech="aqfp", frequency=clock).price.program for n in (netlist, netlist.irreversible)
        )
        assert isinstance(reversible, Range)
        assert isinstance(irreversible, Range)
        ratios.append(reversible.nominal / irreversible.nominal)
    assert ratios[0] > 1 > ratios[1]


def test_a_circuit_by_another_model() -> None:
    found = rg.energy(cuccaro_adder(8), tech="aqfp")
    slow = found.priced_by("aqfp", frequency="1 MHz")
    assert found.seconds is not None
    assert slow.seconds == pytest.approx(found.seconds * 5000)
    text = str(slow)
    for part in ("netlist: ", "aqfp 2.0, 4.2 K, 1 MHz", "reversible gates: Toffoli", "netlist, in all"):
        assert part in text
    told = json.loads(json.dumps(slow.as_dict()))
    assert (told["schema"], told["reversible"], told["garbage"]) == ("retrograd.netlist-energy/1", True, "erased")


def test_what_a_netlist_does_not_take() -> None:
    netlist = rg.netlist(product, format="Q8.8")
    with pytest.raises(InputError, match="RG0603"):
        rg.energy(netlist, 0.0, 1.0, 2.0)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="RG0603"):
        rg.energy(netlist, engine="native")  # type: ignore[call-overload]
    with pytest.raises(InputError, match=r"(?s)RG0507.*`erased` or `left`"):
        rg.energy(netlist, garbage="lost")  # type: ignore[call-overload]
