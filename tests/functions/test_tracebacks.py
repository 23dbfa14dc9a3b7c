"""Tracebacks: an error of Retrograd shows the frames of the user, in scripts and in threads; errors of others stay whole."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.isa import diagnostics

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.runtime._distribution import _need_pickle


@reversible
def root(y: fixed, x: fixed) -> None:
    y += rg.sqrt(x)


@reversible
def wrong(y: fixed, x: fixed) -> None:
    y = x  # noqa: F841


def files_of(call: Callable[[], Any]) -> list[str]:
    """The files of the frames that an error has, below the frame of this function."""
    with pytest.raises(rg.RetrogradError) as caught:
        call()
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None or diagnostics.FULL_TRACEBACK in os.environ
    frames = traceback.extract_tb(error.__traceback__)
    assert frames[0].name == "files_of"
    return [frame.filename for frame in frames[1:]]


CALLS: dict[str, Callable[[], Any]] = {
    "a trap": lambda: root(0.0, -1.0),
    "a trap backward": lambda: (~root)(0.0, -1.0),
    "a wrong argument": lambda: root(0.0),
    "an error of the compiler": lambda: wrong(0.0, 1.0),
    "lower": wrong.lower,
    "program": lambda: wrong.program(0.0, 1.0),
    "compiled": wrong.compiled,
    "assembly": wrong.assembly,
    "run": lambda: rg.run(root, 0.0, -1.0),
    "run_batch": lambda: rg.run_batch(root, 0.0, [-1.0, 1.0]),
    "vmap": lambda: rg.vmap(root)([0.0, 0.0], [-1.0, 1.0]),
    "grad": lambda: rg.grad(root)(0.0, -1.0),
    "value_and_grad": lambda: rg.value_and_grad(root)(0.0, -1.0),
    "an argument that is not there": lambda: rg.grad(root, "z")(0.0, 1.0),
    "vjp": lambda: rg.vjp(root, 0.0, -1.0),
    "hessian": lambda: rg.hessian(root)(0.0, -1.0),
    "energy": lambda: rg.energy(root, 0.0, -1.0),
    "a model": lambda: rg.energy(root, 0.0, 1.0, tech="none"),
    "assemble": lambda: rg.assemble("nonsense"),
    "from_image": lambda: rg.from_image(b"nonsense"),
    "Machine": lambda: rg.Machine(rg.assemble("start\nfinish"), memory=9, memory_limit=8),
    "Machine of a file": lambda: rg.Machine(__file__),
    "Machine.load": lambda: trapping().load(0, [1]),
    "Machine.run": lambda: trapping().run(),
    "an intrinsic outside of a function": lambda: rg.zeros(3),
    "each outside of a function": lambda: root.each([1.0]),
    "with_options": lambda: root.with_options(format="Q3"),
    "a decorator": lambda: reversible(3),  # type: ignore[call-overload]
    "use_format": lambda: rg.use_format("Q3"),
}  # fmt: skip


NUMBERS = [1.0, 2.0]
NAMED = {"a": 1}


@reversible
def by_zero(y: fixed, x: fixed) -> None:
    y += x * (1 / 0)


@reversible
def outside(y: fixed, x: fixed) -> None:
    y += x * NUMBERS[5]


@reversible
def unknown_key(y: fixed, x: fixed) -> None:
    y += x * NAMED["b"]


@reversible
def too_great(y: fixed, x: fixed) -> None:
    y += x * 1e12


@reversible
def of_text(y: fixed, x: fixed) -> None:
    y += x * "s"


@reversible
def singular(y: fixed, x: fixed) -> None:
    y += x * np.linalg.inv(np.zeros((2, 2)))[0, 0]


@reversible
def not_a_number(y: fixed, x: fixed) -> None:
    y += x * int("q")


@reversible
def of_shapes(y: rg.Array[fixed, 2], x: rg.Array[fixed, 3]) -> None:
    y += x


CHAINED: dict[str, Callable[[], Any]] = {
    **{
        f.__name__: lambda f=f: f(0.0, 1.0)
        for f in (by_zero, outside, unknown_key, too_great, of_text, singular, not_a_number)
    },
    "of_shapes": lambda: of_shapes([0.0, 0.0], [1.0, 2.0, 3.0]),
    "a ragged list": lambda: of_shapes([0.0, 0.0], [[1.0], [2.0, 3.0]]),
    "no number": lambda: root(0.0, "x"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CHAINED)
def test_errors_caught_on_the_way_are_not_shown(name: str) -> None:
    with pytest.raises(rg.RetrogradError) as caught:
        CHAINED[name]()
    assert caught.value.__context__ is None
    shown = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in shown
    assert "direct cause" not in shown


def test_an_error_that_the_user_handles_stays_in_the_chain() -> None:
    def handling() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            by_zero(0.0, 1.0)

    with pytest.raises(rg.RetrogradError) as caught:
        handling()
    assert isinstance(caught.value.__context__, KeyError)
    assert "KeyError: 'first'" in "".join(traceback.format_exception(caught.value))


class Unsendable:
    def __reduce__(self) -> Any:
        raise TypeError("own")


def test_an_error_of_the_users_own_code_stays_with_its_frames() -> None:
    with pytest.raises(rg.RetrogradError) as caught:
        diagnostics.api_boundary(_need_pickle)(len, Unsendable())
    own = caught.value.__context__
    assert isinstance(own, TypeError)
    assert [frame.name for frame in traceback.extract_tb(own.__traceback__)] == ["__reduce__"]


def trapping() -> rg.Machine:
    machine = rg.Machine(rg.assemble("start\nassertz r1\nfinish"))
    machine.registers[1] = 1
    return machine


@pytest.mark.parametrize("name", CALLS)
def test_the_last_frame_is_the_users(name: str) -> None:
    assert set(files_of(CALLS[name])) <= {__file__}


def test_callbacks_of_the_user_stay() -> None:
    def looking(machine: rg.Machine, pc: int) -> None:
        rg.assemble("nonsense")

    with pytest.raises(rg.AssemblyError) as caught:
        trapping().run(observe=looking)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames == ["test_callbacks_of_the_user_stay", "looking"]


def test_errors_of_others_stay_whole() -> None:
    def inner(x: float) -> Any:
        raise ValueError(x)

    with pytest.raises(ValueError, match="1") as caught:
        rg.vmap(inner)([1.0])
    assert any("/runtime/" in frame.filename for frame in traceback.extract_tb(caught.value.__traceback__))


def test_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETROGRAD_FULL_TRACEBACK", "1")
    assert len(set(files_of(CALLS["a trap"]))) > 2


def test_public_functions_are_pickled_by_their_public_names() -> None:
    assert pickle.loads(pickle.dumps(rg.run)) is rg.run
    assert (rg.run.__module__, rg.run.__qualname__) == ("retrograd", "run")


def test_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import retrograd as rg\n\n@rg.reversible\ndef f(y: rg.fixed) -> None:\n    y += 1.0 / y\n\n"
        "def user() -> None:\n    f(0.0)\n\nuser()\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert [line.split(", ")[1:] for line in frames] == [["line 10", "in <module>"], ["line 8", "in user"]]
    assert "error[RG07" in done.stderr
