"""Pictures of programs: well-formed SVG, every row within the picture, hostile names as text."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.examples import bessel
from retrograd.isa.program import Program
from support.generator import generate

import retrograd as rg
from retrograd.cli.main import main
from retrograd.physics._graph import _rows, graph, jumps, mirrors
from tests.debugger.test_session import SUM

SVG = "{http://www.w3.org/2000/svg}"


def check(program: Program, title: str = "title") -> ElementTree.Element:
    root = ElementTree.fromstring(graph(program, title))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for text in root.iter(f"{SVG}text"):
        assert 0 < float(text.attrib["x"]) < width
        assert 0 < float(text.attrib["y"]) < height
    arcs = [path for path in root.iter(f"{SVG}path") if path.attrib["class"] in ("up", "down", "call")]
    assert len(arcs) == len(jumps(program))
    assert len(list(root.iter(f"{SVG}rect"))) == 2 * len(mirrors(program))
    return root


def test_a_program() -> None:
    root = check(assemble(SUM), "sum")
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "imm.add r3, 1" in texts
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert "goto.ge: 7 → 1" in titles


def test_examples_and_random_programs() -> None:
    check(rg.run(bessel.bessel, 0.0, 2.5).compiled.program)
    for seed in range(10):
        check(generate(seed).program)


def test_hostile_names_are_text() -> None:
    hostile = '</text><script>alert("x")</script>&\x00'
    root = check(assemble("start\n add r1, 1\n finish", name=hostile), hostile)
    assert not list(root.iter(f"{SVG}script"))
    assert root.find(f"{SVG}title") is not None


def test_rows_cover_every_address_once() -> None:
    for size in range(1, 30):
        for ends in [{0, size - 1}, {0, size // 2, size - 1}]:
            rows = _rows(size, ends)
            assert [pc for found in rows for pc in found] == list(range(size))
            assert all(len(found) == 1 for found in rows if ends & set(found))
    assert len(_rows(1000, {0, 999})) < 12


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sum.rga").write_text(SUM)
    assert main(["graph", "sum.rga", "-o", "sum.svg"]) == 0
    assert main(["graph", f"{bessel.__file__}:bessel", "0.0", "1.0", "-o", "b.svg"]) == 0
    assert capsys.readouterr().out.startswith("sum.svg: 11 instructions\nb.svg: ")
    assert ElementTree.parse("b.svg").getroot().tag == f"{SVG}svg"
    for arguments in (["sum.rga", "-o", "sum.rga"], ["sum.rga", "-o", "sum.png"], ["none.rga", "-o", "x.svg"]):
        assert main(["graph", *arguments]) == 2
        assert "error[RG05" in capsys.readouterr().err
    assert Path("sum.rga").read_text() == SUM
