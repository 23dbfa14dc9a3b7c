"""Kinds of errors of technology models."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1101", "no such technology model", "Energy is priced by a technology model; none that comes with Retrograd has this name.",
     "`retrograd energy --models` lists them; a file of your own is named by its path."),
    ("RG1102", "not a technology file", "A technology file is TOML, and its first key says that it is one.",
     "docs/energy.md shows one; mend the syntax."),
    ("RG1103", "unknown key or value in a technology file", "Every key has a meaning, and some have a few values only; what is misspelt would be missing without a word.",
     "docs/energy.md lists keys, causes, laws and kinds of evidence."),
    ("RG1104", "something missing in a technology file", "A figure has a value, a unit, a source and its kind of evidence; a charge has a cause, a label and a law with all its figures.",
     "Add it. A figure that is the device's, for whoever prices to give, is left open: `open = true`."),
    ("RG1105", "wrong unit in a technology file", "A figure's unit says what it measures, and the law says what must be measured.",
     "Give the figure in a unit of what is wanted, such as pJ, zJ, GHz, fF, kohm, K."),
    ("RG1106", "impossible figure in a technology file", "Figures are finite and not negative, temperatures and clocks above zero, each within limits that keep prices finite, and a range holds its value: low ≤ value ≤ high.",
     "Mend the number; look at its unit, too."),
    ("RG1107", "named twice in a technology file", "An id names one model, a label one charge of a cause, and a size one figure.",
     "Rename one of the two, or make one of them."),
    ("RG1108", "outside the model", "A model's figures are for some temperatures and clocks; elsewhere they would be wrong numbers.",
     "Choose a temperature or clock within the model's range, or a model that has figures there."),
    ("RG1109", "figure that cannot be given", "Figures are given for what a model leaves open or assumes, by name, with a unit that measures it.",
     "For example: --figure resistance=10kohm"),
    ("RG1110", "not a file of gate counts", "Gate counts are what synthesis of the hardware writes: JSON of the schema retrograd.gates/1.",
     "Let the hardware's synthesis write it anew."),
    ("RG1112", "below a thermodynamic bound", "Erasing a bit dissipates at least kT ln 2 (Landauer), and carrying heat from a cold place to a warm one takes at least the work of Carnot's engine; a model with less would price what no machine can do.",
     "Mend the figure, its low end too, or the temperatures that the model is for; `1 kT ln2` is the bound of erasing at any temperature."),
)  # fmt: skip
