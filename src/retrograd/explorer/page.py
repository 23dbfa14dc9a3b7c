"""The explorer's page: HTML with its style, script and data in one file.

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


def page(document: dict[str, Any], title: str, facts: str = "") -> str:
    """The page of a document of `exploration`."""
    template, style, script = _parts()
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    data = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    shown = {"policy": policy, "title": title.encode("utf-8", "replace").decode(), "facts": facts}
    escaped = {name: html.escape(text) for name, text in shown.items()}
    return Template(template).substitute(escaped, style=style, script=script, data=data)


def frame(page: str, height: int) -> str:
    """The page as an element of another page, such as a notebook: a frame that may run scripts and nothing else."""
    return (
        f'<iframe sandbox="allow-scripts" style="width:100%;height:{height}px;border:0" title="Explorer" '
        f'srcdoc="{html.escape(page)}"></iframe>'
    )


@cache
def _parts() -> tuple[str, str, str]:
    folder = files("retrograd.explorer")
    template, style, script = (folder.joinpath(f"explorer.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    return template, style, script


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
