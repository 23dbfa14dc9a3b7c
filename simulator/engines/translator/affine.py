"""Affine normal forms of expression trees, and interval arithmetic on them.

    word = constant + Σ coefficientᵢ · treeᵢ   mod 2^W

Two trees with one form are equal words, so a sum and its difference cancel: (x + m) − m has the form of x.
Correct because a sum of words is exact mod 2^W in any order. A form gives bounds of the signed word where the bounds of its exact
sum fit the word; otherwise the sum may wrap, and nothing is known.
Source: interval arithmetic on linear forms (K. L. Comba and J. Stolfi, Affine arithmetic and its applications to computer
graphics, 1993, without the errors).
"""

from __future__ import annotations

from collections.abc import Mapping

from retrograd.isa.expr import ONE, ZERO, Expr, apply_operation, const, fold, half
from retrograd.isa.folds import is_truth
from retrograd.isa.words import Format

#: tree -> coefficient; the coefficient of ONE is the constant
Form = Mapping[Expr, int]
Bounds = tuple[int, int]


class AffineForms:
    """Trees in normal form; equal forms are made the same tree."""

    def __init__(self, w: Format) -> None:
        self.w = w
        self._forms: dict[Expr, Form] = {}
        #: in which order the terms of a sum are written
        self._order: dict[Expr, int] = {}

    def form(self, tree: Expr) -> Form:
        """The form of a tree that is in normal form."""
        if tree.op == "const":
            return {ONE: self._constant(tree)} if self._constant(tree) else {}
        return self._forms.get(tree) or {tree: 1}

    def _constant(self, tree: Expr) -> int:
        assert isinstance(tree.param, int)
        return self.w.signed(tree.param)

    def combined(self, x: Expr, y: Expr, factor: int = 1) -> Form:
        """The form of x + factor · y."""
        out = dict(self.form(x))
        for atom, k in self.form(y).items():
            out[atom] = self.w.signed(out.get(atom, 0) + factor * k)
        return {atom: k for atom, k in out.items() if k}

    def tree(self, form: Form) -> Expr:
        """The normal form as a tree."""
        atoms = sorted((a for a in form if a is not ONE), key=lambda a: self._order.setdefault(a, len(self._order)))
        constant = form.get(ONE, 0)
        if len(atoms) == 1 and not constant and form[atoms[0]] == 1:
            return atoms[0]
        out: Expr | None = None
        # Positive terms first, so that no sum begins with a negation.
        for atom in sorted(atoms, key=lambda a: form[a] < 0):
            size = abs(form[atom])
            term = atom if size == 1 else _multiple(atom, size)
            if out is None:
                out = term if form[atom] > 0 else ZERO - term
            else:
                out = out + term if form[atom] > 0 else out - term
        if out is None:
            return const(constant)
        if constant:
            out = out + const(constant)
        self._forms[out] = dict(form)
        return out

    def sum(self, x: Expr, y: Expr, factor: int = 1) -> Expr:
        """x + factor · y in normal form, of trees in normal form."""
        return self.tree(self.combined(x, y, factor))

    def normal(self, tree: Expr, words: Mapping[str, Expr]) -> Expr:
        """The tree in normal form, with its inputs replaced by trees in normal form."""

        def combine(node: Expr, args: list[Expr]) -> Expr:
            if node.op == "input":
                return words[str(node.param)]
            return self._made(node, args)

        return fold(tree, combine)

    def _made(self, node: Expr, args: list[Expr]) -> Expr:
        w, op, s = self.w, node.op, node.param
        if op == "const":
            return const(self._constant(node))
        if all(arg.op == "const" for arg in args):
            assert s is None or not isinstance(s, str)
            return const(w.signed(apply_operation(w, op, s or 0, [w.wrap(self._constant(arg)) for arg in args])))
        if op in ("add", "sub"):
            return self.sum(args[0], args[1], 1 if op == "add" else -1)
        if op == "select" and args[0].op == "const":
            return args[1] if self._constant(args[0]) else args[2]
        if op == "select" and args[1] is args[2]:
            return args[1]
        if op in ("mulshift", "mulround", "shl"):
            found = self._scaled(op, args, s if isinstance(s, int) else 0)
            if found is not None:
                return found
        return Expr(op, tuple(args), s)

    def _scaled(self, op: str, args: list[Expr], s: int) -> Expr | None:
        """The product with a constant where it is exact: x · c, or x · 2^j / 2^s for s ≤ j."""
        x, y = args
        if x.op == "const" and op != "shl":
            x, y = y, x
        if y.op != "const":
            return None
        factor = self._constant(y)
        if op == "shl":
            factor, s = 1 << factor % self.w.width, 0
        if s >= self.w.width or factor % (1 << s):
            return None
        return self.sum(ZERO, x, factor >> s)


