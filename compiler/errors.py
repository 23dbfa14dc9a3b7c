"""Kinds of errors of the compiler (RG07), and traps of compiled functions (RG08)."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0701", "not in the language", "A reversible function is compiled and not executed by Python, so it consists of statements that have an inverse.",
     "docs/language.md lists the statements."),
    ("RG0702", "unknown name", "The name is neither a local variable nor defined in the function's module.",
     "Define it first, or correct its spelling."),
    ("RG0703", "wrong type", "The operation is not defined for values of this type.",
     "Convert the value, or use the operation for its type."),
    ("RG0704", "update reads what it writes", "The old value is needed to find the value that was added, and the statement has changed it.",
     "Store the new value in a new variable, `t = y + x * y`, and use it from there on; or copy the variable that is only read."),
    ("RG0705", "aliased arguments", "Two parameters would name the same variable or overlapping elements, and at least one of the two is changed.",
     "Pass different variables. Copy one into a local variable first if only its value is needed."),
    ("RG0706", "name already in use", "`=` makes a new variable; the value of an existing variable would be lost.",
     "Update it with += or -=, or free it first with `del`."),
    ("RG0707", "condition changed by its body", "When the function runs backward, the condition decides which branch is undone. So the condition must "
     "still hold after the body.",
     "Write `if (before, after):` with a second condition that is true exactly if the body was run."),
    ("RG0708", "loop changed by its body", "When the function runs backward, the bounds and the index of a `for` decide where the loop ends. So its "
     "body must not change them.",
     "Use another variable, or `while (before, after):`."),
    ("RG0709", "read-only value changed", "A constant, the value of an expression, or the index of a loop has no memory of its own that could be "
     "changed.",
     "Pass or update a variable; make one with `t = …`."),
    ("RG0710", "ancilla freed with another value", "A variable that goes out of scope must hold a value that the compiler can restore: zero, or its "
     "initial value.",
     "Undo the changes first: put the computation in `with rg.routine() as r:` and write `~r`."),
    ("RG0711", "routine out of order", "Each routine is uncomputed in the block in which it was computed, and the last computed routine first.",
     "Write `~r` after the last use of the results of the routine r."),
    ("RG0712", "shape mismatch", "Arrays in one operation have the same shape, or shapes that broadcast: equal lengths or 1, aligned at the last axis.",
     "Make the shapes agree; `x.shape` is known when the program is compiled."),
    ("RG0713", "constant index out of range", "The array has no such element.",
     "Indices go from 0 to length − 1; negative constants count from the end."),
    ("RG0714", "constant out of range", "The constant has no word in this format.",
     "Scale it, or choose a format with more bits before the point."),
    ("RG0715", "wrong arguments in a call", "The call does not fit the function's parameters.",
     "Give as many arguments as there are parameters, of their types."),
    ("RG0716", "no source to compile", "A reversible function is read as source text; for this one there is none.",
     "Define it in a file or a notebook cell."),
    ("RG0717", "unknown until it runs", "The value must be known when the program is compiled: it is a shape, a length, or a static argument.",
     "Use a constant, a length such as len(x), or a parameter annotated `rg.static`."),
    ("RG0718", "value no longer at hand", "To free a variable, the compiler computes its value again. An operand of that computation has changed or "
     "was freed.",
     "Free it earlier, or undo the change first."),
    ("RG0719", "specialisation without end", "Each call needs a version of the function for other types, shapes or static values.",
     "Let the recursion end by a condition on static values, or make the argument dynamic."),
    ("RG0720", "function too large", "The compiler works through nested expressions and blocks by recursion, whose depth is limited.",
     "Split the expression, or move parts of it into functions."),
    ("RG0721", "impure Python", "Python in a reversible function runs once, when the function is compiled, and its result becomes part of the program. "
     "So only Python that is known to be pure may run. docs/language.md lists it.",
     "Compute the value outside and pass it as an argument, declare your function with `@rg.pure`, or move the code into `with rg.external():`."),
    ("RG0722", "not a struct", "A struct is a class of fields of types with a known number of words: int, bool, fixed, lognum, arrays of known shape, "
     "other structs.",
     "Annotate each field with such a type, and do not derive the class from another: `class Point:`, `x: fixed`."),
    ("RG0723", "constant too large to compute", "Constants are computed while the function is compiled; this one would take memory or time without "
     "bound.",
     "Compute it outside and pass the result, or write a smaller constant."),
    ("RG0724", "not an S-expression", "A VLAD file consists of numbers, symbols, and lists in brackets that match.",
     "Correct the brackets, quotes and dots."),
    ("RG0725", "not a program of Janus", "A Janus program consists of procedures, whose statements have an inverse.",
     "docs/janus.md lists the statements."),
    ("RG0726", "not an instruction", "An instruction is `rd ⊕= f(ra, rb)` with a tree for f, whose laws are checked when it is defined.",
     "docs/language.md shows how an instruction is defined."),
    ("RG0727", "not an adjoint", "An adjoint takes the arguments of its function, and a cotangent for some of them, and changes the cotangents only.",
     "docs/language.md shows how an adjoint is defined."),
    ("RG0729", "not in the functional language", "A functional program is a value: expressions that are computed and uncomputed. Names are assigned again; arguments, lists and "
     "objects never change, and there are no exceptions.",
     "docs/functional.md lists the expressions, docs/vlad.md the forms of VLAD."),
    ("RG0730", "constant becomes 0", "The smallest number of a format is 2^-F, and a number up to half of it has the word 0. The program would "
     "compute without the constant. Numbers and elements of arrays that are only factors or divisors keep their bits.",
     "Choose a format with more bits behind the point, or scale the numbers of the program."),
    ("RG0731", "another name of a value that changes", "In Python another name keeps the old number or object; here both names stand for the same words.",
     "Copy the value that shall stay, `t = x` of a number, `t = rg.copy(x)` of anything else; or change fields and elements."),
    ("RG0732", "fault of the compiler", "The compiler verifies each program that it makes. This failure is a fault of Retrograd, and not of the program.",
     "Please report it, with the function, its arguments and this message. `level=0` or another form of the statement may avoid it."),
    ("RG0733", "not a loop with checkpoints", "The steps of such a loop are functions of its state, and are computed several times. The first state is kept until the routine "
     "around the loop is uncomputed.",
     "docs/guides/time-and-space.md has the form of the block: a loop over a range within a routine, whose body overwrites variables by `x = …`."),
    ("RG0734", "program too large for its format",
     "Addresses, and distances of jumps and accesses, are words. In formats of 4, 8 and 16 bits there are few of them, "
     "and each derivative has several times the code and memory of its function.",
     "Choose a wider format, or write a smaller program."),
    ("RG0801", "index out of range", "The array has no such element.",
     "Test the index or the length with a branch first, or correct the loop's bounds."),
    ("RG0802", "dirty ancilla", "A variable that is freed must hold its initial value, or the value that the freeing statement gives. Any other value would be erased.",
     "Uncompute it with `~r`, or erase it with `rg.erase` at the price of its bits."),
    ("RG0803", "contradicted condition", "When the function runs backward, the second condition decides which branch is undone. It must hold exactly "
     "if the first condition held.",
     "Choose a second condition that is true after the body exactly if the body was run."),
    ("RG0804", "assertion failed", "The program claims that the condition holds in both directions of execution.",
     "Correct the program or its arguments."),
    ("RG0805", "aliased elements", "Two elements that must differ are the same element, which would be read while it is written.",
     "Handle equal indices in a separate branch."),
    ("RG0806", "stack overflow or underflow", "A stack holds at most the number of values in its type, and an empty stack has no value to pop.",
     "Give the stack more room, or push and pop in pairs."),
    ("RG0807", "stack full", "Every active call keeps its variables on a stack of limited size, and so does every array whose length is known only "
     "when the program runs.",
     "End the recursion earlier, make the array shorter, or enlarge the stack: `@reversible(stack=…)` or `@rg.functional(stack=…)` sets its words."),
    ("RG0809", "no room for cotangents", "A gradient that can run backward keeps the cotangents of freed variables, and the memory for them is full.",
     "Enlarge it: `keep=…` of `rg.reversible_gradient`, or `heap=…` of a functional function, sets its words. In a "
     "format of 8 or 16 bits it has at most a sixteenth of all addresses: choose a wider format."),
    ("RG0810", "negative power of an int", "The power of an int is an int, and x⁻ⁿ = 1/xⁿ is a fraction.",
     "Write `fixed(x) ** n`, which is a fixed number for every n; or test the exponent with a branch first."),
    ("RG0811", "heap full", "The cells of lists and data classes, and values that calls leave behind, lie in a heap of limited size until the run is "
     "uncomputed.",
     "Enlarge the heap: `heap=…` sets its words. Or let loops run in parts, which keep √n states of n passes: `parts=\"loop\"` for `for` and `while`, "
     "`parts=\"f\"` for a function f that calls itself at its end alone."),
    ("RG0812", "part of the empty list", "The empty list has no head and no tail.",
     "Test the list with `null?` or `pair?` first."),
    ("RG0813", "result of another size", "A list or data class is added to, or taken back from, a place with room for exactly its numbers and its form.",
     "Pass the result that the function gives for the same arguments in the same format, or leave it out."),
    ("RG0814", "view without an inverse", "A variable is changed through a view by computing the view of its value, and the value back from the view. Both must "
     "be exact.",
     "Choose a view that is exact for these values, or make a new variable of its value: `t = …`."),
    ("RG0815", "no second derivative", "Roots and sizes have a kink at 0. Their first derivative there is that of one side, or 0, and no second derivative follows from "
     "it.",
     "Write a square without its root, `x * x`, and a size within a smooth function as `max(-x, x)`; or give the point a branch of its own."),
    ("RG0816", "product or quotient that is not exact", "The statements `x *= e` and `x /= e` of Janus undo each other: the product is in the range of its type, and "
     "the quotient leaves no remainder.",
     "Choose a wider type or format, or test the remainder before, `assert x % e = 0`; `x += y / e` adds a quotient that is rounded down."),
)  # fmt: skip
