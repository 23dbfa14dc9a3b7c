"""`retrograd run FILE.py:FUNCTION --batch`: element by element as single runs, from a file to a file."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from retrograd.simulator.engines.cuda import runtime
from retrograd.simulator.engines.cuda.runtime import device_error
from retrograd.simulator.engines.tiering import VARIABLE

import retrograd as rg
from retrograd import presentation
from retrograd.cli import batches
from retrograd.cli.arguments import write_arrays
from retrograd.cli.files import load_function
from retrograd.runtime._arrays import join_words

Cli = Callable[..., tuple[int, str, str]]
Process = Callable[..., subprocess.CompletedProcess[bytes]]
Arrays = dict[str, NDArray[Any]]
OK, BAD_INPUT, TRAPPED, LIMIT = 0, 2, 3, 4
ENGINES = ["auto", "reference", "native", "threaded", "translated"]

SOURCE = """\
import retrograd as rg
from retrograd import Array, Stack, fixed, lognum, reversible, uint
from retrograd.library import Complex

@reversible
def norm(r: fixed, xs: Array[fixed, "n"]):
    with rg.routine() as squares:
        s = 0.0
        for x in xs:
            s += x * x
    r += rg.sqrt(s)
    ~squares

@reversible
def divide(y: int, x: int, z: int = 2):
    y += x // z

@reversible
def sum_to(total: int, n: int):
    for i in range(n):
        total += i

@reversible
def kinds(i: int, b: bool, x: fixed, l: lognum):
    i += 1
    b ^= i > 2
    x += i
    l *= lognum(2.0)

@reversible
def forget(x: fixed):
    rg.erase(x)

@reversible
def turn(z: Complex, ws: Array[Complex, "n"]):
    for w in ws:
        z.re += w.re
        z.im -= w.im

@rg.struct
class Ball:
    position: Array[fixed, 2]
    speed: Complex
    hits: int

@reversible
def move(ball: Ball, t: fixed):
    ball.position[0] += ball.speed.re * t
    ball.position[1] += ball.speed.im * t
    ball.hits += 1

@reversible
def heap(numbers: Stack[fixed, 5], x: fixed, count: rg.static = 2):
    for i in range(count):
        x += 1.0
    rg.push(numbers, x)

@reversible
def times(x: fixed, weights: rg.static):
    for w in weights:
        x += w

@rg.struct
class Pair:
    a: int
    b: int

    @reversible
    def exchange(self):
        rg.swap(self.a, self.b)

@rg.functional
def folded(words: list[uint]) -> uint:
    def total(items):
        match items:
            case []:
                return 0
            case [first, *rest]:
                return first ^ total(rest)
    return total(words)

@reversible
def retrograd(file: int, engine: int, path: int, arrays: int):
    file += engine + path + arrays
