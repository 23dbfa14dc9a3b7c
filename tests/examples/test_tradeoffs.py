"""The two ways of each example come to the same, and differ in what the analysis says."""

from __future__ import annotations

import numpy as np
import pytest
from retrograd.examples import bundle_adjustment as ba
from retrograd.examples.tradeoffs import forgetting_chain, product_by_fixed, product_by_lognum, squared_error

import retrograd as rg
from retrograd import fixed, library, reversible


@reversible
def logistic(y: fixed, x: fixed) -> None:
    y += 3.5 * x - 3.5 * x * x


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_products(n):
    x = [1 + (i % 5) / 8 if i % 2 else 1 / (1 + (i % 7) / 8) for i in range(n)]
    for f in (product_by_fixed, product_by_lognum):
        forth = f(0.25, x)
        assert forth.y == pytest.approx(0.25 + np.prod(x), rel=1e-7)
        back = (~f)(*forth)
        assert (back.y, back.x.tolist()) == (0.25, forth.x.tolist())
        assert rg.run(f, 0.0, x).erased_bits == 0


def test_lognumbers_need_no_more_words_for_longer_products():
    def peaks(f):
        reports = [rg.energy(f, 0.0, [1.25] * n, timeline=True) for n in (16, 32, 64)]
        return [r.ledger.peak_bits // 64 for r in reports]

    assert len(set(peaks(product_by_lognum))) == 1
    short, middle, long = peaks(product_by_fixed)
    assert (middle - short, long - middle) == (16, 32)


def test_the_chain_is_bennetts():
    states = [0.3] + [0.0] * (library.bennett_states(2, 4) - 1)
    run = rg.run(forgetting_chain, 0.0, 0.3, 16)
    assert run.values.y == library.bennett(logistic, 2, 4, states).states[1]
    # A word for each step, and the last state.
    assert run.erased_bits == 17 * 64


def test_the_squared_error():
    p = ba.read(ba.DATA / "test.txt")
    weight = float(p.weights[0])
    exact = ba.reference(p.cameras[0], p.points[0], weight, p.features[0])
    found = squared_error(0.0, p.cameras[0], p.points[0], weight, p.features[0])
    assert found.loss == pytest.approx(sum(e * e for e in exact), abs=1e-5)
