"""Valid inputs of every reader: assembly, images, PISA, Janus, VLAD, functions, netlists, arrays, documents, commands, sessions of editors.

Each function or table has the inputs of one reader, which accepts most of them as they are. `hostile_inputs.py`
damages them.
"""

from __future__ import annotations

import functools
import io
import json
import zipfile
from typing import Any

import numpy as np
from shares import ROOT, tests_module

import retrograd as rg
from retrograd.observe._timeline import program_digest


def _files(*patterns: str) -> list[str]:
    return [p.read_text(encoding="utf-8") for pattern in patterns for p in sorted(ROOT.glob(pattern))]


ASSEMBLY = """\
.memory 40
.equ N, 5 * (2 + 1)
.reg acc, r9
.data
table: .word 1, 2, 'a', 0x1f, 1.5q, N, table + 1
.text
main:  start
       add acc, N        ; comment
       mul.add r2, acc, acc
top:   from.ne r1, r0, bottom
       ld.add r3, [r1 + table]
       add r1, 1
bottom: goto.ne r1, r2, top
       call f
       finish
       proc f, r20
       xor r7, 0x123456
       endproc
"""


def assembly() -> list[str]:
    fuzz = tests_module("assembler/test_fuzz")
    return [ASSEMBLY, *fuzz.SEEDS[:3], *_files("examples/squares.rga", "examples/fibonacci.rga")]


#: instructions of every shape, a call and its inverse, a branch of each kind, prints
PISA = """\
;; pendulum pal file
        START
        ADDI  $1 -7
        XORI  $2 0x0F      ; 15
        SUB   $4, $1
        ANDX  $6 $1 $2
        SLTIX $11 $1 -6
        SLLX  $12 $1 3
        RRV   $7 $2
        BRA   sub
        RBRA  sub
test:   BEQ   $21 $0 else
        ADDI  $22 1
then:   BRA   fi
else:   BRA   test
        ADDI  $22 2
fi:     BNE   $21 $0 then  ; from
        ADDI  $20 cell
        EXCH  $2 $20
        OUTPUT $2
        FINISH
top:    BRA   bottom
sub:    SWAPBR $23
        NEG   $23
        ADDI  $24 7
bottom: BRA   top
cell:   DATA  -3
"""


@functools.cache
def pisa() -> list[str]:
    return [PISA, PISA, *_files("examples/*.pisa", "tests/assembler/pisa/programs/rooplc/Fib*.pal")]


@functools.cache
def janus(dialect: str | None) -> list[str]:
    """Programs of a dialect, the default one for None."""
    cases = json.loads((ROOT / "tests/compiler/frontends/janus/programs.json").read_text(encoding="utf-8"))
    return [case["text"] for case in cases if case.get("dialect") == dialect and 40 < len(case["text"]) < 1200]


@functools.cache
def vlad() -> list[str]:
    """Definitions, and a few of the expressions behind them."""
    out = _files("examples/vlad/slope.vlad", "examples/vlad/newton.vlad")
    for text in _files("tests/compiler/frontends/vlad/*.vlad"):
        lines = text.splitlines()
        head = [line for line in lines if line.startswith("(define") and line.count("(") == line.count(")")]
        tests = [line for line in lines if "===>" in line and line.count("(") == line.count(")") and line[0] in "('#"]
        out += ["\n".join([*head[:6], *tests[k : k + 2]]) + "\n" for k in range(0, len(tests), 2)]
    return out


@functools.cache
def python() -> list[str]:
    return _files("tests/errors/working/*.py")


