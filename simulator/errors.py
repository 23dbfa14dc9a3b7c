"""Kinds of errors of machines, beside the traps of instructions (`isa/errors.py`), and of technology models."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0410", "execution left the code", "PC is outside the program.",
     "Verify the program: control falls or jumps out of its code."),
    ("RG0420", "step limit reached", "The run used up its allowance of steps. It can continue from here in either direction.",
     "Allow more with --max-steps."),
    ("RG1101", "no such technology model", "Energy is priced by a technology model, and no model of this name comes with Retrograd.",
     "`retrograd energy --models` lists the models. A file of yours is named by its path."),
    ("RG1102", "not a technology file", "A technology file is TOML whose first key names its schema.",
     "docs/energy.md shows an example. Correct the syntax."),
    ("RG1103", "unknown key or value in a technology file", "Every key has a meaning, and some keys have only a few values. A misspelt key would "
     "silently be missing.",
     "docs/energy.md lists keys, causes, laws and kinds of evidence."),
    ("RG1104", "something missing in a technology file", "A figure has a value, a unit, a source and its kind of evidence; a charge has a cause, a "
     "label and a law with all its figures.",
     "Add it. A figure of the device that the user of the model must supply is left open: `open = true`."),
    ("RG1105", "wrong unit in a technology file", "The unit of a figure must measure the quantity that the law needs.",
     "Give the figure in a unit of that quantity, such as pJ, zJ, GHz, fF, kohm, K."),
    ("RG1106", "impossible figure in a technology file", "Figures are finite and not negative. Temperatures and clocks are above zero and within "
     "limits that keep prices finite. A range holds its value: low ≤ value ≤ high.",
     "Correct the number, and check its unit."),
    ("RG1107", "named twice in a technology file", "An id names one model, a label one charge of a cause, and a size one figure.",
     "Rename one of the two, or merge them."),
    ("RG1108", "outside the model", "The figures of a model hold for some temperatures and clocks, and would be wrong numbers elsewhere.",
     "Choose a temperature or clock within the model's range, or a model that has figures there."),
    ("RG1109", "figure that cannot be given", "Only figures that a model leaves open or assumes can be supplied, by name and with a unit of the same "
     "quantity.",
     "For example: --figure resistance=10kohm"),
    ("RG1110", "not a file of gate counts", "A file of gate counts is JSON of the schema retrograd.gates/1, which the synthesis of the hardware writes.",
     "Write it again by synthesis of the hardware."),
    ("RG1112", "below a thermodynamic bound", "Erasing a bit dissipates at least kT ln 2 (Landauer), and moving heat from a cold place to a warm place "
     "takes at least the work of Carnot's engine. No machine can do less.",
     "Correct the figure, including its low end, or the temperatures of the model. `1 kT ln2` is the bound of erasure at any temperature."),
    ("RG1113", "models of different scope", "A model prices some parts of a system: logic, leakage, clock, memory, erasure, cooling, the overhead of instructions. A price with "
     "a part beside a price without it is no comparison of technologies.",
     "Compare models of equal scope, or the parts that they have in common: `--scope common`, or their names, such as `--scope logic,memory`."),
    ("RG1114", "not the activity of this run", "A file of switching activity is JSON of the schema retrograd.activity/1, which a run on the simulated "
     "co-processor writes. It is of one format and one core, and prices by models that charge for cells that switch.",
     "Measure it: `retrograd hdl run PROGRAM --activity FILE.json`, in the format and on the core of the price."),
)  # fmt: skip
