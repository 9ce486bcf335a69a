"""A place is a value; the CPU model is named by architecture."""

import pytest

from mxgemm.capabilities import Capabilities, cpu_model
from mxgemm.configs import ARCHITECTURES
from mxgemm.errors import UnsupportedError


def test_cpu_models_hopper() -> None:
    found = cpu_model("cpu")
    assert (found.backend, found.arch, found.is_cpu) == ("cpu:sm_90", "sm_90", True)
    assert cpu_model() == found


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_another_architecture_is_named(arch: str) -> None:
    found = cpu_model(f"cpu:{arch}")
    assert (found.backend, found.arch) == (f"cpu:{arch}", arch)


@pytest.mark.parametrize("device", ["cpu:", "cpu:sm_91", "cpu:90", "cpusm_80", "cpu sm_80", "sm_80", ""])
def test_an_unknown_model_is_refused_with_the_known(device: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        cpu_model(device)
    assert repr(device) in str(caught.value)
    for name in ("cpu", *(f"cpu:{arch}" for arch in ARCHITECTURES)):
        assert name in str(caught.value)


def test_a_gpu_is_no_cpu_model() -> None:
    assert not Capabilities("cuda:0", "sm_90", "NVIDIA H200").is_cpu


def test_units_are_those_with_a_row() -> None:
    assert cpu_model("cpu:sm_70").units == ("f16",)
    assert set(cpu_model("cpu:sm_80").units) == {"f16", "bf16", "tf32", "s8"}
    assert cpu_model("cpu:sm_100").units == ("s8",)
