"""Contents of files: programs as text or image, memory as text, NumPy arrays or raw words."""

from __future__ import annotations

import importlib.util
import linecache
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.assembler.directives import evaluate
from retrograd.assembler.lexer import TextFault
from retrograd.cli.arguments import read_array, write_array
from retrograd.cli.options import (
    OF_JANUS,
    fail,
    given_option,
    integer,
    refuse_options_of_functions,
    refuse_options_of_programs,
)
from retrograd.cli.records import FunctionOptions, MachineOptions, ProgramOptions, RecordingOptions
from retrograd.isa.diagnostics import Diagnosed, Diagnostic, InputError, PrecisionWarning, Span, nearest
from retrograd.isa.files import check_output, missing, read_file, read_stream, record_input, write_file
from retrograd.isa.program import Program
from retrograd.isa.words import Format, format_of
from retrograd.program_files import is_pisa, program_from
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import MEMORY_LIMIT, REGISTERS, Machine

if TYPE_CHECKING:
    from retrograd.compiler.compiled import Compiled
    from retrograd.derivatives._gradients import GradientFunction
    from retrograd.runtime._reversible import Inverse, Reversible

#: raw types -> (bytes a word, byte order); `word` has the format's own width
_RAW = {
    "u8": (1, "little"), "u16": (2, "little"), "u16be": (2, "big"), "u32": (4, "little"), "u32be": (4, "big"),
    "u64": (8, "little"), "u64be": (8, "big"),
}  # fmt: skip
TYPES = ("text", "textq", "npy", "npyq", "word", *_RAW)
#: the folder of the examples in a checkout, and their name on the command line everywhere
_EXAMPLES = "examples/"
_SUFFIXES = {".npy": "npy", ".txt": "text"}


def input_path(path: str) -> str:
    """The path of an input: where the working folder has no `examples/NAME`, that of the example that comes with the package."""
    if not path.startswith(_EXAMPLES) or Path(path).exists():
        return path
    folder = Path(str(files("retrograd.examples")))
    own = folder / path.removeprefix(_EXAMPLES)
    if own.is_file():
        return str(own)
    if Path(_EXAMPLES).is_dir():
        return path
    names = [f"{_EXAMPLES}{one.relative_to(folder).as_posix()}" for one in folder.rglob("*.*")]
    raise fail("RG0501", f"{path}: neither here nor among the examples of the package", nearest(path, names))


def read_bytes(path: str) -> bytes:
    """The bytes of a file, of standard input for "-". Raises InputError RG0501, RG0514."""
    if path != "-":
        return read_file(input_path(path))
    if sys.stdin is None:
        raise fail("RG0501", "standard input is closed")
    try:
        return read_stream(sys.stdin.buffer, "standard input")
    except (OSError, ValueError) as error:
        raise fail("RG0501", f"standard input: {getattr(error, 'strerror', None) or error}") from None


def load_program(path: str, include: Sequence[str] = (), *, check: bool = True) -> Program:
    """The program in a file, of any kind that `program_from` reads; verified unless `check` is off."""
    return read_program(path, include, check=check)[0]


def read_program(path: str, include: Sequence[str] = (), *, check: bool = True) -> tuple[Program, bool]:
    """(the program in a file, whether its reader has checked its branches by the rules of another assembly language)."""
    path = input_path(path)
    data = read_bytes(path)
    if path == "-":
        return program_from(data, "<stdin>", None, include, check=check), is_pisa(data, path)
    return program_from(data, path, Path(path), include, check=check), is_pisa(data, path)


