"""Arrays on the device as arguments of batches: the results are the host's, bit for bit, lie on the device, and nothing is copied."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from retrograd.examples import bessel, bundle_adjustment
from retrograd.isa.diagnostics import DeviceError, InputError, PrecisionWarning
from retrograd.simulator.engines.batch.layout import ResultArray
from retrograd.simulator.engines.cuda import device_arrays
from retrograd.simulator.engines.cuda.runtime import numba_cuda

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.runtime import _device
from retrograd.runtime._arrays import WordArray


@reversible
def misfit(loss: fixed, w: Array[fixed], x: Array[fixed], y: fixed):
    s = 0.0
    for i in range(len(x)):
        s += w[i] * x[i]
    s -= y
    loss += s * s
    s += y
    for i in range(len(x)):
        s -= w[i] * x[i]


def points(count: int = 40) -> tuple[Any, ...]:
    rng = np.random.default_rng(8)
    return np.zeros(count), rng.normal(size=3), rng.normal(size=(count, 3)), rng.normal(size=count)


AXES = {"w": None}


def there(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(rg.on_device, arguments))


def same(found: Any, expected: Any) -> None:
    """Device arrays with the numbers, and the words, of host arrays."""
    if isinstance(expected, tuple):
        assert type(found) is type(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
        return
    assert isinstance(found, rg.DeviceArray)
    assert found.shape == expected.shape
    here = found.numpy()
    assert here.tobytes() == np.asarray(expected).tobytes()
    if isinstance(expected, WordArray):
        assert isinstance(here, WordArray)
        assert here.tolist() == expected.tolist()


class Lent:
    """An array of another library: under the simulator the memory of the device is the host's."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, True), "version": 3,
        }  # fmt: skip


class Runtime:
    """What the calls of numba.cuda and of kernels do: launches, copies to and from the device, and memory that is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kernels: Any) -> None:
        self.counts: Counter[str] = Counter()
        cuda = numba_cuda()
        array = type(cuda.device_array(1))
        for owner, name, kind in (
            (kernels, "launch", "launches"), (cuda, "to_device", "copies"), (array, "copy_to_host", "copies"),
            (array, "copy_to_device", "copies"), (cuda, "device_array", "allocations"), (cuda, "pinned_array", "allocations"),
        ):  # fmt: skip
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name), kind))

    def _counted(self, call: Any, kind: str) -> Any:
        def counted(*arguments: Any, **more: Any) -> Any:
            self.counts[kind] += 1
            return call(*arguments, **more)

        return counted

    def of(self, call: Any) -> dict[str, int]:
        """The counts of a call."""
        self.counts.clear()
        call()
        return dict(self.counts)


@pytest.fixture
def runtime(translated: Any, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    return Runtime(monkeypatch, translated)


@pytest.fixture(autouse=True)
def fresh_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loops keep the kernels of a tier, so each test makes its own."""
    kept: dict[int, dict[Any, Any]] = {}
    run = _device.DeviceBatch.run

    def own(batch: Any, derived: dict[Any, Any], *more: Any) -> Any:
        return run(batch, kept.setdefault(id(derived), {}), *more)

    monkeypatch.setattr(_device.DeviceBatch, "run", own)
    device_arrays._converters.clear()
    yield
    device_arrays._converters.clear()


# ---------------------------------------------------------------------- values and gradients


def test_values_of_a_batch(tier: str) -> None:
    given = points()
    expected = rg.run_batch(misfit, *given, in_axes=AXES, engine="native")
    found = rg.run_batch(misfit, *there(given), in_axes=AXES)
    assert found.engine == "cuda"
    same(found.values.loss, expected.values.loss)
    same(found.values.x, expected.values.x)
    assert np.array_equal(found.steps, expected.steps)
    assert np.array_equal(found.erased_bits, expected.erased_bits)
    assert np.array_equal(found.matrix, expected.matrix)


def test_gradients_of_a_batch(tier: str) -> None:
    given = points()
    for f in (rg.grad(misfit), rg.grad(misfit, "w"), rg.value_and_grad(misfit, ("w", "x"))):
        same(rg.vmap(f, AXES)(*there(given)), rg.vmap(f, AXES, engine="native")(*given))