"""


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    Path("f.py").write_text(SOURCE)


def save(path: str = "in.npz", /, **arrays: Any) -> str:
    np.savez(path, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    return path


def load(path: str = "out.npz") -> Arrays:
    with np.load(path, allow_pickle=False) as found:
        return dict(found)


def refused(ran: tuple[int, str, str], code: str) -> str:
    """The message of a command that must be refused with this code, and print nothing else."""
    status, out, err = ran
    assert (status, out) == (BAD_INPUT, "")
    assert err.startswith(f"error[{code}]: "), err
    assert "  fix: " in err
    return err.split("\n")[0]


XS = np.array([[3.0, 4.0], [5.0, 12.0], [8.0, 15.0]])


# ----------------------------------------------------------------------------------------------- in and out


@pytest.mark.parametrize(
    ("workers", "scheduler", "executor"),
    [(None, None, None), (None, "tcp://a:1", "tcp://a:1"), ("1", None, None), ("2", None, 2), ("17", None, 17)],
)
def test_one_worker_is_this_process(workers: str | None, scheduler: str | None, executor: Any) -> None:
    options = SimpleNamespace(workers=workers, scheduler=scheduler)
    assert batches.executor_of(options) == executor  # type: ignore[arg-type]


def test_words_of_lists_are_a_column_of_their_own(cli: Cli) -> None:
    """A number from 2^63 on is no int64, so uints do not stand among the integers."""
    words = np.array([[2**64 - 1, 3], [2**63, 6]], np.uint64)
    save(words=words)
    assert cli("run", "f.py:folded", "--batch", "in.npz", "-o", "out.npz")[0] == OK
    found = load()
    assert found["out"].tolist() == [2**64 - 1 ^ 3, 2**63 ^ 6]
    assert found["words.uints"].tolist() == words.tolist()
    assert found["words.integers"].tolist() == [[3], [3]]


@pytest.mark.parametrize("engine", ENGINES)
def test_there_and_back(cli: Cli, engine: str) -> None:
    """What a run forward writes is what a run backward reads."""
    save(r=np.zeros(3), xs=XS)
    code, out, err = cli("run", "f.py:norm", "--batch", "in.npz", "-o", "out.npz", "--engine", engine)
    assert (code, err) == (OK, "")
    assert out.startswith("out.npz: 3 elements, 36 steps forward, 0 bits erased; engine: ")
    found = load()
    assert set(found) == {"r", "xs", "retrograd.steps", "retrograd.erased_bits", "retrograd.trap"}
    assert found["r"].tolist() == [5.0, 13.0, 17.0]
    assert found["xs"].tolist() == XS.tolist()
    assert found["retrograd.steps"].tolist() == [12, 12, 12]
    assert found["retrograd.erased_bits"].tolist() == [0, 0, 0]
    assert found["retrograd.trap"].tolist() == ["", "", ""]
    for command in (("f.py:norm", "--backward"), ("f.py:~norm",), ("f.py:norm", "--inverse")):
        code, out, _ = cli("run", *command, "--batch", "out.npz", "-o", "back.npz", "--engine", engine)
        assert code == OK
        assert "36 steps backward" in out
        assert load("back.npz")["r"].tolist() == [0.0, 0.0, 0.0]


def test_what_a_batch_reads_is_not_replaced(cli: Cli) -> None:
    save(r=np.zeros(3), xs=XS)
    code, _, err = cli("run", "f.py:norm", "--batch", "in.npz", "-o", "in.npz")
    assert (code, err.startswith("error[RG0513]: in.npz is read by this command")) == (BAD_INPUT, True)
    assert load("in.npz")["r"].tolist() == [0.0, 0.0, 0.0]


def test_the_same_command_writes_the_same_bytes(cli: Cli) -> None:
    save(r=np.zeros(3), xs=XS)
    for name in ("one.npz", "two.npz"):
        cli("run", "f.py:norm", "--batch", "in.npz", "-o", name)
    assert Path("one.npz").read_bytes() == Path("two.npz").read_bytes()


def test_elements_are_runs_of_their_own(cli: Cli) -> None:
    n = np.array([0, 1, 7, 300])
    save(total=np.arange(4), n=n)
    assert cli("run", "f.py:sum_to", "--batch", "in.npz", "-o", "out.npz", "--engine", "native")[0] == OK
    found = load()
    for i in range(4):
        one = json.loads(cli("run", "f.py:sum_to", str(i), str(n[i]), "--json")[1])
        assert (found["total"][i], found["retrograd.steps"][i]) == (one["values"]["total"], one["steps"])


def test_a_scheduler_that_is_nowhere(cli: Cli) -> None:
    save(r=np.zeros(3), xs=XS)
    code, out, err = cli("run", "f.py:norm", "--batch", "in.npz", "--scheduler", "nowhere")
    assert (code, out) == (BAD_INPUT, "")
    assert "error[RG1501]: 'nowhere' is no address of a scheduler" in err


def test_what_is_shared(cli: Cli) -> None:
    """Single values, arrays that --shared names, what is said on the command line, and defaults."""
    expected = [3, 4, 4]

    def values(*options: str) -> Any:
        code, out, err = cli("run", "f.py:divide", *options, "--batch", "in.npz", "--json")
        assert (code, err) == (OK, "")
        return json.loads(out)["each"]["values"]

    save(y=0, x=np.array([7, 8, 9]), z=2)
    assert values() == {"y": expected, "x": [7, 8, 9], "z": [2, 2, 2]}
    save(x=np.array([7, 8, 9]))
    assert values("y=0")["y"] == expected
    assert values("0")["y"] == expected
    assert values("y=0", "z=3")["y"] == [2, 2, 3]
    save(r=0.0, xs=np.array([3.0, 4.0]))
    assert "no array with an element" in cli("run", "f.py:norm", "--batch", "in.npz", "--shared", "xs")[2]
    save(r=np.array([0.0, 1.0, 2.0]), xs=np.array([3.0, 4.0]))
    code, out, _ = cli("run", "f.py:norm", "--batch", "in.npz", "--shared", "xs", "--json")
    assert code == OK
    assert json.loads(out)["each"]["values"] == {"r": [5.0, 6.0, 7.0], "xs": [[3.0, 4.0]] * 3}


@pytest.mark.parametrize(
    "of",
    [
        np.asfortranarray, lambda a: a.astype(">f8"), lambda a: a.astype(np.float32), lambda a: a.astype(int),
        lambda a: a.astype(np.uint8), lambda a: a[:, ::-1][:, ::-1],
    ],
)  # fmt: skip
def test_arrays_of_any_layout(cli: Cli, of: Callable[[Any], Any]) -> None:
    save(r=np.zeros(3, ">f8"), xs=of(XS))
    assert cli("run", "f.py:norm", "--batch", "in.npz", "-o", "out.npz")[0] == OK
    assert load()["r"].tolist() == [5.0, 13.0, 17.0]


def test_compressed_archives(cli: Cli) -> None:
    np.savez_compressed("in.npz", r=np.zeros(3), xs=XS)
    assert cli("run", "f.py:norm", "--batch", "in.npz")[0] == OK


def test_a_batch_from_standard_input(process: Process) -> None:
    Path("f.py").write_text(SOURCE)
    save(r=np.zeros(3), xs=XS)
    done = process("run", "f.py:norm", "--batch", "-", "--json", given=Path("in.npz").read_bytes())
    assert (done.returncode, done.stderr) == (OK, b"")
    assert json.loads(done.stdout)["each"]["values"]["r"] == [5.0, 13.0, 17.0]


def test_every_kind_of_number(cli: Cli) -> None:
    save(i=np.array([1, 2]), b=np.array([True, False]), x=np.array([0.5, -0.5]), l=np.array([1.0, 4.0]))
    assert cli("run", "f.py:kinds", "--batch", "in.npz", "-o", "out.npz")[0] == OK
    found = load()
    assert [found[name].tolist() for name in "ibx"] == [[2, 3], [True, True], [2.5, 2.5]]
    assert [found[name].dtype for name in "ibxl"] == [np.int64, np.bool_, np.float64, np.float64]
    assert cli("run", "f.py:kinds", "--batch", "out.npz", "-o", "back.npz", "--backward")[0] == OK
    assert np.abs(load("back.npz")["l"] - [1.0, 4.0]).max() < 1e-6


def test_no_elements(cli: Cli) -> None:
    save(r=np.zeros(0), xs=np.zeros((0, 2)))
    code, out, err = cli("run", "f.py:norm", "--batch", "in.npz", "-o", "out.npz")
    assert (code, err) == (OK, "")
    assert out.startswith("out.npz: 0 elements, 0 steps forward, 0 bits erased")
    assert load()["xs"].shape == (0, 2)
    assert cli("run", "f.py:norm", "--batch", "in.npz")[1].startswith("0 elements, ")


def test_one_element(cli: Cli) -> None:
    save(r=np.zeros(1), xs=XS[:1])
    assert "1 element, 12 steps" in cli("run", "f.py:norm", "--batch", "in.npz")[1]


def test_what_is_erased_is_told(cli: Cli) -> None:
    save(x=np.array([1.0, 2.0]))
    assert "128 bits erased" in cli("run", "f.py:forget", "--batch", "in.npz", "-o", "out.npz")[1]
    assert load()["retrograd.erased_bits"].tolist() == [64, 64]


def test_names_that_others_use(cli: Cli) -> None:
    """Arguments may be called as anything of ours, or of NumPy's, is called."""
    write_arrays("in.npz", {name: np.array([1, 2]) for name in ("file", "engine", "path", "arrays")})
    assert cli("run", "f.py:retrograd", "--batch", "in.npz", "-o", "out.npz")[0] == OK
    assert load()["file"].tolist() == [4, 8]