def constant(
    text: str,
    w: Format,
    labels: Mapping[str, int],
    code: str,
    option: str,
    lost: Callable[[str], None] | None = None,
) -> int:
    """The word that a constant of the command line denotes. `lost` takes the message for a literal that loses more than half of its bits.

    Without it, that is a PrecisionWarning. Raises InputError `code`; RG0120 for a literal that becomes 0.
    """

    def told(fault: TextFault) -> None:
        message = f"{option}: {fault.message}. {fault.hint}"
        if lost is None:
            warnings.warn(message, PrecisionWarning, stacklevel=2)
        else:
            lost(message)

    try:
        value = evaluate(text, w, labels.get, told)
    except TextFault as error:
        vanishes = error.code == "RG0120"
        raise fail(
            "RG0120" if vanishes else code, f"{option}: {error.message}", error.hint if vanishes else None
        ) from None
    if not -w.sign <= value <= w.mask:
        raise fail(code, f"{option}: {value} does not fit in {w.width} bits")
    return value & w.mask


@dataclass(frozen=True)
class Region:
    """A range of memory words, and the file that they are read from or written to."""

    address: int
    count: int | None
    path: str
    type: str

    @classmethod
    def parse(cls, text: str, program: Program, option: str) -> Region:
        """[WHERE[:COUNT]=]FILE[,TYPE]. Raises InputError RG0503."""
        where, path = "", text
        found = re.match(r"([A-Za-z_][\w.]*|\d\w*)?(?::([^=]+))?=", text)
        count = None
        if found is not None:
            where, path = found.group(1) or "", text[found.end() :]
            if found.group(2) is not None:
                option_text = f"{option} {text}"
                count = constant(found.group(2), program.format, program.data_labels, "RG0503", option_text)
        head, comma, kind = path.rpartition(",")
        if comma and kind in TYPES:
            path = head
        elif head and re.fullmatch(r"[a-z]+\d*[a-z]*", kind) and not os.path.exists(path):
            raise fail("RG0503", f"{option} {text}: unknown type `{kind}`", nearest(kind, TYPES))
        else:
            kind = _SUFFIXES.get(Path(path).suffix, "word")
        if not path:
            raise fail("RG0503", f"{option} {text}: the file is missing")
        if path == "-" and option == "--out":
            raise fail("RG0503", f"{option} {text}: memory is saved to a file; `--json` prints it")
        return cls(_address(where, program, f"{option} {text}"), count, path, kind)


def _address(where: str, program: Program, option: str) -> int:
    if not where:
        return 0
    if where in program.data_labels:
        return program.data_labels[where]
    if where[0].isdecimal():
        return constant(where, program.format, {}, "RG0503", option)
    raise fail("RG0503", f"{option}: no data label is named `{where}`", nearest(where, program.data_labels))


