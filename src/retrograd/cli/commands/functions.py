"""`retrograd run FILE.py:FUNCTION …` and `retrograd compile`: reversible functions from Python files."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import linecache
import re
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.cli.arrays import read_array
from retrograd.cli.files import fail
from retrograd.cli.main import LIMIT, OK, TRAPPED
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError, Span, nearest
from retrograd.isa.files import record_input, write_file

if TYPE_CHECKING:
    from retrograd.compiler.compiled import Compiled
    from retrograd.functions.reversible import Inverse, Reversible
    from retrograd.isa.words import Format

#: functions that are listed where one is missing
_LISTED = 20
_PLACE = re.compile(r"(?P<file>.+\.py):(?P<name>~?[A-Za-z_][\w.]*)")


def is_function(text: str) -> bool:
    """Whether a program on the command line is written FILE.py:FUNCTION, or FILE.py, of which the function is missing."""
    return _PLACE.fullmatch(text) is not None or _file_alone(text) is not None


def _file_alone(text: str) -> Path | None:
    """The Python file that is named without a function."""
    path = text.removesuffix(":")
    return Path(path) if path.endswith(".py") else None


def _functions_in(module: Any) -> list[str]:
    """The reversible functions that a file defines, those of its structs with their class; what it imports is left out."""
    from retrograd.functions.reversible import Reversible

    found: list[str] = []
    for name, value in vars(module).items():
        if isinstance(value, Reversible) and value.__module__ == module.__name__ and not name.startswith("_"):
            found.append(name)
        elif isinstance(value, type) and value.__module__ == module.__name__:
            found += [f"{name}.{n}" for n, method in vars(value).items() if isinstance(method, Reversible)]
    return found


def _no_function(path: Path) -> InputError:
    """The error for FILE.py alone, with the functions that could have been meant."""
    known = _functions_in(_load_module(path))
    if not known:
        return fail("RG0509", f"{path} defines no reversible function", "decorate one with @reversible")
    more = f", and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    hint = f"write {path}:{known[0]}; it defines {', '.join(known[:_LISTED])}{more}"
    return fail("RG0509", f"`{path}` is a file: which of its functions is meant?", hint)


def load_function(text: str) -> Reversible | Inverse:
    """The function that FILE.py:FUNCTION names; ~FUNCTION is its inverse. The file is executed, as by `python FILE.py`.

    Raises InputError RG0501, RG0508, RG0509.
    """
    from retrograd.functions.reversible import Inverse, Reversible

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
            known = [n for n, v in vars(value).items() if isinstance(v, Reversible | type) and not n.startswith("_")]
            near = nearest(part, known) or (f"it defines {', '.join(known[:8])}" if known else None)
            raise fail("RG0509", f"{path} defines no `{name}`", near)
        value = getattr(value, part)
    if isinstance(value, Inverse):
        return ~value if backward else value
    if not isinstance(value, Reversible):
        raise fail("RG0509", f"`{name}` in {path} is no reversible function", "decorate it with @reversible")
    return ~value if backward else value


def _load_module(path: Path) -> Any:
    if not path.is_file():
        raise fail("RG0501", f"{path}: there is no such file")
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
    except RetrogradError:
        raise  # what it says of itself is better than what could be said here
    except (Exception, SystemExit) as error:
        what = "ends with" if isinstance(error, SystemExit) else f"{type(error).__name__}:"
        at, text = _place_of(error, path)
        raise InputError(Diagnostic("RG0508", f"{path}: {what} {error}", at, line=text)) from None
    finally:
        sys.path.pop(0)
    return module


def _place_of(error: BaseException, path: Path) -> tuple[Span | None, str | None]:
    """The line of the file in which an exception passed last, and its text."""
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


def parse_arguments(texts: list[str], function: Reversible | None = None) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as written: Python literals, NAME=LITERAL, and @FILE.npy for arrays. Raises InputError RG0510.

    With the function that takes them, `word(N)` is the fixed number or lognum of word N, exactly.
    """
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    declared = {} if function is None else {p.name: p.annotation for p in function.parameters}
    for i, text in enumerate(texts):
        named = re.match(r"([A-Za-z_]\w*)=(.*)", text, re.DOTALL)
        if named is not None and named[1] in keywords:
            raise fail("RG0510", f"`{named[1]}` is given twice", "Give each argument once.")
        literal, name = (text, next(iter(list(declared)[i:]), "")) if named is None else (named[2], named[1])
        value = _literal(literal, text, partial(_number_of, function, declared.get(name)))
        if named is not None:
            keywords[named[1]] = value
        elif keywords:
            raise fail("RG0510", f"`{text}`: an argument without a name comes after one with a name")
        else:
            args.append(value)
    return args, keywords


