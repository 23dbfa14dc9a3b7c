from retrograd import fixed, reversible
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.instructions import OwnInstruction
from retrograd.isa.table import TABLE

area = OwnInstruction(TABLE["fmul.add"].entry, 2, Kind.FIXED)


@reversible
def f(y: fixed, x: fixed):
    y += area(x)


f(0.0, 1.0)