def test_sums_over_a_batch(tier: str) -> None:
    given = points()
    f = rg.vmap(rg.value_and_grad(misfit, ("w", "y")), AXES, shared="sum")
    loss, (w, y) = f(*there(given))
    expected, (by_w, by_y) = rg.vmap(rg.value_and_grad(misfit, ("w", "y")), AXES, shared="sum", engine="native")(*given)
    assert loss == expected
    same((w, y), (by_w, by_y))


def test_some_arguments_on_the_device(tier: str) -> None:
    loss, w, x, y = points()
    expected = rg.vmap(misfit, AXES, engine="native")(loss, w, x, y)
    for given in (
        (loss, w, rg.on_device(x), y),
        (loss, rg.on_device(w), x, y),
        (loss, rg.on_device(w), x, rg.on_device(y)),
    ):
        same(rg.vmap(misfit, AXES)(*given).loss, expected.loss)


def test_arrays_of_host_give_arrays_of_the_host(tier: str) -> None:
    given = points()
    found = rg.vmap(rg.grad(misfit, "w"), AXES, engine="cuda")(*given)
    assert isinstance(found, np.ndarray)


@pytest.mark.parametrize("engine", ["native", "threaded", "reference"])
def test_a_named_engine_of_the_cpu_copies_them(engine: str) -> None:
    given = points(5)
    found = rg.vmap(misfit, AXES, engine=engine)(*there(given))
    assert found.loss.tobytes() == rg.vmap(misfit, AXES, engine=engine)(*given).loss.tobytes()


def test_examples(tier: str) -> None:
    z = np.linspace(0.2, 2, 12)
    same(rg.vmap(rg.value_and_grad(bessel.bessel, "z"))(*there((np.zeros(12), z))),
         rg.vmap(rg.value_and_grad(bessel.bessel, "z"), engine="native")(np.zeros(12), z))  # fmt: skip


def test_single_calls() -> None:
    """Arrays are copied to the host, and the arrays of the result to the device."""
    loss, w, x, y = (a[0] if a.ndim and i != 1 else a for i, a in enumerate(points(2)))
    given, here = (loss, rg.on_device(w), rg.on_device(x), y), (loss, w, x, y)
    for make in (rg.grad, rg.value_and_grad):
        found, expected = make(misfit, ("w", "x"))(*given), make(misfit, ("w", "x"))(*here)
        if make is rg.value_and_grad:
            assert found[0] == expected[0]
            found, expected = found[1], expected[1]
        same(found, expected)
    same(rg.jacobian(misfit, "x")(*given), rg.jacobian(misfit, "x")(*here))
    assert isinstance(rg.grad(misfit, "w", engine="native")(*given), np.ndarray)
    axes = {"loss": None, "w": None, "y": None}
    many = np.stack([x, -x, x + 1])
    same(rg.vmap(rg.jacobian(misfit, "x"), axes)(loss, w, rg.on_device(many), y),
         rg.vmap(rg.jacobian(misfit, "x"), axes)(loss, w, many, y))  # fmt: skip


# ---------------------------------------------------------------------- words ride


@reversible
def product(y: fixed, x: fixed):
    y += x * x


def test_words_beyond_float64_go_from_run_to_run(tier: str) -> None:
    x = np.linspace(3000.1, 30000.3, 20)
    first, here = rg.vmap(product)(*there((np.zeros(20), x))), rg.vmap(product, engine="native")(np.zeros(20), x)
    assert isinstance(here.y, WordArray)
    same(first.y, here.y)
    same(rg.vmap(product, engine="auto")(first.y, rg.on_device(x)).y, rg.vmap(product, engine="native")(here.y, x).y)
    # And from the host: the words that an array keeps go there with it.
    assert rg.on_device(here.y).numpy().tolist() == here.y.tolist()


def test_words_stay_words_between_runs(runtime: Runtime) -> None:
    x, zeros = there((np.linspace(1.5, 2.5, 20), np.zeros(20)))
    first = rg.vmap(product)(zeros, x).y
    assert runtime.of(lambda: rg.vmap(product)(first, x))["launches"] == 1
    assert first._words is not None
    assert first._values is None


def test_shared_words_that_change(tier: str) -> None:
    """The shared words stay on the device while they are the same."""
    loss, w, x, y = points()
    given = rg.on_device(x)
    for factor in (1.0, 1.0, 0.5):
        same(
            rg.vmap(misfit, AXES)(loss, factor * w, given, y),
            rg.vmap(misfit, AXES, engine="native")(loss, factor * w, x, y),
        )


