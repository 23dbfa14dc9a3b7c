"""The control block: words that compiled code and host share, and how a run of compiled code ends."""

from __future__ import annotations

from enum import IntEnum


class Slot(IntEnum):
    """Words of the control block, which handlers and host share."""

    IP = 0
    BR = 1
    LEFT = 2
    FLAGS = 3
    #: +1, or −1 after the host turned the machine round
    WAY = 4
    CROSSED = 5
    LOST_POINT = 6
    #: 0 where nothing is lost
    LOST_WAY = 7
    DROPPED = 8
    #: where the forward code begins, the backward code begins, and bytes of either
    FORWARD = 9
    BACKWARD = 10
    BYTES = 11
    #: address of an instruction + that of its mirror image
    MIRROR = 12
    #: what was lost since the last check, for undoing: address, and words in it
    LOG = 13
    LOGGED = 14
    #: why the interpreter returned, an Exit: Ctrl-C may be raised in place of its result
    WHY = 15


class Flag(IntEnum):
    """Modes of a run."""

    OVERFLOW = 1
    STRICT = 2
    #: guards do not trap, and what was lost comes back from the log: for undoing what went on beyond a failed guard
    LENIENT = 4
    KEEP = 8


class Exit(IntEnum):
    """Why the interpreter returned."""

    HALTED = 0
    #: the instruction at IP is not for it: the reference machine executes it, or raises a trap
    REFUSED = 1
    LIMIT = 2
    #: the jump from IP leads out of the code
    BAILOUT = 3


class TranslatedSlot(IntEnum):
    """Words of the control block that only translated code uses, behind those of Slot."""

    #: steps since the last look, where a guard has failed since; else 0
    WINDOW = len(Slot)
    #: the address where it stopped, as a node's
    NODE = len(Slot) + 1
    #: set by the host to stop at the next look
    STOP = len(Slot) + 2
    #: from here on, ACCOUNT as it stood at the last look
    SAVED = len(Slot) + 3


#: what tells of dropped cotangents
ACCOUNT = (Slot.CROSSED, Slot.DROPPED, Slot.LOST_POINT, Slot.LOST_WAY)
CONTROL_WORDS = len(Slot) + len(TranslatedSlot) + len(ACCOUNT)
