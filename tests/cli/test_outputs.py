"""Outputs: as a whole or not at all, never over an input, and through one function."""

from __future__ import annotations

import ast
import errno
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from retrograd.isa import files
from retrograd.isa.diagnostics import InputError
from retrograd.isa.files import check_output, command, read_file, replacing, write_file

Ran = tuple[int, str, str]
Cli = Callable[..., Ran]
ROOT = Path(__file__).resolve().parents[2]

# ---------------------------------------------------------------------- the one function


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_new_file_has_the_permissions_of_one(tmp_path: Path) -> None:
    write_file(tmp_path / "ours", "é\n")
    (tmp_path / "theirs").write_text("")
    assert (tmp_path / "ours").read_bytes() == b"\xc3\xa9\n"
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode
    assert names(tmp_path) == {"ours", "theirs"}


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664])
def test_the_mode_of_a_file_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    write_file(path, b"new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").write_text("old")
    (tmp_path / "other").hardlink_to(tmp_path / "there/file")
    (tmp_path / "link").symlink_to("there/file")
    (tmp_path / "dangling").symlink_to("there/new")
    write_file(tmp_path / "link", "new")
    write_file(tmp_path / "dangling", "first")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there/file").read_text() == "new"
    assert (tmp_path / "there/new").read_text() == "first"
    # As an editor leaves it.
    assert (tmp_path / "other").read_text() == "old"
    assert names(tmp_path / "there") == {"file", "new"}


def test_a_device_and_a_pipe_are_written_directly(tmp_path: Path) -> None:
    write_file(os.devnull, b"x")
    reader, writer = os.pipe()
    write_file(f"/dev/fd/{writer}", b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader), os.close(writer)


FAILURES = [("write", errno.ENOSPC), ("fsync", errno.EIO), ("replace", errno.EBUSY)]


@pytest.mark.parametrize(("step", "number"), FAILURES)
def test_what_fails_leaves_the_old_file(tmp_path: Path, step: str, number: int) -> None:
    path, error = tmp_path / "file", OSError(number, os.strerror(number))
    path.write_text("old")
    with (  # noqa: PT012
        pytest.raises(InputError, match="RG0501"),
        patch.object(os, step, side_effect=error),
        replacing(path) as file,
    ):
        file.write(b"new" * 100_000)
        if step == "write":
            raise error
    assert (path.read_text(), names(tmp_path)) == ("old", {"file"})


def test_an_exception_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    for raised in (KeyboardInterrupt, ValueError, ZeroDivisionError):
        with pytest.raises(raised), replacing(path) as file:  # noqa: PT012
            file.write(b"half")
            raise raised
    assert (path.read_text(), names(tmp_path)) == ("old", {"file"})
    # Waveforms of a run that fails are of use.
    with pytest.raises(ValueError, match="x"), replacing(path, keep_partial=True) as file:  # noqa: PT012
        file.write(b"half")
        raise ValueError("x")
    assert (path.read_text(), names(tmp_path)) == ("half", {"file"})


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for path in ("folder", "folder/", "no/file", "", "new/", "loop", "a\0b", "n" * 300, f"/dev/full/{'x'}"):
        whole = str(tmp_path / path) + "/" * path.endswith("/") if path else ""
        for refuse in (check_output, lambda p: write_file(p, b"x")):
            if refuse is check_output and path == "n" * 300:
                continue
            with pytest.raises(InputError, match="RG0501"):
                refuse(whole)
    assert names(tmp_path) == {"folder", "loop"}


def test_a_full_device() -> None:
    with pytest.raises(InputError, match=r"RG0501.*No space left"):
        write_file("/dev/full", b"x" * 100)


def test_inputs_by_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("old")
    Path("link").symlink_to("in")
    Path("hard").hardlink_to("in")
    with command():
        read_file("in")
        for name in ("in", "./in", str(tmp_path / "in"), "link", "hard"):
            for refuse in (check_output, lambda p: write_file(p, b"x")):
                with pytest.raises(InputError, match="RG0513"):
                    refuse(name)
        write_file("out", b"x")
        with pytest.raises(InputError, match=r"RG0513.*twice"):
            write_file("./out", b"y")
    assert Path("in").read_text() == "old"
    # Each command has its own.
    with command():
        write_file("in", b"new")
    read_file("in")
    write_file("in", b"newer")


# ---------------------------------------------------------------------- the commands

FUNCTIONS = """\
from retrograd import Array, fixed, reversible


@reversible
def norm(r: fixed, xs: Array[fixed, 2]):
    r += xs[0] * xs[0] + xs[1] * xs[1]
"""

#: command -> the input that it would replace, OUT in the command, which a link or ./ reaches, too
COMMANDS = {
    "asm add.rga -o OUT": "add.rga",
    "asm including.rga -o OUT": "part.rga",
    "run add.rga --mem table.txt --out OUT,text": "table.txt",
    "run add.rga --out OUT,text": "add.rga",
    "run f.py:norm --batch in.npz -o OUT": "in.npz",
    "compile f.py:norm -o OUT": "f.py",
    "compile add.rga --emit llvm -o OUT": "add.rga",
    "energy add.rga --mem table.txt --out OUT,text": "table.txt",
}