def test_rows_that_are_replaced(gpu: Any) -> None:
    w = rg.Format()
    for scale in (None, 3):
        result = _device.DeviceResult(gpu, 4, 2, w, scale)
        result.put(slice(None), np.arange(8, dtype=np.uint64).reshape(4, 2))
        assert result.on_device((4, 2)).numpy().tolist() == (np.arange(8.0).reshape(4, 2) * result.factor).tolist()
        words, reals = (np.full((1, 2), 5 << 40, np.uint64), None) if scale is None else (None, np.full((1, 2), 0.5))
        result.put_rows([2], ResultArray(words, reals, w))
        assert result.on_device((4, 2)).numpy()[2].tolist() == ([1280.0] * 2 if scale is None else [0.5] * 2)


def test_they_become_floats_when_they_are_read(runtime: Runtime) -> None:
    x = np.linspace(3000.1, 30000.3, 20)
    found, here = rg.vmap(product)(*there((np.zeros(20), x))).y, rg.vmap(product, engine="native")(np.zeros(20), x).y
    assert runtime.of(lambda: found.__cuda_array_interface__)["launches"] == 1
    assert "launches" not in runtime.of(lambda: found.__cuda_array_interface__)
    interface = found.__cuda_array_interface__
    # Numbers that are rounded lie beside their words, so none may be written.
    assert interface["data"][1]
    assert np.from_dlpack(found).tobytes() == np.asarray(here).tobytes()
    small = rg.vmap(product)(*there((np.zeros(20), x / 4096))).y
    assert not small.__cuda_array_interface__["data"][1]
    assert small._words is None


def test_another_format_reads_numbers(tier: str) -> None:
    x = np.linspace(1.1, 2.3, 9)
    first = rg.vmap(product)(*there((np.zeros(9), x))).y
    same(rg.vmap(product, format="Q16.16")(rg.on_device(np.zeros(9)), first).y,
         rg.vmap(product, format="Q16.16", engine="native")(np.zeros(9), first.numpy()).y)  # fmt: skip


# ---------------------------------------------------------------------- launches, copies, memory


def test_a_warm_call_copies_nothing(runtime: Runtime) -> None:
    """One launch, no copy, and no memory but that of the results."""
    given = there(points())
    f, g = rg.vmap(misfit, AXES), rg.vmap(rg.value_and_grad(misfit, ("w", "x")), AXES)
    kept = []
    for call, results in ((lambda: f(*given), 4), (lambda: g(*given), 3)):
        kept.append(call())
        for _ in range(3):
            found = runtime.of(lambda call=call: kept.append(call()))
            assert found.get("launches") == 1
            # The table of addresses is copied where the arrays of the results lie elsewhere.
            assert found.get("copies", 0) <= 1
            # Those of the results, of steps, and of lost words where the program loses some.
            assert results + 1 <= found["allocations"] <= results + 2


