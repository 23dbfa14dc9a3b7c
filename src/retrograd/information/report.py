"""Reports on entropy, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from retrograd.information.erasures import Site
from retrograd.information.estimators import Estimate
from retrograd.isa.words import Format
from retrograd.presentation.tables import columns, shortened_text
from retrograd.simulator.energy.counts import SourceLine
from retrograd.simulator.energy.technology import thermal_energy, with_prefix

SCHEMA = "retrograd.entropy/1"


class Loss(NamedTuple):
    """The loss by erasures, in bits."""

    #: the bits counted, on average: uniform local erasure
    capacity: Estimate
    #: the sum of the entropies of the words, each by itself. An erasure that does not happen in a run counts as a value
    marginal: Estimate
    #: the entropy of all erased words together
    joint: Estimate
    #: the entropy of all erased words given the words that are kept
    conditional: Estimate

    def as_dict(self, joules: float) -> dict[str, Any]:
        """For JSON, with energies at this many joules for a bit."""
        return {name: found.as_dict(joules) for name, found in self._asdict().items()}


@dataclass(frozen=True)
class EntropyReport:
    """The entropies of the erasures of a function, for one distribution of its arguments."""

    name: str
    format: Format
    #: whether the inputs were enumerated; else they are samples, and entropies are estimates
    exact: bool
    #: inputs that did not trap
    runs: int
    #: the probability of inputs that trap, which are left out
    trapped: float
    #: in K
    temperature: float
    #: H(input) and H(kept)
    inputs: Estimate
    kept: Estimate
    whole: Loss
    erasures: Mapping[Site, Loss] = field(repr=False)
    lines: Mapping[SourceLine, Loss] = field(repr=False)
    functions: Mapping[str, Loss] = field(repr=False)
    #: the bits by which a device for the prior dissipates more than the whole
    mismatch: float | None = None

    @property
    def joules(self) -> float:
        """kT ln 2: the least energy of losing a bit."""
        return thermal_energy(self.temperature)

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        how = "inputs, exact" if self.exact else "samples, estimated"
        left_out = f"; {self.trapped:.3g} of the inputs trap and are left out" if self.trapped else ""
        rows = [["entropy in bits", "uniform local erasure", "each by itself", "all together", "given the kept words"]]
        rows += [[str(site), *map(str, loss)] for site, loss in self.erasures.items()]
        for what, parts in (("line", self.lines), ("function", self.functions)):
            if 1 < len(parts) < len(self.erasures):
                rows += [[f"{what} {owner}", *map(str, loss)] for owner, loss in parts.items()]
        rows.append(["in all", *map(str, self.whole)])
        rows.append([f"kT ln 2 at {self.temperature:g} K", *map(self._energy, self.whole)])
        ends = [f"input {self.inputs} bits, kept {self.kept} bits"]
        if self.mismatch is not None:
            ends.append(
                f"mismatch with the prior {self.mismatch:.4f} bits, {with_prefix(self.mismatch * self.joules, 'J')}"
            )
        head = f"{self.name}, {self.format}; {self.runs} {how}{left_out}"
        return "\n".join([head, columns(rows, right=(1, 2, 3, 4)), *ends])

    def _energy(self, found: Estimate) -> str:
        if found.bits is None:
            return str(found)
        shown = with_prefix(found.bits * self.joules, "J")
        return f"≥ {shown}" if found.error is None else shown

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.entropy/1."""
        joules = self.joules
        return {
            "schema": SCHEMA,
            "name": self.name,
            "format": {"width": self.format.width, "frac": self.format.frac},
            "exact": self.exact,
            "estimator": None if self.exact else "Chao, Wang, Jost 2013; standard error by jackknife",
            "runs": self.runs,
            "trapped": self.trapped,
            "temperature": self.temperature,
            "inputs": self.inputs.as_dict(joules),
            "kept": self.kept.as_dict(joules),
            "whole": self.whole.as_dict(joules),
            "erasures": [
                {"name": site.name, "file": None if site.line is None else site.line.file or None,
                 "line": None if site.line is None else site.line.line, "function": site.function, **loss.as_dict(joules)}
                for site, loss in self.erasures.items()
            ],
            "lines": [{"file": line.file or None, "line": line.line, **loss.as_dict(joules)} for line, loss in self.lines.items()],
            "functions": [{"function": name, **loss.as_dict(joules)} for name, loss in self.functions.items()],
            "mismatch": None if self.mismatch is None else {"bits": self.mismatch, "joules": self.mismatch * joules},
        }  # fmt: skip
