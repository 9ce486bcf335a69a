"""torch tensors on the CPU: in place, every element type, and refusals by name."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from mxgemm import array, array_torch
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


def test_a_tensor_whose_storage_was_freed_is_refused() -> None:
    x, whole = torch.zeros(4, 4), torch.zeros(4, 4)
    x.untyped_storage().resize_(0)
    with pytest.raises(UnsupportedError, match="storage was freed"):
        array.view(x)
    assert array.fingerprint(x) == (0, None)
    assert array_torch.fingerprints(whole, x, whole) == (0, 0, 0, None)
    assert array.view(torch.zeros(0, 4)).shape == (0, 4)


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


def test_three_fingerprints_at_once_are_those_one_by_one() -> None:
    tensors = (torch.zeros(4, 6).T, torch._neg_view(torch.zeros(4)), torch.zeros(2, 3, requires_grad=True))
    singles = [array.fingerprint(one) for one in tensors]
    *pointers, facts = array.LIBRARIES[torch.Tensor].fingerprints(*tensors)
    assert pointers == [pointer for pointer, _ in singles]
    assert facts == sum((found for _, found in singles if found), ())
    sparse = tensors[0].to_sparse()
    assert array.LIBRARIES[torch.Tensor].fingerprints(tensors[0], tensors[1], sparse) == (0, 0, 0, None)


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


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_tensors_without_storage_or_strides_have_no_fingerprint() -> None:
    dense = torch.zeros(4, 6)
    nested = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(3, 3)])
    for x in (dense.to_sparse(), dense.to_sparse_csr(), nested):
        assert array.fingerprint(x)[1] is None


def read_anew(x: Any) -> tuple[Any, ...]:
    return x.device, x.shape, x.stride(), x.dtype, x.requires_grad, x.is_neg()


def over_one_memory() -> list[Any]:
    """Tensors of one address, of which each differs from the first in one fact."""
    x = torch.zeros(6, 6)
    found = [
        x, x.detach(), x.t(), x[:4], x[:, ::2], x.view(torch.int32), torch._neg_view(x), x.view(36),
        x.detach().requires_grad_(True), torch.nn.Parameter(x, requires_grad=False),
    ]  # fmt: skip
    assert {one.data_ptr() for one in found} == {x.data_ptr()}
    return found


@pytest.mark.parametrize("guarded", [True, False])
def test_every_fact_is_seen_whatever_was_seen_at_the_address_before(
    monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    if not guarded:
        monkeypatch.setattr(array_torch, "_guards", lambda: None)
    tensors, other = over_one_memory(), torch.zeros(6, 6)
    at_once = array.LIBRARIES[torch.Tensor].fingerprints
    for one in [*tensors, *tensors[::-1]]:
        for _ in range(2):
            assert array.fingerprint(one) == (one.data_ptr(), read_anew(one))
            for three in ((one, other, other), (other, one, tensors[0]), (other, other.t(), one)):
                facts = sum(map(read_anew, three), ())
                assert at_once(*three) == (*(x.data_ptr() for x in three), facts)


def test_a_tensor_seen_before_is_recognised_without_reading_it_again() -> None:
    a, b, d = (torch.zeros(5, 5) for _ in "abd")
    assert array_torch._guards() is not None
    assert array.fingerprint(a)[1] is array.fingerprint(a.detach())[1]
    at_once = array.LIBRARIES[torch.Tensor].fingerprints
    assert at_once(a, b, d) is at_once(a, b, d)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "enable_grad"])
def test_modes_of_torch_hide_no_fact(mode: str) -> None:
    tensors = over_one_memory()
    for one in tensors:
        array.fingerprint(one)
        with getattr(torch, mode)():
            assert [array.fingerprint(x)[1] for x in tensors] == [read_anew(x) for x in tensors]
        assert array.fingerprint(one)[1] == read_anew(one)


def test_what_is_remembered_keeps_no_tensor() -> None:
    x, others = torch.zeros(7, 7), (torch.zeros(7, 7), torch.zeros(7, 7))
    for _ in range(2):
        array.fingerprint(x)
        array.LIBRARIES[torch.Tensor].fingerprints(x, *others)
    kept = weakref.ref(x)
    del x
    gc.collect()
    assert kept() is None


def test_what_is_remembered_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_torch, "_CAPACITY", 3)
    monkeypatch.setattr(array_torch, "_ONE", {})
    x = torch.zeros(64)
    for i in range(10):
        array.fingerprint(x[i:])
    assert 0 < len(array_torch._ONE) <= 3


class Guards:
    """Face of torch's own that compares what ``facts`` reads."""

    def __init__(self, *tensors: Any, **_: Any) -> None:
        self.known = self.facts(tensors)

    def facts(self, tensors: Any) -> Any:
        return [(type(x), x.layout, *((x.stride(),) if x.layout is torch.strided else ())) for x in tensors]

    def check(self, *tensors: Any) -> bool:
        return bool(self.facts(tensors) == self.known)