@pytest.mark.parametrize("how", ["{}", "./{}", "linked", "hard"])
@pytest.mark.parametrize("text", COMMANDS)
def test_an_input_is_not_replaced(cli: Cli, folder: Path, text: str, how: str) -> None:
    (folder / "f.py").write_text(FUNCTIONS)
    (folder / "table.txt").write_text("1 2 3")
    (folder / "part.rga").write_text("add r1, 1\n")
    (folder / "including.rga").write_text('start\n.include "part.rga"\nfinish\n')
    np.savez(folder / "in.npz", r=np.zeros(3), xs=np.ones((3, 2)))
    target = COMMANDS[text]
    (folder / "linked").symlink_to(target)
    (folder / "hard").hardlink_to(folder / target)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    code, out, err = cli(*text.replace("OUT", how.format(target)).split())
    assert (code, out) == (2, "")
    assert err.startswith("error[RG0513]")
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_two_outputs_into_one_file_are_refused_before_the_run(cli: Cli, folder: Path) -> None:
    (folder / "link").symlink_to("out.txt")
    for other in ("./out.txt", "link"):
        code, _, err = cli(
            "run", "endless.rga", "--memory", "4", "--max-steps", "9", "--out", "0:1=out.txt", "--out", f"1:1={other}"
        )
        assert (code, err.startswith(f"error[RG0513]: {other} is written twice")) == (2, True)
        assert not (folder / "out.txt").exists()
    assert cli("run", "add.rga", "--out", f"0:1={os.devnull}", "--out", f"1:1={os.devnull}")[0] == 0


def test_standard_input_is_an_input(folder: Path) -> None:
    line = f'"{sys.executable}" -m retrograd.cli.main asm - -o add.rga < add.rga'
    before = (folder / "add.rga").read_bytes()
    ran = subprocess.run(line, shell=True, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"RG0513" in ran.stderr
    assert (folder / "add.rga").read_bytes() == before


def test_a_full_disk_keeps_the_earlier_results(folder: Path) -> None:
    """RLIMIT_FSIZE stands for the disk: a file may not grow beyond a number of bytes."""
    (folder / "f.py").write_text(FUNCTIONS)
    np.savez(folder / "in.npz", r=np.zeros(3000), xs=np.ones((3000, 2)))
    (folder / "out.npz").write_bytes(b"an earlier result")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000));"
        "from retrograd.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    environment = {**os.environ, "RETROGRAD_CACHE": ""}
    before = names(folder)
    words = ["run", "f.py:norm", "--batch", "in.npz", "-o", "out.npz", "--engine", "reference"]
    # -B: of a module, the limit would leave a truncated .pyc behind, which later processes load.
    ran = subprocess.run([sys.executable, "-B", "-c", code, *words], capture_output=True, env=environment, check=False)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"error[RG0501]: out.npz: File too large" in ran.stderr
    assert (folder / "out.npz").read_bytes() == b"an earlier result"
    assert names(folder) == before


# ---------------------------------------------------------------------- no other writer

#: calls that write a file, by their last name
WRITERS = frozenset({
    "write_text", "write_bytes", "savefig", "savez", "savez_compressed", "save", "savetxt", "tofile", "dump", "to_csv",
    "mkstemp", "NamedTemporaryFile", "TemporaryFile", "copyfile", "copy", "copy2", "move", "replace", "rename", "truncate", "write_vcd", "ZipFile", "fdopen", "open", "FileIO", "connect", "open_memmap",
})  # fmt: skip
#: of those, what may read, too
OPENERS = frozenset({"open", "ZipFile", "FileIO", "open_memmap"})
CALL = re.compile(rf"\b(?:{'|'.join(WRITERS)})\(")
#: of those, what is meant only with a module before it
OF_MODULES = {
    "save": ("np", "numpy"), "dump": ("json", "pickle", "marshal"), "copy": ("shutil",), "move": ("shutil",), "replace": ("os",),
    "rename": ("os",), "truncate": ("os",), "connect": ("sqlite3",),
}  # fmt: skip
#: file -> the calls that are right there, and why. What is not found is an error, too.
ALLOWED = {
    # the functions for outputs, and for code that is kept
    "isa/files.py": {"open", "FileIO", "fdopen", "mkstemp", "replace"},
    "src/retrograd/cli/arguments.py": {"ZipFile", "open", "save"},  # into the file that `replacing` opens
    "src/retrograd/cli/commands/energy.py": {"savefig"},
    "benchmarks/page.py": {"savefig"},
    "tools/analyse_energy.py": {"savefig"},
    "tools/compare_gates.py": {"savefig"},
    "tools/compare_machines.py": {"savefig"},
    "examples/nice.py": {"savefig"},
    "examples/full_waveform_inversion.py": {"savefig"},
    "tools/long_runs/hostile_inputs.py": {"save", "write_bytes", "write_text"},  # damaged files, in a temporary folder
    "tools/long_runs/valid_inputs.py": {"ZipFile", "save"},  # into memory
    "tools/long_runs/shares.py": {"open"},  # a line behind the others
    "tools/make_site.py": {"write_text"},  # copies of pages, in a folder of its own
    "tools/run_examples.py": {"write_text"},  # files of an example, in a temporary folder
    "tools/package_extension.py": {"ZipFile"},  # into the file that `replacing` opens
    "hdl/simulation/amaranth_simulator.py": {"write_vcd"},
    "hdl/bus/links.py": {"write_vcd"},
    "src/retrograd/cli/commands/debugging.py": {"fdopen", "open"},  # standard streams, the null device
    "src/retrograd/cli/terminal.py": {"open", "FileIO"},  # the null device, standard streams
    "benchmarks/toolchain.py": {"open"},  # the null device
    "benchmarks/vlad.py": {"write_text"},  # a program in C, in a temporary folder
    "benchmarks/measure.py": {"write_text"},  # /proc/self/clear_refs
    "src/retrograd/runtime/_distribution.py": {"connect"},  # transactions of SQLite
    "src/retrograd/runtime/_batch_runs.py": {"savez"},  # into memory
    # In folders of their own: arrays larger than memory are written in place, a task at a time.
    "src/retrograd/runtime/_batches.py": {"open_memmap"},
    "examples/mixture_training.py": {"open_memmap"},
}