# ------------------------------------------------------------------------------------ structs, stacks, statics


def test_structs_by_their_fields(cli: Cli) -> None:
    fields = {"z.re": np.array([1.0, 2.0]), "z.im": np.array([3.0, 4.0])}
    save(**fields, ws=np.array([[1 + 1j, 2j, 3], [1, 1, 1]]))
    assert cli("run", "f.py:turn", "--batch", "in.npz", "-o", "out.npz")[0] == OK
    found = load()
    assert {name for name in found if "retrograd" not in name} == {"z.re", "z.im", "ws.re", "ws.im"}
    assert (found["z.re"].tolist(), found["z.im"].tolist()) == ([5.0, 5.0], [0.0, 4.0])
    assert found["ws.im"].tolist() == [[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    assert cli("run", "f.py:~turn", "--batch", "out.npz", "-o", "back.npz")[0] == OK
    assert all(load("back.npz")[name].tolist() == fields[name].tolist() for name in fields)


def test_structs_in_structs(cli: Cli) -> None:
    arrays = {
        "ball.position": np.array([[0.0, 1.0], [2.0, 3.0]]),
        "ball.speed.re": np.array([1.0, 2.0]),
        "ball.speed.im": np.array([0.5, -0.5]),
        "ball.hits": np.array([0, 5]),
    }
    save(**arrays, t=2.0)
    code, _, err = cli("run", "f.py:move", "--batch", "in.npz", "-o", "out.npz")
    assert (code, err) == (OK, "")
    found = load()
    assert found["ball.position"].tolist() == [[2.0, 2.0], [6.0, 2.0]]
    assert found["ball.hits"].tolist() == [1, 6]
    assert cli("run", "f.py:~move", "--batch", "out.npz", "-o", "back.npz")[0] == OK
    assert {name: load("back.npz")[name].tolist() for name in arrays} == {k: v.tolist() for k, v in arrays.items()}
    # One ball for all.
    save(**{name: array[0] for name, array in arrays.items()}, t=np.array([1.0, 2.0, 3.0]))
    assert cli("run", "f.py:move", "--batch", "in.npz", "-o", "out.npz")[0] == OK
    assert load()["ball.position"].tolist() == [[1.0, 1.5], [2.0, 2.0], [3.0, 2.5]]


def test_fields_that_do_not_fit(cli: Cli) -> None:
    save(**{"z.re": np.zeros(2)}, ws=np.zeros((2, 3)))
    assert "has no array `z.im`" in refused(cli("run", "f.py:turn", "--batch", "in.npz"), "RG0603")
    save(**{"z.re": np.zeros(2), "z.im": np.zeros(3)}, ws=np.zeros((2, 3)))
    assert "`z.im` is for (3,) values of `z`" in refused(cli("run", "f.py:turn", "--batch", "in.npz"), "RG0603")
    save(**{"z.re": np.zeros(2), "z.im": np.zeros(2), "z.abs": np.zeros(2)}, ws=np.zeros((2, 3), complex))
    assert "no parameter `z.abs`" in refused(cli("run", "f.py:turn", "--batch", "in.npz"), "RG0603")
    save(**{"x.y": np.zeros(2)}, x=np.zeros(2))
    assert "no parameter `x.y`" in refused(cli("run", "f.py:forget", "--batch", "in.npz"), "RG0603")
    for wrong in (np.zeros((2, 3)), np.float64(0), np.array(["a", "b"])):
        save(
            **{
                "ball.position": wrong,
                "ball.speed.re": np.zeros(2),
                "ball.speed.im": np.zeros(2),
                "ball.hits": np.zeros(2),
            },
            t=1.0,
        )
        code, out, err = cli("run", "f.py:move", "--batch", "in.npz")
        assert (code, out) == (BAD_INPUT, "")
        assert err.startswith("error[RG06")


def test_stacks(cli: Cli) -> None:
    save(
        numbers=np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]]),
        x=np.array([5.0, 6.0]),
        **{"numbers.length": np.array([3, 2])},
    )
    code, _, err = cli("run", "f.py:heap", "--batch", "in.npz", "-o", "out.npz")
    assert (code, err) == (OK, "")
    found = load()
    assert found["numbers"].tolist() == [[1.0, 2.0, 3.0, 7.0], [4.0, 5.0, 8.0, 0.0]]
    assert found["numbers.length"].tolist() == [4, 3]
    assert cli("run", "f.py:~heap", "--batch", "out.npz", "-o", "back.npz")[0] == OK
    assert load("back.npz")["numbers"].tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]]
    assert "numbers" in cli("run", "f.py:heap", "--batch", "in.npz")[1]
    # One stack for all.
    save(numbers=np.array([1.0]), x=np.array([5.0, 6.0]))
    for shared in ((), ("--shared", "numbers")):
        assert cli("run", "f.py:heap", "--batch", "in.npz", "-o", "out.npz", *shared)[0] == OK
        assert load()["numbers"].tolist() == [[1.0, 7.0], [1.0, 8.0]]