class AllFacts(Guards):
    def facts(self, tensors: Any) -> Any:
        return [
            (*known, x.device, x.shape, x.dtype, x.requires_grad, x.is_neg())
            for known, x in zip(super().facts(tensors), tensors, strict=True)
        ]


def without(fact: str) -> type[Guards]:
    """Guards that take one fact as given."""

    class Less(AllFacts):
        def facts(self, tensors: Any) -> Any:
            names = ("type", "layout", "stride", "device", "shape", "dtype", "requires_grad", "is_neg")
            return [
                [value for name, value in zip(names, one, strict=False) if name != fact]
                for one in super().facts(tensors)
                if len(one) == len(names)
            ]

    return Less


def test_guards_that_tell_everything_are_used() -> None:
    assert array_torch._tells_tensors_apart(torch, AllFacts)


@pytest.mark.parametrize("fact", ["type", "stride", "device", "shape", "dtype", "requires_grad", "is_neg"])
def test_guards_that_miss_a_fact_are_not_used(fact: str) -> None:
    assert not array_torch._tells_tensors_apart(torch, without(fact))


def test_guards_that_are_called_otherwise_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        def __init__(self) -> None:
            pass

    monkeypatch.setattr(torch._C._dynamo.guards, "TensorGuards", Other)
    assert array_torch._guards.__wrapped__() is None


# Calls that repeat


def kept(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[Any, Any], list[Any]]:
    """Three tensors for which "value" is kept."""
    monkeypatch.setattr(array_torch, "_THREE", {})
    tensors, found = [torch.zeros(64, 64) for _ in range(3)], {}
    for _ in range(2):
        array_torch.fingerprints(*tensors)
    array_torch.keep(found, *tensors, "value")
    return found, tensors


def test_what_is_kept_is_found_while_the_tensors_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    found, tensors = kept(monkeypatch)
    assert array_torch.repeated(found, *tensors) == "value"
    a, b, d = tensors
    same = a.view(64, 64)
    assert array_torch.repeated(found, same, b, d) == "value"
    for others in ((b, a, d), (a, b, torch.zeros(64, 64)), (a, a, d), (a.t(), b, d), (a, b, d.view(4096))):
        assert array_torch.repeated(found, *others) is None
    assert array_torch.repeated(found, a.view(torch.int32), b, d) is None
    assert array_torch.repeated(found, np.zeros((64, 64)), b, d) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t_(), lambda x: x.resize_(32, 64), lambda x: x.requires_grad_(),
        lambda x: x.set_(torch.zeros(64, 64)), lambda x: setattr(x, "data", torch.zeros(64, 64)),
        lambda x: x.unsqueeze_(0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_tensor_that_changes_in_place_is_not_what_was_kept(
    monkeypatch: pytest.MonkeyPatch, change: Any, number: int
) -> None:
    found, tensors = kept(monkeypatch)
    change(tensors[number])
    assert array_torch.repeated(found, *tensors) is None


def test_without_guards_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_torch, "_guards", lambda: None)
    assert kept(monkeypatch)[0] == {}
