"""The results of the GPU benchmark as text: a line for each measurement, and tables in Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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


def line(row: dict[str, Any]) -> str:
    ns = 1e6 * row["kernel_ms"] / row["instances"]
    copies = f", copies {row['copies_ms']:.3f} ms" if "copies_ms" in row else ""
    return f"{row['workload']}, {row['system']}: {row['kernel_ms']:.3f} ms, {ns:.2f} ns each{copies}, error {row['error']:.0e}"


def markdown(report: Report) -> str:
    """The tables for docs/benchmarks.md."""
    m, lines = report.machine, []
    if "device" in m:
        lines += [
            f"On one {m['device']} ({m['capability']}, {m['multiprocessors']} multiprocessors), CUDA {m['cuda']}:",
            "",
        ]
        if m["fake"]:
            lines += ["*The device is none: times mean nothing.*", ""]
        same = sum(row["same"] for row in report.identical)
        instances = sum(row["instances"] for row in report.identical)
        lines += [
            f"Bits: {same} of {len(report.identical)} batches ({instances} instances) are the same as on the CPU.",
            "",
        ]
        lines += [
            "| workload | system | kernel, ms | ns each | copies, ms | error | |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in report.times:
            ns = 1e6 * row["kernel_ms"] / row["instances"]
            copies = f"{row['copies_ms']:.2f}" if "copies_ms" in row else "–"
            cells = (
                row["workload"],
                row["system"],
                f"{row['kernel_ms']:.3f}",
                f"{ns:.2f}",
                copies,
                f"{row['error']:.0e}",
                row["note"],
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    keys = list(
        dict.fromkeys(
            k for part in ("programs", "instructions") for found in report.counts[part].values() for k in found
        )
    )
    lines += [f"| {report.counts['arch']} | {' | '.join(keys)} |", "|---" * (len(keys) + 1) + "|"]
    for part in ("programs", "instructions"):
        for name, found in report.counts[part].items():
            lines.append(f"| {name} | {' | '.join(str(found.get(key, '')) for key in keys)} |")
    differing = [f"Different bits: {row['name']}." for row in report.identical if not row["same"]]
    lines += ["", *differing, *(f"Failed: {row['what']}: {row['error']}" for row in report.failed)]
    lines += ["", *(f"Absent: {name} ({why})." for name, why in report.absent.items())]
    return "\n".join(lines).rstrip()
