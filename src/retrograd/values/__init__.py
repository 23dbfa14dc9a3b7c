"""Values between Python and machine words: numbers, arrays, and floats that remember their words.

It imports `isa` and `compiler/language`; `functions`, `batch`, `differentiation` and `pricing` build on it, in this order.
Start with `numbers.py`; `marshal.py` stores arguments and reads results.
"""

from retrograd.values import errors as errors
