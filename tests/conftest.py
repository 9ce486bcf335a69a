"""Hypothesis profiles, and the `gpu` marker: skipped with its reason where there is no device."""

import ctypes
import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=20,
    # A shared two-core machine draws slowly; that says nothing about the test.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", parent=settings.get_profile("ci"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def why_no_device() -> str | None:
    """Return why no CUDA device can be used, or None where one can; asks the driver alone."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no CUDA driver: {error}"
    status = driver.cuInit(0)
    if status != 0:
        return f"cuInit answered {status}"
    count = ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    return None if count.value else "the CUDA driver sees no device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and (reason := why_no_device()):
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def no_device() -> str | None:
    """Why no CUDA device can be used; None where one can."""
    return why_no_device()