def _literal(text: str, whole: str, number: Callable[[int], float]) -> Any:
    if text.startswith("@"):
        return read_array(text[1:])
    try:
        value = _evaluated(ast.parse(text.strip(), mode="eval").body, number)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        hint = "write numbers such as 1.5, lists such as [1.0, 2.0], or @FILE.npy"
        raise fail("RG0510", f"`{whole[:60]}` is no value", hint) from None
    if isinstance(value, list | tuple):
        from retrograd.values.arrays import as_array

        try:
            array = as_array(value)
        except ValueError:
            raise fail("RG0510", f"`{whole[:60]}`: its rows have different lengths") from None
        if array.dtype.kind == "f":
            _refuse_rounding(value, whole)
        return array if array.dtype.kind in "iufb" else value
    return value


def _evaluated(node: ast.expr, number: Callable[[int], float]) -> Any:
    """The value of a literal in which words may stand for numbers. Raises ValueError."""
    match node:
        case ast.List(elts=elements):
            return [_evaluated(e, number) for e in elements]
        case ast.Tuple(elts=elements):
            return tuple(_evaluated(e, number) for e in elements)
        case ast.Call(func=ast.Name(id="word"), args=[ast.Constant(value=int(word))], keywords=[]):
            return number(word)
    return ast.literal_eval(node)


def _number_of(function: Reversible | None, annotation: Any, word: int) -> float:
    """The number of a word, for a parameter of this annotation. Raises InputError RG0510."""
    from retrograd.compiler.language.types import ArrayAnnotation, ScalarType, StackAnnotation, element_of
    from retrograd.values.exact import real_of

    element = annotation.element if isinstance(annotation, ArrayAnnotation | StackAnnotation) else annotation
    t = None if function is None else element_of(element)
    if function is None or not isinstance(t, ScalarType) or t.kind.value not in ("fixed", "lognum"):
        hint = "Annotate the parameter, or write the value itself: integers and bools are exact."
        raise fail("RG0510", f"word({word}) stands for a number of a parameter that is declared fixed or lognum", hint)
    w = function.format_for()
    if word > w.mask:
        raise fail("RG0510", f"word({word}) does not fit in {w.width} bits")
    return real_of(word, "fixed" if t.kind.value == "fixed" else "lognum", w)


def _refuse_rounding(values: Any, whole: str) -> None:
    """An integer beside real numbers becomes a float64. Raises InputError RG0510 where that is another number."""
    if isinstance(values, list | tuple):
        for value in values:
            _refuse_rounding(value, whole)
    elif isinstance(values, int) and abs(values) > 1 << 53:
        try:
            exact = int(float(values)) == values
        except OverflowError:
            exact = False
        if not exact:
            hint = "beside real numbers an integer has 53 bits: write integers alone, or pass @FILE.npy"
            raise fail("RG0510", f"`{whole[:60]}`: {str(values)[:40]} would be rounded", hint)


#: what `retrograd run` takes for programs only
_FOR_PROGRAMS = (
    "--set", "--mem", "--out", "--break", "--memory", "--memory-limit", "--strict", "--trace", "--include",
)  # fmt: skip
_DESTINATIONS = {"--set": "sets", "--break": "breaks"}


