"""`rg.Machine`: the reference machine; a program may also be given as the path of its file."""

from __future__ import annotations

from retrograd.isa import program
from retrograd.program_files import load_program
from retrograd.simulator.machine import Machine

__all__ = ["Machine"]

program.reader = load_program
