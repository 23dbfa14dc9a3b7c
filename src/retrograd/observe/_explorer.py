"""`rg.explore`: a run is recorded and shown on a page that steps through it in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.compiler.compiled import Options, Precision
from retrograd.derivatives._gradients import LossFunction
from retrograd.derivatives._requests import way_back
from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.files import write_file
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.observe._timeline import STEPS, Recorder, Recording
from retrograd.observe._traces import exploration, frame, kanata, page, perfetto, vcd
from retrograd.runtime._execution import Request
from retrograd.runtime._reversible import Inverse, Reversible, request_of
from retrograd.simulator.energy.pricing import PricingContext, pricing_context
from retrograd.simulator.energy.technology import Technology
from retrograd.simulator.machine import Machine

if TYPE_CHECKING:
    from retrograd.observe._notebook import ExplorerWidget

#: format -> suffixes of its files
FORMATS = {
    "html": (".html", ".htm"),
    "json": (".json",),
    "vcd": (".vcd",),
    "kanata": (".kanata", ".log"),
    "perfetto": (".pftrace", ".perfetto-trace"),
}
#: the height of the frame in a notebook, in pixels
HEIGHT = 900


@dataclass(frozen=True)
class Exploration:
    """A recorded run. A notebook shows it, as `widget` or in a frame; `save` writes it as one HTML file, which needs no network."""

    name: str
    recording: Recording
    prices: PricingContext

    def __repr__(self) -> str:
        """The name, the number of steps, and whether the run goes on. The recording itself may have millions of words."""
        more = "; the run goes on: `steps=` records more" if self.recording.end == "limit" else ""
        return f"<Exploration of {self.name}: {len(self.recording.steps)} steps{more}>"

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.exploration/1."""
        return {"name": self.name, **exploration(self.recording, self.prices)}

    @cached_property
    def html(self) -> str:
        """The page."""
        return page(self.as_dict(), self.name)

    @cached_property
    def widget(self) -> ExplorerWidget:
        """The explorer of a notebook, with the step that it shows: `widget.step = 700` goes there. Raises InputError RG0515 without anywidget."""
        try:
            from retrograd.observe._notebook import ExplorerWidget
        except ImportError:
            hint = "`pip install 'retrograd[notebook]'` installs it"
            raise InputError(Diagnostic("RG0515", "the package anywidget is not installed", hint=hint)) from None
        return ExplorerWidget(self.as_dict())

    def written(self, format: str) -> bytes:
        """The recording in one of `FORMATS`. Raises InputError RG0507 for another."""
        match format:
            case "html":
                return self.html.encode()
            case "json":
                return json.dumps(self.as_dict(), separators=(",", ":")).encode() + b"\n"
            case "vcd":
                return vcd(self.recording)
            case "kanata":
                return kanata(self.recording)
            case "perfetto":
                return perfetto(self.recording, self.prices, self.name)
        raise InputError(
            Diagnostic("RG0507", f"`{format:.40}` is no format of a recording", hint=nearest(format, FORMATS))
        )

    def save(self, path: str | PathLike[str], format: str | None = None) -> None:
        """Write the recording, atomically, in the format that the file's suffix stands for, or in `format`.

        .html: the page; .json: schema retrograd.exploration/1; .vcd: for GTKWave and Surfer; .kanata: for Konata; .pftrace: for Perfetto.
        Raises InputError RG0507 for another suffix, RG0501 if the file cannot be written.
        """
        write_file(Path(path), self.written(format or format_of_file(path)))

    def _repr_html_(self) -> str:
        return frame(self.html, HEIGHT)

    def _repr_mimebundle_(self, **formats: Any) -> dict[str, Any]:
        """The widget, which a notebook prefers to `_repr_html_`; without anywidget there is only that frame."""
        try:
            data, _ = self.widget._repr_mimebundle_(**formats)
        except InputError:
            return {}
        return {format: view for format, view in data.items() if format != "text/plain"}


def format_of_file(path: str | PathLike[str]) -> str:
    """The format that the suffix of a file stands for. Raises InputError RG0507."""
    suffix = Path(path).suffix.lower()
    found = next((name for name, suffixes in FORMATS.items() if suffix in suffixes), None)
    if found is None:
        known = ", ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
        raise InputError(
            Diagnostic("RG0507", f"{Path(path).name}: the suffix stands for no format", hint=f"known are {known}")
        )
    return found


def explore(
    f: Reversible | Inverse | Callable[..., Any] | Program | Machine,
    /,
    *args: Any,
    steps: int = STEPS,
    tech: str | Path | Technology = "landauer",
    format: Format | str | None = None,
    options: Options | None = None,
    precision: Precision | None = None,
    **keywords: Any,
) -> Exploration:
    """Run a reversible function on these arguments, record up to `steps` steps, and show them step by step, in both directions.

    `f`: a reversible function or its inverse; a result of `rg.grad` or `rg.value_and_grad`, whose run goes forward, turns, and comes back
    with cotangents; a program; or a machine, which runs on from where it stands. `tech`: the technology model of the energy curve.
    A trap does not raise: the recording ends there and shows it. The page and the representation state that a run goes on. Trap: recording takes about five microseconds a step, and the page
    about 40 bytes.
    Raises CompileError, InputError RG0603 for anything else.

        >>> rg.explore(rg.grad(f, loss="y"), 0.0, [1.0, 2.0]).save("f.html")
    """
    if steps < 1:
        raise InputError(Diagnostic("RG0507", f"`steps` is {steps}: a recording has 1 step or more"))
    if isinstance(f, Program | Machine):
        machine = f if isinstance(f, Machine) else Machine(f)
        return explored("program", machine, steps, tech)
    if isinstance(f, Reversible | Inverse):
        request = request_of(f, engine="reference", format=format, options=options, precision=precision)
        values = request.values(args, keywords)
        compiled = request.compiled(values)
        return explored(f.__name__, request.machine(compiled, values), steps, tech)
    if isinstance(f, LossFunction):
        return _gradient(f, f.request.changed("reference", format, precision, options), args, keywords, steps, tech)
    name = getattr(f, "__name__", None) or f"{f!r:.40}"
    hint = "reversible functions, results of rg.grad and rg.value_and_grad, programs and machines can be explored"
    raise InputError(Diagnostic("RG0603", f"`{name}` has no single run to show", hint=hint))


def explored(name: str, machine: Machine, steps: int, tech: str | Path | Technology) -> Exploration:
    """The recording of the next steps of a machine."""
    recorder = Recorder(machine, machine.retired)
    recorder.run(steps)
    return Exploration(name, recorder.recording, pricing_context(tech, machine.format))


def _gradient(
    f: LossFunction,
    request: Request,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    steps: int,
    tech: str | Path | Technology,
) -> Exploration:
    """Forward with D = 0, and where the run ends within the limit, back with D = 1."""
    values = request.values(args, {**keywords, **f.zeros})
    turned = way_back(request, values)
    compiled = turned.compiled
    machine = request.machine(compiled, values)
    recorder = Recorder(machine)
    if recorder.run(steps):
        turned.begin(machine)
        recorder.begin_differentiating()
        recorder.run(steps)
    return Exploration(f.__name__, recorder.recording, pricing_context(tech, machine.format))