@pytest.mark.parametrize(
    ("rows", "lengths"),
    [
        (np.zeros((2, 3)), np.array([1.0, 2.0])), (np.zeros((2, 3)), np.array([1])), (np.zeros((2, 3)), np.array([[1, 2]])),
        (np.zeros((2, 3)), np.array(3)), (np.zeros((2, 3)), np.array([1, 4])), (np.zeros((2, 3)), np.array([1, -1])),
        (np.array(0.0), np.array(1)), (np.zeros((2, 3)), np.array(["1", "2"])),
    ],
)  # fmt: skip
def test_lengths_that_do_not_fit(cli: Cli, rows: NDArray[Any], lengths: NDArray[Any]) -> None:
    save(numbers=rows, x=np.zeros(2), **{"numbers.length": lengths})
    refused(cli("run", "f.py:heap", "--batch", "in.npz"), "RG0603")


def test_methods(cli: Cli) -> None:
    save(**{"self.a": np.array([1, 2]), "self.b": np.array([3, 4])})
    assert cli("run", "f.py:Pair.exchange", "--batch", "in.npz", "-o", "out.npz")[0] == OK
    assert load()["self.a"].tolist() == [3, 4]


def test_what_is_known_when_it_is_compiled(cli: Cli) -> None:
    save(x=np.array([1.0, 2.0]), weights=np.array([0.5, 0.25]))
    assert cli("run", "f.py:times", "--batch", "in.npz", "-o", "out.npz")[0] == OK
    assert load()["x"].tolist() == [1.75, 2.75]
    assert cli("run", "f.py:~times", "--batch", "out.npz", "-o", "back.npz")[0] == OK
    assert load("back.npz")["x"].tolist() == [1.0, 2.0]


# -------------------------------------------------------------------------------------------- traps, limits


@pytest.mark.parametrize("engine", ENGINES)
def test_a_trap_keeps_the_others_from_nothing(cli: Cli, engine: str) -> None:
    save(y=np.array([1, 2, 3, 4]), x=np.array([8, 9, 10, 11]), z=np.array([2, 0, 3, 0]))
    code, out, err = cli("run", "f.py:divide", "--batch", "in.npz", "-o", "out.npz", "--engine", engine)
    assert code == TRAPPED
    assert "4 elements, " in out
    assert "; 2 trapped; engine: " in out
    assert err.count("error[RG0402]: ") == 2
    assert "error[RG0402]: element 1: division by zero" in err
    assert "  --> f.py:16:5" in err
    found = load()
    assert found["y"].tolist() == [5, 2, 6, 4]
    assert found["retrograd.trap"].tolist() == ["", "RG0402", "", "RG0402"]
    report = json.loads(cli("run", "f.py:divide", "--batch", "in.npz", "--json", "--engine", engine)[1])
    assert [(t["element"], t["code"]) for t in report["traps"]] == [(1, "RG0402"), (3, "RG0402")]


