"""The results of the GPU benchmark as text: a line for each measurement, and tables in Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from retrograd.presentation import markdown


@dataclass
class Report:
    """The content of the JSON."""

    machine: dict[str, Any] = field(default_factory=dict)
    #: for each check: name, instances, failed instances, whether all bits are the same
    identical: list[dict[str, Any]] = field(default_factory=list)
    #: for each workload and system: milliseconds, error
    times: list[dict[str, Any]] = field(default_factory=list)
    #: for each instruction, and for whole programs
    counts: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    #: parts that ended with an error, and its text; the other parts are run
    failed: list[dict[str, str]] = field(default_factory=list)
    #: the time, of a monotonic clock, from which on no part begins
    until: float | None = None


def line(row: dict[str, Any]) -> str:
    ns = 1e6 * row["kernel_ms"] / row["instances"]
    copies = f", copies {row['copies_ms']:.3f} ms" if "copies_ms" in row else ""
    return f"{row['workload']}, {row['system']}: {row['kernel_ms']:.3f} ms, {ns:.2f} ns each{copies}, error {row['error']:.0e}"


#: the workloads that are measured on a device
WORKLOADS = (
    "Bessel J₂, and its slope",
    "BA errors of 9,125,125 measurements, and their Jacobian blocks",
    "graph embedding, and its gradient",
    "Gaussian mixture, and its gradient",
    "leapfrog, nine bodies, and its gradient",
    "wave on 2048 × 2048 cells, forward, back, and its gradient: single runs",
)
HEAD = (
    "workload",
    "system",
    "on the device, ms",
    "ns each",
    "copies, ms",
    "with the host, ms",
    "our cores, ms",
    "error",
    "",
)


def section(found: dict[str, Any] | None) -> str:
    """The part of the page docs/benchmarks.md; `found` is None where a run had no `--gpu`."""
    if found is None:
        return _not_measured("the run had no `--gpu`")
    lines = []
    m = found["machine"]
    if "device" in m:
        lines += [
            f"On one {m['device']} ({m['capability']}, {m['multiprocessors']} multiprocessors), CUDA {m['cuda']}.",
            "",
        ]
        if m["fake"]:
            lines += ["*The device is none: times mean nothing.*", ""]
        same = sum(row["same"] for row in found["identical"])
        instances = sum(row["instances"] for row in found["identical"])
        lines += [
            f"Bits: {same} of {len(found['identical'])} batches and runs ({instances:,} instances) are the same as on the CPU.",
            "",
            markdown([HEAD, *map(_cells, found["times"])], range(2, 8)),
        ]
    else:
        lines.append(_not_measured(found["absent"]["device"]))
    counted = {} if not found["counts"] else found["counts"]["programs"]
    if counted:
        keys = list(dict.fromkeys(key for counts in counted.values() for key in counts))
        rows = [[name, *(str(counts.get(key, "")) for key in keys)] for name, counts in counted.items()]
        title = f"Instructions of whole kernels of batches for {found['counts']['arch']}, and registers and local bytes of a thread:"
        lines += ["", title, "", markdown([["program", *keys], *rows], range(1, len(keys) + 1))]
    differing = [f"Different bits: {row['name']}." for row in found["identical"] if not row["same"]]
    differing += [f"Failed: {row['what']}: {row['error']}" for row in found["failed"]]
    absent = [f"Absent: {name} ({why})." for name, why in found["absent"].items() if name != "device"]
    return "\n".join([*lines, *(["", *differing] if differing else []), *(["", *absent] if absent else [])])


def _cells(row: dict[str, Any]) -> list[str]:
    def milliseconds(key: str) -> str:
        return f"{row[key]:.2f}" if key in row else "–"

    each = 1e6 * row["kernel_ms"] / row["instances"]
    return [
        row["workload"], row["system"], f"{row['kernel_ms']:.3f}", f"{each:.2f}", milliseconds("copies_ms"),
        milliseconds("wall_ms"), milliseconds("cores_ms"), f"{row['error']:.0e}", row["note"],
    ]  # fmt: skip


def _not_measured(why: str) -> str:
    rows = [["workload", "on a GPU"], *([name, "not measured"] for name in WORKLOADS)]
    return f"Not measured: {why.rstrip('.')}.\n\n{markdown(rows)}"


def instructions_table(counts: dict[str, Any]) -> str:
    """PTX and machine instructions of each ISA instruction, as counted."""
    keys = list(dict.fromkeys(key for found in counts["instructions"].values() for key in found))
    rows = [[name, *(str(found.get(key, "")) for key in keys)] for name, found in counts["instructions"].items()]
    return markdown([[counts["arch"], *keys], *rows], range(1, len(keys) + 1))