def test_the_table_is_copied_once(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results lie at two places in turn, as a caching allocator gives them."""
    given = there(points())
    f = rg.vmap(rg.grad(misfit, "x"), AXES)
    f(*given)
    cuda = numba_cuda()
    made: dict[Any, list[Any]] = {}
    give = cuda.device_array

    def again(size: int, kind: Any) -> Any:
        blocks = made.setdefault((size, np.dtype(kind)), [])
        if len(blocks) < 2:
            blocks.append(give(size, kind))
        blocks.reverse()
        return blocks[0]

    monkeypatch.setattr(cuda, "device_array", again)
    for _ in range(4):
        f(*given)
    assert runtime.of(lambda: f(*given)) == {"launches": 1}


# ---------------------------------------------------------------------- elements that fail


def test_elements_that_overflow_take_another_scale(tier: str) -> None:
    loss, w, x, y = points()
    x[[3, 20]] *= 3000.0
    f = rg.value_and_grad(misfit, ("w", "x"))
    same(rg.vmap(f, AXES)(*there((loss, w, x, y))), rg.vmap(f, AXES, engine="native")(loss, w, x, y))


def test_traps(tier: str) -> None:
    given = list(points(20))
    given[2] = given[2].copy()
    given[2][[4, 11]] = 50_000.0
    found = rg.run_batch(misfit, *there(tuple(given)), in_axes=AXES, traps="return")
    expected = rg.run_batch(misfit, *given, in_axes=AXES, engine="native", traps="return")
    assert {i: str(t) for i, t in found.traps.items()} == {i: str(t) for i, t in expected.traps.items()}
    assert sorted(found.traps) == [4, 11]
    same(found.values.loss, expected.values.loss)
    assert np.array_equal(found.matrix, expected.matrix)
    with pytest.raises(rg.ElementTrap, match="element 4"):
        rg.run_batch(misfit, *there(tuple(given)), in_axes=AXES)


@pytest.mark.parametrize("name", ["w", "x"])
@pytest.mark.parametrize("wrong", [np.nan, 1e30])
def test_numbers_without_a_word(tier: str, name: str, wrong: float) -> None:
    given = dict(zip(("loss", "w", "x", "y"), points(), strict=True))
    given[name] = given[name].copy()
    given[name].flat[2] = wrong
    told = []
    for arguments in (tuple(given.values()), there(tuple(given.values()))):
        with pytest.raises(InputError) as caught:
            rg.run_batch(misfit, *arguments, in_axes=AXES)
        told.append(str(caught.value))
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["w", "x"])
def test_numbers_that_lose_bits(tier: str, name: str) -> None:
    given = dict(zip(("loss", "w", "x", "y"), points(), strict=True))
    given[name] = given[name].copy()
    given[name].flat[2] = 1e-8
    told = []
    for arguments in (tuple(given.values()), there(tuple(given.values()))):
        with pytest.warns(PrecisionWarning) as caught:
            rg.vmap(misfit, AXES)(*arguments)
        told.append([str(w.message) for w in caught])
    assert told[0] == told[1]
    with pytest.raises(InputError, match="RG0607"):
        rg.vmap(misfit, AXES, precision="error")(*there(tuple(given.values())))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rg.vmap(misfit, AXES, precision="ignore")(*there(tuple(given.values())))


# ---------------------------------------------------------------------- the arrays


def test_on_device() -> None:
    for x in (np.arange(6.0).reshape(2, 3), np.arange(4), np.array([True, False]), np.zeros((0, 3)), 2.5, [1.5, 2.5]):
        found = rg.on_device(x)
        assert found.shape == np.shape(x)
        assert found.numpy().tolist() == np.asarray(x).tolist()
        assert found.dtype == np.asarray(x).dtype
        assert rg.on_device(found) is found
        assert np.from_dlpack(found).tolist() == np.asarray(x).tolist()
        assert np.asarray(found).tolist() == np.asarray(x).tolist()
    with pytest.raises(DeviceError, match="RG1006"):
        rg.on_device(np.array(["a"]))
    with pytest.raises(DeviceError, match="no CUDA device 7"):
        rg.on_device(1.0, 7)


def test_what_is_lent_lives_as_long() -> None:
    lent = np.from_dlpack(rg.on_device(np.arange(1000.0)))
    taken = rg.on_device(np.arange(3.0)).__dlpack__()
    assert len(_device._lent) >= 2
    del taken
    assert lent.tolist() == list(range(1000))
    del lent
    assert not _device._lent


def test_float32_and_other_libraries(tier: str) -> None:
    loss, w, x, y = points()
    x = x.astype(np.float32)
    expected = rg.vmap(misfit, AXES, engine="native")(loss, w, x, y)
    same(rg.vmap(misfit, AXES)(loss, w, Lent(x), y).loss, expected.loss)
    same(rg.vmap(misfit, AXES)(loss, Lent(w), x, Lent(y)).loss, expected.loss)


def test_integers_are_copied(tier: str) -> None:
    """They become words on the host; the results are on the device with those of the others."""
    found = rg.vmap(product)(rg.on_device(np.zeros(5)), rg.on_device(np.arange(5)))
    same(found.y, rg.vmap(product, engine="native")(np.zeros(5), np.arange(5)).y)


def test_two_devices() -> None:
    with pytest.raises(DeviceError, match=r"are on cuda:0 and cuda:1"):
        rg.vmap(product)(rg.on_device(np.zeros(5)), rg.on_device(np.ones(5), 1))


def test_bundle_adjustment(translated: Any) -> None:
    rng = np.random.default_rng(5)
    camera = np.array([0.1, -0.2, 0.05, 1, 2, -3, 500, 3, -2, 1e-3, 1e-5])
    given = (
        np.zeros((6, 2)),
        camera * (1 + 0.01 * rng.normal(size=(6, 11))),
        np.array([2.0, 1, 9]) + rng.normal(size=(6, 3)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(
            rg.vmap(bundle_adjustment.project)(*there(given)),
            rg.vmap(bundle_adjustment.project, engine="native")(*given),
        )
