"""The completion script of fish: a line for each command and each option, under the condition of its command."""

from __future__ import annotations

from retrograd.cli.grammar.walk import Argument, Command

_HEAD = """\
# fish completion of retrograd; load it with: retrograd completion fish | source
function __retrograd_at --description 'whether the words so far lead to this command'
    set -l path
    for word in (commandline -opc)[2..-1]
        set -l next (string join ' ' -- $path $word)
        if contains -- "$next" {paths}
            set path $next
        end
    end
    test "$path" = "$argv[1]"
end
complete -c retrograd -f
"""


def fish_script(top: Command) -> str:
    """The script for `retrograd completion fish | source`."""
    everything = list(top.all())
    lines = []
    for command in everything:
        line = f"complete -c retrograd -n {_quoted(f'__retrograd_at {_quoted(command.key)}')}"
        lines += [f"{line} -a {child.name} -d {_quoted(child.summary)}" for child in command.commands]
        lines += [f"{line}{_option(option)}" for option in command.options]
        lines += [f"{line}{_positional(argument)}" for argument in command.arguments if _positional(argument)]
    paths = " ".join(_quoted(command.key) for command in everything if command.key)
    return _HEAD.format(paths=paths) + "\n".join(lines) + "\n"


def _option(option: Argument) -> str:
    names = "".join(f" -l {n[2:]}" if n.startswith("--") else f" -s {n[1:]}" for n in option.names)
    value = ""
    if option.value is not None:
        value = (
            " -r -F" if option.is_path else " -x" + (f" -a {_quoted(' '.join(option.choices))}" * bool(option.choices))
        )
    return f"{names}{value} -d {_quoted(option.help)}"


def _positional(argument: Argument) -> str:
    if argument.choices:
        return f" -a {_quoted(' '.join(argument.choices))}"
    return " -F" if argument.is_path else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
