"""The manual page in the macros of man(7): every command with its options, exit codes, environment and files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from retrograd import __version__
from retrograd.cli.grammar.walk import Argument, Command

_ENVIRONMENT = {
    "NO_COLOR": "If set and not empty, diagnostics have no colours, unless --color is given.",
    "FORCE_COLOR": "If set and not empty, diagnostics have colours also where standard error is no terminal.",
    "RETROGRAD_CACHE": "Folder of the cache of compiled code.",
    "RETROGRAD_FULL_TRACEBACK": "If set, errors of the Python interface keep all frames of their tracebacks.",
}


def man_page(top: Command, exit_codes: Mapping[int, str]) -> str:
    """The page retrograd(1). `exit_codes`: code -> meaning."""
    summary = top.summary[0].lower() + top.summary[1:].rstrip(".")
    out = [f'.TH RETROGRAD 1 "" "retrograd {__version__}" "User Commands"']
    out += [".SH NAME", f"retrograd \\- {_text(summary)}"]
    out += [".SH SYNOPSIS", ".B retrograd", ".I COMMAND", "[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]"]
    out += [".SH OPTIONS", *_options(top.options)]
    out.append(".SH COMMANDS")
    for command in top.all():
        if command is not top:
            out += [f".SS {_text(command.key)}", _text(command.summary), ".PP", _synopsis(command)]
            out += [*_options(command.arguments), *_options(command.options)]
    out.append(".SH EXIT STATUS")
    for code, meaning in exit_codes.items():
        out += [".TP", f".B {code}", _text(meaning)]
    out.append(".SH ENVIRONMENT")
    for name, meaning in _ENVIRONMENT.items():
        out += [".TP", f".B {name}", _text(meaning)]
    return "\n".join(line for line in out if line) + "\n"


def _synopsis(command: Command) -> str:
    words = [f"\\fB{_text(' '.join(command.path))}\\fR"]
    if command.commands:
        words.append("\\fICOMMAND\\fR")
    for argument in command.arguments:
        value = f"\\fI{_text(argument.value or '')}\\fR" + "..." * argument.repeated
        words.append(value if argument.needed else f"[{value}]")
    if command.options:
        words.append("[\\fIOPTIONS\\fR]")
    return " ".join(words)


def _options(found: tuple[Argument, ...]) -> list[str]:
    out = []
    for argument in found:
        value = "" if argument.value is None else f"\\fI{_text(argument.value)}\\fR"
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in argument.names)
        out += [".TP", " ".join(part for part in (names, value) if part), _text(argument.help) or "\\ "]
    return out


def _text(text: str) -> str:
    """Text without requests or escapes of roff in it; dashes of options are ASCII hyphens."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)
