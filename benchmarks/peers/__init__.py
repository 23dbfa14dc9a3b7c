"""Peers: other systems on the same data, each used as its experts use it.

    module     imported to find out whether the peer is installed
    by_….py    its workloads: TASKS maps (kind of data, task) to a function that makes all ready and gives a `Prepared`

A peer that is not installed, or cannot be imported, is absent, with a reason. A peer with wrong results is not timed.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.diagnostics import Diagnostic, InputError, nearest

Reals = NDArray[np.float64]


def flat(parts: Iterable[Any]) -> Reals:
    """Several arrays as one vector."""
    return np.concatenate([np.ravel(part) for part in parts])


@dataclass(frozen=True)
class Prepared:
    """A computation that is ready: compiled, its data on its device."""

    #: does it, and waits for it
    call: Callable[[], Any]
    #: the numbers of the task, from the result of `call`
    read: Callable[[Any], Any] = np.asarray
    #: how it does it, where that matters
    note: str = ""
    #: the evaluations of the problem that it does; None: all
    evaluations: int | None = None


@dataclass(frozen=True)
class Peer:
    """One system."""

    name: str
    #: the module that must be importable, and the distribution that has the version
    module: str
    distribution: str
    #: in this package
    home: str
    #: a program that it needs, besides
    program: str = ""

    def absent(self) -> str:
        """Why it takes no part; empty if it does."""
        try:
            if importlib.util.find_spec(self.module) is None:
                return "not installed: pip install 'retrograd[bench]'"
        except ModuleNotFoundError:
            return "not installed: pip install 'retrograd[bench]'"
        if self.program and shutil.which(self.program) is None:
            return f"it needs `{self.program}`, which is not there"
        try:
            importlib.import_module(self.module)
            self.tasks()
        except Exception as error:  # a broken installation may raise anything, and is absent, too
            return f"it cannot be imported: {type(error).__name__}: {str(error)[:200]}"
        return ""

    def version(self) -> str:
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return "unknown"

    def flags(self) -> str:
        """The options of its compiler, if it is called with any."""
        return " ".join(getattr(importlib.import_module(self.home), "FLAGS", ()))

    def tasks(self) -> dict[tuple[type, str], Callable[[Any], Prepared]]:
        """By kind of data and task."""
        found: dict[tuple[type, str], Callable[[Any], Prepared]] = importlib.import_module(self.home).TASKS
        return found

    def ways(self) -> dict[str, dict[tuple[type, str], Callable[[Any], Prepared]]]:
        """Other ways of the same tasks, by name: each is a system of its own, `name-way`."""
        return getattr(importlib.import_module(self.home), "WAYS", {})

    def systems(self, kind: type, what: str) -> dict[str, Callable[[Any], Prepared] | None]:
        """The functions that make a task ready, by name of the system; None for a task that is not written with the peer."""
        others = {f"{self.name}-{way}": tasks.get((kind, what)) for way, tasks in self.ways().items()}
        return {self.name: self.tasks().get((kind, what))} | {name: made for name, made in others.items() if made}


def _peer(name: str, module: str, distribution: str, program: str = "") -> Peer:
    return Peer(name, module, distribution, f"retrograd.benchmarks.peers.by_{name}", program)


PEERS: dict[str, Peer] = {
    p.name: p
    for p in (
        _peer("numpy", "numpy", "numpy"),
        _peer("numba", "numba", "numba"),
        _peer("enzyme", "enzyme_ad.jax", "enzyme-ad"),
        _peer("casadi", "casadi", "casadi", "cc"),
        _peer("warp", "warp", "warp-lang"),
        _peer("jax", "jax", "jax"),
        _peer("torch", "torch", "torch"),
        _peer("autograd", "autograd", "autograd"),
    )
}


def chosen(names: Iterable[str]) -> list[Peer]:
    """The peers of these names, in the order of the list. Raises InputError RG1202."""
    asked = list(dict.fromkeys(names))
    for name in asked:
        if name not in PEERS:
            hint = nearest(name, PEERS) or f"peers: {', '.join(PEERS)}"
            raise InputError(Diagnostic("RG1202", f"there is no peer `{name[:60]}`", hint=hint))
    return [p for p in PEERS.values() if p.name in asked]
