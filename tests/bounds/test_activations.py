"""Slopes, the reference of gelu and silu, and the error that a library's may have."""

import mpmath
import numpy as np
import pytest

from mxgemm.bounds import activations
from mxgemm.epilogue import EpilogueSpec
from mxgemm.units.activations import activate

SMOOTH = ("gelu", "gelu-tanh", "silu")
POINTS = np.concatenate([np.linspace(-12, 12, 241), [-90.0, -40.0, -1e-3, -1e-30, 1e-30, 1e-3, 40.0, 1e4]])


@pytest.mark.parametrize("name", SMOOTH)
def test_the_slope_bounds_the_derivative_and_is_nearly_reached(name: str) -> None:
    spec = EpilogueSpec(name)  # type: ignore[arg-type]
    with mpmath.workdps(40):
        steepest = max(
            abs(mpmath.diff(lambda x: activations.exact(spec, x, mpmath.mp), mpmath.mpf(float(x))))
            for x in np.linspace(-8, 8, 321)
        )
    assert 0.998 * activations.SLOPES[name] <= steepest <= activations.SLOPES[name]


@pytest.mark.parametrize("name", SMOOTH)
def test_the_reference_is_within_its_radius(name: str) -> None:
    spec = EpilogueSpec(name)  # type: ignore[arg-type]
    with np.errstate(over="ignore"):
        found = activations.reference(spec, POINTS)
    with mpmath.workprec(300):
        for x, y in zip(POINTS, found, strict=True):
            error = abs(activations.exact(spec, mpmath.mpf(float(x)), mpmath.mp) - mpmath.mpf(float(y)))
            assert error <= activations.REFERENCE_ERROR * abs(x)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_models_own_error_is_allowed_for(name: str, kind: str) -> None:
    spec = EpilogueSpec(name)  # type: ignore[arg-type]
    x = POINTS.astype(kind)
    allowed = activations.ERRORS[kind] * (2.0**-24 if kind == "float32" else 2.0**-53)
    with np.errstate(all="ignore"):
        found = activate(x, name)
    with mpmath.workprec(300):
        for value, y in zip(x, found, strict=True):
            error = abs(activations.exact(spec, mpmath.mpf(float(value)), mpmath.mp) - mpmath.mpf(float(y)))
            assert error <= allowed * abs(value) + mpmath.mpf(2) ** (-150 if kind == "float32" else -1075)


def test_far_out_the_function_is_its_limit() -> None:
    for name in SMOOTH:
        spec = EpilogueSpec(name)  # type: ignore[arg-type]
        assert activations.exact(spec, mpmath.mpf("1e300"), mpmath.mp) == mpmath.mpf("1e300")
        assert activations.exact(spec, mpmath.mpf("-1e300"), mpmath.mp) == 0
