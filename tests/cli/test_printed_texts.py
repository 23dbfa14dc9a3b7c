"""Nothing that a terminal obeys is printed or drawn of a text that this package did not write: names, labels, comments, titles, files.

Each command runs on files whose texts have control characters and marks of direction wherever their grammar has room for any character.
"""

from __future__ import annotations

import re
import shlex
import xml.dom.minidom
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from retrograd.assembler.assemble import assemble, disassemble
from retrograd.assembler.pisa_reader import read as read_pisa
from retrograd.isa.diagnostics import RetrogradError, markup, printable

from retrograd.cli.main import main

#: a title sequence of a terminal, a mark that turns the direction of writing, and CSI in one byte
EVIL = "\x1b]0;pwned\x07\u202e\x9b"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
_TEMPERATURE = (
    '[temperature]\nvalue = 300\nlow = 250\nhigh = 350\nunit = "K"\nsource = "s\\u001b"\nevidence = "measured"\n'
)
FILES = {
    "n.real": f".version 2.0\n.numvars 2\n.variables a{EVIL} b\n.constants --\n.garbage --\n.begin\nt2 a{EVIL} b\n.end\n",
    "m.real": f".version 2.0\n.numvars 2\n.variables a{EVIL} b\n.constants --\n.garbage --\n.begin\n.end\n",
    "x.real": f".version 2.0\n.numvars 2\n.variables a{EVIL} b\n.begin\nt2 a{EVIL}x b\n.end\n",
    "n.qasm": f"OPENQASM 3.0;\nqubit[2] q;\n// {EVIL}\nfoo{EVIL} q[1];\n",
    "v.vlad": f"'a{EVIL}\n(define (f{EVIL} x) x)\n(f{EVIL} 1)\n",
    "e.vlad": f"(+ 1 2) ===> 4{EVIL}\n(list 'a) ===> (b{EVIL})\n",
    "c.rga": f'.data\n.label "d{EVIL}", 0\n.word 5\n.text\nL: start ; {EVIL}\nassertz r1 ; {EVIL}\n.label "q{EVIL}"\nadd r1, 1 ; {EVIL}\nfinish\n',
    "t.rga": f'.data\n.label "d{EVIL}", 0\n.word 5\n.text\nstart ; {EVIL}\nadd r1, 1\nassertz r1 ; {EVIL}\nfinish\n',
    f"f{EVIL}.rga": "start\nfinish\n",
    "k.py": f"import retrograd as rg\nfrom retrograd import fixed, reversible\n@reversible\ndef g(y: fixed, x: fixed):\n"
    f"    '''doc {EVIL}'''\n    for i in range(3): # {EVIL}\n        y += x * x # {EVIL}\n    assert y != 5, '{EVIL}'\n",
    "j.ja": f'procedure main()\n    int x\n    x += 3 // {EVIL}\n    print("{EVIL}")\n    printf("{EVIL} %d", x)\n    show(x)\n',
    "w.ja": f"procedure main()\n    int x\n    local int t = 1 // {EVIL}\n    t += 1\n    delocal int t = 1 // {EVIL}\n",
    "p.pisa": f"START\ntop: BNE $1 $0 bottom\nADDI $1 1\nbottom{EVIL}: BNE $1 $2 top\nFINISH\n",
    "b.pisa": "START\ntop: BNE $1 $0 bottom\nADDI $1 1\nbottom\x1b: BNE $1 $2 top\nFINISH\n",
    "tech.toml": 'schema = "retrograd.technology/1"\nid = "mine"\nversion = "1\\u001b"\ntitle = "ti\\u001b[31m"\ndoc = "d\\u202e"\n'
    f'{_TEMPERATURE}[[charge]]\ncause = "erasure"\nlabel = "su\\u001bms"\nlaw = "erased bit"\n[charge.energy]\nvalue = 1\nunit = "pJ"\n'
    'source = "s\\u001b"\nevidence = "measured"\n',
    "session": "info\nlist\nbacktrace\nwhy r1\nprint zz\x1b\n",
}  # fmt: skip
COMMANDS = [
    "gates n.real", "gates n.real --input 11", "gates n.real --draw n.svg", "gates n.real --tech tech.toml", "gates check n.real m.real",
    "gates x.real", "gates n.qasm",
    "run v.vlad", "test v.vlad", "compile v.vlad --dump core", "debug v.vlad --expression 1 -x session",
    *(f"{command} f{EVIL}.rga" for command in ("run", "verify", "dis", "graph -o f.svg", "energy", "debug -x session")),
    f"run nof{EVIL}.rga", f"run nof{EVIL}.py:f",
    *(f"{command} {file}" for file in ("c.rga", "t.rga") for command in (
        "run", "energy --lines", "run --trace", "run --cycles", "dis", "debug -x session", "verify", "graph -o c.svg", "compile --report",
        f"run --set d{EVIL}x=3", f"run --break q{EVIL}", "energy --tech tech.toml",
    )),
    *(f"{command} k.py:g 0.0 1.0" for command in (
        "run", "energy --lines", "ranges", "debug -x session", "graph -o k.svg", "compile --asm", "compile --report", "explore -o k.html",
        "energy --tech tech.toml",
    )),
    "sweep k.py:g --args 0.0 1.0 --tech tech.toml", f"run k.py:zz{EVIL}", f"run k.py:g {EVIL} 1.0", "gates k.py:g --format 8,4",
    *(f"{command} {file}" for file in ("j.ja", "w.ja") for command in ("run", "invert", "compile --asm", "energy", "debug -x session")),
    "run p.pisa", "run b.pisa", "verify b.pisa", f"explain RG{EVIL}", f"isa add{EVIL}", f"run{EVIL}", f"run c.rga --engine a{EVIL}",
    f"run c.rga --max{EVIL}-steps 3", "test e.vlad",
    f"asm c.rga -o o{EVIL}.rgx", f"graph c.rga -o o{EVIL}.svg", f"trace c.rga -o o{EVIL}.json", f"explore c.rga -o o{EVIL}.html",
    f"verify c.rga no{EVIL}.rga", f"compile k.py:g -o o{EVIL}.rgx",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=[c.encode("unicode_escape").decode() for c in COMMANDS])
