"""The data of the explorer: states and sums equal those of the reference machine."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.examples.bessel import bessel
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import Format
from retrograd.simulator.energy.counts import counts_of
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd import Array, fixed
from retrograd.observe._traces import UNCHANGED, WHOLE_CODE, page
from tests.debugger.test_session import CALLS, SUM
from tests.explorer.dots import dot


class Player:
    """The page's arithmetic: doing and undoing the changes of the steps."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.words = [int(place["start"]) for place in document["places"]]

    def states(self) -> list[list[int]]:
        out = [list(self.words)]
        for changes in self.document["steps"]["changes"]:
            for place, word in zip(changes[::2], changes[1::2], strict=True):
                self.words[place] = int(word)
            out.append(list(self.words))
        return out

    def total(self, kind: int) -> float:
        steps, code = self.document["steps"], self.document["code"]
        return sum(code[pc]["costs"][mode][kind] for pc, mode in zip(steps["pc"][:-1], steps["mode"][:-1], strict=True))


def places(document: dict[str, Any], bank: str) -> list[tuple[int, str]]:
    return [(n, place["name"]) for n, place in enumerate(document["places"]) if place["bank"] == bank]


def test_states_are_those_of_the_machine() -> None:
    program = assemble(SUM)
    machine = Machine(program)
    machine.registers[1] = 3
    document = rg.explore(machine).as_dict()
    assert document["schema"] == "retrograd.exploration/1"
    again = Machine(program)
    again.registers[1] = 3
    shown = [(place, int(name.split()[0][1:])) for place, name in places(document, "r")]
    assert {name for _, name in places(document, "r")} >= {"r1 n", "r2 total", "r3 i"}
    assert [name for _, name in places(document, "m")] == ["passes", "other"]
    for n, state in enumerate(Player(document).states()):
        assert document["steps"]["pc"][n] == again.pc
        assert [state[place] for place, _ in shown] == [again.registers[number] for _, number in shown]
        again.run(1)
    assert document["files"][0]["lines"][0] == ".reg n, r1"


@pytest.mark.parametrize("tech", ["landauer", "cmos45"])
def test_sums_are_the_costs_of_the_run(tech: str) -> None:
    found = rg.explore(bessel, 0.0, 2.5, tech=tech)
    run = rg.run(bessel, 0.0, 2.5, engine="reference")
    player = Player(found.as_dict())
    assert len(found.recording.steps) == run.steps
    assert player.total(0) == run.machine.cycles
    assert player.total(1) == run.erased_bits == 0
    priced = found.prices.price(counts_of(run.machine)).program
    assert player.total(2) == pytest.approx(priced.nominal)


def test_a_gradient_goes_forward_and_back() -> None:
    found = rg.explore(rg.grad(bessel, loss="out", scale=14), 0.0, 2.5)
    document = found.as_dict()
    modes = document["steps"]["mode"]
    turn = modes.index(3)
    assert set(modes[:turn]) == {0}
    assert set(modes[turn:]) == {3}
    last = Player(document).states()[-1]
    [(place, _)] = [(n, name) for n, name in places(document, "dm") if name == "∂z"]
    assert last[place] / 2 ** (32 + 14) == rg.grad(bessel, loss="out", scale=14)(0.0, 2.5).z
    # Values are back at the beginning, and bits were dropped with the cotangents of ancillas only.
    values = [n for n, p in enumerate(document["places"]) if p["bank"] in "rm"]
    assert [last[n] for n in values] == [int(document["places"][n]["start"]) for n in values]
    assert sum(document["steps"]["dropped"].values()) > 0
    assert Player(document).total(1) == 0


def test_erasing_is_counted() -> None:
    machine = Machine(assemble("start\n add r1, 5\n erase r1\n finish"))
    assert Player(rg.explore(machine).as_dict()).total(1) == 64


def test_variables_and_arrays_have_places() -> None:
    document = rg.explore(dot, 0.0, [1.0, 2.0], [3.0, 4.0]).as_dict()
    [x, y] = document["arrays"]
    assert (x["name"], x["kind"], x["length"]) == ("x", "fixed", 2)
    assert [document["places"][n]["name"] for n in y["places"]] == ["y[0]", "y[1]"]
    names = {v["name"] for v in document["variables"]}
    assert "total" in names
    state = Player(document).states()[5]
    assert [state[n] / 2**32 for n in x["places"]] == [1, 2]


def test_places_have_the_names_of_their_variables() -> None:
    """Each variable of the source stands beside the place that holds it, up to three, in the order of the code."""
    document = rg.explore(rg.grad(bessel, loss="out"), 0.0, 2.5).as_dict()
    held: dict[int, dict[str, None]] = {}
    for v in sorted(document["variables"], key=lambda v: v["first"]):
        held.setdefault(v["place"], {})[v["name"]] = None
    shown = 0
    for place, names in held.items():
        if place >= 0:
            name = document["places"][place]["name"]
            words = [word for word in names if word != name.split()[0]]
            more = ", …" if len(words) > 3 else ""
            assert name.partition(" ")[2] == ", ".join(words[:3]) + more
            shown += bool(words)
    assert shown > 3
    assert any(p["name"].startswith("∂r") and " " in p["name"] for p in document["places"])


