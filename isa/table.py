"""The instruction table: the definition of the machine, one entry per instruction.

An entry states a name, an opcode, the effect as a tree, and the arguments for which it has no value. Inverse, adjoint,
operands, alias rule, encoding, syntax, laws and manual are computed from it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Iterator
from hashlib import sha256

from retrograd.isa import derivatives, functions, points
from retrograd.isa.diagnostics import Diagnostic, RetrogradError
from retrograd.isa.effects import Erase, Exchange, Permute, Update, involution, sums_fit
from retrograd.isa.entries import (
    NOT_JUMPING,
    Bijection,
    Entry,
    Function,
    Guard,
    Opcode,
    a,
    b,
    bar,
    br,
    d,
    imm,
    m,
    opcodes_of,
)
from retrograd.isa.expr import (
    ZERO,
    Expr,
    div_round,
    div_shift,
    high_word,
    mul_round,
    nodes,
    place,
    rotate_left,
    select,
    sqrt_round,
)
from retrograd.isa.words import WIDTHS, Format


def _magnitude(x: Expr) -> Expr:
    return select(x.lt(0), -x, x)


def _fits(high: Expr, low: Expr, w: Format) -> Expr:
    """1 where the two-word number (high, low) is just the sign extension of its low word."""
    return high.eq(low.sar(w.width - 1))


def _nearest_integer(x: Expr, w: Format) -> Expr:
    """⌊x / 2^F + ½⌋. The bit below the point decides, so that no sum leaves the word."""
    return x.sar(w.frac) + (x.sar(w.frac - 1) & 1) if w.frac else x


def _nonzero_divisor(w: Format) -> tuple[Guard, ...]:
    return (Guard(b.ne(0), "RG0402", culprit=b),)


def _product_fits(x: Expr, y: Expr, w: Format) -> tuple[Guard, ...]:
    low = mul_round(x, y, w.frac)
    return (Guard(_fits(high_word(low, w), low, w), "RG0404", mode="overflow", culprit=x),)


def _quotient_fits(w: Format) -> tuple[Guard, ...]:
    low, high = div_round(a, b, w.frac), div_round(a, b, w.frac - w.width)
    return (*_nonzero_divisor(w), Guard(_fits(high, low, w), "RG0404", mode="overflow", culprit=a))


def _shifted_fits(shifted: points.Shifted) -> Guard:
    return Guard(shifted.fits, "RG0404", mode="overflow", culprit=a)


def _shifted_quotient_fits(w: Format) -> tuple[Guard, ...]:
    return (*_nonzero_divisor(w), _shifted_fits(points.quotient(a, b, w)))


def _not_negative(w: Format) -> tuple[Guard, ...]:
    return (Guard(a.ge(0), "RG0403", culprit=a),)


def _magnitude_fits(w: Format) -> tuple[Guard, ...]:
    return (Guard(a.ne(w.sign), "RG0404", mode="overflow", culprit=a),)


def _integer_fits(w: Format) -> tuple[Guard, ...]:
    return (Guard((a << w.frac).sar(w.frac).eq(a), "RG0404", mode="overflow", culprit=a),)


def _available(w: Format) -> tuple[Guard, ...]:
    """A guard that always fails in formats too short for the transcendental functions."""
    return () if functions.available(w) else (Guard(ZERO, "RG0403", culprit=a),)


def _fits_word(fits: Expr, w: Format) -> tuple[Guard, ...]:
    return (*_available(w), Guard(fits, "RG0404", mode="overflow", culprit=a))


def _positive(w: Format) -> tuple[Guard, ...]:
    return (Guard(ZERO.lt(a), "RG0403", culprit=a), *_fits_word(functions.log(a, w)[1], w))


def _some_angle(w: Format) -> tuple[Guard, ...]:
    return (Guard((a | b).ne(0), "RG0403", culprit=a), *_fits_word(functions.atan2(a, b, w)[1], w))


def _some_lognum(w: Format) -> tuple[Guard, ...]:
    return (Guard(a.ne(0), "RG0411", culprit=a), *_fits_word(functions.fixed_to_lognum(a, w)[1], w))


def _positive_lognum(w: Format) -> tuple[Guard, ...]:
    return (*_available(w), *_not_negative(w))


def _power_fits(w: Format) -> tuple[Guard, ...]:
    return (*_positive_lognum(w), Guard(functions.lognum_power(a, b, w)[1], "RG0404", mode="overflow", culprit=a))


def _sum_guards(second: Expr, w: Format) -> tuple[Guard, ...]:
    _, fits, some = functions.lognum_sum(a, second, w)
    return (*_available(w), Guard(some, "RG0411", culprit=a), Guard(fits, "RG0404", mode="overflow", culprit=a))


def _rotation_fits(w: Format) -> tuple[Guard, ...]:
    """The sums within the shears fit, too. They do for vectors shorter than 0.92 · 2^(W−1)."""
    predicate = d.ne(w.sign) & a.ne(w.sign)
    for fits in sums_fit(functions.rotate(w), w):
        predicate = predicate & fits
    return (*_available(w), Guard(predicate, "RG0404", mode="overflow", culprit=d))


#: condition -> (predicate, in words)
CONDITIONS: dict[str, tuple[Expr | None, str]] = {
    "": (None, "always"),
    ".eq": (a.eq(b), "ra = rb"),
    ".ne": (a.ne(b), "ra ≠ rb"),
    ".lt": (a.lt(b), "ra < rb, signed"),
    ".ge": (a.ge(b), "ra ≥ rb, signed"),
    ".ltu": (a.ltu(b), "ra < rb, unsigned"),
    ".geu": (a.geu(b), "ra ≥ rb, unsigned"),
}


def _branch(index: int, condition: str) -> Bijection:
    predicate, words = CONDITIONS[condition]
    step = imm if predicate is None else select(predicate, imm, 0)
    moment = words if predicate is None else f"if {words}"
    return Bijection(
        f"goto{condition}", 0xE0 + 2 * index, "branches", lambda w: (Update("br", "add", step),),
        f"Jump to `target` {moment}; `from` joins the jump with the path from above: its condition must hold "
        "exactly when control came by the jump.",
        inverse_name=f"from{condition}", negates_immediate=True, guards=lambda w: (NOT_JUMPING,),
    )  # fmt: skip


#: condition -> opcode of its assertion: numbers that leave the free groups of two and of four as they are
_ASSERTIONS = {".eq": 0xC1, ".ne": 0xC3, ".lt": 0xC9, ".ge": 0xCB, ".ltu": 0xCD, ".geu": 0xD5}


def _assertion(condition: str, code: int) -> Bijection:
    predicate, words = CONDITIONS[condition]
    assert predicate is not None
    return Bijection(
        f"assert{condition}", code, "assertions", lambda w: (), f"Promise that {words}; trap if not, in either direction.",
        guards=lambda w: (Guard(predicate, "RG0413", culprit=a),),
    )  # fmt: skip


_LANDING = br.eq(0) | br.eq(-imm)
_LEAVING = br.eq(0) | br.eq(imm)

INT, FIXED, LOG = "integer", "fixed", "lognum"

ENTRIES: tuple[Entry, ...] = (
    # moves
    Function("mov", 0x04, "moves", lambda w: a, "Update by a register.",
             shorthand="{}", immediate_form="imm"),
    Function("imm", 0x08, "moves", lambda w: imm, "Update by a constant, sign-extended from 32 bits."),
    Function("immhi", 0x0C, "moves", lambda w: imm << (w.width // 2),
             "Update by a constant shifted to the upper half of the word."),
    # memory
    Function("ld", 0x10, "memory", lambda w: m, "Update a register by a memory word."),
    Function("st", 0x14, "memory", lambda w: b, "Update a memory word by a register.", target="m"),
    # integer
    Function("mul", 0x18, INT, lambda w: a * b, "Product, low word.",
             differentiable=False, immediate_form="muli"),
    Function("div", 0x1C, INT, lambda w: div_shift(a, b, 0), "Quotient, floored.",
             guards=_nonzero_divisor, differentiable=False),
    Function("mod", 0x20, INT, lambda w: a - div_shift(a, b, 0) * b, "Remainder of the floored quotient: has the divisor's sign.",
             guards=_nonzero_divisor, differentiable=False),
    Function("and", 0x24, INT, lambda w: a & b, "Bitwise and.", differentiable=False, immediate_form="andi"),
    Function("or", 0x28, INT, lambda w: a | b, "Bitwise or.", differentiable=False, immediate_form="ori"),
    Function("nor", 0xBC, INT, lambda w: ~(a | b), "Complement of the bitwise or.", differentiable=False),
    Function("shl", 0x2C, INT, lambda w: a << b, "Shift left by rb mod W.", differentiable=False, immediate_form="shli"),
    Function("shr", 0x30, INT, lambda w: a.shr(b), "Shift right by rb mod W, filling with zeros.",
             differentiable=False, immediate_form="shri"),
    Function("sar", 0x34, INT, lambda w: a.sar(b), "Shift right by rb mod W, filling with the sign.",
             differentiable=False, immediate_form="sari"),
    Function("slt", 0x38, INT, lambda w: a.lt(b), "1 if less, signed.", differentiable=False, immediate_form="slti"),
    Function("sltu", 0x3C, INT, lambda w: a.ltu(b), "1 if less, unsigned.", differentiable=False),
    Function("seq", 0x40, INT, lambda w: a.eq(b), "1 if equal.", differentiable=False),
    Function("min", 0x44, INT, lambda w: select(a.lt(b), a, b), "The smaller, signed.", differentiable=False),
    Function("max", 0x48, INT, lambda w: select(a.lt(b), b, a), "The larger, signed.", differentiable=False),
    Function("abs", 0x4C, INT, lambda w: _magnitude(a), "Magnitude; that of −2^(W−1) wraps to itself.",
             differentiable=False),
    Function("muli", 0x50, INT, lambda w: a * imm, "Product with a constant, low word.", differentiable=False),
    Function("andi", 0x54, INT, lambda w: a & imm, "Bitwise and with a constant.", differentiable=False),
    Function("ori", 0x58, INT, lambda w: a | imm, "Bitwise or with a constant.", differentiable=False),
    Function("shli", 0x5C, INT, lambda w: a << imm, "Shift left by a constant mod W.", differentiable=False),
    Function("shri", 0x60, INT, lambda w: a.shr(imm), "Shift right by a constant mod W, filling with zeros.",
             differentiable=False),
    Function("sari", 0x64, INT, lambda w: a.sar(imm), "Shift right by a constant mod W, filling with the sign.",
             differentiable=False),
    Function("slti", 0xD8, INT, lambda w: a.lt(imm), "1 if less than a constant, signed.", differentiable=False),
    # fixed point
    Function("fmov", 0x68, FIXED, lambda w: a, "Update by a fixed-point register, the sum checked for overflow.",
             checked=True, shorthand="f{}"),
    Function("fmul", 0x6C, FIXED, lambda w: mul_round(a, b, w.frac), "Product, to nearest, ties up.",
             guards=lambda w: _product_fits(a, b, w), checked=True),
    Function("fdiv", 0x70, FIXED, lambda w: div_round(a, b, w.frac), "Quotient, to nearest, ties up.",
             guards=_quotient_fits, checked=True),
    Function("fsqrt", 0x74, FIXED, lambda w: sqrt_round(a, w.frac), "Square root, to nearest.",
             guards=_not_negative, checked=True),
    Function("fabs", 0x78, FIXED, lambda w: _magnitude(a), "Magnitude.", guards=_magnitude_fits, checked=True),
    Function("fexp", 0x7C, FIXED, lambda w: functions.exp(a, w)[0], "e^ra, to nearest.", checked=True,
             guards=lambda w: _fits_word(functions.exp(a, w)[1], w), partials=derivatives.exp),
    Function("flog", 0x80, FIXED, lambda w: functions.log(a, w)[0], "Natural logarithm, to nearest.", checked=True,
             guards=_positive, partials=derivatives.log),
    Function("fsin", 0x84, FIXED, lambda w: functions.sin(a, w), "Sine of radians, to nearest.", checked=True,
             guards=_available, partials=derivatives.sin),
    Function("fcos", 0x88, FIXED, lambda w: functions.cos(a, w), "Cosine of radians, to nearest.", checked=True,
             guards=_available, partials=derivatives.cos),
    Function("fatan2", 0x8C, FIXED, lambda w: functions.atan2(a, b, w)[0],
             "The angle of the vector (rb, ra) in (−π, π], to nearest.", checked=True,
             guards=_some_angle, partials=derivatives.atan2),
    # fixed point, with binary points that differ: the constant is the difference
    Function("fmovp", 0xAA, FIXED, lambda w: points.move(a, w).value,
             "Number shifted by a constant, to nearest, ties up.",
             updates=("add", "sub"), guards=lambda w: (_shifted_fits(points.move(a, w)),),
             constants=points.shifts_of_moves, checked=True, partials=derivatives.shifted_move),
    Function("fmulp", 0xCE, FIXED, lambda w: points.product(a, b, w).value,
             "Product shifted by a constant, to nearest, ties up.",
             updates=("add", "sub"), guards=lambda w: (_shifted_fits(points.product(a, b, w)),),
             constants=points.shifts_of_products, checked=True, partials=derivatives.shifted_product),
    Function("fdivp", 0xD2, FIXED, lambda w: points.quotient(a, b, w).value,
             "Quotient shifted by a constant, to nearest, ties up.",
             updates=("add", "sub"), guards=_shifted_quotient_fits, constants=points.shifts_of_quotients,
             checked=True, partials=derivatives.shifted_quotient),
    Function("fsqrtp", 0xEE, FIXED, lambda w: points.root(a, w).value, "Square root shifted by a constant, to nearest.",
             updates=("add", "sub"), guards=_not_negative, constants=points.shifts_of_roots,
             checked=True, partials=derivatives.shifted_root),
    # fixed point, with an operand in memory
    Function("fld", 0xAC, FIXED, lambda w: m, "Update by a fixed-point memory word, the sum checked for overflow.",
             checked=True),
    Function("fst", 0xB0, FIXED, lambda w: b, "Update of a memory word by a fixed-point register, the sum checked for overflow.",
             target="m", checked=True),
    Function("fmulld", 0xB4, FIXED, lambda w: mul_round(b, m, w.frac), "Product of a register and a memory word, to nearest, ties up.",
             guards=lambda w: _product_fits(b, m, w), checked=True),
    Function("fmulst", 0xB8, FIXED, lambda w: mul_round(d, b, w.frac), "Update of a memory word by a product, to nearest, ties up.",
             target="m", guards=lambda w: _product_fits(d, b, w), checked=True),
    # conversions
    Function("itof", 0x90, "conversions", lambda w: a << w.frac, "Integer to fixed.",
             guards=_integer_fits, differentiable=False, checked=True),
    Function("ftoi", 0x94, "conversions", lambda w: _nearest_integer(a, w), "Fixed to integer, to nearest, ties up; `sari` by F floors.", differentiable=False),
    Function("ltof", 0x98, "conversions", lambda w: functions.lognum_to_fixed(a, w)[0], "Lognum to fixed, to nearest.",
             checked=True, guards=lambda w: _fits_word(functions.lognum_to_fixed(a, w)[1], w),
             partials=derivatives.lognum_to_fixed),
    Function("llog", 0xA6, "conversions", lambda w: functions.lognum_to_log(a, w), "Natural logarithm of a lognum, as a fixed, to nearest.",
             updates=("add", "sub"), checked=True, guards=_positive_lognum, partials=derivatives.lognum_to_log),
    # lognum
    Function("lexp", 0x9E, LOG, lambda w: functions.log_to_lognum(a, w)[0], "Product or quotient with e^ra, ra a fixed, to nearest.",
             updates=("mul", "div"), guards=lambda w: _fits_word(functions.log_to_lognum(a, w)[1], w),
             partials=derivatives.log_to_lognum),
    Function("lpow", 0xA2, LOG, lambda w: functions.lognum_power(a, b, w)[0],
             "Product or quotient with ra^rb, ra a lognum and rb a fixed, to nearest.",
             updates=("mul", "div"), guards=_power_fits, partials=derivatives.lognum_power),
    Function("ftol", 0x9C, LOG, lambda w: functions.fixed_to_lognum(a, w)[0], "Product or quotient with a fixed-point number.",
             updates=("mul", "div"), guards=_some_lognum, partials=derivatives.fixed_to_lognum),
    Function("ladd", 0xA4, LOG, lambda w: functions.lognum_sum(a, b, w)[0], "Product or quotient with a sum of lognums.",
             updates=("mul", "div"), guards=lambda w: _sum_guards(b, w), partials=derivatives.lognum_sum),
    Function("lsub", 0xA8, LOG, lambda w: functions.lognum_sum(a, b ^ w.sign, w)[0],
             "Product or quotient with a difference of lognums.",
             updates=("mul", "div"), guards=lambda w: _sum_guards(b ^ w.sign, w), partials=derivatives.lognum_difference),
    Function("lmov", 0xA0, LOG, lambda w: a, "Product or quotient with a lognum, exact: logarithms add, signs add mod 2.",
             updates=("mul", "div"), shorthand="l{}"),
    # bijections
    Bijection("neg", 0xC0, "bijections", lambda w: (involution("d", -d, slope=-1),), "Negate."),
    Bijection("not", 0xC2, "bijections", lambda w: (involution("d", ~d, slope=-1),), "Complement every bit."),
    Bijection("rol", 0xC4, "bijections", lambda w: (Permute("d", rotate_left(d, a), rotate_left(d, -a)),),
              "Rotate the bits left (`ror`: right) by ra mod W.", inverse_name="ror", immediate_form="roli"),
    Bijection("roli", 0xC6, "bijections", lambda w: (Permute("d", rotate_left(d, imm), rotate_left(d, -imm)),),
              "Rotate the bits left (`rori`: right) by a constant mod W.", inverse_name="rori"),
    Bijection("swap", 0xC8, "bijections", lambda w: (Exchange("d", "a"),), "Exchange two registers."),
    Bijection("cswap", 0xCA, "bijections", lambda w: (Exchange("d", "a", when=b),),
              "Exchange two registers if rb ≠ 0 (Fredkin)."),
    Bijection("exch", 0xCC, "bijections", lambda w: (Exchange("d", "m"),), "Exchange a register with a memory word."),
    Bijection("rot", 0xD0, "bijections", functions.rotate,
              "Rotate the vector (rd, ra) by rb radians (`irot`: back). Exact to undo, whatever its rounding.",
              inverse_name="irot", guards=_rotation_fits, lift=lambda w, backward: derivatives.rotation(functions.rotate(w), w, backward)),
    # ancillas and erasure
    Bijection("assertz", 0xD4, "ancillas", lambda w: (), "Promise that rd = 0, so that it may be freed; trap if not.",
              guards=lambda w: (Guard(d.eq(0), "RG0407", culprit=d),)),
    Bijection("erase", 0xD6, "ancillas", lambda w: (Erase("d"),),
              "Clear rd, losing W bits. Running backward, an `erase` becomes `unerase`, which always traps: the lost word cannot be restored.",
              inverse_name="unerase"),
    # assertions
    *(_assertion(condition, code) for condition, code in _ASSERTIONS.items()),
    # branches
    *(_branch(i, condition) for i, condition in enumerate(CONDITIONS)),
    Bijection("call", 0xF0, "branches", lambda w: (Update("br", "add", imm),),
              "Run the subroutine at `target`. Its `swapbr` takes the jump and sends it back here, where it ends.",
              negates_immediate=True,
              guards=lambda w: (Guard(_LANDING, "RG0405", inverted_code="RG0406", culprit=br),)),
    Bijection("uncall", 0xF2, "branches", lambda w: (involution("br", imm - br),),
              "Turn round and run the subroutine at `target` backward; it comes back here, which turns round again.",
              negates_immediate=True, turns=True,
              guards=lambda w: (Guard(_LEAVING, "RG0405", inverted_code="RG0406", culprit=br),)),
    Bijection("swapbr", 0xF4, "branches", lambda w: (Exchange("d", "br"),),
              "Exchange a register with the branch register: the entry and the exit of a subroutine."),
    Bijection("start", 0xF8, "branches", lambda w: (), "`start` is where a program begins and where running backward halts; `finish` is the other end.",
              inverse_name="finish", halts="finish"),
)  # fmt: skip


class Table:
    """Entries by opcode and by name; refuses entries that overlap or that could not be reversible.

    Raises ValueError naming the entries at fault.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        #: the entries that `add` added
        self.own: tuple[Entry, ...] = ()
        self._digested: tuple[tuple[Entry, ...], str] = ((), "")
        self.by_code: list[Opcode | None] = [None] * 256
        self.by_name: dict[str, Opcode] = {}
        self.shorthands: dict[str, Opcode] = {}
        for entry in self.entries:
            for opcode in opcodes_of(entry):
                self._add(opcode)
        for opcode in self:
            if opcode.inverse_name not in self.by_name:
                raise ValueError(f"{opcode.name}: its inverse {opcode.inverse_name!r} is missing")
            form = opcode.entry.immediate_form
            if form is not None and not any(e.name == form for e in self.entries):
                raise ValueError(f"{opcode.name}: its immediate form {form!r} is missing")

    def _add(self, opcode: Opcode) -> None:
        if not 0 < opcode.code < 256:
            raise ValueError(f"{opcode.name}: opcode 0x{opcode.code:x} is not in 0x01..0xff")
        holder = self.by_code[opcode.code]
        if holder is not None:
            raise ValueError(f"{opcode.name}: opcode 0x{opcode.code:02x} is already that of {holder.name}")
        if opcode.name in self.by_name:
            raise ValueError(f"{opcode.name}: the name is taken")
        opcode.transition(Format())  # raises where an effect reads a place that it writes
        self.by_code[opcode.code] = opcode
        self.by_name[opcode.name] = opcode
        if isinstance(opcode.entry, Function) and opcode.entry.shorthand is not None:
            name = opcode.entry.shorthand.format(opcode.update)
            if name in self.shorthands or name in self.by_name:
                raise ValueError(f"{opcode.name}: the shorthand {name!r} is taken")
            self.shorthands[name] = opcode

    def __reduce__(self) -> tuple[object, ...] | str:
        if self is TABLE:
            return "TABLE"
        raise _no_name("a table with instructions of its own")

    def __iter__(self) -> Iterator[Opcode]:
        """The opcodes, by number."""
        return (opcode for opcode in self.by_code if opcode is not None)

    def __len__(self) -> int:
        return len(self.by_name)

    def __getitem__(self, name: str) -> Opcode:
        return self.by_name[name]

    def named(self, name: str) -> list[Opcode]:
        """The opcodes of an entry, or the one of an opcode's name or its shorthand. Raises KeyError.

        >>> [[o.name for o in TABLE.named(name)] for name in ("mul", "mul.add", "add")]
        [['mul.add', 'mul.sub', 'mul.xor'], ['mul.add'], ['mov.add']]
        """
        for entry in self.entries:
            if entry.name == name:
                return [self[o.name] for o in opcodes_of(entry)]
        return [self.shorthands[name] if name in self.shorthands else self[name]]

    @property
    def names(self) -> list[str]:
        """All that `named` takes."""
        return [*self.by_name, *self.shorthands, *(e.name for e in self.entries)]

    def inverse(self, opcode: Opcode) -> Opcode:
        """The opcode of the inverse instruction."""
        return self.by_name[opcode.inverse_name]

    def immediate_form(self, opcode: Opcode) -> Opcode | None:
        """The opcode that takes a constant where this one takes its last register."""
        form = opcode.entry.immediate_form
        if form is None:
            return None
        partner = next(entry for entry in self.entries if entry.name == form)
        return self.by_code[partner.code + opcode.code - opcode.entry.code]

    def free_code(self) -> int:
        """The first opcode c such that c … c + 3 are free: room for an entry of any kind."""
        return next(c for c in range(4, 256, 4) if not any(self.by_code[c : c + 4]))

    def first_free(self, count: int) -> int | None:
        """The first even opcode c such that c … c + count − 1 are free, or None: an opcode and its inverse differ in one bit."""
        return next((c for c in range(2, 257 - count, 2) if not any(self.by_code[c : c + count])), None)

    def add(self, entry: Entry) -> None:
        """Add a user's entry to this table, for this process. Raises ValueError, and then adds nothing.

        Trap: programs that hold the instruction run only where the entry has been added; the keys of generated code hold `own_digest`.
        """
        Table((*self.entries, entry))  # raises where the entry does not fit
        for opcode in opcodes_of(entry):
            self._add(opcode)
        self.entries = (*self.entries, entry)
        self.own = (*self.own, entry)

    def own_digest(self) -> str:
        """A digest of the trees of all added entries in all formats; empty where there are none."""
        if self._digested[0] is not self.own:
            self._digested = self.own, sha256(repr([*map(_trees, self.own)]).encode()).hexdigest()
        return self._digested[1]

    def extended(self, *entries: Entry) -> Table:
        """A copy of the table with more entries."""
        return Table((*self.entries, *entries))