def run_function(options: argparse.Namespace) -> int:
    """Run a function on arguments, or on each element of a batch, and show them afterwards; returns the exit code."""
    from retrograd.simulator.engines.tiering import engine_named

    if (alone := _file_alone(options.program)) is not None:
        raise _no_function(alone)
    for option in _FOR_PROGRAMS:
        if getattr(options, _DESTINATIONS.get(option, option.strip("-").replace("-", "_"))):
            hint = "write the arguments after the function; `retrograd compile` makes a program of it, which takes this option"
            raise fail("RG0512", f"{option} is for assembly and images, and `{options.program}` is a function", hint)
    engine_named(options.engine)
    if options.batch is not None:
        from retrograd.cli.commands.batches import run_batch_command

        return run_batch_command(options)
    for option, given in (("--shared", options.shared), ("-o", options.output)):
        if given:
            raise fail("RG0512", f"{option} is for batches", "name the arrays: --batch FILE.npz")
    return _run_once(options)


def function_and_direction(options: argparse.Namespace) -> tuple[Reversible, bool]:
    """(the function that is to be run, whether it runs backward)."""
    from retrograd.functions.reversible import Inverse

    function = load_function(options.program)
    backward = options.backward or options.inverse
    return (~function, not backward) if isinstance(function, Inverse) else (function, backward)


def _run_once(options: argparse.Namespace) -> int:
    from retrograd.cli.report import engine_text, show_errors
    from retrograd.functions.execution import ProgramTrap
    from retrograd.functions.reversible import run
    from retrograd.values.binding import bind

    function, backward = function_and_direction(options)
    args, keywords = parse_arguments(options.args, function)
    limit = step_limit(options)
    try:
        given = bind(function, args, keywords)
        result = run(
            function,
            *given,
            engine=options.engine,
            backward=backward,
            max_steps=limit,
            overflow=not options.no_overflow,
        )
    except ProgramTrap as trap:
        if trap.trap is None:
            print(trap, file=sys.stderr)
            return LIMIT
        if options.json:
            show_errors(trap, as_json=True)
            return TRAPPED
        print(trap, file=sys.stderr)
        print(f"the machine trapped after {trap.machine.retired} steps, and can run back from there", file=sys.stderr)
        return TRAPPED
    values = result.values._asdict()
    if options.json:
        as_json = {name: plain(v) for name, v in values.items()}
        out = {
            "schema": "retrograd.call/1", "function": function.__name__, "backward": backward, "values": as_json,
            "steps": result.steps, "erased_bits": result.erased_bits, "engine": result.engine,
        }  # fmt: skip
        words = rounded_words(result.values, result.words)
        if words:
            out["words"] = words
        if options.cycles:
            from retrograd.cli.cycles import cycles_dict

            out["cycles"] = cycles_dict(result.machine)
        print(json.dumps(out, indent=2))
        return OK
    width = max(map(len, values), default=0)
    for v, p in zip(values.values(), function.parameters, strict=True):
        print(f"{p.name:<{width}} = {shown(v)}")
    way = "backward" if backward else "forward"
    engine = engine_text(result.machine, asked=options.engine != "auto")
    print(f"\n{result.steps} steps {way}, {result.erased_bits} bits erased{engine}")
    if options.cycles:
        from retrograd.cli.cycles import cycles_table

        print("\n" + cycles_table(result.machine))
    return OK


def step_limit(options: argparse.Namespace) -> int | None:
    """What --max-steps says. Raises InputError RG0507."""
    text = options.max_steps
    try:
        return None if text is None else max(0, int(text, 0))
    except ValueError:
        raise fail("RG0507", f"--max-steps: `{text[:40]}` is no integer") from None


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(v) for v in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value if isinstance(value, int | float | bool | str) or value is None else str(value)


def rounded_words(values: Any, words: dict[str, Any]) -> dict[str, Any]:
    """The words of the arguments whose values as floats would not give them back."""
    from retrograd.values.lossless import needs_words

    named = values._asdict().values()  # parameters may have names that no field has
    return {name: words[name] for name, value in zip(words, named, strict=True) if needs_words(value)}


def shown(value: Any) -> str:
    """A value as a person reads it; with the word behind it, as `parse_arguments` takes it, where the float is rounded."""
    if isinstance(value, float):
        from retrograd.values.exact import WordFloat
        from retrograd.values.lossless import needs_words

        return f"{value!r} = word({value.word})" if isinstance(value, WordFloat) and needs_words(value) else repr(value)
    if hasattr(value, "tolist"):
        import numpy as np

        return np.array2string(value, precision=10, separator=", ", threshold=200)
    return repr(value)


