"""`retrograd bench`: workloads checked, timed beside other systems, and held against an earlier run."""

from __future__ import annotations

import functools
import json
import math
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from retrograd.cli.arguments import parse_arguments
from retrograd.cli.batches import distribution_of
from retrograd.cli.files import function_and_inverse, is_function, load_program
from retrograd.cli.options import Parser, fail
from retrograd.cli.records import FunctionOptions, SharingOptions
from retrograd.cli.report import as_dict, print_json
from retrograd.cli.terminal import OK, WRONG
from retrograd.isa.diagnostics import DeviceError, nearest
from retrograd.isa.files import check_output, write_file
from retrograd.isa.program import Program
from retrograd.presentation import columns
from retrograd.simulator.engines.cuda.runtime import (
    CPU_RUNS,
    Device,
    devices,
    driver_version,
    memory_of_device,
    size_text,
    version_text,
)


class BenchOptions(SharingOptions):
    json: str | None
    workloads: Sequence[str]
    quick: bool
    peers: str
    data: str | None
    full: bool
    from_: str | None
    gpu: bool
    fake: bool
    minutes: float | None
    papers: bool
    report: str | None
    check: str | None


def arguments_of_bench(p: Parser) -> None:
    """Options of `retrograd bench`."""
    p.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help="those that are run (default: all, and the toolchain)"
    )
    p.add_argument("--quick", action="store_true", help="small sizes, few repeats: a minute or two")
    p.add_argument(
        "--peers", metavar="A,B", default="",
        help="other systems: numpy, numba, enzyme, casadi, warp, jax, torch, autograd, or all; pip install 'retrograd[bench]'",
    )  # fmt: skip
    p.add_argument("--data", metavar="FOLDER", help="ADBench's files, with folders ba and gmm: larger sizes")
    p.add_argument("--full", action="store_true", help="bundle adjustment at all sizes of --data, piece by piece: long")
    p.add_argument("--json", metavar="FILE", help="write all that was found (schema retrograd.bench/3); - prints it")
    p.add_argument(
        "--from", dest="from_", metavar="FILE", help="take the figures from such a file: nothing is measured"
    )
    p.add_argument(
        "--gpu", action="store_true", help="measure the workloads of a GPU in place of the processor's, beside jax and Warp; "
        "without a device, only the code of kernels; --report replaces this part of the page",
    )  # fmt: skip
    p.add_argument(
        "--fake", action="store_true", help="of --gpu: tiny sizes under Numba's CUDA simulator; times mean nothing"
    )
    p.add_argument(
        "--minutes", type=float, metavar="M", help="of --gpu: leave out the parts that would begin after M minutes, and name them"
    )  # fmt: skip
    p.add_argument(
        "--papers", action="store_true", help="measure the tables of the papers in place of the workloads, named by WORKLOAD: "
        "published values beside ours; rows that the store has are not measured again",
    )  # fmt: skip
    p.distribution_options(
        "workloads are kept there, and not run again; of --papers: measured rows (default: that of --report)"
    )
    p.add_argument(
        "--report",
        metavar="FOLDER",
        help="write benchmarks.md there, its pictures and figures to benchmarks/, and figures of small sizes for --check",
    )
    p.add_argument(
        "--check", metavar="FILE", help="compare ratios and counts with such a file; exit code 1 if any is worse"
    )
    p.size_options()