def read_words(region: Region, w: Format) -> list[int]:
    """The words that a data file holds. Raises InputError RG0501, RG0504."""
    path, kind = region.path, region.type
    if kind in ("npy", "npyq"):
        return _read_npy(path, kind, w)
    data = read_bytes(path)
    if kind in ("text", "textq"):
        out: list[int] = []
        lost: list[str] = []
        try:
            pieces = data.decode().split()
        except UnicodeDecodeError:
            raise fail("RG0504", f"{path} is not text", "give its type, such as ,u8") from None
        for index, piece in enumerate(pieces):
            text = piece if kind == "text" or piece.endswith("q") else piece + "q"
            out.append(constant(text, w, {}, "RG0504", f"{path}, number {index}", lost.append))
        _warn(path, lost)
        return out
    size, order = _RAW.get(kind, (max(1, w.width // 8), "little"))
    data += b"\0" * (-len(data) % size)
    words = [int.from_bytes(data[i : i + size], order) for i in range(0, len(data), size)]  # type: ignore[arg-type]
    for index, word in enumerate(words):
        if word > w.mask:
            raise fail("RG0504", f"{path}: word {index} is {word}, more than {w.width} bits")
    return words


def cached_folder(name: str) -> Path:
    """A folder in the cache of compiled code; a temporary folder if there is no cache or others can write to it."""
    from retrograd.simulator.engines.llvm.jit import trusted_folder

    kept = trusted_folder(make=True)
    return Path(tempfile.mkdtemp(prefix="retrograd-")) / name if kept is None else kept / name


def _warn(path: str, lost: Sequence[str]) -> None:
    """One PrecisionWarning for all numbers of a file that lose more than half of their bits."""
    if lost:
        more = f" (and {len(lost) - 1} more numbers lose bits)" if len(lost) > 1 else ""
        warnings.warn(f"{lost[0]}{more}", PrecisionWarning, stacklevel=2)


def _read_npy(path: str, kind: str, w: Format) -> list[int]:
    """The words of an array. Its numbers may be results of floats, so a number that becomes 0 is a warning, as in arguments."""
    out: list[int] = []
    lost: list[str] = []
    for index, value in enumerate(read_array(path, "iuf").ravel().tolist()):
        try:
            word = w.from_real(value) if isinstance(value, float) or kind == "npyq" else value
        except (OverflowError, ValueError):
            raise fail("RG0504", f"{path}: element {index} is {value}, which {w} cannot hold") from None
        if not -w.sign <= word <= w.mask:
            raise fail("RG0504", f"{path}: element {index} is {value}, more than {w.width} bits")
        if isinstance(value, float) and not w.keeps(value):
            lost.append(
                f"{path}: element {index} = {value:.6g} is {float(w.to_real(word)):.6g} in {w}. {w.remedy(value)}"
            )
        out.append(word & w.mask)
    _warn(path, lost)
    return out


def write_words(region: Region, words: Sequence[int], w: Format) -> None:
    """Write words to a data file: numbers signed, `q` types as real numbers. Raises InputError."""
    path, kind = region.path, region.type
    if kind == "text":
        write_file(path, "".join(f"{w.signed(word)}\n" for word in words))
    elif kind == "textq":
        write_file(path, "".join(f"{real_text(w.to_real(word))}\n" for word in words))
    elif kind in ("npy", "npyq"):
        import numpy as np

        if kind == "npy":
            array = np.array([w.signed(word) for word in words], dtype=np.int64)
        else:
            for index, word in enumerate(words):
                if Fraction(float(w.to_real(word))) != w.to_real(word):
                    message = f"{path}: word {index} is {w.signed(word)}, which a float64 would round"
                    raise fail("RG0606", message, "The types npy, textq and word hold it.")
            array = np.array([float(w.to_real(word)) for word in words], dtype=np.float64)
        write_array(path, array)
    else:
        size, order = _RAW.get(kind, (max(1, w.width // 8), "little"))
        for index, word in enumerate(words):
            if word >= 1 << 8 * size:
                message = f"{path}: word {index} is {word}, more than the {8 * size} bits of {kind}"
                raise fail("RG0504", message, "choose a wider type")
        write_file(path, b"".join(word.to_bytes(size, order) for word in words))  # type: ignore[arg-type]


def real_text(value: Fraction) -> str:
    """A fixed-point value in decimal, exactly: its denominator is a power of two, so the digits end."""
    digits = value.denominator.bit_length() - 1
    scaled = abs(value.numerator) * 5**digits
    whole, rest = divmod(scaled, 10**digits)
    fraction = str(rest).rjust(digits, "0").rstrip("0") if digits else ""
    return f"{'-' if value < 0 else ''}{whole}" + (f".{fraction}" if fraction else "")


# -----------------------------------------------------------------------------
# FILE.py:FUNCTION: reversible functions from Python files.
#
# The file is executed first, as by `python FILE.py`. Errors in it become RG0508 with the line that failed.

#: functions listed in the error for a file without a function
_LISTED = 20
_JANUS = re.compile(r"(?P<file>.+\.ja(?:nus)?)(?::(?P<name>~?[A-Za-z_][\w']*)?)?")
_PLACE = re.compile(r"(?P<file>.+\.py):(?P<name>~?[A-Za-z_][\w.]*)")


def is_function(text: str) -> bool:
    """Whether an argument is written FILE.py:FUNCTION, FILE.py without a function, FILE.ja or FILE.ja:PROCEDURE (or .janus)."""
    return _JANUS.fullmatch(text) is not None or _PLACE.fullmatch(text) is not None or _file_alone(text) is not None


def _file_alone(text: str) -> Path | None:
    """The Python file of an argument without a function."""
    path = text.removesuffix(":")
    return Path(path) if path.endswith(".py") else None


def _functions_in(module: Any) -> list[str]:
    """The reversible functions that a file defines itself; methods are written CLASS.METHOD."""
    from retrograd.runtime._reversible import Reversible

    found: list[str] = []
    for name, value in vars(module).items():
        if isinstance(value, Reversible) and value.__module__ == module.__name__ and not name.startswith("_"):
            found.append(name)
        elif isinstance(value, type) and value.__module__ == module.__name__:
            found += [f"{name}.{n}" for n, method in vars(value).items() if isinstance(method, Reversible)]
    return found


def _no_function(path: Path) -> InputError:
    """The error for FILE.py without a function, with a list of its functions."""
    known = _functions_in(_load_module(path))
    if not known:
        return fail("RG0509", f"{path} defines no reversible function", "decorate one with @reversible")
    more = f", and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    hint = f"write {path}:{known[0]}; it defines {', '.join(known[:_LISTED])}{more}"
    return fail("RG0509", f"`{path}` is a file: which of its functions is meant?", hint)


def _load_janus(file: str, name: str, options: FunctionOptions | None) -> Reversible | Inverse:
    """A procedure of Janus, in the dialect of --dialect; without a name that of --entry, or `main`."""
    from retrograd.runtime._reversible import load_janus

    entry, dialect = (None, None) if options is None else (options.entry, options.dialect)
    if entry and name:
        raise fail("RG0512", f"--entry {entry}: the argument names `{name}` already")
    procedure = load_janus(input_path(file), (name or entry or "main").lstrip("~"), dialect)
    return ~procedure if name.startswith("~") else procedure


def load_function(text: str, options: FunctionOptions | None = None) -> Reversible | Inverse:
    """The function FILE.py:FUNCTION, or the inverse FILE.py:~FUNCTION; the procedure FILE.ja:PROCEDURE, or `main` of FILE.ja.

    Raises InputError RG0501, RG0508, RG0509, RG0512, CompileError RG0702, RG0725.
    """
    from retrograd.runtime._reversible import Inverse, Reversible

    janus = _JANUS.fullmatch(text)
    if janus is not None:
        return _load_janus(janus["file"], janus["name"] or "", options)
    if options is not None and (option := given_option(options, OF_JANUS)) is not None:
        raise fail("RG0512", f"{option} is for programs of Janus")
    found = _PLACE.fullmatch(text)
    alone = _file_alone(text)
    if found is None and alone is not None:
        raise _no_function(alone)
    if found is None:
        raise fail("RG0509", f"`{text}` names no function", "write FILE.py:FUNCTION, such as examples/bessel.py:bessel")
    path, name = Path(found["file"]), found["name"]
    backward = name.startswith("~")
    module = _load_module(path)
    value: Any = module
    for part in name.lstrip("~").split("."):
        if not hasattr(value, part):
            methods = [n for n, v in vars(value).items() if isinstance(v, Reversible)]
            known = _functions_in(module) if value is module else methods
            near = nearest(part, known) or (f"it defines {', '.join(known[:8])}" if known else None)
            raise fail("RG0509", f"{path} defines no `{name}`", near)
        value = getattr(value, part)
    if isinstance(value, Inverse):
        return ~value if backward else value
    if not isinstance(value, Reversible):
        raise fail("RG0509", f"`{name}` in {path} is no reversible function", "decorate it with @reversible")
    return ~value if backward else value


def _load_module(path: Path) -> Any:
    path = Path(input_path(path.as_posix()))
    if not os.path.isfile(path):
        raise missing(path)
    record_input(path)
    spec = importlib.util.spec_from_file_location(f"_retrograd_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise fail("RG0501", f"{path}: cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        span = Span(str(path), error.lineno or 1, error.offset or 1, (error.offset or 1) + 1)
        raise InputError(Diagnostic("RG0508", f"{path}: {error.msg}", span, line=error.text)) from None
    except Diagnosed:
        raise  # its own diagnostics are more precise
    except (Exception, SystemExit) as error:
        what = "ends with" if isinstance(error, SystemExit) else f"{type(error).__name__}:"
        at, text = _place_of(error, path)
        raise InputError(Diagnostic("RG0508", f"{path}: {what} {error}", at, line=text)) from None
    finally:
        sys.path.pop(0)
    return module


def _place_of(error: BaseException, path: Path) -> tuple[Span | None, str | None]:
    """(the innermost place of an exception in the file, the text of its line)."""
    found = next(
        (f for f in reversed(traceback.extract_tb(error.__traceback__)) if Path(f.filename) == path.resolve()), None
    )
    if found is None or found.lineno is None:
        return None, None
    text = linecache.getline(found.filename, found.lineno).rstrip()
    begin = len(text) - len(text.lstrip())
    if found.end_lineno == found.lineno and found.colno is not None and found.end_colno is not None:
        raw = text.encode()
        begin, end = (len(raw[:n].decode(errors="ignore")) for n in (found.colno, found.end_colno))
    else:
        end = len(text)
    return Span(str(path), found.lineno, begin + 1, end + 1), text


def function_and_inverse(text: str, options: FunctionOptions) -> tuple[Reversible, bool]:
    """(the function that a text names, in the format of --format; whether the text names its inverse).

    Raises InputError RG0501, RG0508, RG0509, RG0512, RG0604.
    """
    from retrograd.runtime._reversible import Inverse

    found = load_function(text, options)
    function = ~found if isinstance(found, Inverse) else found
    if options.format is not None:
        function = function.with_options(format=format_of(options.format))
    if options.precision is not None:
        function = function.with_options(precision=options.precision)
    return function, isinstance(found, Inverse)


def function_and_direction(options: ProgramOptions) -> tuple[Reversible, bool]:
    """(the function to run, whether it runs backward). Raises InputError RG0512, and as `function_and_inverse`."""
    function, inverse = function_and_inverse(options.program, options)
    refuse_options_of_programs(options)
    return function, inverse != (options.backward or options.inverse)


# -----------------------------------------------------------------------------
# Programs on machines as the command line describes them: limits, registers, memory from files, memory to files.


def opened(options: MachineOptions) -> tuple[Machine, Compiled | None]:
    """(the machine at the beginning of a program or of FILE.py:FUNCTION with its arguments, the compiled function)."""
    if not is_function(options.program):
        return prepared(options)[0], None
    from retrograd.cli.arguments import parse_arguments
    from retrograd.runtime._binding import bind
    from retrograd.runtime._execution import load

    function, backward = function_and_direction(options)
    args, keywords = parse_arguments(options.args, function)
    given = bind(function, args, keywords)
    compiled = function.compiled_for(function.types_of(given), function.format_for())
    overflow = not options.no_overflow
    return load(compiled, given, backward=backward, overflow=overflow, engine=options.engine), compiled


def gradient_of(options: RecordingOptions) -> tuple[GradientFunction, list[Any], dict[str, Any]]:
    """(the gradient of the argument --loss of FILE.py:FUNCTION, its arguments). Raises InputError RG0512 for programs."""
    if not is_function(options.program):
        raise fail("RG0512", "--loss is for functions: a program has no arguments")
    from retrograd.cli.arguments import argument_named, parse_arguments
    from retrograd.derivatives import grad

    function, backward = function_and_direction(options)
    args, keywords = parse_arguments(options.args, function)
    assert options.loss is not None
    f = grad(~function if backward else function, None, argument_named(options.loss), format=function.format_for())
    return f, args, keywords


def opened_way_back(options: RecordingOptions) -> Machine:
    """The machine of a gradient at the beginning of its way back. Raises InputError, ProgramTrap."""
    from retrograd.derivatives._requests import way_back
    from retrograd.runtime._execution import execute

    f, args, keywords = gradient_of(options)
    request = replace(f.request, engine=options.engine)
    values = request.values(tuple(args), keywords)
    turned = way_back(request, values)
    machine = request.machine(turned.compiled, values)
    execute(turned.compiled, machine)
    turned.begin(machine)
    return machine


def prepared(options: MachineOptions) -> tuple[Machine, int, bool]:
    """(the machine, loaded and ready to run; the number of words loaded beside the program's data; whether its text is PISA).

    Raises InputError, AssemblyError, ImageError, VerificationError.
    """
    refuse_options_of_functions(options)
    engine_named(options.engine)
    from_stdin = [options.program == "-", *(re.match(r"(.*=)?-(,\w+)?$", text) is not None for text in options.mem)]
    if sum(from_stdin) > 1:
        raise fail("RG0503", "standard input is read once; two files are to come from it")
    program, of_pisa = read_program(options.program, options.include)
    if options.inverse:
        program = ~program
    limit = _words(options.memory_limit, "--memory-limit")
    machine = machine_for(
        program,
        options.engine,
        backward=options.backward,
        memory=_words(options.memory, "--memory"),
        overflow=not options.no_overflow,
        strict=options.strict,
        memory_limit=MEMORY_LIMIT if limit is None else limit,
    )
    loaded = len(options.sets)
    for text in options.mem:
        region = Region.parse(text, program, "--mem")
        if region.count is not None:
            raise fail("RG0503", f"--mem {text}: a count belongs to --out")
        words = read_words(region, program.format)
        machine.load(region.address, words)
        loaded += len(words)
    for text in options.sets:
        _set(machine, text)
    return machine, loaded, of_pisa


def _words(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    count = integer(text, option, 0)
    if count > sys.maxsize:
        raise fail("RG0507", f"{option}: {count} is more than any machine has")
    return count


def _set(machine: Machine, text: str) -> None:
    """NAME=VALUE: a register, or the word at a data label."""
    name, equals, value = text.partition("=")
    labels = machine.program.data_labels
    option = f"--set {text}"
    if not equals:
        raise fail("RG0502", f"{option}: `=` is missing")
    word = constant(value, machine.format, labels, "RG0502", option)
    register = register_named(name, machine.program)
    if register is not None:
        machine.registers[register] = word
    elif name in labels:
        machine.load(labels[name], [word])
    else:
        hint = other_place(name, machine.program) or "write r0 to r255, a name of `.reg` in a text, or a data label"
        raise fail("RG0502", f"{option}: `{name}` is neither a register nor a data label", hint)


def register_named(name: str, program: Program) -> int | None:
    """The register that a command line names: `r3`, or a name of `.reg` in the text."""
    if name[:1] == "r" and name[1:].isdecimal() and int(name[1:]) < REGISTERS:
        return int(name[1:])
    return program.register_names.get(name)


def other_place(name: str, program: Program) -> str | None:
    """A hint at the register or label that is meant by a name that is none; a PISA text has $3 for r3."""
    if name[:1] == "$" and name[1:].isdecimal() and int(name[1:]) < 32:
        return f"write r{name[1:]}"
    return nearest(name, [*program.data_labels, *program.register_names])


def output_regions(machine: Machine, texts: Sequence[str]) -> list[Region]:
    """The regions of --out, checked before anything runs. Raises InputError RG0503, RG0505, RG0513."""
    regions = [Region.parse(text, machine.program, "--out") for text in texts]
    for region in regions:
        extent(machine, region)
        check_output(region.path)
    return regions


def extent(machine: Machine, region: Region) -> int:
    """The address after a region to save: its count, else the next data label, else the end of memory."""
    later = [a for a in machine.program.data_labels.values() if a > region.address]
    end = min([*later, len(machine.memory)]) if region.count is None else region.address + region.count
    if end > len(machine.memory) or region.address > len(machine.memory):
        raise fail("RG0505", f"--out {region.path}: words up to {end}, in a memory of {len(machine.memory)}")
    return end
