"""`rg.entropy`: the information that a function loses by its erasures, for a distribution of arguments.

capacity ≥ Σ marginal ≥ joint ≥ H(erased | kept) = H(input) − H(kept)

Capacity counts each erased word as W bits: the cost of *uniform local erasure*, by a device that erases a word by itself and takes it for
uniform. The other three are the least costs of devices made for the distribution: of each word by itself, of all words
together, and of all words together beside the kept words.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Options, Precision
from retrograd.functions.requests import Request
from retrograd.functions.reversible import Inverse, Reversible, request_of
from retrograd.information import estimators
from retrograd.information.distributions import Distribution, WordRows, word_rows
from retrograd.information.erasures import Observed, Site, of_netlist, of_runs
from retrograd.information.errors import refuse
from retrograd.information.estimators import Estimate, Term
from retrograd.information.mismatch import mismatch
from retrograd.information.report import EntropyReport, Loss
from retrograd.isa.words import Format
from retrograd.netlists.function_netlists import FunctionNetlist
from retrograd.simulator.energy.technology import quantity
from retrograd.values.marshal import from_words

_Owner = TypeVar("_Owner", bound=Hashable)


def entropy(
    f: Reversible | Inverse | FunctionNetlist,
    distribution: Distribution,
    /,
    *,
    prior: Distribution | None = None,
    samples: int = 4096,
    seed: int = 0,
    traps: Literal["raise", "condition"] = "raise",
    temperature: float | str = 300.0,
    format: Format | str | None = None,
    options: Options | None = None,
    precision: Precision | None = None,
    max_steps: int | None = None,
) -> EntropyReport:
    """H(erased | kept), in bits, beside the bits counted: of each erasure, each line, each function, and the whole.

    `distribution`: {arguments: probability}; {name: values}, independent and uniform, where "words" stands for all words;
    "words" for all arguments; a list of samples; or a function that draws arguments from a generator of NumPy, `samples` times with this `seed`. Up to 65,536 inputs are
    enumerated, and the results are exact. Beyond, and of samples, results are estimates with a standard error, or lower bounds.
    `prior`: the distribution for which a device that computes f was made; `report.mismatch` is then its cost beyond the whole.
    `traps`: "condition" leaves out inputs that trap. Of a netlist, the lines of garbage are erased.
    Raises InputError RG1601, RG1602; CompileError, ProgramTrap.

    >>> import retrograd as rg
    >>> @rg.reversible
    ... def forget(y: int, x: int):
    ...     t = x ^ 1
    ...     y += t
    ...     rg.erase(t)
    >>> found = rg.entropy(forget, {"y": [0], "x": range(8)})
    >>> found.whole.capacity.bits, found.whole.joint.bits, found.whole.conditional.bits
    (64.0, 3.0, 0.0)
    """
    kelvins = quantity(str(temperature), "temperature", "temperature")[1]
    if not kelvins:
        raise refuse("RG0507", "temperature: 0 K is not above zero", "For example 4.2K.")
    if traps not in ("raise", "condition"):
        raise ValueError(f"traps is raise or condition, not {traps!r}")
    if isinstance(f, FunctionNetlist):
        request: Request = replace(f.request, format=f.compiled.format)
        name = request.function.__name__
    else:
        request = replace(request_of(f, format=format, options=options, precision=precision), max_steps=max_steps)
        name = f"~{request.function.__name__}" if request.backward else request.function.__name__
    given = word_rows(request, distribution, samples, seed)
    found = _observed(f, request, given, traps)
    if not found.inputs:
        raise refuse("RG1601", "the program traps for all inputs")
    p = given.probabilities
    trapped = float(found.trapped.mean() if p is None else p @ found.trapped)
    if p is not None:
        p = p[~found.trapped] / p[~found.trapped].sum()
    losses = _Losses(found, p, None if found.trapped.any() else given.input_bits)
    return EntropyReport(
        name=name, format=given.compiled.format, exact=p is not None, runs=len(found.inputs), trapped=trapped, temperature=kelvins,
        inputs=losses.of_inputs, kept=estimators.total([losses.of_kept]), whole=losses.whole(),
        erasures={site: losses.of([site]) for site in found.erased},
        lines=losses.grouped([site.line for site in found.erased]),
        functions=losses.grouped([site.function for site in found.erased]),
        mismatch=None if prior is None else _mismatch(f, request, given, p, found, word_rows(request, prior, samples, seed), traps),
    )  # fmt: skip


def _observed(f: Any, request: Request, given: WordRows, traps: str) -> Observed:
    if isinstance(f, FunctionNetlist):
        return of_netlist(f, given)
    return of_runs(request, given, traps=traps == "condition")


def _mismatch(
    f: Any,
    request: Request,
    given: WordRows,
    p: NDArray[np.float64] | None,
    found: Observed,
    prior: WordRows,
    traps: str,
) -> float:
    """The mismatch cost of the map from inputs to the kept words."""
    if p is None or prior.probabilities is None:
        raise refuse("RG1602", "the mismatch of samples is not estimated")
    other = _observed(f, request, prior, traps)
    q = prior.probabilities[~other.trapped]  # a common factor of the prior cancels
    included = set(other.inputs)
    for row in found.inputs:
        if row not in included:
            values = ", ".join(
                f"{a.name} = {from_words(a.type, row[a.address : a.address + a.type.size], given.compiled.format)}"
                for a in given.compiled.arguments
            )
            raise refuse("RG1602", f"the prior has probability 0 for {values:.80}, which occurs")
    ends = dict(zip(found.inputs, found.kept, strict=True)) | dict(zip(other.inputs, other.kept, strict=True))
    return mismatch(_summed(found.inputs, p), _summed(other.inputs, q), ends.__getitem__)


def _summed(states: Sequence[Any], p: NDArray[np.float64]) -> dict[Any, float]:
    out: dict[Any, float] = {}
    for state, x in zip(states, p.tolist(), strict=True):
        out[state] = out.get(state, 0.0) + x
    return out


class _Losses:
    """The entropies of erasures of observed runs. `input_bits`: H(input), where it is known although the rows are samples."""

    def __init__(self, found: Observed, probabilities: NDArray[np.float64] | None, input_bits: float | None) -> None:
        self.found, self.p, self.input_bits = found, probabilities, input_bits
        self.rows = len(found.inputs)
        self.kept = estimators.numbered(found.kept)
        self.of_kept = self._entropy(self.kept)

    @property
    def of_inputs(self) -> Estimate:
        """H(input)."""
        if self.input_bits is not None:
            return Estimate(self.input_bits)
        return estimators.total([self._entropy(estimators.numbered(self.found.inputs))])

    def whole(self) -> Loss:
        """The loss by all sites. H(erased) ≥ H(erased | kept) = H(input) − H(kept), where H(input) is known."""
        loss = self.of(list(self.found.erased))
        if self.input_bits is None or not self.found.erased:
            return loss
        given = estimators.conditional(Term(self.input_bits), self.of_kept)
        least = given.bits or 0.0
        marginal, joint = (
            found._replace(bits=max(found.bits or 0.0, least)) if found.error is None else found
            for found in (loss.marginal, loss.joint)
        )
        return Loss(loss.capacity, marginal, joint, given)

    def _entropy(self, code: NDArray[np.int64]) -> Term:
        return estimators.entropy_of(code, self.p)

    def of(self, sites: Sequence[Site]) -> Loss:
        """The loss by some of the sites, taken together."""
        columns = [column for site in sites for column in self.found.erased[site]]
        joint = estimators.labels(columns, self.rows)
        bits = sum((self.found.bits[site] for site in sites), np.zeros(self.rows))
        return Loss(
            estimators.mean(bits, self.p),
            estimators.total([self._entropy(estimators.labels([column], self.rows)) for column in columns]),
            estimators.total([self._entropy(joint)]),
            self._conditional(joint),
        )

    def _conditional(self, joint: NDArray[np.int64]) -> Estimate:
        if not joint.any():
            return Estimate(0.0)  # the same words in all runs
        pair = self._entropy(estimators.labels([joint, self.kept], self.rows))
        return estimators.conditional(pair, self.of_kept)

    def grouped(self, owners: Sequence[_Owner | None]) -> dict[_Owner, Loss]:
        """The loss of each owner of sites."""
        sites: dict[_Owner, list[Site]] = {}
        for site, owner in zip(self.found.erased, owners, strict=True):
            if owner is not None:
                sites.setdefault(owner, []).append(site)
        return {owner: self.of(found) for owner, found in sites.items()}
