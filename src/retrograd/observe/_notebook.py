"""The explorer as a widget of a notebook, by anywidget: the component of the page, and the step that it shows.

    widget.step = n      the component goes to step n        a click, a key or the slider of the component      widget.step is that step

The widget is one module of script with its markup and style in it, which the kernel sends: it needs no network.
"""

from __future__ import annotations

import json
from typing import Any

import anywidget
import traitlets

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.observe._traces import parts


class ExplorerWidget(anywidget.AnyWidget):
    """A recording with the step that is shown. `observe(f, "step")` calls f when the step changes, on either side."""

    _esm = "const COMPONENT = {}, STYLE = {};\n{}{}".format(
        json.dumps(parts()["component.html"]),
        json.dumps(parts()["explorer.css"]),
        parts()["explorer.js"],
        parts()["notebook.js"],
    )
    #: JSON: schema retrograd.exploration/1
    recording = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int().tag(sync=True)

    def __init__(self, document: dict[str, Any]) -> None:
        self._first = document["first"]
        self._last = self._first + len(document["steps"]["changes"])
        super().__init__(recording=json.dumps(document), step=self._first)

    @traitlets.validate("step")
    def _recorded(self, proposal: dict[str, Any]) -> int:
        step: int = proposal["value"]
        if not self._first <= step <= self._last:
            recorded = f"the recording has the steps {self._first} to {self._last}"
            raise InputError(Diagnostic("RG0507", f"there is no step {step} here", hint=recorded))
        return step