def compile_command(options: argparse.Namespace) -> int:
    """Compile a function to an image, assembly text, a listing of the IR or what compiled code is made of."""
    from retrograd.functions.reversible import Inverse

    if options.arch is not None and options.emit != "ptx":
        raise fail("RG0512", "--arch is for `--emit ptx`")
    if options.emit is not None and not is_function(options.function):
        from retrograd.cli.emit import emit_program

        return emit_program(options)
    function = load_function(options.function)
    inverse = isinstance(function, Inverse)
    if isinstance(function, Inverse):
        function = ~function
    changes: dict[str, Any] = {"level": 0 if options.no_optimise else 1}
    if options.erase is not None:
        changes["erase"] = True if options.erase == "" else frozenset(options.erase.split(","))
    if options.format is not None:
        changes["format"] = parse_format(options.format)
    args, keywords = parse_arguments(options.args)
    if options.strategy is not None:
        changes |= _by_energy(function.with_options(**changes), inverse, args, keywords, options)
    elif options.tech is not None:
        raise fail("RG0512", "--tech is for `--strategy energy`")
    function = function.with_options(**changes)
    if options.dump_ir is not None:
        return _dump_ir(function, args, keywords, options.dump_ir)
    compiled = function.compiled(*args, **keywords)
    program = ~compiled.program if inverse else compiled.program
    if options.emit is not None:
        from retrograd.cli.emit import emit

        return emit(program, options)
    if options.asm:
        from retrograd.assembler.disassemble import disassemble
        from retrograd.functions.listing import assembly

        sys.stdout.write(disassemble(program) if inverse else assembly(compiled))
        return OK
    if options.output is None:
        print(_summary(compiled))
        return OK
    from retrograd.assembler.image import to_image

    image = to_image(program)
    write_file(options.output, image)
    print(f"{options.output}: {len(program.code)} instructions, {program.memory} words of memory, {len(image)} bytes")
    return OK


def _by_energy(
    function: Reversible, inverse: bool, args: list[Any], keywords: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """The options with which the function costs least on these arguments."""
    from retrograd.pricing.advice import advise
    from retrograd.values.binding import bind

    if options.erase is not None or inverse:
        what = "~FUNCTION, which cannot erase" if inverse else "--erase, which says already what is erased"
        raise fail("RG0512", f"--strategy energy does not go with {what}")
    found = advise(function, *bind(function, args, keywords), tech=options.tech or "landauer")
    return {"erase": found.options.erase, "temporaries": found.options.temporaries}


def parse_format(text: str) -> Format:
    """A format as written: 32,16 (width, fraction) or Q16.16 (before and after the point). Raises InputError RG0604."""
    from retrograd.isa.words import format_of

    return format_of(text)


def _dump_ir(function: Any, args: list[Any], keywords: dict[str, Any], wanted: str) -> int:
    """Print the IR after one pass, or after each."""
    from retrograd.compiler.compiled import compile_function
    from retrograd.compiler.ir.printer import as_text
    from retrograd.values.binding import bind, types_from_annotations, types_of

    types = types_of(function, bind(function, args, keywords)) if args or keywords else types_from_annotations(function)
    seen: list[tuple[str, Any]] = []
    compile_function(function, types, function.format_for(), function.options, lambda n, m: seen.append((n, m)))
    names = [name for name, _ in seen]
    if wanted != "all" and wanted not in names:
        near = nearest(wanted, names) or f"passes: {', '.join(dict.fromkeys(names))}, all"
        raise fail("RG0511", f"--dump-ir {wanted}: there is no such pass", near)
    for name, module in seen:
        if wanted in ("all", name):
            print(f"; after {name}\n{as_text(module)}")
    return OK


def _summary(compiled: Compiled) -> str:
    program = compiled.program
    arguments = "\n".join(f"  {a.address:>6}  {a.name}: {a.type}" for a in compiled.arguments)
    return (
        f"{compiled.function.__name__}: {len(program.code)} instructions, {program.memory} words of memory, {program.format}\n"
        f"arguments in memory:\n{arguments}"
    )
