"""Kinds of errors of engines and GPUs."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1001", "no such engine", "A run names what runs it; this is none of the engines there are, or not one for such a run.",
     "Leave the engine to `auto`, or name one of: reference, native, threaded, translated, cuda."),
    ("RG1002", "no CUDA device", "The CUDA engine runs on an NVIDIA GPU, through the driver that comes with it; one of the two is missing or does not start.",
     "`retrograd devices` says what there is to run on; the CPU runs every program."),
    ("RG1003", "code not accepted by the CUDA driver", "The driver translates PTX for the device that it has; it takes no PTX that is newer than it is, or made for a newer device.",
     "Update the driver if it is the older; else this is a fault of Retrograd's: please report it with the program."),
    ("RG1004", "out of device memory", "Every instance has its data on the device, and so have other processes.",
     "Run fewer instances at a time, or end what else is on the device: `nvidia-smi` lists it."),
    ("RG1005", "a CUDA call failed", "The driver did not do what it was asked for. Work on the device is done later than it is asked for, and a later call tells that it failed.",
     "Start the process again; if it fails again, please report it with the program."),
    ("RG1006", "array cannot be used on the device", "An array on a device is used where it lies, as it lies: on the same device, contiguous, of a type that the program takes.",
     "Bring it into that form with the library that it is from, or pass a NumPy array: that is copied."),
)  # fmt: skip
