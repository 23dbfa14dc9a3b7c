from retrograd.hdl.reversible.formats import netlist
from retrograd.hdl.reversible.lowering import lower
from retrograd.hdl.reversible.verification import difference
from retrograd.isa.table import TABLE

from retrograd import Format

first, second = (netlist(lower(TABLE["mul.add"], Format(8, 4), strategy=s)) for s in ("bennett", "eager"))
difference(first, second, seconds=0.001)