def execute_bench(options: BenchOptions) -> int:
    """Measure or read, show, write, compare."""
    _check(options)
    from retrograd.benchmarks import reporting

    # Errors in files are reported before anything is measured.
    before = None if options.check is None else reporting.read(Path(options.check))
    folder = None if options.report is None else Path(options.report)
    if folder is not None and not folder.is_dir():
        raise fail(
            "RG0501", f"{options.report}: no such folder", "--report takes the folder that the page is written to"
        )
    if options.json not in (None, "-"):
        check_output(options.json)
    if options.gpu:
        return _on_gpu(options, folder)
    if options.papers:
        return _tables(options, folder)
    document = reporting.read(Path(options.from_)) if options.from_ is not None else _measured(options)
    if options.json == "-":
        print_json(document["schema"], document, indent=1)
    else:
        if options.json is not None:
            write_file(options.json, json.dumps(document, indent=1) + "\n")
        from retrograd.benchmarks.page import table

        print(table(document))
    if folder is not None:
        from retrograd.benchmarks import page

        written = page.write(document, folder)
        if options.from_ is None and not options.quick:
            written.append(folder / "benchmarks" / page.QUICK)
            small = _afresh(options.workloads)
            write_file(written[-1], json.dumps(small, indent=1) + "\n")
        for path in written:
            print(f"wrote {path}", file=sys.stderr)
    again = None if options.from_ is not None else functools.partial(_again, quick=options.quick)
    return _verdict(document, before, again)


def _on_gpu(options: BenchOptions, folder: Path | None) -> int:
    """Measure on a GPU, show and write the results; exit code 1 where bits differ or a part has failed."""
    from retrograd.benchmarks.gpu import measured
    from retrograd.benchmarks.page import instructions_table, section

    found = measured(
        quick=options.quick, fake=options.fake, minutes=options.minutes, say=lambda line: print(line, file=sys.stderr, flush=True)
    )  # fmt: skip
    if options.json == "-":
        print_json(found["schema"], found, indent=1)
    else:
        if options.json is not None:
            write_file(options.json, json.dumps(found, indent=1, default=str) + "\n")
        print(section(found))
        if found["counts"]:
            print(f"\n{instructions_table(found['counts'])}")
    if folder is not None:
        from retrograd.benchmarks import page

        for path in page.write_gpu(found, folder):
            print(f"wrote {path}", file=sys.stderr)
    return WRONG if found["wrong"] else OK


def _tables(options: BenchOptions, folder: Path | None) -> int:
    """Measure the papers' tables; exit code 1 where a row has failed."""
    from retrograd.benchmarks import papers
    from retrograd.benchmarks.papers import TABLES, failed, measure
    from retrograd.benchmarks.peers import chosen

    named = {t.name: t for t in TABLES}
    for name in options.workloads:
        if name not in named:
            raise fail(
                "RG1201", f"there is no table `{name[:60]}`", nearest(name, named) or f"tables: {', '.join(named)}"
            )
    place = options.store or (None if folder is None else str(folder / papers.STORE))
    if place is None:
        raise fail("RG0512", "--papers keeps what it measures: --store FILE, or --report FOLDER")
    check_output(place)
    tables = [t for name, t in named.items() if not options.workloads or name in options.workloads]
    peers = chosen([p for p in (options.peers or "").split(",") if p])
    data = None if options.data is None else Path(options.data)
    found = measure(Path(place), tables, data, peers, say=lambda line: print(line, file=sys.stderr, flush=True))
    if folder is None:
        print(papers.sections(found, tables))
    else:
        print(f"wrote {papers.write(found, folder)}", file=sys.stderr)
    for line in failed(found):
        print(f"FAILED: {line}", file=sys.stderr)
    return WRONG if failed(found) else OK


def _again(names: Sequence[str], quick: bool) -> dict[str, Any]:
    """A run of these workloads (none: all), without peers and without the toolchain."""
    from retrograd.benchmarks.run import run
    from retrograd.benchmarks.workload import Sizes
    from retrograd.benchmarks.workloads import ALL

    return run([w for w in ALL if not names or w.name in names], (), Sizes(quick))


def _use_cache(folder: str) -> None:
    os.environ["RETROGRAD_CACHE"] = folder


