"""The completion script of bash. Commands come first, then options behind a dash, values of the option before, and files."""

from __future__ import annotations

from retrograd.cli.grammar.walk import Argument, Command

_SCRIPT = """\
# bash completion of retrograd; load it with: source <(retrograd completion bash)
_retrograd() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} path="" word i
    local commands="" options="" values="" files=no
    # bash splits --option=value into three words.
    if [[ $cur == "=" ]]; then
        cur=""
    elif [[ $prev == "=" ]]; then
        prev=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        case "${{path:+$path }}$word" in
            {paths}) path="${{path:+$path }}$word" ;;
        esac
    done
    case "$path" in
{cases}
    esac
    case "$path:$prev" in
{after}
    esac
    COMPREPLY=()
    if [[ -n $values ]]; then
        [[ $values == " " ]] || COMPREPLY=($(compgen -W "$values" -- "$cur"))
    elif [[ $files == only ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$cur"))
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    else
        COMPREPLY=($(compgen -W "$commands" -- "$cur"))
        if [[ $files == yes ]]; then
            compopt -o filenames 2>/dev/null
            COMPREPLY+=($(compgen -f -- "$cur"))
        fi
    fi
}}
complete -F _retrograd retrograd
"""


def bash_script(top: Command) -> str:
    """The script for `source <(retrograd completion bash)`."""
    everything = list(top.all())
    cases, after = [], []
    for command in everything:
        words = [child.name for child in command.commands]
        words += [choice for argument in command.arguments for choice in argument.choices]
        names = " ".join(name for option in command.options for name in option.names)
        files = "yes" if any(a.is_path for a in command.arguments) else "no"
        cases.append(f'        "{command.key}") commands="{" ".join(words)}" options="{names}" files={files} ;;')
        after += [line for option in command.options if (line := _value(command, option))]
    paths = "|".join(f'"{command.key}"' for command in everything if command.key)
    return _SCRIPT.format(paths=paths, cases="\n".join(cases), after="\n".join(after))


def _value(command: Command, option: Argument) -> str:
    """The case for the word behind an option; a value without a list has no completion."""
    if option.value is None:
        return ""
    pattern = "|".join(f'"{command.key}:{name}"' for name in option.names)
    action = "files=only" if option.is_path else f'values="{" ".join(option.choices) or " "}"'
    return f"        {pattern}) {action} ;;"
