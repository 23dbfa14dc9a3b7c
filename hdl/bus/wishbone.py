"""The Wishbone classic bus, 32 bits wide, seen from its master."""

from __future__ import annotations

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Wishbone(wiring.Signature):
    """A transfer lasts from `cyc` and `stb` to `ack` or `err`: it was carried out, or refused."""

    def __init__(self) -> None:
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
            }
        )
