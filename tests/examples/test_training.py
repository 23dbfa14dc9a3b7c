"""What learns: by consistency, by Newton's method and Adam's, by the likelihood of a flow."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.examples import consistency
from retrograd.examples import graph_embedding as graph
from retrograd.examples import nice as flows

import retrograd as rg
from retrograd import Array, fixed, reversible

#: the last place
ULP = 2.0**-32


# ---------------------------------------------------------------- consistency


def learn(f: Any, args: Any = (0.0, 0.3, 1.6), **changes: Any) -> Any:
    return rg.learn_by_consistency(f, args, **{"outputs": {"y": 1.0}, "parameters": "p", **changes})


def test_one_trains() -> None:
    learnt = learn(consistency.clearing)
    assert learnt.converged
    assert learnt.arguments.p == pytest.approx(0.5543552444685, abs=4 * ULP)
    assert learnt.arguments[:2] == pytest.approx((0, 0.3), abs=ULP)
    assert consistency.clearing(*learnt.arguments).y == pytest.approx(1, abs=8 * ULP)
    assert learnt.history["y"][0] == pytest.approx(5.336, abs=5e-4)
    assert learnt.history["y"][-1] == pytest.approx(1, abs=8 * ULP)
    assert learnt.rounds == len(learnt.history["y"]) < 100
    assert learnt.stationary


def test_the_other_does_not() -> None:
    learnt = learn(consistency.keeping)
    assert not learnt.converged
    assert (learnt.stationary, learnt.period, learnt.rounds) == (True, 1, 1)
    assert learnt.history["y"] == pytest.approx([5.336], abs=5e-4)
    assert learnt.arguments.p == pytest.approx(1.6, abs=ULP)


def test_rounds_are_those_of_calls() -> None:
    x, p = 0.3, 1.6
    answers = []
    for _ in range(5):
        y, x, p = consistency.clearing(0.0, 0.3, p)
        answers.append(y)
        _, _, p = (~consistency.clearing)(1.0, x, p)
    learnt = learn(consistency.clearing, {"p": 1.6, "x": 0.3, "y": 0.0}, steps=5)
    assert learnt.history["y"].tolist() == answers
    assert learnt.arguments.p == p
    assert (learnt.converged, learnt.stationary, learnt.rounds) == (False, False, 5)


@reversible
def clearing_each(y: Array[fixed, "n"], x: Array[fixed, "n"], p: Array[fixed, "n"], count: int) -> None:
    """clearing, element by element; the number of calls is counted."""
    consistency.clearing.each(y, x, p)
    count += 1


def test_arrays() -> None:
    x = np.array([0.3, 0.1])
    learnt = learn(clearing_each, (np.zeros(2), x, np.ones(2), 7), outputs={"y": [1.0, 0.8]}, tolerance=8 * ULP)
    assert learnt.converged
    assert learnt.history["y"].shape == (learnt.rounds, 2)
    assert learnt.arguments.p == pytest.approx(np.log(np.array([1.0, 0.8]) + np.exp(x)) - x, abs=1e-8)
    assert learnt.arguments.count == 7


def test_the_inverse_learns_too() -> None:
    """Backward, with the target where `clearing` begins: the p from which y = 1 comes of y = 0."""

    @reversible
    def unclearing(y: fixed, x: fixed, p: fixed) -> None:
        ~consistency.clearing(y, x, p)

    one, other = learn(consistency.clearing, steps=20), learn(~unclearing, steps=20)
    assert one.history["y"].tolist() == other.history["y"].tolist()
    assert tuple(one.arguments) == tuple(other.arguments)


def test_parameters_are_exact() -> None:
    """A p of 58 bits is what it was, although floats hold 53."""

    @reversible
    def f(y: fixed, p: fixed) -> None:
        p += 2.0**-32
        y += p / 3

    assert learn(f, (0.0, 2.0**25)).period == 1


def test_callback_stops() -> None:
    seen = []

    def callback(i: int, after: Any) -> bool:
        seen.append((i, after.y))
        return i == 2

    learnt = learn(consistency.clearing, callback=callback)
    assert seen == list(enumerate(learnt.history["y"]))
    assert learnt.rounds == 3


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"parameters": "q"}, "no argument `q`"),
    ({"parameters": ["p", "P"]}, "no argument `P`"),
    ({"parameters": ()}, "no parameters"),
    ({"outputs": {}}, "no outputs"),
    ({"outputs": {"z": 1.0}}, "no argument `z`"),
    ({"outputs": {"y": [1.0, 2.0]}}, "`y` of `clearing` is one fixed"),
    ({"outputs": {"y": 1e20}}, "`y`: 1e[+]20 does not fit"),
    ({"outputs": {"y": 1.0, "p": 1.0}}, "`p` is an output and a parameter"),
    ({"steps": 0}, "steps = 0"),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED, ids=lambda x: str(x)[:30])
def test_what_is_refused_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(rg.InputError, match=message):
        learn(consistency.clearing, **wrong)


def test_targets_have_the_shape_of_outputs() -> None:
    @reversible
    def f(y: Array[fixed, "n"], p: fixed) -> None:
        y += p

    with pytest.raises(rg.InputError, match="the target of `y` is"):
        learn(f, (np.zeros(2), 1.0), outputs={"y": np.zeros(3)})


def test_a_struct_is_no_output() -> None:
    @rg.struct
    class Pair:
        a: fixed
        b: fixed

    @reversible
    def f(y: Pair, p: fixed) -> None:
        y.a += p

    with pytest.raises(rg.InputError, match="`y` is Pair, which is not an output"):
        learn(f, (Pair(0.0, 0.0), 1.0), outputs={"y": Pair(1.0, 0.0)})


def test_a_target_out_of_reach() -> None:
    with pytest.raises(rg.ProgramTrap) as caught:
        learn(consistency.clearing, outputs={"y": 5.0})
    assert caught.value.diagnostics[0].code == "RG0403"
    assert caught.value.__notes__ == ["learning by consistency: in round 3, on the way back"]


# ---------------------------------------------------------------- graph embedding


def test_hessian_vector() -> None:
    """Against differences of differences in floating point; symmetric."""
    generator = np.random.default_rng(1)
    x, u, v = (generator.normal(size=(10, 3)) for _ in range(3))
    hu, hv = graph.hessian_vector(x, u), graph.hessian_vector(x, v)
    assert (hu * v).sum() == pytest.approx((hv * u).sum(), abs=1e-4)
    h = 2.0**-12
    corners = ((a, b) for a, b in itertools.product((1, -1), repeat=2))
    mixed = sum(a * b * graph.reference(x + h * (a * u + b * v)) for a, b in corners) / (2 * h) ** 2
    assert (hu * v).sum() == pytest.approx(mixed, abs=1e-4)
    assert not graph.hessian_vector(x, np.zeros_like(x)).any()


def near_solution() -> Any:
    return graph.solution() + np.random.default_rng(2).normal(scale=0.03, size=(10, 5))


def test_newton_finds_the_solution() -> None:
    x = near_solution()
    losses = []
    found = graph.newton(x, steps=8, report=lambda step, loss: losses.append(loss))
    assert graph.embedding_loss(0.0, found).out < 1e-6 < graph.reference(x)
    assert losses == sorted(losses, reverse=True)
    assert graph.ratio(found) == pytest.approx(np.sqrt(2), abs=1e-4)
    assert (found[: graph.HELD] == x[: graph.HELD]).all()


def test_adam_descends() -> None:
    x = near_solution()
    losses = []
    found = graph.adam(x, steps=12, report=lambda step, loss: losses.append(loss), lr=0.003)
    assert losses[0] == pytest.approx(graph.reference(x), abs=1e-8)
    assert graph.reference(found) < losses[0] / 2
    assert (found[: graph.HELD] == x[: graph.HELD]).all()


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(SystemExit, match="pip install scipy"):
        graph.newton(graph.solution())


@pytest.mark.long
@pytest.mark.parametrize(
    ("k", "distance", "least"), [(2, 1, 0.061938), (3, 1, 0.036799), (4, 1, 0.018721), (3, 0.646, 0.01535)]
)
def test_too_few_dimensions(k: int, distance: float, least: float) -> None:
    found = graph.newton(graph.start(k, graph.SEEDS[k], distance))
    assert graph.embedding_loss(0.0, found).out == pytest.approx(least, abs=2e-5)


@pytest.mark.long
def test_five_dimensions_are_enough() -> None:
    found = graph.newton(graph.start(5, graph.SEEDS[5]))
    assert graph.embedding_loss(0.0, found).out < 1e-8
    near, far = (np.linalg.norm(found[p[:, 0]] - found[p[:, 1]], axis=1) for p in (graph.EDGES, graph.OTHERS))
    assert near == pytest.approx(np.ones(15), abs=1e-4)
    assert far == pytest.approx(np.full(30, np.sqrt(2)), abs=1e-4)


@pytest.mark.long
def test_adam_gets_there_too() -> None:
    found = graph.adam(graph.start(5, graph.SEEDS[5]))
    assert graph.embedding_loss(0.0, found).out < 1e-6
    assert graph.ratio(found) == pytest.approx(np.sqrt(2), abs=1e-3)


# ---------------------------------------------------------------- a flow


def numpy_flow(points: Any, parameters: Any) -> Any:
    z = points.T.copy()
    for i in range(len(parameters.w1)):
        a, b = (0, 1) if i % 2 == 0 else (1, 0)
        hidden = np.maximum(parameters.w1[i] * z[a] + parameters.b1[i][:, None], 0)
        z[b] += parameters.w2[i, 0] @ hidden + parameters.b2[i, 0]
    return z.T


def numpy_loss(points: Any, parameters: Any) -> float:
    z = numpy_flow(points, parameters) * np.exp(-parameters.s)
    return float((z**2).sum(axis=1).mean() / 2 + parameters.s.sum() + np.log(2 * np.pi))


def some_parameters() -> Any:
    return flows.start(layers=3, seed=5)._replace(s=np.array([0.2, -0.3]))


def test_flow_against_numpy() -> None:
    parameters, points = some_parameters(), flows.ring(8, 1)
    after = flows.loss(0.0, points, 1, *parameters)
    assert after.out == pytest.approx(numpy_loss(points, parameters), abs=1e-6)
    assert after.points == pytest.approx(numpy_flow(points, parameters), abs=1e-7)


def test_slopes_of_the_loss() -> None:
    parameters, points = some_parameters(), flows.ring(8, 1)
    _, slopes = flows.loss_and_gradient(0.0, points, 1, *parameters)
    generator = np.random.default_rng(4)
    h = 1e-5
    for name, slope in zip(parameters._fields, slopes, strict=True):
        change = generator.normal(size=slope.shape)
        above, below = (
            numpy_loss(points, parameters._replace(**{name: getattr(parameters, name) + sign * h * change}))
            for sign in (1, -1)
        )
        assert (slope * change).sum() == pytest.approx((above - below) / (2 * h), abs=2e-5)


@pytest.mark.parametrize("passes", [1, 3])
def test_the_inverse_returns_the_data(passes: int) -> None:
    parameters, points = some_parameters(), flows.ring(8, 2)
    before = rg.run(flows.flow, points, 0, *parameters.layers).words
    out = rg.run(flows.flow, points, passes, *parameters.layers)
    back = rg.run(flows.flow, *out.values, backward=True)
    assert out.words["points"] != before["points"]
    assert back.words == {**before, "passes": [passes]}
    assert not any(back.machine.registers)


def test_samples_come_of_running_backward() -> None:
    parameters = some_parameters()
    drawn = flows.samples(8, parameters, seed=3)
    z = np.random.default_rng(3).normal(size=(8, 2)) * np.exp(parameters.s)
    assert numpy_flow(drawn, parameters) == pytest.approx(z, abs=1e-6)


def test_training_lowers_the_loss() -> None:
    data, begun = flows.ring(64, 2), flows.start()
    losses = []
    trained = flows.train(data, begun, 20, lambda step, loss: losses.append(loss))
    assert len(losses) == 20
    assert numpy_loss(data, begun) > 6
    assert numpy_loss(data, trained) < 4


def test_memory_is_that_of_the_parameters() -> None:
    sizes = {(layers, passes): flows.words(layers, passes) for layers in (2, 4, 8) for passes in (1, 2)}
    assert len({total - own for total, own, _ in sizes.values()}) == 1
    for layers in (2, 4, 8):
        (once, _, few), (twice, _, many) = sizes[layers, 1], sizes[layers, 2]
        assert once == twice
        assert many > 1.8 * few
    assert [own for _, own, _ in sizes.values()] == [layers * (3 * flows.HIDDEN + 1) + 2 for layers, _ in sizes]


@pytest.mark.long
def test_main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setattr(flows, "UNSEEN", 16)
    monkeypatch.setattr(flows, "BATCH", 4)
    monkeypatch.setattr(sys, "argv", ["nice", "--steps", "2", "--plot", str(tmp_path / "flow.svg")])
    flows.main()
    out = capsys.readouterr().out
    assert "the same to the bit: True" in out
    assert (tmp_path / "flow.svg").stat().st_size > 1000


@pytest.mark.long
def test_a_ring_is_learnt() -> None:
    unseen = flows.ring(1000, 3)
    trained = flows.train(flows.ring(flows.POINTS, 2), flows.start(), 300, lambda step, loss: None)
    assert numpy_loss(unseen, trained) < flows.normal(unseen) - 0.7
    radius = np.linalg.norm(flows.samples(200, trained), axis=1)
    assert np.median(abs(radius - 1.3)) < 0.2