def test_what_trapped_has_no_steps(cli: Cli) -> None:
    """Whatever ran it."""
    save(y=np.zeros(2, int), x=np.zeros(2, int), z=np.array([0, 1]))
    for engine in ENGINES:
        cli("run", "f.py:divide", "--batch", "in.npz", "-o", "out.npz", "--engine", engine)
        assert load()["retrograd.steps"][0] == 0, engine


def test_few_of_many_traps_are_told(cli: Cli) -> None:
    save(y=np.zeros(9, int), x=np.zeros(9, int), z=np.zeros(9, int))
    code, out, err = cli("run", "f.py:divide", "--batch", "in.npz")
    assert code == TRAPPED
    assert err.count("error[") == 3
    assert err.endswith("\n… and 6 more\n")
    assert out.count("RG0402") == 8


def test_limits(cli: Cli) -> None:
    save(total=np.zeros(3, int), n=np.array([1, 1000, 2]))
    code, _, err = cli("run", "f.py:sum_to", "--batch", "in.npz", "--max-steps", "100", "-o", "out.npz")
    assert code == LIMIT
    assert "error[RG0420]: element 1: stopped by the limit of 100 steps" in err
    assert load()["total"].tolist() == [0, 0, 1]
    assert load()["retrograd.trap"].tolist() == ["", "RG0420", ""]
    save(y=np.zeros(2, int), x=np.zeros(2, int), z=np.array([0, 1]))
    assert (
        cli("run", "f.py:divide", "--batch", "in.npz", "--max-steps", "5")[0] == TRAPPED
    )  # a trap is more than a limit
    assert cli("run", "f.py:sum_to", "0", "--batch", save(n=np.arange(3)), "--max-steps", str(10**30))[0] == OK
    refused(cli("run", "f.py:divide", "--batch", "in.npz", "--max-steps", "x"), "RG0507")


def test_overflow_traps_unless_it_may_wrap(cli: Cli) -> None:
    save(r=np.zeros(1), xs=np.array([[1e6, 1e6]]))
    assert cli("run", "f.py:norm", "--batch", "in.npz")[0] == TRAPPED
    code, _, err = cli("run", "f.py:norm", "--batch", "in.npz", "--no-overflow")
    assert "RG0404" not in err
    assert code in (OK, TRAPPED)


# ------------------------------------------------------------------------------------------------- reports


def test_table(cli: Cli) -> None:
    save(y=np.array([1, 2]), x=np.array([8, 9]), z=np.array([2, 0]))
    out = cli("run", "f.py:divide", "--batch", "in.npz", "--engine", "reference")[1]
    assert out == (
        "element  y  x  z  steps  erased bits  trap\n"
        "      0  5  8  2      8            0\n"
        "      1  2  9  0      0            0  RG0402\n"
        "\n"
        "2 elements, 8 steps forward, 0 bits erased; 1 trapped; engine: reference\n"
    )


def test_a_long_table_is_cut(cli: Cli) -> None:
    save(r=np.zeros(100), xs=np.ones((100, 50)))
    lines = cli("run", "f.py:norm", "--batch", "in.npz")[1].splitlines()
    assert lines[9] == "… 92 more"
    assert lines[-1].startswith("100 elements, ")
    assert len(lines[1]) < 100


def test_json(cli: Cli) -> None:
    save(r=np.zeros(3), xs=XS)
    report = json.loads(cli("run", "f.py:norm", "--batch", "in.npz", "--json", "--engine", "reference")[1])
    assert report == {
        "schema": "retrograd.batch/1",
        "function": "norm",
        "backward": False,
        "engine": "reference",
        "elements": 3,
        "steps": 36,
        "erased_bits": 0,
        "traps": [],
        "output": None,
        "each": {
            "values": {"r": [5.0, 13.0, 17.0], "xs": XS.tolist()},
            "steps": [12, 12, 12],
            "erased_bits": [0, 0, 0],
        },
    }
    report = json.loads(cli("run", "f.py:norm", "--batch", "in.npz", "--json", "-o", "out.npz")[1])
    assert (report["output"], report["each"]) == ("out.npz", None)


def test_progress_on_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    save(r=np.zeros(300), xs=np.ones((300, 20)))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(presentation, "PATIENCE", 0.0)
    code, out, err = cli("run", "f.py:norm", "--batch", "in.npz", "--engine", "reference")
    assert code == OK
    assert "running" in err
    assert "running" not in out