def test_no_control_character_is_printed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8", newline="\n")
    with pytest.raises(SystemExit) if re.search("^run\x1b|--max", command) else nullcontext():
        assert main(shlex.split(command)) in (0, 1, 2, 3)
    out, err = capfd.readouterr()
    assert OBEYED.findall(out + err) == []
    for drawn in (*tmp_path.glob("*.svg"), *tmp_path.glob("*.html")):
        found = drawn.read_text(encoding="utf-8")
        assert OBEYED.findall(found) == []
        if drawn.suffix == ".svg":
            xml.dom.minidom.parseString(found)


def test_labels_of_any_text_are_written_as_escapes() -> None:
    """assemble(disassemble(p)) has the same labels."""
    names = [f"d{EVIL}", "\u2028", "a\\b", 'q"q', "\x00\r\n\t", "é", "\U0001f600"]
    quoted = ["".join(f"\\u{{{ord(c):X}}}" for c in name) for name in names]
    text = "".join(f'.label "{name}", {k}\n' for k, name in enumerate(quoted))
    program = assemble(f".data\n{text}.word {', '.join('1' * len(names))}\n.text\nstart\nfinish\n")
    assert list(program.data_labels) == names
    written = disassemble(program)
    assert OBEYED.findall(written) == []
    assert assemble(written).data_labels == program.data_labels


@pytest.mark.parametrize("wrong", ["\\u{}", "\\u{110000}", "\\u1b", "\\u{1b", "\\x1b"])
def test_escapes_that_are_none(wrong: str) -> None:
    with pytest.raises(RetrogradError) as raised:
        assemble(f'.label "{wrong}", 0\nstart\nfinish\n')
    assert raised.value.code == "RG0113"


@pytest.mark.parametrize("label", ["bottom\x9b", "bottom\x7f", "bottom\x1b", "bottom\u202e"])
def test_hints_have_no_control_characters(label: str) -> None:
    text = f"START\ntop: BNE $1 $0 bottom\nADDI $1 1\n{label}: BNE $1 $2 top\nFINISH\n"
    with pytest.raises(RetrogradError) as raised:
        read_pisa(text, name="h.pisa")
    assert "did you mean" in str(raised.value)
    assert OBEYED.findall(str(raised.value)) == []


def test_printable_and_markup() -> None:
    every = "".join(map(chr, range(0x3000)))
    assert OBEYED.findall(printable(every)) == []
    assert "\n" not in printable(every)
    assert printable("a\tb\nc", lines=True) == "a b\nc"
    assert printable("Straße, ∂x/∂y → λ₂ 日本") == "Straße, ∂x/∂y → λ₂ 日本"
    body = xml.dom.minidom.parseString(f"<a b='{markup(every)}'>{markup(every)}</a>").documentElement
    assert body is not None
    assert body.getAttribute("b") == printable(every)


@pytest.mark.parametrize(
    "words", [["run", "c.rga", "--mem", "d=NAME,u1a"], ["run", "NAME.py:f"], ["dis", "NAME"], ["verify", "NAME"]]
)
def test_a_name_too_long_for_the_file_system_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.rga").write_text(".data\nd: .word 5\n.text\nstart\nfinish\n")
    assert main([word.replace("NAME", "9" * 5000) for word in words]) == 2
    assert "error[RG05" in capfd.readouterr().err
