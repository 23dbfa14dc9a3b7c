"""Retrograd: programs that run backward, exactly.

>>> import retrograd as rg
>>> machine = rg.Machine(rg.assemble("start\\n add r1, 5\\n mul.add r2, r1, r1\\n finish"))
>>> machine.run().steps, machine.registers[2]
(3, 25)
>>> machine.run_back().steps, machine.registers[2]
(3, 0)
"""

from retrograd.lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__, __file__)
