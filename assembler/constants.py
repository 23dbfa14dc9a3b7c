"""Constant expressions: integers, characters, fixed-point literals, symbols, and operators on them.

Values are unbounded integers; a fixed-point literal such as `1.5q` is round(1.5 · 2^F), which is 0 for 0 alone. Nothing is evaluated
as Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from retrograd.assembler.lexer import TextFault, escape
from retrograd.isa.words import Format

_REAL = r"(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?q\b"
#: a fixed-point literal in a constant
REAL = re.compile(rf"(?<![\w.]){_REAL}")
_TOKEN = re.compile(
    rf"\s*(?:(?P<real>{_REAL})"
    r"|(?P<int>0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|\d[\d_]*)(?![\w.])"
    r"|(?P<char>'(?:\\.|[^'\\])')"
    r"|(?P<name>[A-Za-z_][\w.]*)"
    r"|(?P<op><<|>>|[-+*/%&|^~()]))"
)
_LIKE_A_NUMBER = re.compile(r"\.?\d[\w.]*")
_BINARY = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
#: the most bits of a constant and of the steps to it: `1 << 1 << 40` must not fill the memory
_MAX_BITS = 4096
_MAX_DEPTH = 64


def tokens(text: str) -> list[tuple[str, str, int]]:
    """(kind, text, column) of every token. Raises TextFault."""
    out: list[tuple[str, str, int]] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if found is None:
            at += len(stripped[at:]) - len(stripped[at:].lstrip())
            wrong = _LIKE_A_NUMBER.match(stripped, at)
            if wrong is None:
                raise TextFault("RG0104", f"unexpected `{stripped[at]}` in a constant", at, at + 1)
            message = f"`{wrong[0][:40]}` is no number"
            if re.fullmatch(r"\d+\.\d*|\.\d+", wrong[0]):
                message = f"`{wrong[0][:40]}` is no integer: write {wrong[0][:40]}q for a fixed-point number"
            raise TextFault("RG0104", message, at, wrong.end())
        kind = str(found.lastgroup)
        out.append((kind, found.group(kind), found.start(kind)))
        at = found.end()
    return out


def evaluate(
    text: str,
    w: Format,
    symbol: Callable[[str], int | None],
    lost: Callable[[TextFault], None] | None = None,
) -> int:
    """The integer that the text denotes; `symbol` gives a name's value, or None if it has none (yet).

    `lost` takes a literal that loses more than half of its bits, as a fault that is not raised; without it, such literals pass.
    Raises TextFault: RG0104 malformed, RG0106 undefined, RG0105 out of range; with `lost`, RG0120 for a literal that becomes 0.
    """
    stream = tokens(text)
    end = len(text.rstrip())
    position = 0

    def fail(message: str, code: str = "RG0104", width: int = 1) -> TextFault:
        at = stream[position][2] if position < len(stream) else end
        return TextFault(code, message, at, at + width)

    def primary(depth: int) -> int:
        nonlocal position
        if depth > _MAX_DEPTH:
            raise fail("the expression nests too deeply")
        if position >= len(stream):
            raise fail("a constant is missing here")
        kind, word, at = stream[position]
        position += 1
        if kind == "int":
            if len(word) > _MAX_BITS // 4:
                raise TextFault("RG0105", "the number is too long", at, at + len(word))
            try:
                return int(word, 0 if word[:1] == "0" and word[1:2].isalpha() else 10)
            except ValueError:
                raise TextFault("RG0104", f"`{word}` is no number", at, at + len(word)) from None
        if kind == "real":
            return _real(word, w, at, lost)
        if kind == "char":
            body = word[1:-1]
            value = ord(body) if len(body) == 1 else escape(body[1])
            if value is None:
                raise TextFault("RG0104", f"unknown escape `{body}`", at, at + len(word))
            return value
        if kind == "name":
            value = symbol(word)
            if value is None:
                raise TextFault("RG0106", f"`{word}` is not defined", at, at + len(word), name=word)
            return value
        if word == "(":
            value = binary(1, depth + 1)
            if position >= len(stream) or stream[position][1] != ")":
                raise fail("`)` is missing")
            position += 1
            return value
        if word in "-+~":
            operand = primary(depth + 1)
            return {"-": -operand, "+": operand, "~": ~operand}[word]
        raise TextFault("RG0104", f"`{word}` cannot stand here", at, at + len(word))

    def binary(level: int, depth: int) -> int:
        nonlocal position
        left = primary(depth + 1)
        while position < len(stream):
            _, op, at = stream[position]
            if op not in _BINARY or _BINARY[op] < level:
                break
            position += 1
            right = binary(_BINARY[op] + 1, depth + 1)
            left = _apply(op, left, right, at)
        return left

    value = binary(1, 0)
    if position < len(stream):
        raise fail(f"unexpected `{stream[position][1]}`", width=len(stream[position][1]))
    return value


def _apply(op: str, x: int, y: int, at: int) -> int:
    match op:
        case "+":
            value = x + y
        case "-":
            value = x - y
        case "*":
            value = x * y
        case "/" | "%":
            if y == 0:
                raise TextFault("RG0104", "division by zero in a constant", at, at + 1)
            value = x // y if op == "/" else x % y
        case "&":
            value = x & y
        case "|":
            value = x | y
        case "^":
            value = x ^ y
        case _:
            if not 0 <= y <= _MAX_BITS:
                raise TextFault("RG0105", f"shift by {y} in a constant", at, at + 2)
            value = x << y if op == "<<" else x >> y
    if value.bit_length() > _MAX_BITS:
        raise TextFault("RG0105", "the constant is too large", at, at + len(op))
    return value


def _real(word: str, w: Format, at: int, lost: Callable[[TextFault], None] | None) -> int:
    digits = word[:-1].replace("_", "")
    exponent = re.search(r"[eE]([+-]?\d+)$", digits)
    if len(digits) > 200 or (exponent and abs(int(exponent.group(1))) > 400):
        raise TextFault("RG0105", f"`{word[:20]}…` is too long a literal", at, at + len(word))
    number = Fraction(digits)
    value = round(number * (1 << w.frac))
    # The sign is an operator, so the largest magnitude allowed here is that of the most negative number.
    if value > w.sign:
        raise TextFault("RG0105", f"{word} does not fit {w}", at, at + len(word))
    if lost is not None and not w.keeps(number):
        end, hint = at + len(word), w.remedy(number)
        if value == 0:
            raise TextFault("RG0120", f"{word} would be 0 in {w}", at, end, hint)
        lost(TextFault("RG0120", f"{word} is {float(w.to_real(value)):.6g}q in {w}", at, end, hint))
    return value
