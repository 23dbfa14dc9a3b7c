"""Arguments of functions as text: Python literals, words and arrays in files; and values as text and JSON.

    parse_arguments(["1.5", "y=[1, 2]", "@x.npy"])  =  ([1.5, …], {"y": …})

A float64 has 53 bits. A number whose word has more is written `VALUE = word(N)`, and `word(N)` reads it back exactly.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from retrograd.cli.arrays import read_array
from retrograd.cli.options import fail

if TYPE_CHECKING:
    from retrograd.runtime._reversible import Reversible


def parse_arguments(texts: list[str], function: Reversible | None = None) -> tuple[list[Any], dict[str, Any]]:
    """(arguments by position, arguments by name) of literals, NAME=LITERAL and @FILE.npy. Raises InputError RG0510.

    `function`: needed for `word(N)`, the fixed number or lognum whose word is N.
    """
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    declared = {} if function is None else {p.name: p.annotation for p in function.parameters}
    for i, text in enumerate(texts):
        named = re.match(r"([A-Za-z_]\w*)=(.*)", text, re.DOTALL)
        if named is not None and named[1] in keywords:
            raise fail("RG0510", f"`{named[1]}` is given twice", "Give each argument once.")
        literal, name = (text, next(iter(list(declared)[i:]), "")) if named is None else (named[2], named[1])
        value = _literal(literal, text, declared.get(name), partial(_number_of, function, declared.get(name)))
        if named is not None:
            keywords[named[1]] = value
        elif keywords:
            raise fail("RG0510", f"`{text}`: an argument without a name comes after one with a name")
        else:
            args.append(value)
    return args, keywords


def _literal(text: str, whole: str, annotation: Any, number: Callable[[int], float]) -> Any:
    """The value of a literal. Lists are arrays, but a list of a stack; a dict is a struct, where one is declared."""
    if text.startswith("@"):
        return read_array(text[1:])
    try:
        value = _evaluated(ast.parse(text.strip(), mode="eval").body, number)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        hint = "write numbers such as 1.5, lists such as [1.0, 2.0], or @FILE.npy"
        raise fail("RG0510", f"`{whole[:60]}` is no value", hint) from None
    if annotation is Parameter.empty and _has_dict(value):
        # The types of an open parameter are those of its value, as in a call.
        return value
    if isinstance(value, dict):
        fields = getattr(annotation, "__dataclass_fields__", None)
        if not isinstance(annotation, type) or fields is None:
            raise fail("RG0510", f"`{whole[:60]}` stands for a struct, and the parameter is declared otherwise")
        if set(value) != set(fields):
            raise fail("RG0510", f"`{whole[:60]}`: the fields of {annotation.__name__} are {', '.join(fields)}")
        return annotation(**value)
    if isinstance(value, list | tuple):
        from retrograd.compiler.language.types import StackAnnotation
        from retrograd.compiler.language.values import Structure
        from retrograd.isa.diagnostics import InputError
        from retrograd.runtime._arrays import Ragged, as_array

        if isinstance(annotation, StackAnnotation | Structure):
            return value

        try:
            array = as_array(value)
        except Ragged:
            raise fail("RG0510", f"`{whole[:60]}`: its rows have different lengths") from None
        except InputError as error:
            d = error.diagnostics[0]
            raise fail("RG0510", f"`{whole[:60]}`: {d.message}", d.hint) from None
        return array if array.dtype.kind in "iufb" else value
    return value


def _has_dict(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list | tuple) and any(map(_has_dict, value)))


def _evaluated(node: ast.expr, number: Callable[[int], float]) -> Any:
    """The value of a literal in which words may stand for numbers, and bools may be written as in JSON. Raises ValueError."""
    match node:
        case ast.List(elts=elements):
            return [_evaluated(e, number) for e in elements]
        case ast.Tuple(elts=elements):
            return tuple(_evaluated(e, number) for e in elements)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            names = [ast.literal_eval(key) for key in keys if key is not None]
            return {key: _evaluated(e, number) for key, e in zip(names, values, strict=True)}
        case ast.Name(id="true" | "false" as word):
            return word == "true"
        case ast.Call(func=ast.Name(id="word"), args=[ast.Constant(value=int(word))], keywords=[]):
            return number(word)
    return ast.literal_eval(node)


def _number_of(function: Reversible | None, annotation: Any, word: int) -> float:
    """The number of a word, for a parameter of this annotation. Raises InputError RG0510."""
    from retrograd.compiler.language.types import ArrayAnnotation, ScalarType, StackAnnotation, element_of
    from retrograd.runtime._arrays import real_of

    element = annotation.element if isinstance(annotation, ArrayAnnotation | StackAnnotation) else annotation
    t = None if function is None else element_of(element)
    if function is None or not isinstance(t, ScalarType) or t.kind.value not in ("fixed", "lognum"):
        hint = "Annotate the parameter, or write the value itself: integers and bools are exact."
        raise fail("RG0510", f"word({word}) stands for a number of a parameter that is declared fixed or lognum", hint)
    w = function.format_for()
    if word > w.mask:
        raise fail("RG0510", f"word({word}) does not fit in {w.width} bits")
    return real_of(word, "fixed" if t.kind.value == "fixed" else "lognum", w)


def plain(value: Any) -> Any:
    """A value of types that JSON has."""
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if hasattr(value, "_asdict"):
        return {name: plain(v) for name, v in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(type(value), "__retrograd_data__"):
        return {"class": type(value).__name__} | {n: plain(getattr(value, n)) for n in type(value).__match_args__}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value if isinstance(value, int | float | bool | str) or value is None else str(value)


def rounded_words(values: Any, words: dict[str, Any]) -> dict[str, Any]:
    """The words of the arguments whose values a float64 rounds."""
    from retrograd.runtime._arrays import needs_words

    named = values._asdict().values()  # parameters may have names that no field has
    return {name: words[name] for name, value in zip(words, named, strict=True) if needs_words(value)}


def shown(value: Any) -> str:
    """A value for readers; a rounded float is followed by its word, in the form that `parse_arguments` reads."""
    if isinstance(value, float):
        from retrograd.runtime._arrays import WordFloat, needs_words

        return f"{value!r} = word({value.word})" if isinstance(value, WordFloat) and needs_words(value) else repr(value)
    if hasattr(value, "tolist"):
        import numpy as np

        return np.array2string(value, precision=10, separator=", ", threshold=200)
    return repr(value)


def argument_named(text: str) -> int | str:
    """An argument of a function, by name or by position."""
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else text