def _multiple(atom: Expr, size: int) -> Expr:
    return atom << size.bit_length() - 1 if size & (size - 1) == 0 else atom * size


class Intervals:
    """Bounds of trees in normal form, from bounds of their inputs."""

    def __init__(self, forms: AffineForms, bounds: Mapping[str, Bounds]) -> None:
        self._forms, self._bounds = forms, bounds
        self._word = -forms.w.sign, forms.w.sign - 1
        self._found: dict[Expr, Bounds] = {}

    def fits(self, bounds: Bounds) -> bool:
        return self._word[0] <= bounds[0] and bounds[1] <= self._word[1]

    def of(self, tree: Expr) -> Bounds:
        """Bounds of the signed word."""
        exact = self.exact(self._forms.form(tree))
        return exact if self.fits(exact) else self._word

    def exact(self, form: Form) -> Bounds:
        """Bounds of the form's sum before it wraps."""
        low = high = 0
        for atom, k in form.items():
            a, b = (1, 1) if atom is ONE else self._atom(atom)
            low, high = low + min(k * a, k * b), high + max(k * a, k * b)
        return low, high

    def product(self, x: Expr, y: Expr) -> Bounds:
        """Bounds of the exact product."""
        ends = [a * b for a in self.of(x) for b in self.of(y)]
        low, high = min(ends), max(ends)
        return (max(low, 0) if x is y else low), high

    def _atom(self, tree: Expr) -> Bounds:
        found = self._found.get(tree)
        if found is None:
            found = self._compute(tree)
            found = self._found[tree] = found if self.fits(found) else self._word
        return found

    def _compute(self, tree: Expr) -> Bounds:
        op, s = tree.op, tree.param
        if op == "input":
            return self._bounds.get(str(s), self._word)
        if op in ("mulshift", "mulround"):
            assert isinstance(s, int)
            low, high = self.product(tree.args[0], tree.args[1])
            added = half(s, self._forms.w) if op == "mulround" else 0
            return low + added >> s, high + added >> s
        if op == "select":
            (a, b), (c, d) = self.of(tree.args[1]), self.of(tree.args[2])
            return min(a, c), max(b, d)
        if op in ("eq", "lt"):
            return self._comparison(op, self.of(tree.args[0]), self.of(tree.args[1]))
        if op == "sar" and tree.args[1].op == "const":
            by = self._forms.form(tree.args[1]).get(ONE, 0) % self._forms.w.width
            low, high = self.of(tree.args[0])
            return low >> by, high >> by
        if op == "and" and tree.args[1].op == "const":
            # The last bit that a shift leaves out.
            mask = self._forms.form(tree.args[1]).get(ONE, 0)
            return (0, mask) if mask >= 0 else self._word
        return (0, 1) if is_truth(tree) else self._word

    def _comparison(self, op: str, x: Bounds, y: Bounds) -> Bounds:
        if op == "eq":
            return (1, 1) if x == y and x[0] == x[1] else (0, int(x[0] <= y[1] and y[0] <= x[1]))
        return int(x[1] < y[0]), int(x[0] < y[1])
