"""The options of commands as typed records: each command has a record, which `Parser.command_of` fills.

A command NAME has the class `NameOptions` in its module, a field for each option and argument of `arguments_of_NAME`.
The
classes here hold the options that several commands share, for the functions that these commands share. A field with a
default is an option that some of the commands do not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

if TYPE_CHECKING:
    from retrograd.compiler.compiled import Precision


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record:
    """A frozen data class, for type checkers too, whose fields are given by name.

    A class of `dataclasses` takes a millisecond to make, which each call of a command would pay for a dozen of them.
    """

    fields: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        cls.fields = frozenset(cls.__annotations__).union(
            *(base.fields for base in cls.__bases__ if issubclass(base, Record))
        )

    def __init__(self, **given: Any) -> None:
        unknown = given.keys() - self.fields
        missing = {name for name in self.fields - given.keys() if not hasattr(type(self), name)}
        if unknown or missing:
            raise TypeError(f"{type(self).__name__}: unknown {sorted(unknown)}, missing {sorted(missing)}")
        vars(self).update(given)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is not assigned: `changed` makes another record")

    def changed(self, **changes: Any) -> Self:
        """The same with other values of some fields."""
        return type(self)(**{**vars(self), **changes})


class Options(Record):
    """Options that `retrograd` itself reads, whichever the command is."""

    color: str = "auto"
    sarif: str | None = None
    max_input: str | None = None
    max_expanded: str | None = None
    #: a text is a file, or - for stdout
    json: bool | str | None = False
    store: str | None = None
    explain_engine: bool = False


class FunctionOptions(Options):
    """How a function is read, and in which numbers it runs."""

    format: str | None = None
    precision: Precision | None = None
    dialect: str | None = None
    entry: str | None = None


class ProgramOptions(FunctionOptions):
    """A program or a function, its arguments and its direction."""

    program: str
    include: Sequence[str] = ()
    args: Sequence[str] = ()
    backward: bool = False
    inverse: bool = False


class MachineOptions(ProgramOptions):
    """A run: see `Parser.run_options`."""

    engine: str = "auto"
    batch: str | None = None
    shared: Sequence[str] = ()
    sets: Sequence[str] = ()
    mem: Sequence[str] = ()
    out: Sequence[str] = ()
    max_steps: str | None = None
    memory: str | None = None
    memory_limit: str | None = None
    no_overflow: bool = False
    strict: bool = False


class RecordingOptions(MachineOptions):
    """A run that is looked at, or the way back of a gradient."""

    loss: str | None
    tech: str


class CompilingOptions(ProgramOptions):
    """A function that is compiled: see `Parser.compile_options`."""

    erase: str | None
    strategy: str | None
    tech: str | None
    memory_budget: str | None
    no_optimise: bool


class SharingOptions(Options):
    """Workers that share the work: see `Parser.distribution_options`."""

    workers: str | None
    scheduler: str | None
    chunk: str | None = None


class BatchOptions(MachineOptions, SharingOptions):
    """A run that may be one of a batch."""

    json: bool
    output: str | None
    quiet: bool
    cycles: bool
    core: str
    slots: str | None
    trace: bool


class CoreOptions(Options):
    """A co-processor, as hardware is made of it."""

    format: str
    code: str = "1024"
    data: str = "1024"
    core: str = "small"
    lanes: str | None = None
    slots: str | None = None
    dma: bool = False
    output: str | None = None
    json: bool = False
