"""Damage to valid inputs of readers: a few places of a text, of bytes, of a document or of words are changed, lost, doubled or new.

    changed_text("add r1, 5\\n", random.Random(3))      another text, of which often only one token differs
    valid_part("abcd", "abcx")                          0.75: the share of the seed before its first change

Of half of the results the first half is as it was, so that a reader comes past its first lines. See
`hostile_inputs.py`.
"""

from __future__ import annotations

import json
import random
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

#: texts that a terminal obeys, that end lines, or that turn the direction of writing; others that readers meet seldom
HOSTILE = (
    "\x1b]0;title\x07", "\x1b[31m", "\x9b2J", "\u202e", "\u2066", "\u200f", "\x00", "\x07", "\x7f", "\x85", "\x08", "\r", "\u2028", "\x0b", "\ufeff",
    "\U000e0041", "é", "٣", "²", "\t", "\ud800", "9" * 40, "9" * 5000, "-", "(" * 40, ")", "[", "]", "{", "}", '"', "'", "\\", "\n", ";", "#", ",",
    "0", "1", "-1", "1e999", "0x", "1.5", "nan", ":", "=", "<", "%", "%s%n", "{0}", "$", "__class__",
)  # fmt: skip


def changed_text(seed: str, chance: random.Random) -> str:
    """A text with one to three of its tokens lost, doubled, exchanged, renamed or new; half of the texts are valid up to their second half."""
    tokens = re.findall(r"\w+|[ \t]+|.", seed, flags=re.DOTALL)
    first = len(tokens) // 2 if chance.random() < 0.6 else 0
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        k = chance.randrange(min(first, len(tokens) - 1), len(tokens)) if tokens else 0
        other = chance.choice(tokens) if tokens else ""
        token = tokens[k] if tokens else ""
        match chance.randrange(9):
            case 0:
                tokens[k : k + 1] = []
            case 1:
                tokens.insert(k, other)
            case 2:
                tokens[k : k + 1] = [other]
            case 3:
                tokens[k : k + 1] = [chance.choice(HOSTILE)]
            case 4:
                tokens.insert(k, chance.choice(HOSTILE))
            case 5 if token.isdecimal():
                tokens[k] = str(chance.choice([0, 1, 2, 7, 255, 2**31, 2**63, 2**64, 10**30]))
            case 6:
                # Every place of a word, with a hostile text in it.
                name = token + chance.choice(HOSTILE)
                tokens = [name if t == token and i >= k else t for i, t in enumerate(tokens)]
            case 7:
                # The end of the line, perhaps in a comment.
                end = next((i for i in range(k, len(tokens)) if tokens[i] == "\n"), len(tokens))
                tokens.insert(end, chance.choice(("; ", " # ", " // ", " ")) + chance.choice(HOSTILE))
            case _:
                end = min(len(tokens), k + chance.randrange(1, 8))
                tokens[k:k] = tokens[k:end] * chance.randrange(1, 4)
    return "".join(tokens)


def changed_bytes(seed: bytes, chance: random.Random) -> bytes:
    """Bytes with one to three of them changed, lost or new; of half of them the first half is as it was."""
    out = bytearray(seed)
    first = len(out) // 2 if chance.random() < 0.6 else 0
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(min(first, len(out)), len(out) + 1)
        match chance.randrange(6):
            case 0:
                del out[at:]
            case 1:
                del out[at : at + chance.randrange(1, 9)]
            case 2:
                out[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 3:
                size = chance.choice((1, 2, 4, 8))
                out[at : at + size] = chance.choice((0, 1, 255, 1 << 31, (1 << 64) - 1)).to_bytes(8, "little")[:size]
            case _ if at < len(out):
                out[at] = chance.choice((0, 255, out[at] ^ 1 << chance.randrange(8), chance.randrange(256)))
    return bytes(out)


def changed_image(seed: bytes, chance: random.Random) -> bytes:
    """An image with other bytes, whose checksum is theirs."""
    body = changed_bytes(seed[:-4], chance)
    return body + struct.pack("<I", zlib.crc32(body))


def changed_document(seed: str, chance: random.Random) -> str:
    """A document of JSON with other values, or with another text."""
    try:
        value = json.loads(seed)
    except ValueError:  # changed before
        value = None
    if value is None or chance.random() < 0.3:
        return changed_text(seed, chance)
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            break
        container, key = chance.choice(places[len(places) // 2 :] if chance.random() < 0.5 else places)
        match chance.randrange(6):
            case 0:
                del container[key]
            case 1:
                other, its = chance.choice(places)
                container[key] = json.loads(json.dumps(other[its])) if its in other or isinstance(other, list) else None
            case 2 if isinstance(container, dict):
                container[str(key) + chance.choice(HOSTILE)] = container.pop(key)
            case 3:
                container[key] = chance.choice(HOSTILE)
            case _:
                container[key] = chance.choice(
                    [None, True, 0, -1, 1e308, float("nan"), 2**64, 10**400, "", [], {}, [[]], {"": None}]
                )
    return json.dumps(value, ensure_ascii=chance.random() < 0.5)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def changed_words(seed: tuple[str, ...], chance: random.Random) -> tuple[str, ...]:
    """Words, lines or messages, one or two of which are changed, lost or doubled."""
    out = list(seed)
    for _ in range(chance.choice((1, 1, 2))):
        k = chance.randrange(len(out))
        match chance.randrange(8):
            case 0 if len(out) > 1:
                del out[k]
            case 1:
                out.insert(k, chance.choice(out))
            case 2:
                out[k] = chance.choice(HOSTILE)
            case _:
                change = changed_document if out[k].startswith("{") else changed_text
                out[k] = change(out[k], chance)
    return tuple(out)


def valid_part(seed: Any, data: Any) -> float:
    """The share of a seed before the first change."""
    if isinstance(seed, tuple):
        same = next((k for k, (a, b) in enumerate(zip(seed, data, strict=False)) if a != b), min(len(seed), len(data)))
        inner = valid_part(seed[same], data[same]) if same < min(len(seed), len(data)) else 0
        return (same + inner) / len(seed)
    shorter = min(len(seed), len(data))
    same = next((k for k in range(shorter) if seed[k] != data[k]), shorter)
    return same / max(1, len(seed))


def changed_python(seed: str, chance: random.Random) -> str:
    """The text with changes such that Python still compiles it."""
    for _ in range(20):
        text = changed_text(seed, chance)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text, "", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return text
    return seed + "# \x1b[31m\n"


def changed_file(seed: tuple[str, ...], chance: random.Random) -> tuple[str, ...]:
    words, text = seed
    if "x.rgx" in words:
        return words, changed_image(text.encode("latin-1"), chance).decode("latin-1")
    return words, (changed_python if "x.py" in words else changed_text)(text, chance)
