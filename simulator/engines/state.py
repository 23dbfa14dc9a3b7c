"""The control block: words that compiled code shares with Python, and the ways in which a run of compiled code ends."""

from __future__ import annotations

from enum import IntEnum

#: more steps than any run takes
UNLIMITED = 1 << 62


class Slot(IntEnum):
    """Words of the control block that handlers and Python share."""

    IP = 0
    BR = 1
    LEFT = 2
    FLAGS = 3
    #: +1, or −1 after `Machine.turn`
    WAY = 4
    CROSSED = 5
    LOST_POINT = 6
    #: 0 where nothing is lost
    LOST_WAY = 7
    DROPPED = 8
    #: addresses of the forward code and of the backward code, and the bytes of either
    FORWARD = 9
    BACKWARD = 10
    BYTES = 11
    #: address of an instruction + that of its mirror image
    MIRROR = 12
    #: log of the words lost since the last safepoint, for undoing: its address, and the number of words
    LOG = 13
    LOGGED = 14
    #: the interpreter's Exit; Python may raise Ctrl-C in place of the result of the call
    WHY = 15


class Flag(IntEnum):
    """Modes of a run."""

    OVERFLOW = 1
    STRICT = 2
    #: guards do not trap, and lost words come back from the log: for undoing steps beyond a failed guard
    LENIENT = 4
    KEEP = 8


class Exit(IntEnum):
    """Reasons for which compiled code returns."""

    HALTED = 0
    #: the reference machine has to execute the instruction at IP, or to raise its trap
    REFUSED = 1
    LIMIT = 2
    #: the jump from IP leads out of the code
    BAILOUT = 3
    #: an uncompute block has to be executed that the translation leaves out
    UNCOMPUTE = 4
    #: on a device: rows of a loop have to be executed; the code goes on in the next launch
    ROWS = 5
    PAUSED = 6
    #: the run has reached an address at which it stops
    STOP = 7


class TranslatedSlot(IntEnum):
    """Words of the control block behind those of Slot, which only translated code uses."""

    #: steps since the last safepoint if a guard has failed since; else 0
    WINDOW = len(Slot)
    #: the address at which the code stopped, counted as in the nodes of `translator/flow.py`; before a run, the stop
    #: from which it goes on, or −1
    NODE = len(Slot) + 1
    #: set by Python to stop the code at the next safepoint
    STOP = len(Slot) + 2
    #: the address of the words of TeamSlot; 0 without a second thread
    TEAM = len(Slot) + 3
    #: first of the words of ACCOUNT as they were at the last safepoint
    SAVED = len(Slot) + 4


class TeamSlot(IntEnum):
    """Words that two threads of translated code share: rows of a loop, see `translator/parallel_loops.py`."""

    STATE = 0
    FUNCTION = 1
    MEMORY = 2
    WORDS = 3
    REGISTERS = 4
    DELTAS = 5
    FIRST = 6
    LAST = 7
    PASSES = 8
    #: the row that failed, or LAST
    RESULT = 9


class TeamState(IntEnum):
    """Whose turn it is: the second thread's in WORK."""

    IDLE = 0
    WORK = 1
    DONE = 2
    QUIT = 3


#: the account of dropped cotangents
ACCOUNT = (Slot.CROSSED, Slot.DROPPED, Slot.LOST_POINT, Slot.LOST_WAY)
CONTROL_WORDS = len(Slot) + len(TranslatedSlot) + len(ACCOUNT)
