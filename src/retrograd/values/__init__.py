"""Values between Python and machine words: conversions, floats and arrays that keep their words, arguments of a call.

It imports `isa` and `compiler/language`; `functions`, `batch`, `differentiation` and `pricing` build on it, in this order.
Start with `numbers.py`; `binding.py` types the arguments of a call, `marshal.py` converts them and the results.
"""

from retrograd.values import errors as errors