def _afresh(names: Sequence[str]) -> dict[str, Any]:
    """A quick run as a user starts it: in a process and with a cache of its own, which hold no optimised code of a full run."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    from tempfile import TemporaryDirectory

    with (
        TemporaryDirectory() as cache,
        ProcessPoolExecutor(1, get_context("spawn"), initializer=_use_cache, initargs=(cache,)) as pool,
    ):
        return pool.submit(_again, names, True).result()


def _verdict(
    document: dict[str, Any], before: dict[str, Any] | None, again: Callable[[Sequence[str]], dict[str, Any]] | None
) -> int:
    code = WRONG if document["wrong"] else OK
    if before is None:
        return code
    from retrograd.benchmarks import reporting

    found = reporting.compare(before, document)
    if again is not None:
        found = reporting.confirmed(before, found, again)
    for one in found.worse:
        print(f"WORSE: {one}", file=sys.stderr)
    apart = f"; {len(found.apart)} are in one of the runs only" if found.apart else ""
    print(f"{found.compared} ratios and counts compared, {len(found.worse)} worse{apart}", file=sys.stderr)
    return WRONG if found.worse else code


def _check(options: BenchOptions) -> None:
    """Raise InputError RG0501, RG0512 for options that exclude each other."""
    if options.fake and not options.gpu:
        raise fail("RG0512", "--fake is for --gpu")
    if options.minutes is not None and not options.gpu:
        raise fail("RG0512", "--minutes is for --gpu")
    if options.minutes is not None and not 0 <= options.minutes < math.inf:
        raise fail("RG0512", f"--minutes {options.minutes}: a number of minutes is 0 or more")
    if options.gpu:
        for name in ("workloads", "peers", "data", "full", "check", "from_", "workers", "scheduler", "store"):
            if getattr(options, name):
                shown = "a name of a workload" if name == "workloads" else f"--{name.rstrip('_')}"
                raise fail("RG0512", f"{shown} does not go with --gpu")
    if options.papers:
        for name in ("gpu", "quick", "full", "check", "from_", "json", "workers", "scheduler"):
            if getattr(options, name):
                raise fail("RG0512", f"--{name.rstrip('_')} does not go with --papers")
    if options.from_ is not None:
        for name in ("workloads", "quick", "full", "peers", "data", "workers", "scheduler", "store"):
            if getattr(options, name):
                shown = "names of workloads" if name == "workloads" else f"--{name}"
                raise fail(
                    "RG0512", f"--from takes figures from a file, and measures nothing: {shown} has no place here"
                )
    if options.full and options.quick:
        raise fail("RG0512", "--full is for all sizes, --quick for the smallest: choose one")
    if options.full and options.data is None:
        raise fail("RG0512", "--full needs ADBench's files: --data FOLDER")
    if options.data is not None:
        for part in ("ba", "gmm"):
            if not (Path(options.data) / part).is_dir():
                raise fail(
                    "RG0501",
                    f"{options.data}/{part}: no such folder",
                    "--data takes ADBench's folder with ba and gmm in it",
                )


def _measured(options: BenchOptions) -> dict[str, Any]:
    from retrograd.benchmarks.peers import PEERS, chosen
    from retrograd.benchmarks.run import run
    from retrograd.benchmarks.toolchain import PARTS
    from retrograd.benchmarks.workload import Sizes
    from retrograd.benchmarks.workloads import ALL

    names = {w.name: w for w in ALL}
    for name in options.workloads:
        if name not in names and name not in PARTS:
            known = [*names, *PARTS]
            raise fail(
                "RG1201",
                f"there is no workload `{name[:60]}`",
                nearest(name, known) or f"workloads: {', '.join(known)}",
            )
    wanted = options.workloads or [*names, *PARTS]
    listed = list(PEERS) if options.peers == "all" else [p for p in (options.peers or "").split(",") if p]
    peers = chosen(listed)
    sizes = Sizes(options.quick, None if options.data is None else Path(options.data), options.full)
    workloads = [w for name, w in names.items() if name in wanted]
    parts = [name for name in PARTS if name in wanted]
    over = distribution_of(options)
    with _progress(len(workloads) + len(parts)) as say:
        return run(workloads, peers, sizes, parts=parts, say=say, over=over)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, bool], None]]:
    """Progress: a bar on a terminal; elsewhere a line for each workload."""
    if not sys.stderr.isatty():

        def say(line: str, another: bool) -> None:
            if another:
                print(line, file=sys.stderr, flush=True)

        yield say
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total)
        begun = 0

        def tell(line: str, another: bool) -> None:
            nonlocal begun
            if another:
                shown.update(task, completed=begun)
                begun += 1
            shown.update(task, description=escape(line))

        yield tell


# -----------------------------------------------------------------------------
# `retrograd devices`: the processor and the CUDA devices, and the resources that the kernels of a program take on them.


class DevicesOptions(FunctionOptions):
    json: bool
    args: Sequence[str]
    program: str | None
    arch: str | None
    include: Sequence[str]


def arguments_of_devices(p: Parser) -> None:
    """Options of `retrograd devices`."""
    p.function_arguments(
        "of the function that --program names: examples of its arguments, where annotations leave types open"
    )
    p.add_argument(
        "--program", metavar="PROG", help="FILE.py:FUNCTION, assembly text or an image: resources of its kernels"
    )
    p.add_argument(
        "--arch", choices=("sm_80", "sm_90"), help="compute capability for --program without a device (default: sm_90)"
    )
    p.include_option()
    p.run_options("--format", "--dialect", "--entry")
    p.size_options()
    p.json_option("retrograd.devices/1")


def execute_devices(options: DevicesOptions) -> int:
    """Print the processor and the CUDA devices, or the reason for their absence. Only `--program` compiles."""
    for name in ("arch", "format", "args", "include"):
        if options.program is None and getattr(options, name):
            shown = "an argument" if name == "args" else f"--{name}"
            raise fail("RG0512", f"{shown} belongs to --program, which is not given")
    found: tuple[Device, ...] = ()
    memories: list[float] = []
    version: str | None = None
    missing: DeviceError | None = None
    try:
        found = devices()
        served = driver_version()
        version = None if served is None else version_text(served)
        memories = [memory_of_device(device)[1] for device in found]
    except DeviceError as error:
        found, missing = (), error
    kernels = None if options.program is None else _program_kernels(options, found)
    if options.json:
        document = _as_json(version, found, memories, missing)
        print_json("retrograd.devices/1", document if kernels is None else document | {"program": kernels})
    else:
        print(_as_text(version, found, memories, missing))
        if kernels is not None:
            print(f"\n{_kernels_as_text(kernels)}")
    return OK


def _program(options: DevicesOptions) -> Program:
    """The program that `--program` names."""
    assert options.program is not None
    if not is_function(options.program):
        for name in ("args", "format"):
            if getattr(options, name):
                shown = "an argument" if name == "args" else "--format"
                raise fail("RG0512", f"{shown} is for functions, and `{options.program}` is a program")
        return load_program(options.program, options.include)
    function, inverse = function_and_inverse(options.program, options)
    arguments_of_devices, keywords = parse_arguments(options.args, function)
    program = function.compiled(*arguments_of_devices, **keywords).program
    return ~program if inverse else program


def _program_kernels(options: DevicesOptions, found: Sequence[Device]) -> dict[str, Any]:
    """The kernels of a program with their resources: on each device, or else by ptxas."""
    from retrograd.simulator.engines.cuda.kernel_report import (
        bytes_of_instance,
        program_kernels,
        resources,
        resources_on,
        toolkit_program,
    )

    program = _program(options)
    rows = []
    unknown = None if found or toolkit_program("ptxas") else "ptxas is not installed, and there is no device"
    for where in found or (None,):
        arch = where.target if where is not None else options.arch or "sm_90"
        for kernel in program_kernels(program, arch):
            taken = None
            if where is not None:
                taken = resources_on(kernel, where)
            elif unknown is None:
                try:
                    taken = resources(kernel, arch)
                except DeviceError as error:
                    unknown = error.diagnostics[0].message
            rows.append(
                {
                    "device": None if where is None else str(where), "target": arch, "kernel": kernel.name,
                    "use": kernel.use, "threads": kernel.threads, **({} if taken is None else asdict(taken)),
                }
            )  # fmt: skip
    return {
        "instructions": len(program.code),
        "instance_bytes": bytes_of_instance(program),
        "unknown": unknown,
        "kernels": rows,
    }


def _kernels_as_text(program: dict[str, Any]) -> str:
    head = ["kernel", "for", "target", "threads", "registers", "local bytes", "spilled", "occupancy"]
    rows = [head]
    for row in program["kernels"]:
        spilled, share = row.get("spilled"), row.get("occupancy")
        rows.append(
            [
                row["kernel"], row["use"], row["device"] or row["target"], str(row["threads"]), str(row.get("registers", "–")),
                str(row.get("local_bytes", "–")), "–" if spilled is None else str(spilled),
                "–" if share is None else f"{share:.0%}",
            ]
        )  # fmt: skip
    text = columns(rows, range(3, len(head)))
    size = size_text(program["instance_bytes"])
    text += f"\n\n{program['instructions']} instructions; an instance of a batch takes {size} of device memory."
    if program["unknown"] is not None:
        text += f"\nRegisters are unknown: {program['unknown']}. `pip install 'retrograd[ptx]'` installs ptxas."
    return text


def _as_text(version: str | None, found: tuple[Device, ...], memories: list[float], missing: DeviceError | None) -> str:
    cores = usable_cores()
    rows = [["cpu", processor(), f"{cores} core{'s' * (cores != 1)}"]]
    for d, memory in zip(found, memories, strict=False):
        simulated = d.clock == 0
        parts = f"{d.multiprocessors} multiprocessors at {d.clock / 1e6:.2f} GHz", size_text(memory)
        shown = ("runs on the processor", "") if simulated else parts
        rows.append([str(d), d.name, *shown, f"compute capability {version_text(d.capability)}"])
    width = max(map(len, rows))
    out = [columns([row + [""] * (width - len(row)) for row in rows]), ""]
    if missing is None and version is not None:
        out.append(f"The CUDA driver serves programs of CUDA {version} and older.")
    if missing is not None:
        reason = missing.diagnostics[0]
        out.append(f"No CUDA device: {reason.message}. {CPU_RUNS}")
        if reason.hint is not None and reason.hint != CPU_RUNS:
            out.append(reason.hint)
    folder = compiled_code()
    if folder is not None:
        out.append(f"Compiled code is kept in {folder}.")
    return "\n".join(out)


def _as_json(
    version: str | None, found: tuple[Device, ...], memories: list[float], missing: DeviceError | None
) -> dict[str, Any]:
    """Memory in bytes, the clock in kHz; `unavailable` is a finding, as of `retrograd verify`."""
    folder = compiled_code()
    return {
        "cpu": {
            "name": processor(),
            "architecture": platform.machine(),
            "cores": usable_cores(),
            "compiled_code": None if folder is None else str(folder),
        },
        "cuda": {
            "version": version,
            "devices": [
                {
                    "index": d.index,
                    "name": d.name,
                    "compute_capability": version_text(d.capability),
                    "memory": int(memory) if isfinite(memory) else None,
                    "multiprocessors": d.multiprocessors,
                    "clock": d.clock,
                }
                for d, memory in zip(found, memories, strict=False)
            ],
            "unavailable": None if missing is None else as_dict(missing.diagnostics[0]),
        },
    }


def usable_cores() -> int:
    """The cores that this process may use, which can be fewer than there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def processor() -> str:
    """The processor's name, from /proc/cpuinfo or the platform."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown processor"


def compiled_code() -> Path | None:
    """The folder in which compiled code is kept, or None."""
    from retrograd.simulator.engines.llvm.jit import cache_folder

    return cache_folder()
