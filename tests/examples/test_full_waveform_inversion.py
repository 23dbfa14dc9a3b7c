"""Full-waveform inversion: its gradient against an adjoint in floating point and differences, memory, a descent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from retrograd.examples import full_waveform_inversion as fwi

from retrograd.presentation import faults
from retrograd.testing import check_inverse

SIZE, SHOTS = 17, 3


@pytest.fixture(scope="module")
def survey() -> fwi.Survey:
    return fwi.survey(SIZE, SHOTS, 6)


@pytest.fixture(scope="module")
def seen(survey: fwi.Survey) -> fwi.Reals:
    return fwi.observe(survey, fwi.phantom(SIZE))


def test_recordings_differ_by_the_body(survey: fwi.Survey, seen: fwi.Reals) -> None:
    assert seen.shape == (SHOTS, len(survey.pulse), 6)
    assert np.abs(seen - fwi.observe(survey, fwi.water(SIZE))).max() > 0.01


def test_the_true_velocities_have_no_misfit(survey: fwi.Survey, seen: fwi.Reals) -> None:
    value, slope = fwi.objective(survey, seen)(fwi.phantom(SIZE))
    assert value == 0
    assert not slope.any()


def test_out_and_back(survey: fwi.Survey, seen: fwi.Reals) -> None:
    args = survey.fields(fwi.water(SIZE))
    check_inverse(fwi.record, np.zeros_like(seen[0]), *args, survey.sources[0], survey.pulse, survey.receivers)
    check_inverse(fwi.misfit, 0.0, *args, survey.sources[0], survey.pulse, survey.receivers, seen[0])


@pytest.mark.parametrize("states", [None, 1, 5])
def test_gradient_against_the_adjoint_in_floating_point(
    survey: fwi.Survey, seen: fwi.Reals, states: int | None
) -> None:
    """For a tape and for checkpoints: the same float64s, since the same steps are computed."""
    v = fwi.water(SIZE)
    ours = fwi.running_backward(survey, 1, v, seen)
    theirs = fwi.adjoint(survey, 1, v, seen, states)
    assert ours.inputs_restored
    assert ours.value == pytest.approx(theirs.value, rel=1e-6)
    assert np.abs(ours.gradients - theirs.by_c).max() < 2e-6 * np.abs(theirs.by_c).max()


def test_sum_over_shots_against_differences(survey: fwi.Survey, seen: fwi.Reals) -> None:
    """The derivative along a direction d, of all shots and by the velocity: (J(v + h d) − J(v − h d)) / 2h."""
    j, v = fwi.objective(survey, seen), fwi.water(SIZE)
    d = np.where(survey.unknown, np.random.default_rng(1).normal(size=v.shape), 0)
    h = 2.0**-10
    difference = (j(v + h * d)[0] - j(v - h * d)[0]) / (2 * h)
    assert float((j(v)[1] * d).sum()) == pytest.approx(difference, rel=2e-4)
    assert abs(difference) > 1e-3


def test_known_cells_have_no_slope(survey: fwi.Survey, seen: fwi.Reals) -> None:
    slope = fwi.objective(survey, seen)(fwi.water(SIZE))[1]
    assert not slope[~survey.unknown].any()
    assert np.count_nonzero(slope) == survey.unknown.sum()


def test_memory_against_time_steps(survey: fwi.Survey, seen: fwi.Reals) -> None:
    """Running backward holds the arguments and their cotangents; a tape two fields more for each time step."""
    words = []
    for steps in (10, 20):
        few = survey._replace(pulse=survey.pulse[:steps])
        data = seen[:, :steps]
        report = fwi.running_backward(few, 0, fwi.water(SIZE), data)
        tape, two = (fwi.adjoint(few, 0, fwi.water(SIZE), data, states) for states in (None, 2))
        words.append((report.memory_words - few.pulse.size - data[0].size, tape.words, two.words))
        assert two.steps > tape.steps == 2 * steps - 1
    (ours, tape, two), (longer, taped, checkpointed) = words
    assert ours == longer
    assert taped - tape == 10 * (2 * SIZE * SIZE + 7)
    assert checkpointed - two == 10 * 7


def test_descent(survey: fwi.Survey, seen: fwi.Reals) -> None:
    start, true = fwi.water(SIZE), fwi.phantom(SIZE)
    found, misfits = fwi.invert(survey, fwi.objective(survey, seen), start, 8)
    assert misfits == sorted(misfits, reverse=True)
    assert misfits[-1] < misfits[0] / 20
    assert fwi.error(survey, found, true) < 0.6 * fwi.error(survey, start, true)
    assert (found[~survey.unknown] == fwi.WATER).all()


def test_pictures(survey: fwi.Survey) -> None:
    models = {"at the start": fwi.water(SIZE), "after 25 iterations": fwi.phantom(SIZE), "true": fwi.phantom(SIZE)}
    assert faults(fwi.draw_models(survey, models)) == []
    assert faults(fwi.draw_misfits([1.0, 0.1, 0.01, 1e-4])) == []


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--size", str(SIZE), "--shots", "2", "--iterations", "2", "--plot", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["full_waveform_inversion", *options])
    fwi.main()
    assert "back at the first word: True" in capsys.readouterr().out
    assert sorted(f.name for f in tmp_path.iterdir()) == ["misfits.svg", "models.png"]