FUNCTIONAL = [
    "def f(x: fixed, y: fixed):\n    z = x + y\n    return x * z\n",
    "def f(x: fixed, y: fixed):\n    def g(z):\n        return x * z + y\n    return g(y) * g(x)\n",
    "def f(x: fixed, y: fixed):\n    total = 0.0\n    for i in range(4):\n        total = total + x * rg.sin(y)\n    return total if x > y else rg.exp(-abs(x))\n",
    "def f(x: fixed, y: fixed):\n    def power(n: int, z: fixed) -> fixed:\n        return 1.0 if n == 0 else z * power(n - 1, z)\n    return power(3, x) - y ** 2\n",
    "def f(x: fixed, y: fixed):\n    g = lambda z: 2.0 * (x - z) + y\n    pair = (g(x), g(y))\n    a, b = pair\n    return a * b + rg.sqrt(abs(a) + 1.0)\n",
    "def f(x: fixed, y: fixed):\n    slope = rg.grad(lambda t: t * t * x)\n    return slope(y) + min(x, y)\n",
]
REAL = [
    ".version 1.0\n.numvars 3\n.variables a b c\n.inputs a b c\n.outputs a b c\n.constants 0--\n.garbage --1\n.begin\np3 a b c # Peres\nt2 -a b\nf3 a b c\n.end\n",
    ".version 2.0\n.numvars 4\n.variables a b c d\n.constants -0--\n.garbage ----\n.define s x y\nt2 x y\n.enddefine\n.begin\ns b c\nt3 a b d\npi3 a b c\nt1 a\n.end\n",
]
QASM = [
    'OPENQASM 3.0;\ninclude "stdgates.inc";\nqubit[3] q;\nqubit[3] r;\nqubit c;\n// lines\ngate g a, b { cx a, b; x a; }\nx q;\ncx q, r;\nctrl @ g q, r, c;\nnegctrl @ x q[0], q[1];\ninv @ ctrl(2) @ x q[0], q[1], q[2];\nswap q[0], r[1];\n',
    "OPENQASM 3.0;\nconst uint[8] n = 2 ** 2 - 1;\nqubit[n + 1] q;\n"
    "for int i in [0:n - 1] {\n  cx q[i], q[i + 1];\n  for int j in {1, 2} negctrl(2) @ x q[0], q[1], q[2:3];\n}\n",
    'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg q[3];\nqreg r[2];\n/* gates */\nx q[0];\nccx q[0], q[1], q[2];\ncx r[0], q[1];\n',
]
QUANTITIES = [
    "Q32.32", "64,24", "8 KiB", "2G", "4.2K", "5GHz", "10kohm", "8:10:12kohm", "300 K", "1.5e9 Hz", "4096",
]  # fmt: skip
ARGUMENTS = [
    ("1.5", "n=3"), ("[1.0, 2.0]", "x=[[1, 2], [3, 4]]"), ("word(5)", "True", "(1, 2)"), ("{'a': 1.5, 'b': [2, 3]}",), ("-1e-3", "1j", "'text'"),
]  # fmt: skip
REGIONS = ["table=words.txt", "0:4=words.txt,textq", "words.txt,u8", "table:3=bytes.bin,u16", "x.npy,npyq", "1=x.npy"]
DEBUGGING = [
    ("break top", "continue", "info", "print r1 + 1", "why r1", "reverse-continue"),
    ("step 3", "set r1 = 5", "watch table[1]", "continue", "backtrace", "last-write acc", "counts"),
    ("until r1 > 2", "list", "break *3 if r1 == 2", "continue 2", "reverse-step 2", "print table[2] * 2", "print real(acc)"),
    ("line 2", "out", "turn", "step 2", "to 1", "delete 1", "print acc and r1 < 4", "next", "info"),
]  # fmt: skip


def _requests(*commands: tuple[str, dict[str, Any]]) -> tuple[str, ...]:
    begun = (
        ("initialize", {"adapterID": "retrograd"}),
        ("launch", {"program": "p.rga", "set": {"r1": 0}, "memoryLimit": 4096, "stopOnEntry": True}),
    )
    ended: tuple[tuple[str, dict[str, Any]], ...] = (("disconnect", {}),)
    return tuple(
        json.dumps({"seq": k, "type": "request", "command": name, "arguments": given})
        for k, (name, given) in enumerate((*begun, *commands, *ended), 1)
    )