# --------------------------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("arrays", "code", "text"),
    [
        ({"r": np.zeros(3)}, "RG0603", "called without `xs`"),
        ({}, "RG0603", "no array with an element for each run"),
        ({"r": np.zeros(3), "xs": XS[:2]}, "RG0603", "`xs` has 2 elements, and `r` has 3"),
        ({"r": np.zeros(3), "xs": XS[0]}, "RG0603", "`xs` has 2 elements, and `r` has 3"),
        ({"r": np.zeros(3), "xs": np.zeros(3)}, "RG0603", "`xs` of `norm` is Array[fixed, 'n'], and "),
        ({"r": np.zeros((3, 2)), "xs": XS}, "RG0603", "`r` of `norm` is one fixed, not an array"),
        ({"r": np.zeros(3), "xs": np.zeros((3, 2), complex)}, "RG0603", "array of fixed, not of complex numbers"),
        ({"r": np.array(["a", "b", "c"]), "xs": XS}, "RG0603", "`r` of `norm` is one fixed"),
        ({"r": np.array([b"a", b"b", b"c"]), "xs": XS}, "RG0603", "`r` of `norm` is one fixed"),
        ({"r": np.zeros(3, "M8[D]"), "xs": XS}, "RG0504", "`r.npy` cannot be read: it holds datetime64[D]"),
        ({"r": np.zeros(3, [("a", "i4")]), "xs": XS}, "RG0504", "`r.npy` cannot be read: it holds [('a', '<i4')]"),
        ({"r": np.array([0, np.nan, 0]), "xs": XS}, "RG0602", "`r`: element 1: NaN"),
        ({"r": np.array([0, np.inf, 0]), "xs": XS}, "RG060", "`r`: element 1: "),
        ({"r": np.array([0, 1e30, 0]), "xs": XS}, "RG0601", "`r`: element 1: "),
        ({"r": np.zeros(3), "xs": XS, "x": XS}, "RG0603", "no parameter `x`"),
        ({"r": np.zeros(3), "": XS}, "RG0603", "no parameter ``"),
        ({"r": 0.0, "xs": "one"}, "RG0603", "no array with an element"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit(cli: Cli, arrays: dict[str, Any], code: str, text: str) -> None:
    write_arrays("in.npz", arrays)
    status, out, err = cli("run", "f.py:norm", "--batch", "in.npz", "-o", "out.npz")
    assert (status, out) == (BAD_INPUT, "")
    assert err.startswith(f"error[{code}")
    assert text in err
    assert not Path("out.npz").exists()


def test_as_json_too(cli: Cli) -> None:
    save(r=np.zeros(3))
    code, out, err = cli("run", "f.py:norm", "--batch", "in.npz", "--json")
    found = json.loads(out)
    assert (code, err, found["schema"]) == (BAD_INPUT, "", "retrograd.findings/1")
    assert [f["code"] for f in found["findings"]] == ["RG0603"]


class Bomb:
    """What a pickle would do to whoever loads it."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("pickled",)


def members(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


def npy(header: bytes, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


def shaped(shape: str, descr: str = "'<i8'") -> bytes:
    return npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode())


def objects() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb(), None], dtype=object), allow_pickle=True)
    return stream.getvalue()


def good() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, r=np.zeros(3), xs=XS)
    return stream.getvalue()


def alone() -> bytes:
    stream = io.BytesIO()
    np.save(stream, XS)
    return stream.getvalue()


def with_entry(at: int, field: bytes) -> bytes:
    """An archive with another field of two bytes in the first entry of its directory: 8 has the flags, 10 the method."""
    archive = good()
    start = archive.index(b"PK\1\2") + at
    return archive[:start] + field + archive[start + 2 :]


BROKEN: dict[str, bytes] = {
    "empty": b"",
    "text": b"1 2 3",
    "an array alone": alone(),
    "a pickle": pickle.dumps(Bomb()),
    "zip and nothing else": b"PK\x03\x04 but nothing else",
    "cut off": good()[:-30],
    "cut in the middle": good()[: len(good()) // 2],
    "the beginning lost": good()[200:],
    "objects": members(r=objects()),
    "objects with a lie": members(r=shaped("(1,)", "'|O'") + b"\0" * 8),
    "a pickle as a member": members(r=pickle.dumps(Bomb())),
    "a member of no bytes": members(r=b""),
    "a member of text": members(r=b"1 2 3"),
    "version 9": members(r=b"\x93NUMPY\x09\x00"),
    "header of brackets": members(r=npy(b"(" * 5000)),
    "header of code": members(r=npy(b"__import__('os').mkdir('pickled')\n")),
    "negative shape": members(r=shaped("(-5,)")),
    "huge shape": members(r=shaped("(1152921504606846976,)")),
    "shape beyond 64 bits": members(r=shaped("(11529215046068469760000,)")),
    "too many dimensions": members(r=shaped("(" + "1," * 100 + ")") + b"\0" * 8),
    "unknown dtype": members(r=shaped("(1,)", "'qq'")),
    "dtype of nothing": members(r=shaped("(1152921504606846976,)", "'|V0'")),
    "truncated": members(r=shaped("(4,)") + b"\1\2"),
    "an encrypted member": with_entry(8, b"\1\0"),
    "an unknown compression": with_entry(10, b"\x63\0"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_no_batches(cli: Cli, name: str) -> None:
    Path("in.npz").write_bytes(BROKEN[name])
    refused(cli("run", "f.py:norm", "--batch", "in.npz"), "RG0504")
    assert not Path("pickled").exists()


def test_any_byte_may_be_wrong(cli: Cli) -> None:
    """Wherever a bit falls over: the archive is refused, or the batch is another one; nothing else."""
    whole = good()
    for at in range(0, len(whole), 7):
        Path("in.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 0x24]) + whole[at + 1 :])
        code, _, err = cli("run", "f.py:norm", "--batch", "in.npz", "--engine", "reference")
        assert code in (OK, BAD_INPUT), (at, err)


@pytest.mark.parametrize("path", ["nope", "nope/nope", "in\0.npz", "n" * 5000, ""])
def test_files_that_cannot_be_read(cli: Cli, path: str) -> None:
    refused(cli("run", "f.py:norm", "--batch", path), "RG0501")


@pytest.mark.parametrize("path", [".", "nope/out.npz", "out\0.npz", "n" * 5000 + ".npz", "f.py/out.npz"])
def test_files_that_cannot_be_written(cli: Cli, path: str) -> None:
    """It is told before anything runs: there is nothing to run here."""
    refused(cli("run", "f.py:norm", "--batch", "nope.npz", "-o", path), "RG0501")


def test_a_dash_is_refused(cli: Cli) -> None:
    save(r=np.zeros(3), xs=XS)
    refused(cli("run", "f.py:norm", "--batch", "in.npz", "-o", "-"), "RG0512")
    assert not Path("-").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(cli: Cli) -> None:
    save(r=np.zeros(3), xs=XS)
    refused(cli("run", "f.py:norm", "--batch", "in.npz", "-o", "/dev/full"), "RG0501")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("f.py:norm", "--batch", "in.npz", "--shared", "x"), "RG0510"),
        (("f.py:norm", "r=1.0", "--batch", "in.npz"), "RG0510"),
        (("f.py:norm", "1.0", "--batch", "in.npz"), "RG0510"),
        (("f.py:norm", "q=1.0", "--batch", "in.npz"), "RG0603"),
        (("f.py:norm", "1", "2", "3", "--batch", "in.npz"), "RG0510"),
        (("f.py:norm", "0.0", "[1.0]", "--shared", "r"), "RG0512"),
        (("f.py:norm", "0.0", "[1.0]", "-o", "out.npz"), "RG0512"),
        (("f.py:norm", "--batch", "in.npz", "--trace"), "RG0512"),
        (("f.py:norm", "--batch", "in.npz", "--set", "r=1"), "RG0512"),
        (("f.py:norm", "--batch", "in.npz", "--out", "out.txt"), "RG0512"),
        (("program.rga", "--batch", "in.npz"), "RG0512"),
        (("program.rga", "--shared", "x"), "RG0512"),
        (("program.rga", "-o", "out.npz"), "RG0512"),
    ],
)
def test_options_that_do_not_go_together(cli: Cli, options: tuple[str, ...], code: str) -> None:
    Path("program.rga").write_text("start\nfinish\n")
    save(r=np.zeros(3), xs=XS)
    refused(cli("run", *options), code)
    assert not Path("out.npz").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--set", "r1=1"), ("--mem", "in.txt"), ("--out", "out.txt"), ("--break", "0"), ("--memory", "9"),
        ("--memory-limit", "9"), ("--strict", None), ("-I", "."),
    ],
)  # fmt: skip
def test_options_of_programs_are_not_for_functions(cli: Cli, option: str, value: str | None) -> None:
    """What would do nothing is refused."""
    refused(cli("run", "f.py:norm", "0.0", "[1.0]", option, *([] if value is None else [value])), "RG0512")


def test_a_gpu_that_is_not_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise device_error("RG1002", "the driver finds no device")

    monkeypatch.setattr(runtime, "numba_cuda", missing)
    save(r=np.zeros(3), xs=XS)
    refused(cli("run", "f.py:norm", "--batch", "in.npz", "--engine", "cuda"), "RG1002")


# ---------------------------------------------------------------------- words beyond 53 bits


@pytest.mark.parametrize("name", ["mix", "pile", "fling"])
def test_files_bring_back_every_bit(cli: Cli, name: str) -> None:
    """Numbers, lognums beyond floats, stacks of different lengths, structs in structs: there and back by files alone."""
    Path("g.py").write_text(EXACT)
    w = rg.Format()
    rng = np.random.default_rng(1)
    words = {n: rng.integers(0, 1 << 63, 3, dtype=np.uint64) * 2 + 1 for n in ("x", "y", "z")}
    words["y"] &= np.uint64((1 << 50) - 1)
    fixed, lognum = (lambda x, n=n: n.to_reals(x, w) for n in (rg.fixed, rg.lognum))
    files: dict[str, Arrays] = {
        "mix": {"x": fixed(words["x"]), "y": fixed(words["y"]), "l": lognum(words["z"])},
        "pile": {
            "s": fixed(np.stack([words["x"]] * 2, axis=1)),
            "s.length": np.array([0, 1, 2]),
            "x": fixed(words["z"]),
        },
        "fling": {
            "b.at": fixed(np.stack([words["x"], words["z"]], axis=1)),
            "b.speed.re": fixed(words["y"]),
            "b.speed.im": fixed(words["z"]),
            "k": np.array([5, 6, 7]),
        },
    }
    save("in.npz", **files[name])
    assert any(member.endswith(".words") for member in load("in.npz"))
    options = ["--engine", "native", "--no-overflow"]
    assert cli("run", f"g.py:{name}", "--batch", "in.npz", "-o", "there.npz", *options)[0] == OK
    assert cli("run", f"g.py:~{name}", "--batch", "there.npz", "-o", "back.npz", *options)[0] == OK
    assert cli("run", f"g.py:{name}", "--batch", "back.npz", "-o", "again.npz", *options)[0] == OK
    given, back = join_words(load("in.npz")), join_words(load("back.npz"))
    for member in files[name]:
        number = rg.lognum if member == "l" else rg.fixed
        if member in ("s", "s.length", "k"):
            continue  # a stack's rows are as wide as the longest; integers have no words
        assert number.to_words(back[member]).tolist() == number.to_words(given[member]).tolist(), member
    assert Path("again.npz").read_bytes() == Path("there.npz").read_bytes()


EXACT = """\
import retrograd as rg
from retrograd import Array, Stack, fixed, lognum, reversible
from retrograd.library import Complex

@reversible
def mix(x: fixed, y: fixed, l: lognum):
    x += y * 3
    y += x * 5
    l *= 3.0

@reversible
def pile(s: Stack[fixed, 4], x: fixed):
    x += 7
    rg.push(s, x)

@rg.struct
class Ball:
    at: Array[fixed, 2]
    speed: Complex

@reversible
def fling(b: Ball, k: int):
    b.at[0] += b.speed.re * k
    b.speed.im += b.at[1]
"""


def test_words_in_a_file_that_are_none(cli: Cli) -> None:
    members = {"r": np.zeros(2), "r.words": np.zeros(3, dtype=np.uint64), "r.format": np.array("fixed Q32.32")}
    save("in.npz", **members, xs=np.ones((2, 2)))
    said = refused(cli("run", "f.py:norm", "--batch", "in.npz"), "RG0504")
    assert "in.npz: `r.words` is an array of uint64 and shape (3,)" in said


def test_json_has_words_where_floats_round(cli: Cli) -> None:
    Path("g.py").write_text(EXACT)
    save("in.npz", x=[1e8, 1.5], y=[0.1, 0.2], l=[1e308, 1.0])
    each = json.loads(cli("run", "g.py:mix", "--batch", "in.npz", "--json")[1])["each"]
    found = rg.run_batch(load_function("g.py:mix"), [1e8, 1.5], [0.1, 0.2], [1e308, 1.0]).words
    assert each["words"] == {name: found[name].tolist() for name in ("x", "y", "l")}
    save("in.npz", x=[1.0, 1.5], y=[0.1, 0.2], l=[2.0, 1.0])
    assert "words" not in json.loads(cli("run", "g.py:mix", "--batch", "in.npz", "--json")[1])["each"]


# ---------------------------------------------------------------------- on workers, and in folders


@pytest.mark.long
def test_workers_and_a_store(cli: Cli) -> None:
    """The file of one process; the second command runs nothing again."""
    x = np.random.default_rng(3).random((60, 2))
    np.savez("in.npz", xs=x, r=np.zeros(60))
    alone = cli("run", "f.py:norm", "--batch", "in.npz", "-o", "alone.npz", "--quiet")
    assert alone[0] == OK
    for more in (["--workers", "2"], []):
        ran = cli("run", "f.py:norm", "--batch", "in.npz", "-o", "out.npz", "--store", "s.db", "--chunk", "7", *more)
        assert ran[0] == OK, ran[2]
    with np.load("alone.npz") as a, np.load("out.npz") as b:
        assert all(np.array_equal(a[name], b[name]) for name in a)


def test_folders(cli: Cli) -> None:
    x = np.random.default_rng(3).random((60, 2))
    np.savez("in.npz", xs=x, r=np.zeros(60))
    status, out, err = cli("run", "f.py:norm", "--batch", "in.npz", "-o", "there/", "--chunk", "7")
    assert (status, out[:20]) == (OK, "there/: 60 elements,"), err
    status, out, err = cli("run", "f.py:norm", "--batch", "there", "--backward", "-o", "back/", "--json")
    assert (status, json.loads(out)["elements"]) == (OK, 60), err
    assert np.load("back/r.npy").tolist() == [0.0] * 60
    refused(cli("run", "f.py:norm", "--batch", "there", "-o", "there/"), "RG1509")
    refused(cli("run", "f.py:norm", "--batch", "."), "RG0504")
    Path("there/xs.npy").write_bytes(Path("there/xs.npy").read_bytes()[:-8])
    refused(cli("run", "f.py:norm", "--batch", "there"), "RG0504")
    np.save("there/xs.npy", np.array([{}]), allow_pickle=True)
    refused(cli("run", "f.py:norm", "--batch", "there"), "RG0504")
