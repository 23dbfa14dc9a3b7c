"""PTX, made without a device: of every instruction, of the examples, of random programs; and what ptxas makes of it, where it is.

ptxas comes with NVIDIA's toolkit, or with the wheel nvidia-cuda-nvcc. Without it PTX is only looked at. Registers and spilled bytes are compared with
registers.json, which `python tests/simulator/engines/cuda/test_ptx.py` writes anew.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from retrograd.benchmarks.gpu import bessel_gradient, measurements, words_of
from retrograd.examples import bessel, bundle_adjustment, graph_embedding, wave
from retrograd.isa.diagnostics import InputError
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda import interpreter, kernels, stepped_machine
from retrograd.simulator.engines.cuda.interpreter import all_opcodes
from retrograd.simulator.engines.cuda.kernel_report import assembled, toolkit_program
from retrograd.simulator.engines.cuda.kernels import KERNEL, emit_kernel_loop, registers_and_instructions
from retrograd.simulator.engines.translator.flow import Variant
from support import generator, kernel_on_host

import retrograd as rg
from retrograd.derivatives._requests import gradient_program
from retrograd.runtime._binding import bind, types_of

ARCHITECTURES = ("sm_80", "sm_90")
FORMATS = (Format(64, 32), Format(32, 16), Format(16, 8), Format(8, 4))
#: random programs in the default tier and in the full one
PROGRAMS, SLOW = 2, 300


@pytest.fixture(autouse=True)
def transformations() -> None:
    """Kernels of batches have none of them: each test runs once in the full tier, too."""


@pytest.fixture(scope="session")
def ptxas(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(text, arch) -> what ptxas says; fails where it does not take the text."""
    found = toolkit_program("ptxas")
    if found is None:
        pytest.skip("ptxas is absent: neither on PATH nor in the wheel nvidia-cuda-nvcc; PTX is not assembled")
    folder = tmp_path_factory.mktemp("ptx")

    def assemble(text: str, arch: str) -> str:
        source = folder / "kernel.ptx"
        source.write_text(text)
        command = [found, "-v", "-arch", arch, str(source), "-o", str(folder / "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return assemble


def compiled(function: Any, *args: Any) -> Program:
    values = bind(function, args, {})
    program: Program = function.compiled_for(types_of(function, values)).program
    return program


def straight(names: set[str] | None = None, w: Format = FORMATS[0]) -> Program:
    """Every instruction of the table that is no branch, one after the other; of some names only."""
    code = []
    start, finish = (next(o for o in TABLE if o.name == name) for name in ("start", "finish"))
    for number, o in enumerate(TABLE):
        if "br" in o.writes or "br" in o.reads or o.halts or o.name in ("start", "finish"):
            continue
        if names is None or o.name in names:
            registers = {f: 3 + (7 * number + k) % 60 for k, f in enumerate(("rd", "ra", "rb")) if f in o.fields}
            code.append(encode(Instruction(o, **registers, imm=5 if "imm" in o.fields else 0)))
    return Program([start.code << 56, *code, finish.code << 56], memory=16, format=w)


#: a pair of branches of each condition, a loop, and calls both ways
BRANCHES = """
        .memory 8
        proc swapped, r9
        swap r1, r2
        endproc
        start
        call swapped
        uncall swapped
{pairs}
        finish
"""


def branches() -> Program:
    conditions = [o.name.partition(".")[2] for o in TABLE if o.name.startswith("goto.")]
    pairs = "".join(
        f"at{c}: goto.{c} r1, r2, to{c}\n imm.add r3, 1\nto{c}: from.{c} r1, r2, at{c}\n" for c in conditions
    )
    return rg.assemble(BRANCHES.format(pairs=pairs.replace("imm.add", "add")))


def used(program: Program) -> set[str]:
    return {i.opcode.name for i in program.instructions}


EXAMPLES = {
    "bessel": lambda: compiled(bessel.bessel, 0.0, 1.0),
    "bessel_log": lambda: compiled(bessel.bessel_log, 0.0, 1.0),
    "project": lambda: compiled(bundle_adjustment.project, np.zeros(2), np.zeros(11), np.zeros(3)),
    "embedding": lambda: compiled(graph_embedding.embedding_loss, 0.0, np.zeros((10, 10))),
    "every instruction": straight,
    "every branch": branches,
}


@cache
def example(name: str) -> Program:
    return EXAMPLES[name]()


# ---------------------------------------------------------------------- it is made


def looked_at(text: str, arch: str) -> None:
    """What the driver reads of PTX, and that nothing is left for a linker to find."""
    assert re.search(rf"^\.target {arch}\b", text, re.MULTILINE)
    assert re.search(r"^\.address_size 64", text, re.MULTILINE)
    assert re.findall(r"\.visible \.entry (\w+)\(", text) == [KERNEL]
    declared = set(re.findall(r"^\.extern.*", text, re.MULTILINE))
    assert not declared
    for called in re.findall(r"call\.uni (?:\([^)]*\), *)?\s*([\w$]+)", text):
        assert re.search(rf"\.func [^;{{]*\b{re.escape(called)}\b[^;{{]*\{{", text, re.DOTALL), called


ONE_EACH = [(name, ARCHITECTURES[k % 2]) for k, name in enumerate(EXAMPLES)]
THE_OTHER = [pytest.param(name, ARCHITECTURES[1 - k % 2], marks=pytest.mark.long) for k, name in enumerate(EXAMPLES)]


@pytest.mark.parametrize(("name", "arch"), [*ONE_EACH, *THE_OTHER])
def test_examples(name: str, arch: str) -> None:
    looked_at(kernels.ptx(example(name), arch), arch)


def test_every_instruction_is_among_them() -> None:
    left = {o.name for o in TABLE} - used(straight()) - used(branches())
    # A goto without a condition joins what a conditional one has parted: the loops of the other examples have them.
    assert left <= used(example("bessel")) | used(example("embedding")) | {"from", "goto"}


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("mode", [{}, {"backward": True}, {"overflow": False}, {"checks": False}], ids=str)
def test_formats_and_modes(w: Format, mode: dict[str, bool]) -> None:
    program = straight({"mov.add", "fmul.add", "fdiv.sub", "exch", "ld.xor", "fexp.add", "swap"}, w)
    text = kernels.ptx(program, "sm_80", **mode)
    looked_at(text, "sm_80")
    # Memory lies in words as wide as the format's.
    assert re.search(rf"ld\.global(?:\.\w+)*\.[bsu]{max(8, w.width)}\b", text)


def test_it_is_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETROGRAD_CACHE", "")
    program = compiled(bessel.bessel, 0.0, 1.0)
    assert kernels.ptx(program, "sm_80") == kernels.ptx(program, "sm_80")


def test_it_is_kept_by_what_it_is_made_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RETROGRAD_CACHE", str(tmp_path))
    program = straight({"mov.add"})
    made = {(arch, back): kernels.ptx(program, arch, backward=back) for arch in ARCHITECTURES for back in (False, True)}
    assert len(list(tmp_path.iterdir())) == 4
    assert {key: kernels.ptx(program, key[0], backward=key[1]) for key in made} == made
    assert len(list(tmp_path.iterdir())) == 4
    kernels.ptx(straight({"mov.sub"}))
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize("arch", ["", "90", "sm_", "sm_9", "compute_90", "sm_90; exit", "sm_90\n", "SM_90", "sm_1234"])
def test_what_is_no_capability_is_refused(arch: str) -> None:
    with pytest.raises(InputError) as caught:
        kernels.ptx(straight({"mov.add"}), arch)
    assert caught.value.diagnostics[0].code == "RG0603"
    assert "sm_80" in str(caught.value)


def test_counts() -> None:
    found = registers_and_instructions(
        "// x;\n.reg .b64 %rd<7>;\n.reg .pred %p<2>;\n{\nmov.u64 %rd1, 1;\nadd.s64 %rd2, %rd1, 1;\nret;\n}\n"
    )
    assert found == {"instructions": 3, "registers": {"b64": 6, "pred": 1}}


# ---------------------------------------------------------------------- it fits the launch


def test_parameters_are_those_of_the_loop() -> None:
    """The PTX's parameters are as many and as wide as the documented ones; a launch passes integers of 64 bits."""
    text = kernels.ptx(example("bessel"), "sm_80")
    inside = re.search(r"\.entry \w+\(([^)]*)\)", text, re.DOTALL)
    assert inside is not None
    declared = re.findall(r"\.param \.(\w+)( \.ptr \.global[^,\n]*)? \w+_param_(\d+)", inside[1])
    assert [int(number) for _, _, number in declared] == list(range(10))
    assert {kind for kind, _, _ in declared} == {"u64"}
    said = re.search(r"name\(([^)]*)\)", str(emit_kernel_loop.__doc__))
    assert said is not None
    assert len(re.findall(r"\w+", said[1])) == 10
    found = re.search(
        rf"define ptx_kernel void @{KERNEL}\((.*?)\) {{", kernels.kernel_ir(straight({"mov.add"})), re.DOTALL
    )
    assert found is not None
    assert tuple("ptr" in part for part in found[1].split(",")) == kernel_on_host.PARAMETERS
    with_pointer = [bool(pointer) for _, pointer, _ in declared]
    if any(with_pointer):  # newer code generators say which parameters are pointers
        assert tuple(with_pointer) == kernel_on_host.PARAMETERS


# ---------------------------------------------------------------------- it is assembled


#: name -> architecture -> (registers of a thread, bytes that it spills), as recorded
KEPT = Path(__file__).with_name("registers.json")
#: registers may be this many times those recorded
MORE = 1.1


def resources_of(program: Program, arch: str, ptxas: str) -> tuple[int, int]:
    """(registers, spilled bytes) of a thread of the batch kernel."""
    found = assembled(kernels.ptx(program, arch), arch, ptxas)[KERNEL]
    assert found.spilled is not None
    return found.registers, found.spilled


def check_resources(name: str, program: Program, arch: str) -> None:
    """No more is spilled than was recorded, and few more registers are taken."""
    ptxas = toolkit_program("ptxas")
    assert ptxas is not None
    registers, spilled = resources_of(program, arch, ptxas)
    recorded, before = json.loads(KEPT.read_text())[name][arch]
    assert registers <= MORE * recorded, (registers, recorded)
    assert spilled <= before


def every_example(frozen: Any) -> dict[str, Program]:
    """The functions and programs of examples/, two gradients, and EXAMPLES. `frozen`: the module tests/test_frozen.py."""
    out = {
        name: function.compiled(*frozen.arguments(name, function, cls)).program
        for name, function, cls in frozen.functions()
        if name.startswith("examples.")
    }
    out |= {path.name: rg.assemble(path.read_text()) for path in sorted((frozen.ROOT / "examples").glob("*.rga"))}
    _, out["bessel gradient"], _, _ = bessel_gradient(1)
    given = np.zeros((1, 2)), *measurements(1).arguments
    out["reprojection gradient"] = gradient_program(
        words_of(bundle_adjustment.reprojection_error, given)[0], False
    ).compiled.program
    return out | {name: example(name) for name in EXAMPLES}


@pytest.mark.parametrize(("name", "arch"), [*ONE_EACH, *THE_OTHER])
def test_ptxas_takes_the_examples(ptxas: Any, name: str, arch: str) -> None:
    check_resources(name, example(name), arch)


@pytest.mark.long
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_ptxas_takes_every_example(ptxas: Any, module: Any, every: Any, arch: str) -> None:
    programs = every_example(module("tests/test_frozen.py"))
    assert programs.keys() == json.loads(KEPT.read_text()).keys()
    every(lambda found: check_resources(*found, arch), programs.items())


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_ptxas_takes_every_format(ptxas: Any, w: Format) -> None:
    program = straight({"mov.add", "fmul.add", "fdiv.sub", "exch", "ld.xor", "fexp.add", "swap"}, w)
    ptxas(kernels.ptx(program, "sm_80"), "sm_80")


def test_ptxas_takes_random_programs(ptxas: Any) -> None:
    for seed in range(PROGRAMS):
        arch = ARCHITECTURES[seed % 2]
        ptxas(kernels.ptx(generator.generate(seed).program, arch), arch)


def test_random_programs() -> None:
    for seed in range(PROGRAMS):
        arch = ARCHITECTURES[seed % 2]
        looked_at(kernels.ptx(generator.generate(seed).program, arch), arch)


@pytest.mark.long
@pytest.mark.parametrize("first", range(PROGRAMS, PROGRAMS + SLOW, 50))
def test_ptxas_takes_many_random_programs(ptxas: Any, first: int) -> None:
    for seed in range(first, first + 50):
        arch = ARCHITECTURES[seed % 2]
        ptxas(kernels.ptx(generator.generate(seed).program, arch, backward=seed % 3 == 0), arch)


# ---------------------------------------------------------------- the interpreter's kernel

#: opcodes of the kernel in the default tier: sums, products, quotients, memory, branches
SOME = {
    "add",
    "mov.add",
    "fmul.add",
    "fdiv.add",
    "ld.add",
    "st.add",
    "swap",
    "goto",
    "from",
    "goto.ne",
    "from.ne",
    "call",
    "uncall",
}
#: the width of words -> registers of a thread: at 72, seven blocks of 128 threads run on a multiprocessor, at 80 six
MOST_REGISTERS = {64: 72, 32: 80, 16: 80}


@pytest.fixture
def without_device(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets numba-cuda compile functions of a device for an architecture, by default that of the present device."""
    if importlib.util.find_spec("numba_cuda") is None:
        pytest.skip("numba-cuda is not installed: the interpreter's kernel is not compiled")
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of a library whose version its name does not give
            for library in ("nvrtc", "nvvm"):
                load_nvidia_dynamic_lib(library)
    except DynamicLibNotFoundError as error:
        pytest.skip(
            f"the toolkit is not installed: the interpreter's kernel is not compiled ({str(error).splitlines()[0]})"
        )
    from numba.cuda import compiler, dispatcher

    def choose(arch: str) -> None:
        device = SimpleNamespace(compute_capability=(int(arch[3:-1]), int(arch[-1])))
        for module in (compiler, dispatcher):
            monkeypatch.setattr(module, "get_current_device", lambda: device)

    monkeypatch.setenv("RETROGRAD_CACHE", "")
    return choose


def check_interpreter(w: Format, arch: str, ptxas: Any, without_device: Callable[[str], None]) -> None:
    without_device(arch)
    text, name = interpreter.interpreter_ptx(w, arch, all_opcodes())
    told = ptxas(text, arch)
    assert name in told
    assert re.findall(r"(\d+) bytes spill", told) == ["0", "0"]
    (registers,) = re.findall(r"Used (\d+) registers", told)
    assert int(registers) <= MOST_REGISTERS[w.width]


def test_the_interpreter_for_some_opcodes(
    ptxas: Any, without_device: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = interpreter.interpreter_source
    monkeypatch.setattr(interpreter, "interpreter_source", lambda w, opcodes: source(w, opcodes, only=SOME))
    check_interpreter(FORMATS[0], "sm_90", ptxas, without_device)


@pytest.mark.long
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("w", FORMATS[:3], ids=str)
def test_the_interpreter_for_all_opcodes(
    w: Format, arch: str, ptxas: Any, without_device: Callable[[str], None]
) -> None:
    check_interpreter(w, arch, ptxas, without_device)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels_of_a_single_run(ptxas: Any, arch: str) -> None:
    """The kernels of cells take few registers, so that a multiprocessor holds all its threads."""
    fields = np.zeros((12, 12))
    program = compiled(wave.propagate, fields, fields, fields, 3)
    text = stepped_machine.stepped_ptx(program, Variant(), arch)
    told = ptxas(text, arch)
    for name, most in ((stepped_machine.TEST, 32), (stepped_machine.ADD, 32), (stepped_machine.STEPS, 255)):
        found = re.search(
            rf"entry function '{name}'.*?(\d+) bytes spill stores.*?Used (\d+) registers", told, re.DOTALL
        )
        assert found is not None
        assert int(found[1]) == 0
        assert int(found[2]) <= most
    assert "red" in text or "atom" in text


def write() -> None:
    """Write registers.json, and print the differences."""
    from tests import test_frozen

    before = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    ptxas = toolkit_program("ptxas")
    assert ptxas is not None
    now = {
        name: {arch: list(resources_of(program, arch, ptxas)) for arch in ARCHITECTURES}
        for name, program in sorted(every_example(test_frozen).items())
    }
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            print(f"{name}: {before.get(name)} → {now.get(name)}")
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(found)}" for name, found in now.items())
    KEPT.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    write()