def debug_adapter() -> list[tuple[str, ...]]:
    """Sessions that stop at the entry.

    A request that runs the program is the last one: a program that runs takes no other.
    """
    place: dict[str, Any] = {"source": {"path": "p.rga"}}
    ready: tuple[str, dict[str, Any]] = ("configurationDone", {})
    return [
        _requests(("setBreakpoints", place | {"breakpoints": [{"line": 11, "condition": "r1 > 1", "hitCondition": "2"}]}), ready,
                  ("stackTrace", {"threadId": 1, "levels": 3}), ("scopes", {"frameId": 1}), ("variables", {"variablesReference": 1, "start": 0, "count": 5}),
                  ("evaluate", {"expression": "acc + 1", "frameId": 1, "context": "watch"}), ("continue", {"threadId": 1})),
        _requests(("setFunctionBreakpoints", {"breakpoints": [{"name": "top"}]}), ("setExceptionBreakpoints", {"filters": ["trap"]}), ready,
                  ("setExpression", {"expression": "r1", "value": "2"}), ("readMemory", {"memoryReference": "M[0]", "offset": 0, "count": 16}),
                  ("writeMemory", {"memoryReference": "M[0]", "offset": 3, "data": "AAEC"}), ("next", {"threadId": 1})),
        _requests(("breakpointLocations", place | {"line": 1, "endLine": 12}), ready, ("dataBreakpointInfo", {"name": "r1"}),
                  ("setDataBreakpoints", {"breakpoints": [{"dataId": "r1", "accessType": "write"}]}),
                  ("disassemble", {"memoryReference": "0x1", "instructionOffset": -2, "instructionCount": 5}),
                  ("completions", {"text": "print ac", "column": 9}), ("evaluate", {"expression": "info", "context": "repl"}), ("stepBack", {"threadId": 1})),
    ]  # fmt: skip


