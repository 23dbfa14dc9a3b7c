"""Random programs of the language, and a model of what they mean that is independent of the compiler.

| module | |
|---|---|
| words | numbers and operators, as Python integers |
| values, evaluator, model | a tree-walking interpreter of the language, forward and backward |
| scope, expressions, statements, locals, further, constructs, generate | the programs, from a seed |
| edges | programs whose sums nearly overflow |
| checks | what must hold for each |
| shrink | a failing program made smaller |
"""