def writes(source: str) -> set[str]:
    """The names of the calls in a source that may write a file."""
    if not CALL.search(source):
        return set()  # to parse all takes seconds
    return {found for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and (found := writer(node))}


def writer(call: ast.Call) -> str | None:
    """The last name of what is called, if it may write a file."""
    match call.func:
        case ast.Name(name):
            module = ""
        case ast.Attribute(value, name):
            module = value.id if isinstance(value, ast.Name) else "?"
        case _:
            return None
    if name not in WRITERS or module not in OF_MODULES.get(name, (module,)):
        return None
    if name in OPENERS and module != "os":
        # `path.open("w")` has its mode first, `open(path, "w")` second.
        method = name == "open" and module not in ("", "io")
        modes = [*call.args[0 if method else 1 :], *(keyword.value for keyword in call.keywords)]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        if not any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts):
            return None
    return name


PRODUCT = ("isa", "assembler", "compiler", "simulator", "hdl", "src/retrograd", "benchmarks", "tools", "examples")


def test_there_is_no_other_writer() -> None:
    found = {}
    for folder in PRODUCT:
        paths = [p for p in (ROOT / folder).rglob("*.py") if p.is_file()]
        assert paths
        for path in paths:
            name = path.relative_to(ROOT).as_posix()
            calls = writes(path.read_text(encoding="utf-8"))
            if calls:
                found[name] = calls
    assert found == ALLOWED, "outputs go through retrograd.isa.files.replacing"


PLANTED = [
    'open("x", "w")', 'open(p, mode="ab")', 'path.open("w")', "path.write_text(t)", "Path(p).write_bytes(b)", "np.savez(p, a=1)",
    "numpy.save(p, a)", "figure.savefig(p)", 'zipfile.ZipFile(p, "w")', "os.replace(a, b)", "json.dump(x, f)", "os.open(p, flags)",
    'io.open(p, "r+")', "shutil.copyfile(a, b)", "tempfile.mkstemp()", 'os.fdopen(n, "wb")', "array.tofile(p)", 'open(p, "x")',
]  # fmt: skip


@pytest.mark.parametrize("call", PLANTED)
def test_a_planted_writer_is_found(call: str) -> None:
    assert writes(f"def f():\n    {call}\n")


@pytest.mark.parametrize(
    "call",
    [
        'open("x")',
        'open("x", "rb")',
        'text.replace("a", "b")',
        "zipfile.ZipFile(file)",
        "x.copy()",
        "archive.open(entry)",
    ],
)
def test_a_reader_is_none(call: str) -> None:
    assert not writes(call)


def test_the_planted_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above see a function that writes in place."""
    monkeypatch.setattr(
        files, "_created", lambda folder: (str(tmp_path / "file"), os.open(tmp_path / "file", os.O_WRONLY | os.O_TRUNC))
    )
    with pytest.raises((AssertionError, InputError)):
        test_an_exception_leaves_the_old_file(tmp_path)


def test_a_file_is_closed_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows replaces no open file."""
    files.write_file(tmp_path / "out", b"old")
    closed, rename = [], os.replace
    monkeypatch.setattr(os, "replace", lambda *names: (closed.append(file.closed), rename(*names)))
    with files.replacing(tmp_path / "out") as file:
        file.write(b"new")
    with pytest.raises(TypeError), files.replacing(tmp_path / "part", keep_partial=True) as file:
        file.write(b"part", None)  # type: ignore[call-arg]
    assert closed == [True, True]
    assert [(tmp_path / name).read_bytes() for name in sorted(os.listdir(tmp_path))] == [b"new", b""]
