"""Workers of `--workers N` and `--scheduler ADDRESS`, and the store of `--store FILE`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retrograd.cli.arguments import parse_arguments, plain, read_arrays, read_folder, rounded_words, write_arrays
from retrograd.cli.files import function_and_direction
from retrograd.cli.options import fail, integer, step_limit
from retrograd.cli.records import BatchOptions, MachineOptions, SharingOptions
from retrograd.cli.report import as_dict, points_dict, print_json
from retrograd.cli.terminal import LIMIT, OK, TRAPPED
from retrograd.isa.diagnostics import InputError, nearest, printable
from retrograd.isa.files import check_output
from retrograd.presentation import columns

if TYPE_CHECKING:
    from retrograd.compiler.language.types import StructType, Type
    from retrograd.isa.words import Format
    from retrograd.runtime._batches import BatchResult
    from retrograd.runtime._distribution import Distribution
    from retrograd.runtime._reversible import Reversible


def executor_of(options: SharingOptions) -> Any:
    """The executor that the options describe; None runs in this process. Raises InputError RG0507, RG0512."""
    if options.workers is None:
        return options.scheduler
    count = integer(options.workers, "--workers", 1, "number of processes")
    if options.scheduler is not None:
        raise fail("RG0512", "--workers starts processes here, and --scheduler has workers of its own: choose one")
    return None if count == 1 else count


def distribution_of(options: SharingOptions) -> Distribution | None:
    """The distribution that --workers, --scheduler, --store and --chunk describe; None without any. Raises InputError."""
    executor, chunk = executor_of(options), getattr(options, "chunk", None)
    rows = None if chunk is None else integer(chunk, "--chunk", 1, "number of elements")
    if executor is None and options.store is None and rows is None:
        return None
    from retrograd.runtime._distribution import Distribution

    return Distribution(executor, options.store, rows)


# -----------------------------------------------------------------------------
# `retrograd run FILE.py:FUNCTION --batch FILE.npz`: one function on many inputs, from one file of arrays to another.
#
# A folder of .npy files, or an archive of Zarr, is read and written a part at a time.
#
# An array has the name of an argument, and its first axis is the batch. Results have the same form, so a run backward takes the file that
# a run forward has written. A struct has an array for each field (`z.re`, `z.im`). A stack has a row for each element, and
# `s.length` beside `s` holds the lengths if they differ. A stack of structs has such rows for each field (`s.re`,
# `s.im`).

#: arrays of counts and traps; no argument has such a name
_STEPS, _ERASED, _TRAPS = "retrograd.steps", "retrograd.erased_bits", "retrograd.trap"
_CYCLES = "retrograd.cycles"
_OURS = "retrograd."
_LENGTH = ".length"

#: elements and traps that are shown
_ROWS, _TRAPS_SHOWN = 8, 3


def run_batch_command(options: BatchOptions) -> int:
    """Run a function on each element of a batch; returns the exit code."""
    from retrograd.runtime._batches import run_batch

    function, backward = function_and_direction(options)
    limit = step_limit(options.max_steps)
    if options.trace:
        raise fail(
            "RG0512", "--trace prints the steps of one run, and a batch has many", "give one element's arguments"
        )
    if options.output == "-":
        raise fail("RG0512", "-o -: arrays are written to a file; `--json` prints them")
    values, in_axes = batch_values(function, options)
    if options.output is not None and not _is_folder(options.output):
        check_output(options.output)
    how: dict[str, Any] = {
        "in_axes": in_axes, "engine": options.engine, "backward": backward, "max_steps": limit,
        "overflow": not options.no_overflow, "traps": "return", "progress": False if options.quiet else None,
    }  # fmt: skip
    over = distribution_of(options)
    if over is not None:
        how |= vars(over)
    if _is_folder(options.output):
        return _run_chunked(function, values, how, options)
    result = run_batch(function, *values, cycles=options.cycles, core=options.core, **how)
    if options.output is not None:
        write_arrays(options.output, _as_arrays(result))
    if options.json:
        out = _as_json(function.__name__, backward, result, options.output)
        print_json("retrograd.batch/1", out | points_dict(function))
    else:
        _show(result, backward, options.output)
    if not result.traps:
        return OK
    return LIMIT if all(trap.trap is None for trap in result.traps.values()) else TRAPPED


def _is_folder(path: str | None) -> bool:
    """Whether the results are written a part at a time."""
    return path is not None and (path.endswith(("/", ".zarr")) or os.path.isdir(path))


def _run_chunked(function: Reversible, values: list[Any], how: dict[str, Any], options: BatchOptions) -> int:
    """Run a batch whose results are written a part at a time; returns the exit code."""
    from retrograd.runtime._batches import run_chunked

    if options.cycles:
        raise fail("RG0512", f"--cycles: {options.output} is written a part at a time, without cycles", "-o OUT.npz")
    assert options.output is not None
    result = run_chunked(function, *values, out=options.output, **how)
    count, backward = result.elements, how["backward"]
    if options.json:
        found = {
            "function": function.__name__, "backward": backward, "engine": result.engine, "elements": count,
            "steps": result.total_steps, "erased_bits": result.total_erased_bits,
            "traps": [{"element": i, **as_dict(t.diagnostics[0])} for i, t in result.traps.items()],
            "output": options.output, "each": None, **points_dict(function),
        }  # fmt: skip
        print_json("retrograd.batch/1", found)
    else:
        for trap in [*result.traps.values()][:_TRAPS_SHOWN]:
            print(f"{trap}\n", file=sys.stderr)
        traps = f"; {result.trapped} trapped" if result.trapped else ""
        way = "backward" if backward else "forward"
        text = f"{result.total_steps} steps {way}, {result.total_erased_bits} bits erased"
        print(
            f"{printable(str(options.output))}: {count} element{'s' * (count != 1)}, {text}{traps}; engine: {result.engine}"
        )
    if not result.trapped:
        return OK
    return LIMIT if all(trap.trap is None for trap in result.traps.values()) else TRAPPED


# ---------------------------------------------------------------------- from arrays to arguments


def batch_values(function: Reversible, options: MachineOptions) -> tuple[list[Any], list[int | None]]:
    """(the arguments, their axes as `run_batch` takes them), from --batch, --shared and the command line."""
    from retrograd.runtime._arrays import join_words
    from retrograd.runtime._binding import bind

    assert options.batch is not None
    read = read_folder if os.path.isdir(options.batch) else read_arrays
    found = {name: array for name, array in read(options.batch).items() if not name.startswith(_OURS)}
    try:
        arrays = join_words(found)
    except InputError as error:
        d = error.diagnostics[0]
        raise fail(d.code, f"{options.batch}: {d.message}", d.hint) from None
    given = _arguments(function, arrays, options.batch)
    args, keywords = parse_arguments(options.args, function)
    alone = {*keywords, *[p.name for p in function.parameters[: len(args)]]}
    for name in given:
        if name in alone:
            raise fail("RG0510", f"`{name}` is given on the command line and in {options.batch}", "give it once")
    batched = _batched(function, given, options.shared, options.batch)
    values = bind(function, args, {**keywords, **given})
    return values, [0 if p.name in batched else None for p in function.parameters]


def _arguments(function: Reversible, arrays: dict[str, Any], path: str) -> dict[str, Any]:
    """Arguments by name, made of arrays; an array without an argument keeps its own name."""
    from retrograd.compiler.language.types import (
        ArrayAnnotation,
        StackAnnotation,
        StructType,
        element_of_stack,
        static,
        struct_of,
    )

    left = dict(arrays)
    out: dict[str, Any] = {}
    for p in function.parameters:
        element = element_of_stack(p.annotation.element) if isinstance(p.annotation, StackAnnotation) else None
        if isinstance(element, StructType) and p.name not in left:
            lengths = left.pop(_lengths(p.name, element), None)
            if any(name.startswith(f"{p.name}.") for name in left):
                out[p.name] = _stacks(_structs(element, p.name, left, path), lengths, p.name, path)
            continue
        wanted = p.annotation.element if isinstance(p.annotation, ArrayAnnotation) else p.annotation
        struct = struct_of(wanted)
        if struct is not None and p.name not in left and any(name.startswith(f"{p.name}.") for name in left):
            out[p.name] = _structs(struct, p.name, left, path)
        elif p.name not in left:
            continue
        elif isinstance(p.annotation, StackAnnotation):
            out[p.name] = _stacks(left.pop(p.name), left.pop(p.name + _LENGTH, None), p.name, path)
        elif p.annotation is static:
            out[p.name] = _frozen(left.pop(p.name).tolist())
        else:
            array = left.pop(p.name)
            out[p.name] = array.item() if array.ndim == 0 else array
    return {**out, **left}


def _structs(struct: StructType, name: str, left: dict[str, Any], path: str) -> Any:
    """The struct, or the array of structs, whose fields are the arrays `name.field`."""
    import numpy as np

    from retrograd.compiler.language.types import ArrayType, StructType

    fields: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for field, t in struct.fields:
        place = f"{name}.{field}"
        if isinstance(t, StructType):
            found = np.asarray(_structs(t, place, left, path), dtype=object)
        elif place in left:
            found = left.pop(place)
        else:
            raise fail("RG0603", f"{path} has no array `{place}`", f"`{name}` is a {struct}, given by all its fields")
        own = t.shape if isinstance(t, ArrayType) else ()
        lead = max(0, found.ndim - len(own))
        if found.shape[lead:] != own:
            raise fail("RG0603", f"{path}: `{place}` is an array of shape {found.shape}, and {t} for each value")
        fields[field], shapes[place] = found, found.shape[:lead]
    (first, shape), *others = shapes.items()
    for place, other in others:
        if other != shape:
            raise fail("RG0603", f"{path}: `{place}` is for {other} values of `{name}`, and `{first}` for {shape}")
    out = np.empty(shape, dtype=object)
    for at in np.ndindex(shape):
        parts = {field: array[at] for field, array in fields.items()}
        out[at] = struct.cls(**{k: v.item() if getattr(v, "ndim", 1) == 0 else v for k, v in parts.items()})
    return out[()] if out.ndim == 0 else out


def _stacks(rows: Any, lengths: Any, name: str, path: str) -> Any:
    """Stacks, from rows and the lengths of their used parts."""
    if lengths is None:
        return rows.tolist()
    fits = rows.ndim > 0 and lengths.shape == rows.shape[:-1] and lengths.dtype.kind in "iu"
    if not fits or not all(0 <= n <= rows.shape[-1] for n in lengths.ravel().tolist()):
        raise fail("RG0603", f"{path}: `{name}{_LENGTH}` does not say how much of each row of `{name}` is its stack")
    if lengths.ndim == 0:
        return rows[: int(lengths)].tolist()
    return [row[: int(n)].tolist() for row, n in zip(rows, lengths, strict=True)]


def _lengths(name: str, element: Type) -> str:
    """The name of the array with the lengths of stacks: `s.length`; `s..length` where that is a field of their elements."""
    fields = [f".{field}" for field, _ in getattr(element, "fields", ())]
    return f"{name}.{_LENGTH}" if _LENGTH in fields else name + _LENGTH


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _batched(function: Reversible, given: Mapping[str, Any], shared: Sequence[str], path: str) -> set[str]:
    """The arguments with an element for each run: all arrays that are neither shared nor static."""

    from retrograd.compiler.language.types import StackAnnotation, static

    for name in shared:
        if name not in given:
            raise fail("RG0510", f"--shared {name}: {path} has no such array", nearest(name, given))
    declared = {p.name: p.annotation for p in function.parameters}
    lengths: dict[str, int] = {}
    for name, value in given.items():
        if (
            name in shared
            or declared.get(name) is static
            or not (isinstance(value, list) or getattr(value, "ndim", False))
        ):
            continue
        if isinstance(declared.get(name), StackAnnotation) and not all(isinstance(row, list) for row in value):
            continue
        lengths[name] = value.shape[0] if hasattr(value, "shape") else len(value)
    if not lengths:
        hint = "the first axis of an array is the batch; single values, and what --shared names, are the same for all"
        raise fail("RG0603", f"{path} has no array with an element for each run", hint)
    (first, expected), *others = lengths.items()
    for name, found in others:
        if found != expected:
            message = f"{path}: `{name}` has {found} element{'s' * (found != 1)}, and `{first}` has {expected}"
            raise fail(
                "RG0603", message, f"batched arrays are equally long; --shared {name} gives all elements the same"
            )
    return set(lengths)


# ---------------------------------------------------------------------- from results to arrays


def _as_arrays(result: BatchResult) -> dict[str, Any]:
    """The arrays of the result file: the arguments after the run, and counts and traps of each element."""
    import numpy as np

    from retrograd.runtime._arrays import split_words

    out: dict[str, Any] = {}
    for a, value in zip(result.compiled.arguments, result.values, strict=True):
        out |= _flat(a.name, a.type, value, result.compiled.format)
    traps = np.full(len(result.steps), "", dtype="U6")
    for i, trap in result.traps.items():
        traps[i] = trap.code
    if result.cycles is not None:
        out[_CYCLES] = result.cycles
    return {**split_words(out), _STEPS: result.steps, _ERASED: result.erased_bits, _TRAPS: traps}


def _flat(name: str, t: Type, value: Any, w: Format) -> dict[str, Any]:
    """One argument as arrays by name."""
    import numpy as np

    from retrograd.compiler.language.types import ArrayType, StackType, StaticType, StructType, is_complex
    from retrograd.compiler.language.values import FormType
    from retrograd.runtime._arrays import as_array, parts_of
    from retrograd.runtime._marshal import from_words

    match t:
        case FormType():
            # All elements have one form, so each is a row of as many numbers, integers and uints.
            each = [t.structure.encoded(one, name) for one in value]
            numbers = as_array([e.numbers for e in each]).reshape(len(each), t.count)
            places = each[0].uints if each else ()
            others = [[i for k, i in enumerate(e.integers) if k not in places] for e in each]
            integers = np.array(others, dtype=np.int64).reshape(len(each), t.size - t.count - len(places))
            flat = {f"{name}.numbers": numbers, f"{name}.integers": integers}
            if places:
                flat[f"{name}.uints"] = np.array([[e.integers[k] for k in places] for e in each], dtype=np.uint64)
            return flat
        case StackType(StackType()) | ArrayType(StackType()):
            raise fail("RG0512", f"`{name}` is a {t}, which no array of a file holds", "`--json` prints it")
        case StackType(element):
            longest = max(map(len, value), default=0)
            lengths = {_lengths(name, element): np.array([len(row) for row in value], dtype=np.int64)}
            if isinstance(element, StructType):
                zero = from_words(element, [0] * element.size, w)
                structs = np.empty((len(value), longest), dtype=object)
                for i, row in enumerate(value):
                    structs[i] = [*row, *[zero] * (longest - len(row))]
                return _flat(name, element, structs, w) | lengths
            rows = [[*row, *[0] * (longest - len(row))] for row in value]
            return {name: as_array(rows).reshape(len(value), longest), **lengths}
        case StructType() | ArrayType(StructType()):
            struct = t if isinstance(t, StructType) else t.element
            assert isinstance(struct, StructType)
            if is_complex(struct) and (columns := parts_of(value)) is not None:
                return {f"{name}.{field}": part for (field, _), part in zip(struct.fields, columns, strict=True)}
            out: dict[str, Any] = {}
            for field, inner in struct.fields:
                parts = [getattr(one, field) for one in value.ravel()]
                if isinstance(inner, StructType):
                    found = np.empty(len(parts), dtype=object)
                    found[:] = parts
                    out |= _flat(f"{name}.{field}", inner, found.reshape(value.shape), w)
                else:
                    own = inner.shape if isinstance(inner, ArrayType) else ()
                    out[f"{name}.{field}"] = as_array(parts).reshape((*value.shape, *own))
            return out
        case StaticType():
            array = np.asarray(value)
            return {name: array} if array.dtype.kind in "iufb" else {}
        case _:
            return {name: value}


def _as_json(name: str, backward: bool, result: BatchResult, path: str | None) -> dict[str, Any]:
    """The outcome for programs. `each` is null if a file has the values of the elements."""
    each = {
        "values": {name: plain(value) for name, value in result.values._asdict().items()},
        "steps": result.steps.tolist(),
        "erased_bits": result.erased_bits.tolist(),
    }
    words = rounded_words(result.values, result.words) if path is None else {}
    if words:
        each["words"] = {name: rows.tolist() for name, rows in words.items()}
    if result.cycles is not None:
        each["cycles"] = result.cycles.tolist()
    return {
        "function": name,
        "backward": backward,
        "engine": result.engine,
        "elements": len(result.steps),
        "steps": int(result.steps.sum()),
        "erased_bits": int(result.erased_bits.sum()),
        **({"cycles": int(result.cycles.sum())} if result.cycles is not None else {}),
        "traps": [{"element": i, **as_dict(trap.diagnostics[0])} for i, trap in sorted(result.traps.items())],
        "output": path,
        "each": each if path is None else None,
    }


def _show(result: BatchResult, backward: bool, path: str | None) -> None:
    count, trapped = len(result.steps), sorted(result.traps)
    messages = [str(result.traps[i]) for i in trapped[:_TRAPS_SHOWN]]
    if trapped[_TRAPS_SHOWN:]:
        messages.append(f"… and {len(trapped) - _TRAPS_SHOWN} more")
    if messages:
        print("\n\n".join(messages), file=sys.stderr)
    if path is None and count:
        print(_table(result) + "\n")
    way = "backward" if backward else "forward"
    sums = f"{result.steps.sum()} steps {way}, {result.erased_bits.sum()} bits erased"
    if result.cycles is not None:
        sums += f", {result.cycles.sum()} cycles"
    traps = f"; {len(trapped)} trapped" if trapped else ""
    where = "" if path is None else f"{printable(str(path))}: "
    print(f"{where}{count} element{'s' * (count != 1)}, {sums}{traps}; engine: {result.engine}")


def _table(result: BatchResult) -> str:
    """The first elements."""
    from retrograd.compiler.language.types import StaticType

    arguments = result.compiled.arguments
    rows = [["element", *[a.name for a in arguments], "steps", "erased bits", "trap"]]
    for i in range(min(_ROWS, len(result.steps))):
        values = [v if isinstance(a.type, StaticType) else v[i] for a, v in zip(arguments, result.values, strict=True)]
        code = result.traps[i].code if i in result.traps else ""
        rows.append([str(i), *map(_cell, values), str(result.steps[i]), str(result.erased_bits[i]), code])
    more = len(result.steps) - _ROWS
    table = columns(rows, right=range(len(rows[0]) - 1))
    return f"{table}\n… {more} more" if more > 0 else table


def _cell(value: Any) -> str:
    """A value in a table."""
    import numpy as np

    if isinstance(value, np.generic):
        return repr(value.item())
    if not isinstance(value, np.ndarray | list):
        return repr(value)
    shown = np.array2string(np.asarray(value), precision=6, separator=", ", threshold=6, edgeitems=2)
    return " ".join(shown.split())
