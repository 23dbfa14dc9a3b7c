"""Code and words of memory as an editor sees them: disassembled instructions, and bytes.

A word of W bits has ⌈W/8⌉ bytes, the lowest first. A reference `M[5]` stands for the first byte of word 5.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from retrograd.debug_adapter.messages import bad_request
from retrograd.debug_adapter.sources import Sources
from retrograd.debug_adapter.stops import reference
from retrograd.debugger.places import Place
from retrograd.debugger.session import Session
from retrograd.isa.encoding import write

#: bytes and instructions of one answer
_MOST_BYTES, _MOST_INSTRUCTIONS = 1 << 20, 5000


def width_of(session: Session) -> int:
    """The bytes of a word."""
    return (session.machine.format.width + 7) // 8


def _first_byte(session: Session, text: str) -> int:
    found = re.fullmatch(r"M\[(\d{1,12})\]", text)
    if found is None:
        raise bad_request(f"`{text[:60]}` is no reference of memory")
    return int(found[1]) * width_of(session)


def read(session: Session, text: str, offset: int, count: int) -> dict[str, Any]:
    """The answer of `readMemory`. Raises InputError RG1306."""
    width, memory = width_of(session), session.machine.memory
    begin, size = _first_byte(session, text) + offset, len(memory) * width
    if not 0 <= begin <= size:
        return {"address": f"0x{max(begin, 0):x}", "unreadableBytes": count}
    end = min(begin + min(count, _MOST_BYTES), size)
    first, last = begin // width, -(-end // width)
    data = b"".join(int(memory[k]).to_bytes(width, "little") for k in range(first, last))
    data = data[begin - first * width : end - first * width]
    return {
        "address": f"0x{begin:x}",
        "data": base64.b64encode(data).decode(),
        "unreadableBytes": max(0, begin + count - size),
    }


def change(session: Session, text: str, offset: int, data: str) -> int:
    """Write bytes, all or none; returns their number. Raises InputError RG1306."""
    try:
        given = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("`data` is no Base64") from None
    width, memory = width_of(session), session.machine.memory
    begin = _first_byte(session, text) + offset
    if begin < 0 or begin + len(given) > len(memory) * width:
        raise bad_request(f"the bytes lie outside of the {len(memory)} words of memory")
    words = dict[int, bytearray]()
    for at, byte in enumerate(given, begin):
        k, part = divmod(at, width)
        words.setdefault(k, bytearray(int(memory[k]).to_bytes(width, "little")))[part] = byte
    changed = {k: int.from_bytes(word, "little") for k, word in words.items()}
    if any(word > session.machine.format.mask for word in changed.values()):
        raise bad_request(f"a word has {session.machine.format.width} bits")
    for k, word in changed.items():
        session.set(Place(k, memory=True), word)
    return len(given)


def disassemble(session: Session, sources: Sources, pc: int, count: int, base: int) -> list[dict[str, Any]]:
    """`count` instructions from an address on; those outside of the code are marked as invalid."""
    program = session.machine.program
    names = {address: name for name, address in program.labels.items()}
    out = list[dict[str, Any]]()
    for at in range(pc, pc + min(count, _MOST_INSTRUCTIONS)):
        if not 0 <= at < len(program.code):
            out.append({"address": _address(at), "instruction": "", "presentationHint": "invalid"})
            continue
        found: dict[str, Any] = {
            "address": reference(at),
            "instruction": write(program.instructions[at]),
            "instructionBytes": f"{program.code[at]:0{2 * _code_bytes(program.code)}x}",
        }
        if at in names:
            found["symbol"] = names[at]
        span = program.source.span(at)
        if span is not None:
            found |= {"location": sources.as_source(span), "line": span.line + base - 1}
        out.append(found)
    return out


def _address(at: int) -> str:
    """An address before the code is shown as one of 64 bits."""
    return f"0x{at % (1 << 64):x}"


def _code_bytes(code: Any) -> int:
    return max(-(-max(int(word).bit_length() for word in code) // 8), 1)