def language_server() -> list[tuple[str, ...]]:
    document: dict[str, Any] = {"textDocument": {"uri": "file:///p.rga"}}
    opened = {"textDocument": {"uri": "file:///p.rga", "languageId": "rga", "version": 1, "text": ASSEMBLY}}
    at = document | {"position": {"line": 10, "character": 5}}
    messages: list[tuple[str, Any, bool]] = [
        ("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, True), ("initialized", {}, False),
        ("textDocument/didOpen", opened, False), ("textDocument/hover", at, True), ("textDocument/definition", at, True),
        ("textDocument/references", at | {"context": {"includeDeclaration": True}}, True), ("textDocument/documentSymbol", document, True),
        ("textDocument/didChange", {"textDocument": {"uri": "file:///p.rga", "version": 2}, "contentChanges": [{"text": ASSEMBLY + "add r1, x\n"}]}, False),
        ("textDocument/completion", at, True), ("textDocument/didClose", document, False),
    ]  # fmt: skip
    return [tuple(
        json.dumps({"jsonrpc": "2.0", "method": name, "params": given} | ({"id": k} if answered else {}))
        for k, (name, given, answered) in enumerate(messages)
    )]  # fmt: skip


@functools.cache
def machine() -> rg.Machine:
    return rg.Machine(rg.assemble(ASSEMBLY), memory_limit=4096)


def documents() -> list[str]:
    """Gate counts, activity, and saved states."""
    state = {
        "schema": "retrograd.state/1", "program": program_digest(machine().program), "step": 3, "pc": 2, "br": 0, "direction": 1,
        "words": len(machine().memory), "registers": {"1": 5, "9": 7}, "memory": {"0": 1, "3": 255},
    }  # fmt: skip
    gates = {"schema": "retrograd.gates/1", "format": {"width": 8, "frac": 4}, "core": "small",
             "units": {"logic unit": {"AND": 100, "XOR": 10, "any": 3}, "ROM": {"AND": 7, "memory bits": 512}},
             "in levels": {"levels": 30, "cells": {"AND": 120, "BUF": 900, "any": 3}}}  # fmt: skip
    activity = {"schema": "retrograd.activity/1", "program": "p.rga", "core": "small", "format": {"width": 8, "frac": 4}, "cycles": 100,
                "units": {"logic unit": {"toggles": 50, "gates": 10}}}  # fmt: skip
    return [json.dumps(d) for d in (state, gates, activity)]


@functools.cache
def arrays() -> list[bytes]:
    out = []
    for array in (
        np.array([1.5, 2.5, 3.5]),
        np.arange(6).reshape(2, 3),
        np.zeros((0, 2), ">f4"),
        np.ones((2, 2), bool, order="F"),
    ):
        stream = io.BytesIO()
        np.save(stream, array)
        out.append(stream.getvalue())
    for keep in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        keep(stream, x=np.array([1.5, 2.5]), n=np.array(3))
        out.append(stream.getvalue())
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", out[0])
    return [*out, stream.getvalue()]


#: suffix -> commands that print texts of such a file, whose name is FILE here
COMMANDS: dict[str, tuple[str, ...]] = {
    ".rga": ("run FILE --max-steps 300", "verify FILE", "energy FILE --max-steps 300", "graph FILE -o g.svg", "invert FILE", "run FILE --max-steps 300 --json", "explore FILE -o e.html --steps 50", "trace FILE -o t.vcd --steps 50"),
    ".pisa": ("run FILE --max-steps 300", "verify FILE", "dis FILE", "graph FILE -o g.svg"),
    ".rgx": ("dis FILE", "run FILE --max-steps 300", "verify FILE"),
    ".ja": ("run FILE --max-steps 3000", "compile FILE", "energy FILE --max-steps 3000"),
    ".janus": ("run FILE --max-steps 3000", "compile FILE"),
    ".vlad": ("run FILE --max-steps 30000", "test FILE"),
    ".real": ("gates FILE", "gates FILE --draw g.svg", "gates FILE --json", "gates FILE --qasm g.qasm"),
    ".qasm": ("gates FILE", "gates FILE --draw g.svg", "gates FILE --real g.real"),
    ".toml": ("energy p.rga --tech FILE",),
    ".py": ("run FILE:f 1.0 --max-steps 300", "compile FILE:f", "compile FILE:f --asm", "grad FILE:f 0.0", "ranges FILE:f 1.0"),
}  # fmt: skip
FUNCTION = "from retrograd import fixed, reversible\n\n\n@reversible\ndef f(y: fixed, x: fixed = 0.5):\n    '''a page'''\n    t = x * 2.0  # twice\n    y += t * x\n    assert y < 9, 'too large'\n"


@functools.cache
def files() -> list[tuple[str, ...]]:
    """(command, text of its file)"""
    texts: dict[str, list[str]] = {
        ".rga": assembly(), ".pisa": pisa(), ".ja": janus(None), ".janus": janus("1982"), ".vlad": vlad(), ".real": REAL, ".qasm": QASM,
        ".toml": models(), ".py": [FUNCTION], ".rgx": [rg.to_image(rg.assemble(ASSEMBLY)).decode("latin-1")],
    }  # fmt: skip
    return [
        (words.replace("FILE", f"x{suffix}"), text)
        for suffix, found in COMMANDS.items()
        for words in found
        for text in texts[suffix][:8]
    ]


WORDS = [
    ("run", "p.rga", "--max-steps", "300", "--set", "r1=5", "--mem", "table=words.txt"), ("run", "f.py:f", "1.0", "x=2.5", "--format", "Q16.16", "--json"),
    ("energy", "p.rga", "--max-steps", "300", "--tech", "landauer,cmos45", "--temperature", "4.2K"), ("explain", "RG0101"), ("isa", "mul"),
    ("grad", "f.py:f", "0.0", "1.5", "--scale", "8"), ("ranges", "f.py:f", "0.0", "1.5"), ("compile", "f.py:f", "--asm"), ("verify", "p.rga", "--strict"),
    ("dis", "p.rga"), ("asm", "p.rga", "-o", "out.rgx"), ("gates", "add", "--width", "8", "--frac", "4"), ("entropy", "p.rga", "--max-steps", "300"),
    ("graph", "p.rga", "-o", "g.svg"), ("trace", "p.rga", "-o", "t.json", "--steps", "20", "--from", "2"), ("run", "f.py:~f", "1.0", "2.0", "--engine", "reference"),
]  # fmt: skip


@functools.cache
def models() -> list[str]:
    return _files("simulator/energy/models/*.toml")


def images() -> list[bytes]:
    return [rg.to_image(rg.assemble(text)) for text in assembly()]
