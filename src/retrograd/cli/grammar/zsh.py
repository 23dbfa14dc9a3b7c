"""The completion script of zsh: a function for each command, which `_arguments` follows."""

from __future__ import annotations

from retrograd.cli.grammar.walk import Argument, Command

_HEAD = """\
#compdef retrograd
# zsh completion of retrograd; keep it as _retrograd in a folder of $fpath, or load it with: source <(retrograd completion zsh)
"""
_TAIL = """\
if [[ $funcstack[1] == _retrograd ]]; then
    _retrograd "$@"
else
    compdef _retrograd retrograd
fi
"""


def zsh_script(top: Command) -> str:
    """The script for a file `_retrograd`, or for `source <(retrograd completion zsh)`."""
    return _HEAD + "".join(_function(command) for command in top.all()) + _TAIL


def _name(command: Command) -> str:
    return "_" + "_".join(command.path)


def _function(command: Command) -> str:
    specs = [_option(option) for option in command.options]
    if not command.commands:
        specs += [_positional(argument) for argument in command.arguments]
        body = "    _arguments -s " + " \\\n        ".join(specs)
        return f"{_name(command)}() {{\n{body}\n}}\n"
    listed = " ".join(_quoted(f"{_colons(child.name)}:{child.summary}") for child in command.commands)
    cases = "".join(f"        {child.name}) {_name(child)} ;;\n" for child in command.commands)
    return (
        f"{_name(command)}() {{\n"
        "    local context state state_descr line\n"
        "    typeset -A opt_args\n"
        f"    local -a commands=({listed})\n"
        f"    _arguments -C {' '.join(specs)} '1:command:->command' '*::argument:->rest'\n"
        "    case $state in\n"
        "    command) _describe command commands ;;\n"
        f"    rest) case $words[1] in\n{cases}        esac ;;\n"
        "    esac\n"
        "}\n"
    )


def _option(option: Argument) -> str:
    text = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    value = "" if option.value is None else f":{_colons(option.value)}:{_action(option)}"
    star = "*" if option.repeated else "" if len(option.names) == 1 else f"({' '.join(option.names)})"
    specs = [
        _quoted(f"{star}{name}{'=' * (name.startswith('--') and bool(value))}[{text}]{value}") for name in option.names
    ]
    return " ".join(specs)


def _positional(argument: Argument) -> str:
    place = "*" if argument.repeated else "" if argument.needed else ":"
    return _quoted(f"{place}:{_colons(argument.value or '')}:{_action(argument)}")


def _action(argument: Argument) -> str:
    if argument.choices:
        return f"({' '.join(argument.choices)})"
    return "_files" if argument.is_path else " "


def _colons(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
