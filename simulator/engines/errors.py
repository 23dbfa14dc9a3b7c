"""Kinds of errors of engines and GPUs."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1001", "no such engine", "The name is not that of an engine, or not of an engine for this kind of run.",
     "Leave the engine to `auto`, or name one of: reference, native, threaded, translated, cuda."),
    ("RG1002", "no CUDA device", "The CUDA engine runs on an NVIDIA GPU, through numba-cuda and the GPU's driver. The GPU, the driver or "
     "the package is missing, or does not start.",
     "`retrograd devices` lists the devices. The CPU runs every program."),
    ("RG1003", "code not accepted by the CUDA driver", "The driver translates PTX for the GPU. It accepts no PTX that is newer than the driver, or "
     "made for a newer GPU.",
     "Update the driver if it is older. Otherwise this is a fault of Retrograd: please report it with the program."),
    ("RG1004", "out of device memory", "Every instance of the program, and every other process, has its data in device memory.",
     "Run fewer instances at a time, or end other processes on the device: `nvidia-smi` lists them."),
    ("RG1005", "a CUDA call failed", "A call of the driver failed. The device works asynchronously, so the failed operation may be one that was "
     "started earlier.",
     "Start the process again; if it fails again, please report it with the program."),
    ("RG1006", "array cannot be used on the device", "An array on a device is used in place, so it must be on the same device, contiguous, and of a "
     "type that the program takes.",
     "Convert it with the library that made it, or pass a NumPy array, which is copied."),
)  # fmt: skip
