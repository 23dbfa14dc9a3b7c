"""Annotations of classes and signatures of functions, on all versions of Python.

From Python 3.14 on, an annotation is evaluated when it is read (PEP 649), and not when the class or the function is defined. An
undefined name is then an error of the reader.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

if sys.version_info >= (3, 14):
    from annotationlib import Format


def annotations_of(o: type | Callable[..., Any]) -> dict[str, Any]:
    """Name -> annotation. All are text where one has a name that is not defined, as after `from __future__ import annotations`.

    >>> class Point:
    ...     x: int
    >>> annotations_of(Point)
    {'x': <class 'int'>}
    """
    try:
        return inspect.get_annotations(o)
    except NameError:
        if sys.version_info >= (3, 14):
            return inspect.get_annotations(o, format=Format.STRING)
        raise


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a function, with annotations as `annotations_of` has them. Raises ValueError without a signature."""
    try:
        return inspect.signature(fn)
    except NameError:
        if sys.version_info >= (3, 14):
            return inspect.signature(fn, annotation_format=Format.STRING)
        raise