def test_large_programs_and_memories_are_shortened() -> None:
    # A jump over all instructions but a few.
    body = " add r2, 1\n" * WHOLE_CODE
    text = f"start\n add r1, 1\nnear: goto.ne r1, r0, far\n{body}far: from.ne r1, r0, near\n finish"
    machine = Machine(assemble(text), memory=2 * UNCHANGED)
    machine.memory[:] = [7] * (2 * UNCHANGED)
    document = rg.explore(machine).as_dict()
    assert document["unlisted"] == UNCHANGED
    assert len(document["code"]) == WHOLE_CODE + 5
    near = [at for at, c in enumerate(document["code"]) if c is not None]
    # Of each instruction that was executed, its two neighbours on either side.
    assert near == [0, 1, 2, 3, 4, *range(WHOLE_CODE + 1, WHOLE_CODE + 5)]


@pytest.mark.parametrize("length", [1, 64, 65, 100])
def test_64_elements_of_an_array_are_shown(length: int) -> None:
    """Of a matrix, too, and of each of several arrays. The length is the whole one."""

    @rg.reversible
    def f(y: fixed, x: Array[fixed, "n"], m: Array[fixed, "n", 2]) -> None:
        y += x[0] + m[0, 1]

    document = rg.explore(f, 0.0, [1.0] * length, [[1.0, 2.0]] * length).as_dict()
    found = {a["name"]: (a["length"], len(a["places"])) for a in document["arrays"]}
    assert found == {"x": (length, min(length, 64)), "m": (2 * length, min(2 * length, 64))}
    assert all(place >= 0 for a in document["arrays"] for place in a["places"])


@pytest.mark.parametrize("more", [-1, 0, 1, 5])
def test_256_words_that_never_change_are_listed(more: int) -> None:
    machine = Machine(assemble("start\n finish"), memory=300)
    machine.memory[: 256 + more] = [7] * (256 + more)
    document = rg.explore(machine).as_dict()
    assert document["unlisted"] == max(0, more)
    assert len(places(document, "m")) == 256 + min(0, more)


@pytest.mark.parametrize("length", [3999, 4000, 4001])
def test_programs_up_to_4000_instructions_are_listed_whole(length: int) -> None:
    body = " add r2, 1\n" * (length - 6)
    text = f"start\n add r1, 1\nnear: goto.ne r1, r0, far\n{body} add r3, 1\nfar: from.ne r1, r0, near\n finish"
    document = rg.explore(assemble(text)).as_dict()
    assert len(document["code"]) == length
    assert (None in document["code"]) == (length > 4000)


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_are_numbers_up_to_2_to_the_53(sign: int) -> None:
    """Larger ones are text: JavaScript would round them."""
    machine = Machine(assemble("start\n finish"))
    words = [sign * word for word in ((1 << 53) - 1, 1 << 53, (1 << 53) + 1)]
    for number, word in enumerate(words, 1):
        machine.registers[number] = word & (1 << 64) - 1
    found = [place["start"] for place in rg.explore(machine).as_dict()["places"]]
    assert found == [*words[:2], str(words[2])]


def test_large_words_are_text() -> None:
    machine = Machine(assemble("start\n add r1, 5\n finish"))
    machine.registers[1] = (1 << 63) + 1
    [place] = rg.explore(machine).as_dict()["places"]
    assert place["start"] == str(1 - (1 << 63))


def test_a_trap_is_shown() -> None:
    document = rg.explore(assemble("start\n add r1, 1\n assertz r1\n finish")).as_dict()
    assert "r1" in document["end"]
    assert len(document["steps"]["pc"]) == 3


def test_a_limit_is_shown() -> None:
    document = rg.explore(assemble(CALLS), steps=3).as_dict()
    assert len(document["steps"]["changes"]) == 3
    assert "goes on" in document["end"]
    assert (
        repr(rg.explore(assemble(CALLS), steps=3))
        == "<Exploration of program: 3 steps; the run goes on: `steps=` records more>"
    )
    assert "goes on" not in repr(rg.explore(assemble(CALLS)))


@pytest.mark.parametrize(("f", "steps"), [(sorted, 10), (rg.vmap(bessel), 10), (bessel, 0)])
def test_refusals(f: Any, steps: int) -> None:
    with pytest.raises(InputError):
        rg.explore(f, 0.0, 1.0, steps=steps)


# ---------------------------------------------------------------------- the page

HOSTILE = "</script><img src=x onerror=alert(1)>&<!--"


def test_no_content_of_a_program_is_html(tmp_path: Path) -> None:
    program = assemble(f"; {HOSTILE}\nstart\n add r1, 1\n finish")
    found = rg.explore(program)
    document = found.as_dict()
    assert HOSTILE in document["files"][0]["lines"][0]
    text = page(document, HOSTILE)
    assert HOSTILE not in text
    assert "<img" not in text
    data = re.search(r'<script type="application/json" id="recording">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert json.loads(data[1]) == json.loads(json.dumps(document))
    found.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == found.html


def test_the_policy_allows_this_script_and_this_style_only() -> None:
    text = rg.explore(assemble("start\n finish")).html
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)
    assert policy is not None
    allowed = re.findall(r"sha256-([^&]+)", policy[1])
    parts = [re.search(pattern, text, re.DOTALL) for pattern in (r"<script>(.*?)</script>", r"<style>(.*?)</style>")]
    assert [b64encode(sha256(part[1].encode()).digest()).decode() for part in parts if part] == allowed
    assert policy[1].startswith("default-src &#x27;none&#x27;; ")
    assert "unsafe" not in policy[1]
    assert not re.search(r"https?://", text)


def test_a_notebook_shows_a_frame() -> None:
    shown = rg.explore(assemble("start\n finish"))._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    assert "<script" not in shown


def test_formats() -> None:
    document = rg.explore(dot, 0.0, [1.0], [2.0], format="Q16.16").as_dict()
    assert document["format"] == {"width": 32, "frac": 16, "name": str(Format(32, 16))}
