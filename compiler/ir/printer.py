"""The IR as text, for people: one statement a line, inner blocks indented.

    procedure complex_log(re: fixed, im: fixed, x: fixed, y: fixed)
      within r
        local n: fixed
        fmul.add n, x, x
      do
        flog.add re, n

A variable keeps its name; further ones of the same name in the same procedure are numbered. Nothing reads this text back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from retrograd.compiler.ir import statements as ir
from retrograd.isa.encoding import address_text
from retrograd.isa.words import Q32_32, Format

_RELATIONS = {"eq": "=", "ne": "≠", "lt": "<", "ge": "≥", "ltu": "<ᵤ", "geu": "≥ᵤ"}
_INDENT = "  "
#: words of a region that are shown
_SHOWN = 8


def as_text(module: ir.Module) -> str:
    """The whole module: format, memory, procedures by name, entry."""
    w = module.format
    out = [f"format {w}"]
    out.append(
        f"memory {module.memory}"
        + (f", stack {module.stack}" if module.stack else "")
        + (f", above {module.above}" if module.above else "")
    )
    for region in module.regions:
        where = "" if region.address is None else f" at {region.address}"
        out.append(f"region {region.name}[{region.size}]{where}" + _data_text(region, w))
    for name in sorted(module.procedures):
        out += ["", *_procedure_lines(module.procedures[name], w)]
    out += ["", "entry", *_Writer(w).block(module.entry, 1)]
    return "\n".join(out) + "\n"


def block_text(block: ir.Block, w: Format = Q32_32) -> str:
    """Some statements on their own."""
    return "".join(line + "\n" for line in _Writer(w).block(block, 0))


def relation_text(test: ir.Test, w: Format = Q32_32) -> str:
    """A test on its own."""
    return _Writer(w).test(test)


def _data_text(region: ir.Region, w: Format) -> str:
    if not region.data:
        return ""
    shown = ", ".join(_integer(word, w) for word in region.data[:_SHOWN])
    return f" = {shown}" + (", …" if len(region.data) > _SHOWN else "")


def _procedure_lines(procedure: ir.Procedure, w: Format) -> Iterator[str]:
    writer = _Writer(w)
    params = ", ".join(f"{writer.name(p)}: {p.kind.value}" for p in procedure.params)
    regions = "".join(f", {r.name}[{r.size}]" for r in procedure.regions)
    changed = ", ".join(writer.name(p) for i, p in enumerate(procedure.params) if i in procedure.written)
    notes = ["recursive"] * procedure.recursive + ([f"changes {changed}"] if changed else [])
    note = f"  ; {', '.join(notes)}" if notes else ""
    yield f"procedure {procedure.name}({(params + regions).removeprefix(', ')}){note}"
    yield from writer.block(procedure.body, 1)


def _integer(word: int, w: Format) -> str:
    value = w.signed(word)
    return str(value) if abs(value) < 1 << 20 else hex(value)


def _fixed(word: int, w: Format) -> str:
    """The shortest decimal that means this word, as the assembler reads it."""
    text = repr(float(w.to_real(word)))
    whole = text.removesuffix(".0")
    if not -w.sign <= Fraction(whole) * (1 << w.frac) < w.sign or w.from_real(Fraction(whole)) != word & w.mask:
        return _integer(word, w)
    return f"{whole}q"


class _Writer:
    """Names of the variables of one procedure, given in order of appearance."""

    def __init__(self, w: Format) -> None:
        self.w = w
        self.names: dict[ir.Var, str] = {ir.SP: ir.SP.name}
        self.taken = {ir.SP.name}
        self.counts: dict[str, int] = {}

    def name(self, var: ir.Var) -> str:
        if var not in self.names:
            name = var.name
            while name in self.taken:
                self.counts[var.name] = self.counts.get(var.name, 1) + 1
                name = f"{var.name}.{self.counts[var.name]}"
            self.names[var] = name
            self.taken.add(name)
        return self.names[var]

    def operand(self, operand: ir.Operand, fixed: bool = False) -> str:
        if isinstance(operand, ir.Var):
            return self.name(operand)
        return _fixed(operand.word, self.w) if fixed else _integer(operand.word, self.w)

    def test(self, test: ir.Test) -> str:
        fixed = any(isinstance(x, ir.Var) and x.kind is ir.Kind.FIXED for x in (test.a, test.b))
        return f"{self.operand(test.a, fixed)} {_RELATIONS[test.cc]} {self.operand(test.b, fixed)}"

    def block(self, block: Sequence[ir.Node], depth: int) -> list[str]:
        lines: list[str] = []
        for node in block:
            lines += self.node(node, depth)
        return lines

    def node(self, node: ir.Node, depth: int) -> list[str]:
        indent = _INDENT * depth
        match node:
            case ir.Op():
                return [indent + self.op(node)]
            case ir.Local(var, checked):
                return [f"{indent}local {self.name(var)}: {var.kind.value}{'  ; checked' * checked}"]
            case ir.Delocal(var, checked):
                return [f"{indent}delocal {self.name(var)}{'  ; checked' * checked}"]
            case ir.Within(compute, body, name):
                inside, then = self.block(compute, depth + 1), self.block(body, depth + 1)
                return [f"{indent}within {name or ''}".rstrip(), *inside, f"{indent}do", *then]
            case ir.If(test, then_block, orelse, post):
                lines = [f"{indent}if {self.test(test)}", *self.block(then_block, depth + 1)]
                if orelse:
                    lines += [f"{indent}else", *self.block(orelse, depth + 1)]
                return [*lines, f"{indent}fi {self.test(post)}"]
            case ir.While(test, body, post):
                lines = [f"{indent}while {self.test(test)}", *self.block(body, depth + 1)]
                return [*lines, f"{indent}again {self.test(post)}"]
            case ir.For(body=body):
                return [indent + self.loop(node), *self.block(body, depth + 1)]
            case ir.Call(procedure, args, regions, backward):
                inside_brackets = [self.operand(arg) for arg in args] + [r.name if r else "any" for r in regions]
                return [f"{indent}{'uncall' if backward else 'call'} {procedure}({', '.join(inside_brackets)})"]
            case ir.Check(test, code, message, _, of):
                of_which = f" for derivatives of {', '.join(map(self.operand, of))}" if of else ""
                return [f"{indent}check {self.test(test)}{of_which}  ; {code} {message}"]
            case ir.External(number, _, args):
                seen = f"({', '.join(self.operand(arg) for arg in args)})" if args else ""
                return [f"{indent}external {number}{seen}"]

    def loop(self, node: ir.For) -> str:
        bounds = [self.operand(node.start), self.operand(node.stop)] + ([str(node.step)] if node.step != 1 else [])
        values = f"range({', '.join(bounds)})"
        if node.backward:
            values = f"reversed({values})"
        return f"for {self.name(node.var)} in {values}{'  ; at least once' * node.some}"

    def op(self, op: ir.Op) -> str:
        """The instruction as the assembler writes it, with names for registers."""
        written: list[str] = []
        variables = [x for x in (op.d, op.a, op.b) if isinstance(x, ir.Var)]
        memory = "[ra+imm]" in op.opcode.operands
        fixed = op.opcode.group == "fixed" or any(x.kind is ir.Kind.FIXED for x in variables)
        fields = {"rd": op.d, "ra": op.a, "rb": op.b}
        for kind in op.opcode.operands:
            if kind == "[ra+imm]":
                written.append(self.word_of_memory(op))
            elif kind in ("imm", "target"):
                is_fixed = op.opcode.entry.name == "imm" and fixed
                written.append(_fixed(op.imm, self.w) if is_fixed else str(op.imm))
            else:
                operand = fields[kind]
                # An address in a memory instruction is an integer, also where the word holds another kind.
                written.append(
                    "?" if operand is None else self.operand(operand, fixed and not (memory and kind == "ra"))
                )
        return f"{op.opcode.name} {', '.join(written)}"

    def word_of_memory(self, op: ir.Op) -> str:
        """`table[3]` where the place is known, `table[i + 8]` with the address that is meant, `[i]` in no known region."""
        name = "" if op.region is None else op.region.name
        if isinstance(op.a, ir.Const):
            address = self.w.signed(op.a.word + op.imm)
            if op.region is not None and op.region.address is not None:
                return f"{name}[{address - op.region.address}]"
            return f"{name}[{address}]" if not name else f"[{address}] of {name}"
        base = "0" if op.a is None else self.name(op.a)
        constant = op.imm
        if op.region is not None and op.region.address is not None and constant >= op.region.address:
            # The array begins at its own address, which is a part of the constant.
            return f"{name}[{base}{address_text(constant - op.region.address)}]"
        return f"[{base}{address_text(constant)}]" + (f" of {name}" if name else "")
