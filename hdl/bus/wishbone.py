"""The Wishbone bus, 32 bits wide, seen from its master: classic transfers, with the signals of bursts where a master has them."""

from __future__ import annotations

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Wishbone(wiring.Signature):
    """A transfer lasts from `cyc` and `stb` to `ack` or `err`: it was carried out, or refused.

    `bursts`: the master announces the transfer that follows, so that a slave may answer it in the next cycle.
    """

    def __init__(self, bursts: bool = False) -> None:
        super().__init__(
            {
                "cyc": Out(1),
                "stb": Out(1),
                #: a write
                "we": Out(1),
                #: the address in words of four bytes
                "adr": Out(30),
                #: byte enables
                "sel": Out(4),
                "dat_w": Out(32),
                "dat_r": In(32),
                "ack": In(1),
                "err": In(1),
                #: the kind of the transfer, and of the addresses that follow: 0, one after the other
                **({"cti": Out(3), "bte": Out(2)} if bursts else {}),
            }
        )
