from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.instructions import OwnInstruction
from retrograd.isa.table import TABLE

OwnInstruction(TABLE["fmul.add"].entry, 2, Kind.FIXED)(2.0, 3.0)
