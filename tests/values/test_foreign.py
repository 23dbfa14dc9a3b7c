"""Arrays of other libraries as arguments: values, or our own errors with a way out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def product(y: fixed, x: Array[fixed, 2]):
    y += x[0] * x[1]


@reversible
def unannotated(y: fixed, x):
    y += x[0] * x[1]


@reversible
def complex_product(z: complex, x: Array[complex, 2]):
    z += x[0] * x[1]


@reversible
def square(y: fixed, x: fixed):
    y += x * x


class Lent:
    """An array that is lent by DLPack only."""

    def __init__(self, array: Any) -> None:
        self._array = np.asarray(array)

    def __dlpack__(self, **settings: Any) -> Any:
        return self._array.__dlpack__(**settings)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class Elsewhere(Lent):
    """An array on a device that NumPy does not read."""

    def __dlpack__(self, **settings: Any) -> Any:
        raise BufferError("the array is on a device\nand this is more of the message")


CALLS: dict[str, Callable[[Any], Any]] = {
    "annotated": lambda x: product(0.0, x).y,
    "unannotated": lambda x: unannotated(0.0, x).y,
    "complex": lambda x: complex_product(0j, x).z.real,
    "struct": lambda x: of_struct(0.0, {"a": x}).y,
    "gradient": lambda x: rg.grad(product)(0.0, x).x[0] * 2,
    "batch": lambda x: rg.vmap(square, in_axes=(None, 0))(0.0, x).y[0] * 1.5,
    "tangent": lambda x: rg.jvp(product, (0.0, [1.0, 1.0]), (0.0, x))[1].y + 1,
    "cotangent": lambda x: rg.vjp(product, 0.0, [1.0, 1.0])[1]([None, x]).x[1] * 2,
}


@reversible
def of_struct(y: fixed, p):
    y += p["a"][0] * p["a"][1]


@pytest.mark.parametrize("name", CALLS)
def test_arrays_that_are_lent_by_dlpack_only(name: str) -> None:
    assert CALLS[name](Lent([2.0, 3.0])) == CALLS[name](np.array([2.0, 3.0])) == 6.0


def test_lists_of_such_numbers() -> None:
    assert product(0.0, [Lent(2.0), Lent(3.0)]).y == 6.0


@pytest.mark.parametrize("name", CALLS)
def test_arrays_that_are_not_lent_are_refused(name: str) -> None:
    with pytest.raises(
        rg.InputError, match="Elsewhere` that is not in the host's memory as numbers: the array is"
    ) as error:
        CALLS[name](Elsewhere([2.0, 3.0]))
    assert "this is more" not in str(error.value)
    assert "numpy.from_dlpack(x)" in str(error.value)


def test_one_number_has_a_way_out() -> None:
    with pytest.raises(rg.InputError, match=r"numpy.from_dlpack"):
        square(0.0, Lent(2.0))
    assert square(0.0, np.from_dlpack(Lent(2.0))).y == 4.0


class Tensor(Lent):
    """As much of a tensor of Torch as is used."""

    dtype, requires_grad = "float64", False

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def item(self) -> Any:
        return self._array.item()

    def is_floating_point(self) -> bool:
        return True

    def to(self, dtype: Any) -> Tensor:
        assert dtype == "float32"
        found = type(self)(self._array)
        found.dtype = dtype
        return found

    def detach(self) -> Tensor:
        return self

    cpu = resolve_conj = resolve_neg = detach

    def numpy(self) -> Any:
        if self.dtype not in ("float32", "float64"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype}")
        return self._array.astype(self.dtype)


class BFloat16(Tensor):
    dtype = "bfloat16"


class Parameter(Tensor):
    requires_grad = True


class Sparse(Tensor):
    def numpy(self) -> Any:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


@pytest.fixture
def torch() -> Iterator[None]:
    """A stand-in for Torch, which need not be installed: tests/adapters has tests with Torch."""
    functorch = SimpleNamespace(is_functorch_wrapped_tensor=lambda tensor: False)
    stub = SimpleNamespace(
        Tensor=Tensor, complex32="complex32", complex64="complex64", float16="float16", float32="float32",
        float64="float64", _C=SimpleNamespace(_functorch=functorch),
    )  # fmt: skip
    with patch.dict(sys.modules, {"torch": stub}):
        yield


@pytest.mark.parametrize("name", CALLS)
def test_tensors(torch: None, name: str) -> None:
    assert CALLS[name](Tensor([2.0, 3.0])) == 6.0
    assert CALLS[name](BFloat16([2.0, 3.0])) == 6.0


@pytest.mark.parametrize("name", CALLS)
def test_tensors_that_require_a_gradient_are_refused(torch: None, name: str) -> None:
    with pytest.raises(rg.InputError, match="requires a gradient") as error:
        CALLS[name](Parameter([2.0, 3.0]))
    assert "`rg.to_torch(f)`" in str(error.value)
    assert "`x.detach()`" in str(error.value)


def test_other_tensors_are_refused_with_the_reason_of_torch(torch: None) -> None:
    with pytest.raises(rg.InputError, match="Sparse layout"):
        product(0.0, Sparse([2.0, 3.0]))
    with pytest.raises(rg.InputError, match=r"not a Tensor(.|\n)*x.item\(\)"):
        square(0.0, Tensor(2.0))
    with pytest.raises(rg.InputError, match=r"not a Parameter(.|\n)*rg.to_torch"):
        square(0.0, Parameter(2.0))
