"""FILE.py:FUNCTION: reversible functions from Python files.

The file is executed first, as by `python FILE.py`. Errors in it become RG0508 with the line that failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import linecache
import os
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.cli.files import input_path
from retrograd.cli.options import OF_JANUS, fail, given_option, refuse_options_of_programs
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError, Span, nearest
from retrograd.isa.files import missing, record_input
from retrograd.isa.words import format_of

if TYPE_CHECKING:
    from retrograd.runtime._reversible import Inverse, Reversible

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


def _load_janus(file: str, name: str, options: argparse.Namespace | None) -> Reversible | Inverse:
    """A procedure of Janus, in the dialect of --dialect; without a name that of --entry, or `main`."""
    from retrograd.runtime._reversible import load_janus

    entry = getattr(options, "entry", None)
    if entry and name:
        raise fail("RG0512", f"--entry {entry}: the argument names `{name}` already")
    procedure = load_janus(input_path(file), (name or entry or "main").lstrip("~"), getattr(options, "dialect", None))
    return ~procedure if name.startswith("~") else procedure


def load_function(text: str, options: argparse.Namespace | None = None) -> Reversible | Inverse:
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
    except RetrogradError:
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


def function_and_inverse(text: str, options: argparse.Namespace) -> tuple[Reversible, bool]:
    """(the function that a text names, in the format of --format; whether the text names its inverse).

    Raises InputError RG0501, RG0508, RG0509, RG0512, RG0604.
    """
    from retrograd.runtime._reversible import Inverse

    found = load_function(text, options)
    function = ~found if isinstance(found, Inverse) else found
    if options.format is not None:
        function = function.with_options(format=format_of(options.format))
    if getattr(options, "precision", None) is not None:
        function = function.with_options(precision=options.precision)
    return function, isinstance(found, Inverse)


def function_and_direction(options: argparse.Namespace) -> tuple[Reversible, bool]:
    """(the function to run, whether it runs backward). Raises InputError RG0512, and as `function_and_inverse`."""
    function, inverse = function_and_inverse(options.program, options)
    refuse_options_of_programs(options)
    return function, inverse != (options.backward or options.inverse)