def _trees(entry: Entry) -> list[object]:
    """The trees of an entry in all formats, nodes by number."""
    out: list[object] = [entry.name, entry.code, [opcode.name for opcode in opcodes_of(entry)]]
    for width in WIDTHS:
        for frac in range(width):
            w = Format(width, frac)
            for opcode in opcodes_of(entry):
                roots = [guard.predicate for guard in opcode.guards(w)] + [*opcode.transition(w).values()]
                if isinstance(entry, Function) and entry.partials is not None:
                    roots += entry.partials(w, place(bar(entry.target))).values()
                number: dict[Expr, int] = {}
                for node in nodes(*roots):
                    number[node] = len(number)
                    out.append((node.op, node.param, *(number[x] for x in node.args)))
                out.append([number[root] for root in roots])
    return out


#: The machine.
TABLE = Table(ENTRIES)


def _reduced(opcode: Opcode) -> tuple[object, ...]:
    """An opcode as a pickle: its name in TABLE. Raises RetrogradError RG0605 for an opcode of another table."""
    if TABLE.by_name.get(opcode.name) is not opcode:
        raise _no_name(f"the instruction `{opcode.name}`, which is of a table of its own,")
    return TABLE.__getitem__, (opcode.name,)


# Opcodes are compared by identity, so a pickle names the opcode of TABLE. Registered here, since entries.py is below the table.
copyreg.pickle(Opcode, _reduced)  # type: ignore[arg-type]


def _no_name(what: str) -> RetrogradError:
    message = f"{what} has no name by which another process could find it"
    return RetrogradError(
        Diagnostic("RG0605", message, hint="Make the table, and the program, in the process that runs it.")
    )
