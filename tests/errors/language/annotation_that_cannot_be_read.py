from __future__ import annotations

from retrograd import reversible


@reversible
def f(y: fixd):
    y += 1


f(0.0)
