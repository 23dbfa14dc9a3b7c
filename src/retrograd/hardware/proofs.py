"""Proofs of the hardware on the workers of an executor, kept in a store: one task for each opcode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing

from retrograd.hdl.formal.proofs import ProofResult, prove_all
from retrograd.isa.words import Format
from retrograd.runtime._distribution import Distribution, Keeping, distribute, in_order
from retrograd.version import __version__

Proofs = list[ProofResult]


def distributed_proofs(
    w: Format,
    opcodes: Collection[str],
    seconds: float = 60,
    over: Distribution | None = None,
    core: str = "small",
    slots: int = 1,
) -> Iterator[ProofResult]:
    """The results of `prove_all`, in the order of the table. Raises InputError RG1501 to RG1507."""
    if over is None:
        yield from prove_all(w, opcodes, seconds, map, core, slots)
        return
    where = over

    def key(opcode: str) -> str:
        asked = ["proof", __version__, core, slots, w.width, w.frac, seconds, opcode]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()

    keeping: Keeping[str, Proofs] = Keeping(key, _encoded, _decoded)

    def each(prove: Callable[[str], Proofs], names: Sequence[str]) -> Iterator[Proofs]:
        with closing(distribute(prove, names, where, keeping=keeping)) as found:
            yield from in_order(found)

    yield from prove_all(w, opcodes, seconds, each, core, slots)


def _encoded(proofs: Proofs) -> bytes:
    return json.dumps([vars(p) for p in proofs]).encode()


def _decoded(data: bytes) -> Proofs | None:
    try:
        return [ProofResult(**fields) for fields in json.loads(data)]
    except (ValueError, TypeError):
        return None
