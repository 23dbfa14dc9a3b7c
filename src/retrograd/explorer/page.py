"""The explorer's page: HTML with its component, style, script and data in one file.

A content security policy allows this script and this style by their hashes, and no network. Text of a program is JSON in the page, whose
`<` is escaped, and the script shows it as text nodes only: no content of a program is ever HTML.
"""

from __future__ import annotations

import html
import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import Any

from retrograd.isa.diagnostics import markup

#: shows the recording of the page, from the step that the address names
_BEGIN = """
const wanted = /^#step=(\\d+)$/.exec(location.hash);
const recording = JSON.parse(document.getElementById("recording").textContent);
const player = explorer(document, recording, wanted ? { step: Number(wanted[1]) } : {});
document.documentElement.dataset.ready = "true";
"""


def page(document: dict[str, Any], title: str) -> str:
    """The page of a document of `exploration`."""
    found = parts()
    style, script = found["explorer.css"], found["explorer.js"] + _BEGIN
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    data = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    escaped = {"policy": markup(policy), "title": markup(title)}
    template = Template(found["explorer.html"])
    return template.substitute(escaped, style=style, component=found["component.html"], script=script, data=data)


def frame(page: str, height: int) -> str:
    """The page as an element of another page, such as a notebook: a frame that may run scripts and nothing else."""
    return (
        f'<iframe sandbox="allow-scripts" style="width:100%;height:{height}px;border:0" title="Explorer" '
        f'srcdoc="{html.escape(page)}"></iframe>'
    )


@cache
def parts() -> dict[str, str]:
    """The page's template, and the component with its style and script, by the names of their files."""
    folder = files("retrograd.explorer")
    names = ("explorer.html", "component.html", "explorer.css", "explorer.js", "notebook.js")
    return {name: folder.joinpath(name).read_text("utf-8") for name in names}


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
