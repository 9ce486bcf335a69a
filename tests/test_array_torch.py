"""torch tensors on the CPU: in place, every element type, and refusals by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxgemm import array
from mxgemm.errors import DTypeError, MxgemmError, UnsupportedError

torch: Any = pytest.importorskip("torch")


@pytest.mark.parametrize("name", array.DTYPES)
def test_every_element_type_is_seen_in_place(name: str) -> None:
    x = torch.arange(8).reshape(2, 4).to(getattr(torch, name)).T
    found = array.view(x)
    assert (found.library, found.dtype, found.strides, found.pointer) == ("torch", name, (1, 4), x.data_ptr())
    assert np.array_equal(array.numpy(found).astype(float), np.arange(8).reshape(2, 4).T)


@pytest.mark.parametrize("name", array.DTYPES)
def test_a_result_is_a_tensor(name: str) -> None:
    made = array.empty_like_owner(array.view(torch.zeros(2, 2)), (2, 3), name)
    array.numpy(made)[...] = 1
    result: Any = array.deliver(made)
    assert isinstance(result, torch.Tensor)
    assert result.dtype == getattr(torch, name)
    assert result.to(torch.float64).tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: torch.ones(2, 2, requires_grad=True), UnsupportedError, r"requires_grad.*A\.detach"),
        (lambda: torch.nn.Parameter(torch.ones(2, 2)), UnsupportedError, "requires_grad"),
        (lambda: torch.eye(2).to_sparse(), UnsupportedError, "sparse"),
        (
            lambda: torch.complex(torch.ones(2, 2), torch.ones(2, 2)).conj().imag,
            UnsupportedError,
            "resolve_neg",
        ),
        (lambda: torch.empty(2, 2, device="meta"), UnsupportedError, "meta"),
        (lambda: torch.ones(2, 2, dtype=torch.bool), DTypeError, r"torch\.bool"),
        (lambda: torch.ones(2, 2, dtype=torch.complex64), DTypeError, r"torch\.complex64"),
        (lambda: torch.float32, UnsupportedError, "dtype"),
    ],
)
def test_what_has_no_product_is_refused_by_name(make: Any, error: type[MxgemmError], words: str) -> None:
    with pytest.raises(error, match=words):
        array.view(make())


def test_a_tensor_without_storage_is_refused() -> None:
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode(), pytest.raises(UnsupportedError, match="without storage"):
        array.view(torch.ones(2, 2))


def test_out_is_written_in_place_and_expanded_out_is_refused() -> None:
    x = torch.zeros(2, 3, dtype=torch.bfloat16)
    array.numpy(array.view(x, "out", writable=True))[...] = 2
    assert x.sum().item() == 12
    with pytest.raises(UnsupportedError, match="share memory"):
        array.view(torch.zeros(1, 3).expand(2, 3), "out", writable=True)


def test_a_fingerprint_tells_whatever_decides_about_a_tensor() -> None:
    x = torch.zeros(4, 6)
    pointer, facts = array.fingerprint(x)
    assert pointer == x.data_ptr()
    assert array.fingerprint(torch.ones(4, 6))[1] == facts
    others = [
        x.T, x[:2], x[:, ::2], x.double(), x.bfloat16(), torch.zeros(4, 6, requires_grad=True),
        torch._neg_view(x), torch.empty(4, 6, device="meta"),
    ]  # fmt: skip
    found = [array.fingerprint(one)[1] for one in others]
    assert facts not in found
    assert len(set(found)) == len(found)


def test_a_tensor_that_changes_in_place_gets_another_fingerprint() -> None:
    x = torch.zeros(4, 6)
    facts = array.fingerprint(x)
    x.t_()
    assert array.fingerprint(x) != facts
    x.t_().requires_grad_(True)
    assert array.fingerprint(x) != facts
    x.requires_grad_(False)
    assert array.fingerprint(x) == facts
    x.data = torch.zeros(4, 6)
    assert array.fingerprint(x) != facts


def test_tensors_without_storage_or_strides_have_no_fingerprint() -> None:
    dense = torch.zeros(4, 6)
    nested = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(3, 3)])
    for x in (dense.to_sparse(), dense.to_sparse_csr(), nested):
        assert array.fingerprint(x)[1] is None
