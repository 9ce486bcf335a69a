"""JAX arrays on the CPU: in place, results as JAX arrays, and refusals by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mxgemm import array
from mxgemm.errors import DTypeError, UnsupportedError

jax: Any = pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """JAX would take a GPU where there is one."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


EVERY_TYPE = [name for name in array.DTYPES if name not in ("int64", "uint64", "float64")]


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_arrays_come_in_place_and_results_go_out_as_jax_arrays(name: str) -> None:
    x = jax.numpy.arange(6).reshape(2, 3).astype(name)
    found = array.view(x)
    assert (found.library, found.dtype, found.readonly) == ("jax", name, True)
    assert found.pointer == x.unsafe_buffer_pointer()
    made = array.empty_like_owner(found, (3, 2), name)
    array.numpy(made)[...] = array.numpy(found).T
    result: Any = array.deliver(made)
    assert isinstance(result, jax.Array)
    assert result.dtype == x.dtype
    assert np.array_equal(np.asarray(result, np.float32), np.arange(6).reshape(2, 3).T)


def test_a_result_may_be_the_model_of_another() -> None:
    first = array.empty_like_owner(array.view(jax.numpy.ones((2, 2))), (2, 2), "float32")
    assert isinstance(array.deliver(array.from_host(np.ones((2, 2), np.float32), first)), jax.Array)


def test_an_input_is_delivered_as_itself() -> None:
    x = jax.numpy.ones((2, 2))
    assert array.deliver(array.view(x)) is x


def test_64_bit_results_are_refused_instead_of_truncated() -> None:
    with pytest.raises(DTypeError, match="jax_enable_x64"):
        array.empty_like_owner(array.view(jax.numpy.ones((2, 2))), (2, 2), "float64")


def test_out_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="out is a JAX array, which is immutable"):
        array.view(jax.numpy.ones((2, 2)), "out", writable=True)


def test_tracers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="JAX tracer"):
        jax.jit(array.view)(jax.numpy.ones((2, 2)))


def test_donated_arrays_are_refused() -> None:
    x = jax.numpy.ones((2, 2))
    x.delete()
    with pytest.raises(UnsupportedError, match="donated or deleted"):
        array.view(x)


def test_element_types_and_shapes_without_a_product_are_refused() -> None:
    with pytest.raises(DTypeError, match="bool"):
        array.view(jax.numpy.ones((2, 2), bool))
    with pytest.raises(DTypeError, match="key"):
        array.view(jax.random.split(jax.random.key(0)))
    with pytest.raises(UnsupportedError, match="ShapeDtypeStruct"):
        array.view(jax.ShapeDtypeStruct((2, 2), "float32"))
