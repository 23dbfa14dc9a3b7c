"""Give every reader damaged and hostile inputs, by shares that can be continued.

    python tools/long_runs/hostile_inputs.py --count 200000 --store build/hostile-inputs.txt

    either   an input is read, and its program is run for a while
    or       it is refused by a RetrogradError

An input is a valid seed with a few changes, so it has two parts: the valid one before the first change, and the rest. It counts as `late`
where the reader refuses it and the valid part is at least half of the seed. A fault is any other exception, a control character in a message
or on a stream of a command, processor time above `allowed`, or the end of the process. Each is printed with its reader and seed, and the
command ends with 1, as it does where fewer than `LEAST` of the inputs of a reader are accepted or late.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import io
import json
import linecache
import logging
import multiprocessing
import os
import random
import re
import signal
import struct
import sys
import tempfile
import threading
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from retrograd.assembler import verify
from retrograd.assembler.pisa_reader import MEMORY
from retrograd.assembler.pisa_reader import read as read_pisa
from retrograd.compiler.frontends.janus.parser import read as read_janus
from retrograd.compiler.frontends.vlad.translation import read_vlad
from retrograd.hdl.reversible.formats import read_qasm, read_real
from retrograd.isa.diagnostics import RetrogradError
from retrograd.isa.files import Limits, command
from retrograd.isa.words import Format
from retrograd.simulator.energy.gates import load_activity, load_gates
from retrograd.simulator.energy.pricing import pricing_context
from retrograd.simulator.energy.technology import from_text, quantity
from shares import ROOT, Store, digest, tests_module

import retrograd as rg
from retrograd.cli.arguments import parse_arguments, read_array, read_arrays
from retrograd.cli.commands.debugging import Interpreter, serve
from retrograd.cli.files import Region, read_words
from retrograd.cli.main import main as command_line
from retrograd.derivatives._functional import evaluations, shown
from retrograd.observe._language_server import Document
from retrograd.observe._server import framed
from retrograd.observe._timeline import load_state, program_digest
from retrograd.runtime._reversible import JanusFunction

SHARE = 500
#: folders whose files decide the outcome
SOURCES = ("isa", "assembler", "compiler", "simulator", "hdl", "src", "tools/long_runs")
STEPS = 300
#: share of the inputs of a reader that must be accepted or late: a reader that refuses all seeds at once is not tried
LEAST = 0.1
#: seconds of an input; the process that is not back after twice the time, as where no Python runs, is ended
LONGEST = 120.0
#: a server without threads forks the processes: a copy of a process with threads may stand still
CONTEXT: BaseContext = multiprocessing.get_context("forkserver")

Text = str | bytes


class Reader(NamedTuple):
    """A reader, its valid inputs, and one in how many inputs of a run is its own.

    `read` returns the text that is printed of an input, if any. It raises RetrogradError for an input that is refused.
    """

    weight: int
    seeds: Callable[[], list[Any]]
    changed: Callable[[Any, random.Random], Any]
    read: Callable[[Any], str | None]


def allowed(data: object) -> float:
    """Seconds of processor time that an input may take."""
    size = len(data) if isinstance(data, str | bytes) else len(repr(data))
    return 3.0 + 50e-6 * size


# ---------------------------------------------------------------------- changes

#: texts that a terminal obeys, that end lines, or that turn the direction of writing; others that readers meet seldom
HOSTILE = (
    "\x1b]0;title\x07", "\x1b[31m", "\x9b2J", "\u202e", "\u2066", "\u200f", "\x00", "\x07", "\x7f", "\x85", "\x08", "\r", "\u2028", "\x0b", "\ufeff",
    "\U000e0041", "é", "٣", "²", "\t", "\ud800", "9" * 40, "9" * 5000, "-", "(" * 40, ")", "[", "]", "{", "}", '"', "'", "\\", "\n", ";", "#", ",",
    "0", "1", "-1", "1e999", "0x", "1.5", "nan", ":", "=", "<", "%", "%s%n", "{0}", "$", "__class__",
)  # fmt: skip


def changed_text(seed: str, chance: random.Random) -> str:
    """A text with one to three of its tokens lost, doubled, exchanged, renamed or new; half of the texts are valid up to their second half."""
    tokens = re.findall(r"\w+|[ \t]+|.", seed, flags=re.DOTALL)
    first = len(tokens) // 2 if chance.random() < 0.6 else 0
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        k = chance.randrange(min(first, len(tokens) - 1), len(tokens)) if tokens else 0
        other = chance.choice(tokens) if tokens else ""
        token = tokens[k] if tokens else ""
        match chance.randrange(9):
            case 0:
                tokens[k : k + 1] = []
            case 1:
                tokens.insert(k, other)
            case 2:
                tokens[k : k + 1] = [other]
            case 3:
                tokens[k : k + 1] = [chance.choice(HOSTILE)]
            case 4:
                tokens.insert(k, chance.choice(HOSTILE))
            case 5 if token.isdecimal():
                tokens[k] = str(chance.choice([0, 1, 2, 7, 255, 2**31, 2**63, 2**64, 10**30]))
            case 6:
                # Every place of a word, with a hostile text in it.
                name = token + chance.choice(HOSTILE)
                tokens = [name if t == token and i >= k else t for i, t in enumerate(tokens)]
            case 7:
                # The end of the line, perhaps in a comment.
                end = next((i for i in range(k, len(tokens)) if tokens[i] == "\n"), len(tokens))
                tokens.insert(end, chance.choice(("; ", " # ", " // ", " ")) + chance.choice(HOSTILE))
            case _:
                end = min(len(tokens), k + chance.randrange(1, 8))
                tokens[k:k] = tokens[k:end] * chance.randrange(1, 4)
    return "".join(tokens)


def changed_bytes(seed: bytes, chance: random.Random) -> bytes:
    """Bytes with one to three of them changed, lost or new; of half of them the first half is as it was."""
    out = bytearray(seed)
    first = len(out) // 2 if chance.random() < 0.6 else 0
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(min(first, len(out)), len(out) + 1)
        match chance.randrange(6):
            case 0:
                del out[at:]
            case 1:
                del out[at : at + chance.randrange(1, 9)]
            case 2:
                out[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 3:
                size = chance.choice((1, 2, 4, 8))
                out[at : at + size] = chance.choice((0, 1, 255, 1 << 31, (1 << 64) - 1)).to_bytes(8, "little")[:size]
            case _ if at < len(out):
                out[at] = chance.choice((0, 255, out[at] ^ 1 << chance.randrange(8), chance.randrange(256)))
    return bytes(out)


def changed_image(seed: bytes, chance: random.Random) -> bytes:
    """An image with other bytes, whose checksum is theirs."""
    body = changed_bytes(seed[:-4], chance)
    return body + struct.pack("<I", zlib.crc32(body))


def changed_document(seed: str, chance: random.Random) -> str:
    """A document of JSON with other values, or with another text."""
    try:
        value = json.loads(seed)
    except ValueError:  # changed before
        value = None
    if value is None or chance.random() < 0.3:
        return changed_text(seed, chance)
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            break
        container, key = chance.choice(places[len(places) // 2 :] if chance.random() < 0.5 else places)
        match chance.randrange(6):
            case 0:
                del container[key]
            case 1:
                other, its = chance.choice(places)
                container[key] = json.loads(json.dumps(other[its])) if its in other or isinstance(other, list) else None
            case 2 if isinstance(container, dict):
                container[str(key) + chance.choice(HOSTILE)] = container.pop(key)
            case 3:
                container[key] = chance.choice(HOSTILE)
            case _:
                container[key] = chance.choice(
                    [None, True, 0, -1, 1e308, float("nan"), 2**64, 10**400, "", [], {}, [[]], {"": None}]
                )
    return json.dumps(value, ensure_ascii=chance.random() < 0.5)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def changed_words(seed: tuple[str, ...], chance: random.Random) -> tuple[str, ...]:
    """Words, lines or messages, one or two of which are changed, lost or doubled."""
    out = list(seed)
    for _ in range(chance.choice((1, 1, 2))):
        k = chance.randrange(len(out))
        match chance.randrange(8):
            case 0 if len(out) > 1:
                del out[k]
            case 1:
                out.insert(k, chance.choice(out))
            case 2:
                out[k] = chance.choice(HOSTILE)
            case _:
                change = changed_document if out[k].startswith("{") else changed_text
                out[k] = change(out[k], chance)
    return tuple(out)


def valid_part(seed: Any, data: Any) -> float:
    """The share of a seed before the first change."""
    if isinstance(seed, tuple):
        same = next((k for k, (a, b) in enumerate(zip(seed, data, strict=False)) if a != b), min(len(seed), len(data)))
        inner = valid_part(seed[same], data[same]) if same < min(len(seed), len(data)) else 0
        return (same + inner) / len(seed)
    shorter = min(len(seed), len(data))
    same = next((k for k in range(shorter) if seed[k] != data[k]), shorter)
    return same / max(1, len(seed))


# ---------------------------------------------------------------------- seeds


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
def _janus(dialect: str | None) -> list[str]:
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
    """Sessions that stop at the entry. A request that runs the program is the last one: a program that runs takes no other."""
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


# ---------------------------------------------------------------------- readers


def _run(program: rg.Program) -> None:
    """Verify, and run for a while, forward and back."""
    verify.findings(program, strict=True)
    rg.verify(program)
    _execute(program, 1 << 12)


def _execute(program: rg.Program, memory: int) -> None:
    """Run for a while, forward and back, in at most `memory` words."""
    machine = rg.Machine(program, memory_limit=memory)
    with contextlib.suppress(rg.Trap):
        machine.run(STEPS)
    with contextlib.suppress(rg.Trap):
        machine.run_back(STEPS)


def run_assembly(text: str) -> str:
    program = rg.assemble(text, check=False)
    printed: str = rg.disassemble(program)
    _run(program)
    return printed


def run_image(data: bytes) -> str:
    program = rg.from_image(data)
    printed: str = rg.disassemble(program)
    _run(program)
    return printed


def run_pisa(text: str) -> str:
    """The reader has checked the branches: a jump to a computed target, which the verifier refuses, is usual in PISA."""
    program = read_pisa(text, name="x.pisa")
    printed: str = "\n".join(str(d) for d in verify.findings(program)) + rg.disassemble(program)
    # Each program in PISA has MEMORY words.
    _execute(program, MEMORY)
    return printed


def run_janus(text: str, dialect: str) -> None:
    tree = read_janus(text, "x.ja", dialect)
    for procedure in tree.procedures[-2:]:
        f = JanusFunction(tree, procedure.name)
        if not f.parameters:
            rg.run(f, max_steps=STEPS * 10, engine="reference")
        elif not f.entry.procedure.parameters:
            f.compiled()


def run_vlad(text: str) -> str:
    found = evaluations(read_vlad(text, "x.vlad"), engine="reference", max_steps=STEPS * 100)
    return "\n".join(shown(e.value) for e in found)


class Elsewhere(Exception):
    """Refused by Python, and not by a reader of this package."""


def _defined(text: str) -> dict[str, Any]:
    """The names that a text defines, `f` among them. Raises Elsewhere where Python refuses the text, or it has no such function."""
    name = "<hostile>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    made = sys.modules["hostile"] = ModuleType("hostile")
    space = vars(made)
    try:
        exec(compile(text, name, "exec"), space)
    except RetrogradError:
        raise
    except Exception:
        raise Elsewhere from None
    if not hasattr(space.get("f"), "parameters"):
        raise Elsewhere
    return space


def run_python(text: str) -> None:
    space = _defined(text)
    f = space["f"]
    arguments = space.get("ARGUMENTS")
    if not isinstance(arguments, list) or not all(isinstance(given, tuple) for given in arguments):
        raise Elsewhere
    for given in arguments[:1]:
        result = rg.run(f, *given, max_steps=STEPS * 10)
        rg.run(~f, *result.values, max_steps=STEPS * 10)


def run_functional(text: str) -> None:
    space = _defined(f"import retrograd as rg\nfrom retrograd import fixed\n\n\n@rg.functional\n{text}")
    rg.run(space["f"], 1.5, 0.25, max_steps=STEPS * 10)


def changed_python(seed: str, chance: random.Random) -> str:
    """The text with changes such that Python still compiles it."""
    for _ in range(20):
        text = changed_text(seed, chance)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text, "", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return text
    return seed + "# \x1b[31m\n"


def read_document(text: str) -> None:
    Path("x.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    failed: RetrogradError | None = None
    reads: tuple[Callable[[], object], ...] = (
        lambda: load_state("x.json", machine()),
        lambda: load_gates(Path("x.json")).cells(),
        lambda: load_activity(Path("x.json")),
    )
    for read in reads:
        try:
            read()
            return
        except RetrogradError as error:
            failed = error if failed is None or "schema" not in str(error) else failed
            _printable(str(error))
    assert failed is not None
    raise failed


def read_arrays_of(data: bytes) -> None:
    path = Path("x.npz" if data[:1] == b"P" else "x.npy")
    path.write_bytes(data)
    with command(Limits(expanded=1 << 24)):
        found = read_array(str(path)) if path.suffix == ".npy" else read_arrays(str(path))
        for array in found.values() if isinstance(found, dict) else [found]:
            array.tolist()


def read_quantity(text: str) -> None:
    """A format, or a quantity of any kind."""
    failed: RetrogradError | None = None
    for measures in ("format", "temperature", "frequency", "resistance"):
        try:
            if measures == "format":
                Format.named(text)
            else:
                quantity(text, measures, measures)
            return
        except RetrogradError as error:
            failed = error
            _printable(str(error))
    assert failed is not None
    raise failed


def read_arguments(words: tuple[str, ...]) -> None:
    parse_arguments(list(words))


def read_region(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        region = Region.parse(text, machine().program, "--mem")
        read_words(region, machine().format)


def debug(lines: tuple[str, ...]) -> str:
    from retrograd.observe._session import Session

    found = rg.Machine(machine().program, memory_limit=4096)
    interpreter = Interpreter(Session(found), pricing_context("landauer", found.format))
    refused: RetrogradError | None = None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for line in lines:
            try:
                if line.lstrip().startswith("save"):
                    continue
                interpreter.execute(line)
            except RetrogradError as error:
                refused = error
                _printable(str(error))
    _printable(printed.getvalue())
    if refused is not None:
        raise refused
    return printed.getvalue()


class Foreign(Exception):
    """An exception that was printed, answered or logged, and not raised."""


def adapt(messages: tuple[str, ...]) -> None:
    """A session of the Debug Adapter Protocol; a response without success is a refusal."""
    sent = b"".join(
        b"Content-Length: %d\r\n\r\n%s" % (len(m), m) for m in (t.encode("utf-8", "surrogatepass") for t in messages)
    )
    answers = io.BytesIO()
    raised: list[Any] = []
    before, threading.excepthook = threading.excepthook, raised.append
    try:
        serve(io.BytesIO(sent + framed({"seq": 99, "type": "request", "command": "disconnect"})), answers)
    finally:
        threading.excepthook = before
    if raised:
        raise Foreign(f"in a thread: {raised[0].exc_value!r}")
    refused = ""
    for body in _bodies(answers.getvalue()):
        _printable_document(body)
        refused = refused or (body.get("message", "") if body.get("success") is False else "")
    if refused:
        raise rg.RetrogradError()


def _bodies(data: bytes) -> Iterator[dict[str, Any]]:
    at = 0
    for found in re.finditer(rb"Content-Length: (\d+)\r\n(?:[^\r\n]+\r\n)*\r\n", data):
        if found.start() >= at:
            at = found.end() + int(found[1])
            yield json.loads(data[found.end() : at])


def serve_editor(messages: tuple[str, ...]) -> None:
    """A session of the Language Server Protocol. An error of ours, or one of the protocol for a wrong message, is a refusal."""
    from retrograd.observe._language_server import server

    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
    sent = b"".join(
        b"Content-Length: %d\r\n\r\n%s" % (len(m), m) for m in (t.encode("utf-8", "surrogatepass") for t in messages)
    )
    answers = io.BytesIO()
    answers.close = lambda: None  # type: ignore[method-assign]
    server().start_io(io.BytesIO(sent), answers)
    answered = 0
    for body in _bodies(answers.getvalue()):
        fault = body.get("error")
        if fault is not None and fault.get("code") == -32603:
            raise Foreign(f"internal error: {str(fault)[:600]}")
        answered += "result" in body
        _printable_document({**body, "error": None})
    if answered < 6:
        raise rg.RetrogradError()


def analyse(text: str) -> str | None:
    """The analysis of a text in an editor, at every eighth character."""
    document = Document(text, "p.rga")
    said = [d.render() for d in document.findings]
    said += [s.name for s in document.symbols]
    lines = text.split("\n")
    for number, line in list(enumerate(lines))[:: max(1, len(lines) // 8)]:
        for column in range(0, min(len(line), 80) + 1, 8):
            document.definition(number, column)
            document.references(number, column)
            said.append(document.hover(number, column) or "")
    _printable("\n".join(said))
    if document.findings:
        raise rg.RetrogradError()
    return None


def highlight(text: str) -> None:
    from retrograd.observe import lexers

    for lexer in (lexers.AssemblyLexer(), lexers.JanusLexer(), lexers.VladLexer()):
        list(lexer.get_tokens(text))


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
        ".rga": assembly(), ".pisa": pisa(), ".ja": _janus(None), ".janus": _janus("1982"), ".vlad": vlad(), ".real": REAL, ".qasm": QASM,
        ".toml": models(), ".py": [FUNCTION], ".rgx": [rg.to_image(rg.assemble(ASSEMBLY)).decode("latin-1")],
    }  # fmt: skip
    return [
        (words.replace("FILE", f"x{suffix}"), text)
        for suffix, found in COMMANDS.items()
        for words in found
        for text in texts[suffix][:8]
    ]


def changed_file(seed: tuple[str, ...], chance: random.Random) -> tuple[str, ...]:
    words, text = seed
    if "x.rgx" in words:
        return words, changed_image(text.encode("latin-1"), chance).decode("latin-1")
    return words, (changed_python if "x.py" in words else changed_text)(text, chance)


def run_command(seed: tuple[str, ...]) -> str:
    """A command on its file; any exit code but 0 is a refusal."""
    words, text = seed
    given = words.split()
    name = re.search(r"x\.\w+", words)
    assert name is not None
    Path(name[0]).write_bytes(text.encode("latin-1") if "rgx" in words else text.encode("utf-8", "surrogatepass"))
    printed = commanded(given)
    for picture in ("g.svg", "e.html", "t.vcd"):
        if picture in words and Path(picture).exists():
            _printable(Path(picture).read_bytes().decode("utf-8"))
            Path(picture).unlink()
    return printed


def commanded(words: list[str]) -> str:
    """The text that a command prints. Raises RetrogradError for an exit code other than 0."""
    shown = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    errors = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
        try:
            code = command_line(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    shown.seek(0)
    printed = shown.read() + errors.getvalue()
    if "Traceback (most recent" in printed:
        raise Foreign(printed[-1500:])
    _printable(printed)
    if code:
        raise rg.RetrogradError()
    return printed


WORDS = [
    ("run", "p.rga", "--max-steps", "300", "--set", "r1=5", "--mem", "table=words.txt"), ("run", "f.py:f", "1.0", "x=2.5", "--format", "Q16.16", "--json"),
    ("energy", "p.rga", "--max-steps", "300", "--tech", "landauer,cmos45", "--temperature", "4.2K"), ("explain", "RG0101"), ("isa", "mul"),
    ("grad", "f.py:f", "0.0", "1.5", "--scale", "8"), ("ranges", "f.py:f", "0.0", "1.5"), ("compile", "f.py:f", "--asm"), ("verify", "p.rga", "--strict"),
    ("dis", "p.rga"), ("asm", "p.rga", "-o", "out.rgx"), ("gates", "add", "--width", "8", "--frac", "4"), ("entropy", "p.rga", "--max-steps", "300"),
    ("graph", "p.rga", "-o", "g.svg"), ("trace", "p.rga", "-o", "t.json", "--steps", "20", "--from", "2"), ("run", "f.py:~f", "1.0", "2.0", "--engine", "reference"),
]  # fmt: skip


def run_words(words: tuple[str, ...]) -> str:
    # Commands that measure, serve, or wait for an editor.
    if words[:1] and words[0] in ("bench", "hdl", "demo", "devices", "dap", "lsp", "debug"):
        raise rg.RetrogradError()
    return commanded(list(words))


@functools.cache
def models() -> list[str]:
    return _files("simulator/energy/models/*.toml")


def _images() -> list[bytes]:
    return [rg.to_image(rg.assemble(text)) for text in assembly()]


READERS: dict[str, Reader] = {
    "assembly": Reader(24, assembly, changed_text, run_assembly),
    "image": Reader(24, _images, changed_image, run_image),
    "PISA": Reader(14, pisa, changed_text, run_pisa),
    "Janus of Jana": Reader(10, lambda: _janus(None), changed_text, lambda t: run_janus(t, "jana")),
    "Janus of 1982": Reader(8, lambda: _janus("1982"), changed_text, lambda t: run_janus(t, "1982")),
    "VLAD": Reader(4, vlad, changed_text, run_vlad),
    "reversible Python": Reader(6, python, changed_python, run_python),
    "functional Python": Reader(5, lambda: FUNCTIONAL, changed_python, run_functional),
    ".real": Reader(16, lambda: REAL, changed_text, lambda t: _nothing(read_real(t, "x.real"))),
    "QASM": Reader(16, lambda: QASM, changed_text, lambda t: _nothing(read_qasm(t, "x.qasm"))),
    "technology": Reader(10, models, changed_text, lambda t: _nothing(from_text(t, "x.toml"))),
    "arrays": Reader(16, arrays, changed_bytes, read_arrays_of),
    "documents": Reader(12, documents, changed_document, read_document),
    "quantities": Reader(8, lambda: QUANTITIES, changed_text, read_quantity),
    "arguments": Reader(8, lambda: ARGUMENTS, changed_words, read_arguments),
    "memory files": Reader(4, lambda: REGIONS, changed_text, read_region),
    "debugger": Reader(4, lambda: DEBUGGING, changed_words, debug),
    "debug adapter": Reader(3, debug_adapter, changed_words, adapt),
    "language server": Reader(1, language_server, changed_words, serve_editor),
    "editor's analysis": Reader(4, assembly, changed_text, analyse),
    "highlighting": Reader(3, lambda: [ASSEMBLY, *vlad()[:3], *_janus(None)[:3]], changed_text, highlight),
    "command lines": Reader(3, lambda: WORDS, changed_words, run_words),
    "commands on files": Reader(6, files, changed_file, run_command),
}


def _nothing(value: object) -> None:
    """Not printed."""


# ---------------------------------------------------------------------- checks


class Unprintable(Exception):
    """A control character in a printed text."""


class Hangs(BaseException):
    """An input takes longer than it may."""


def _printable(text: str) -> None:
    if text.isprintable():
        return
    for k, c in enumerate(text):
        if not c.isprintable() and c not in "\n\t\xa0":
            raise Unprintable(f"{c!a} in {text[max(0, k - 80) : k + 40]!a}")


#: parts of a message that editors do not show as messages: the text of the user's file, and words of the request
ECHOED = ("content", "command", "uri", "path", "method", "id", "data")


def _printable_document(value: Any) -> None:
    """Every text of a message to an editor."""
    match value:
        case str():
            _printable(value)
        case dict():
            for name, inner in value.items():
                if name not in ECHOED:
                    _printable_document(inner)
        case list():
            for inner in value:
                _printable_document(inner)


@contextlib.contextmanager
def limited(data: object) -> Iterator[None]:
    """Interrupt a reader that takes more processor time than it may, or two minutes."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"signal {number}")

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, allowed(data)), (signal.SIGALRM, signal.ITIMER_REAL, LONGEST))
    for which, timer, seconds in timers:
        signal.signal(which, stop)
        # Again: code that catches every exception goes on after the first.
        signal.setitimer(timer, seconds, 5.0)
    faulthandler.dump_traceback_later(2 * LONGEST, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for _, timer, _ in timers:
            signal.setitimer(timer, 0)


def tried(name: str, seed: int) -> tuple[str, Any]:
    """(accepted, late, early, elsewhere or the text of a fault; the input)."""
    reader = READERS[name]
    chance = random.Random(f"{name} {seed}")
    valid = chance.choice(reader.seeds())
    data = reader.changed(valid, chance)
    try:
        with limited(data), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            printed = reader.read(data)
            if printed:
                _printable(printed)
    except RetrogradError as error:
        try:
            for d in error.diagnostics:
                _printable(d.render())
            _printable(str(error))
        except Unprintable as fault:
            return f"fault: {fault}", data
        return ("late" if valid_part(valid, data) >= 0.5 else "early"), data
    except Elsewhere:
        return "elsewhere", data
    except BaseException as fault:
        if isinstance(fault, KeyboardInterrupt):
            raise
        where = "".join(traceback.format_exception(fault)[-4:])
        return f"fault: {type(fault).__name__}: {where}", data
    return "accepted", data


@contextlib.contextmanager
def in_folder() -> Iterator[None]:
    """A folder to stand in, with a program, a function, arrays, and no cache."""
    before, cache = os.getcwd(), os.environ.get("RETROGRAD_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["RETROGRAD_CACHE"] = ""
        Path("p.rga").write_text(ASSEMBLY)
        Path("f.py").write_text(FUNCTION)
        Path("words.txt").write_text("1 2 0x1f -3\n")
        Path("bytes.bin").write_bytes(bytes(range(12)))
        np.save("x.npy", np.array([1.5, 2.5]))
        try:
            yield
        finally:
            os.chdir(before)
            if cache is None:
                del os.environ["RETROGRAD_CACHE"]
            else:
                os.environ["RETROGRAD_CACHE"] = cache


def examined(name: str, first: int, count: int) -> tuple[Counter[str], list[str]]:
    """The counts of inputs of a reader, and its faults."""
    went: Counter[str] = Counter()
    faults = []
    with in_folder():
        for seed in range(first, first + count):
            outcome, data = tried(name, seed)
            went[outcome.partition(":")[0]] += 1
            if outcome.startswith("fault"):
                faults.append(f"tried({name!r}, {seed}): {outcome}\n{data!a:.1500}")
    return went, faults


def in_process(share: tuple[str, int, int]) -> tuple[Counter[str], list[str]]:
    """`examined` in a process of its own, whose end is a fault of this share alone."""
    name, first, count = share
    try:
        with ProcessPoolExecutor(1, CONTEXT) as pool:
            return pool.submit(examined, *share).result()
    except BrokenProcessPool:
        return Counter(fault=1), [f"{name}: the process of the inputs {first} … {first + count - 1} ended"]


def tried_in_depth(went: Counter[str]) -> bool:
    """Whether enough inputs of a reader came past its first lines."""
    return went["accepted"] + went["late"] >= LEAST * sum(went.values())


def shares(count: int, first: int, only: str | None = None) -> list[tuple[str, int, int]]:
    """(reader, first seed, number) of the shares of a run over all readers by their weights, or over one."""
    weights = {name: r.weight for name, r in READERS.items() if only in (None, name)}
    total = sum(weights.values())
    return [
        (name, first + k, min(SHARE, n - k))
        for name, weight in weights.items()
        for n in [-(-count * weight // total)]
        for k in range(0, n, SHARE)
    ]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=200_000, help="inputs (default: 200000)")
    p.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    p.add_argument("--only", choices=list(READERS), metavar="READER", help="one reader, which gets all of the inputs")
    p.add_argument("--store", type=Path, help="the file of finished shares")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one a core)")
    options = p.parse_args()
    mark, store = digest(SOURCES), Store(options.store)
    done = store.finished(mark)
    every = shares(options.count, options.seed, options.only)
    totals: dict[str, Counter[str]] = {}
    wrong = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = {}
        for share in every:
            number = zlib.crc32(repr(share).encode())
            if number in done:
                totals.setdefault(share[0], Counter()).update(done[number])
            else:
                futures[pool.submit(in_process, share)] = share, number
        for future in as_completed(futures):
            share, number = futures[future]
            went, faults = future.result()
            totals.setdefault(share[0], Counter()).update(went)
            wrong += len(faults)
            print(*faults, sep="\n", end="\n" if faults else "", flush=True)
            if not faults:
                store.add(mark, number, went)
    for name, went in totals.items():
        print(
            f"{name:20} {sum(went.values()):7} inputs: "
            + ", ".join(f"{went[k]} {k}" for k in ("accepted", "late", "early", "elsewhere", "fault") if went[k])
        )
    total = sum(totals.values(), Counter[str]())
    print(
        f"{sum(total.values())} inputs, {total['accepted']} accepted, {total['late']} damaged late, {total['early']} refused early, {wrong} faults"
    )
    untried = [name for name, went in totals.items() if not tried_in_depth(went)]
    if untried:
        print(f"less than {LEAST:.0%} accepted or late: {', '.join(untried)}")
    return 1 if wrong or untried else 0


if __name__ == "__main__":
    sys.exit(main())
