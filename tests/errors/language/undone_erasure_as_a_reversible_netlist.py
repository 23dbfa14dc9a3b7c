from retrograd.hdl.reversible.lowering import lower
from retrograd.isa.table import TABLE

from retrograd import Format

lower(TABLE["unerase"], Format(8, 4))
