"""Options of commands as records: the fields of each are the options of its parser, and have their types."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from retrograd.cli.main import parser
from retrograd.cli.options import Parser
from retrograd.cli.records import Options, Record, SharingOptions


def leaves(p: Parser, name: str = "") -> Iterator[tuple[str, Parser]]:
    """The commands that are executed, each with its parser."""
    filled = p.filled()
    if filled.commands is None:
        yield name, filled
    else:
        for inner, found in filled.commands.items():
            yield from leaves(found, f"{name} {inner}".strip())


COMMANDS = dict(leaves(parser()))


def record_of(p: Parser) -> type[Options]:
    record: type[Options] = p.get_default("command")[1]
    return record


def types_of(record: type[Record]) -> dict[str, str]:
    return {name: t for cls in reversed(record.__mro__) for name, t in getattr(cls, "__annotations__", {}).items()}


def expected(action: argparse.Action) -> str:
    """The type of an option, without None."""
    if action.const is True:
        return "bool"
    if isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+"):
        return "Sequence"
    return action.type.__name__ if isinstance(action.type, type) else "str"


def test_every_command_is_here() -> None:
    assert {"run", "hdl synth", "completion", "gates", "man"} <= set(COMMANDS)


def test_fields_are_the_options() -> None:
    for command, p in COMMANDS.items():
        record, offered = record_of(p), {a.dest: a for a in p.options if a.dest != "help"}
        assert offered.keys() <= record.fields, command
        needed = {name for name in record.fields if not hasattr(record, name)}
        assert needed <= offered.keys(), "an option that the command does not have has a default"
        types = types_of(record)
        for name, action in offered.items():
            shown = types[name].replace("Precision", "str")
            assert shown.startswith(expected(action)) or (name == "json" and shown.startswith("bool")), (command, name)
            # A missing value is None only where the type has it.
            if action.default is None and not action.required and action.option_strings:
                assert "None" in shown, (command, name)


def test_a_record_is_complete_and_stays() -> None:
    with pytest.raises(TypeError, match=r"unknown \['hats'\], missing \['scheduler', 'workers'\]"):
        SharingOptions(hats="3")  # type: ignore[call-arg]
    options = SharingOptions(workers="3", scheduler=None)
    with pytest.raises(AttributeError, match="`changed` makes another record"):
        options.workers = "4"  # type: ignore[misc]
    assert (options.changed(workers="4").workers, options.workers, options.store) == ("4", "3", None)


def test_records_of_several_bases_have_all_fields() -> None:
    assert SharingOptions.fields | {"program", "engine"} <= record_of(COMMANDS["run"]).fields
