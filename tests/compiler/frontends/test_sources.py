"""Where the source of a function comes from."""

from __future__ import annotations

import doctest
from typing import Any

EXAMPLE = """
>>> import retrograd as rg
>>> @rg.reversible
... def above(x: rg.fixed):
...     x += 1.0
>>> above(1.5)
above(x=2.5)
>>> @rg.reversible
... def wrong(x: rg.fixed):
...     x += x
>>> try:
...     wrong(1.5)
... except rg.RetrogradError as error:
...     print(error.diagnostics[0].span, "|", error.diagnostics[0].line)
<doctest example[3]>:3:10 |     x += x
"""


def test_functions_in_doctests() -> None:
    """Python knows no file of theirs: errors name the example, as its tracebacks do."""
    found: list[str] = []
    names: dict[str, Any] = {}
    test = doctest.DocTestParser().get_doctest(EXAMPLE, names, "example", None, None)
    assert len(test.examples) == 5
    doctest.DocTestRunner().run(test, out=found.append)
    assert not found, "".join(found)
