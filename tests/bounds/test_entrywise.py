"""The unit models stay within their bounds, whatever the operands and the epilogue."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxgemm.configs import CONFIGURATIONS, has_unit
from mxgemm.problem import out_dtypes
from tests.bounds.products import Array, normal, product, typed

PAIRS = [
    (config, arch)
    for config in CONFIGURATIONS
    for arch in ("sm_70", "sm_80", "sm_90")
    if not config.is_integer and has_unit(config.unit, arch) and config.moduli in (0, 5, 12, 16)
]
TINY = {"float32": -135, "bfloat16": -135, "float16": -18, "float64": -1030}
HUGE = {"float32": 66, "bfloat16": 66, "float16": 12, "float64": 515}


def _values(rng: np.random.Generator, kind: str, shape: tuple[int, int], source: str) -> Array:
    x = rng.standard_normal(shape)
    if kind == "wide":
        x = np.ldexp(x, rng.integers(-40, 40, shape))
    elif kind == "tiny":
        x *= 2.0 ** TINY.get(source, -8)
    elif kind == "huge":
        x *= 2.0 ** HUGE.get(source, 6)
    elif kind == "sparse":
        x *= rng.random(shape) < 0.2
    elif kind == "rows":
        x *= np.ldexp(1.0, rng.integers(-60, 60, (shape[0], 1)))
    elif kind == "special":
        chance = rng.random(shape)
        x[chance < 0.02], x[chance > 0.98], x[np.abs(chance - 0.5) < 0.005] = np.inf, -np.inf, np.nan
    return typed(x, source)


KINDS = st.sampled_from(("normal", "wide", "tiny", "huge", "sparse", "rows", "special"))


@pytest.mark.parametrize(("config", "arch"), PAIRS, ids=lambda x: getattr(x, "name", x))
@settings(max_examples=8)
@given(
    kinds=st.tuples(KINDS, KINDS),
    shape=st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 20)),
    activation=st.sampled_from(("identity", "relu", "clamp", "gelu", "gelu-tanh", "silu")),
    alpha=st.sampled_from((1, -1, 1.2, 0, 1e-30)),
    beta=st.sampled_from((0, 1, -0.3)),
    extras=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_the_model_stays_within_its_bound(  # noqa: PLR0917  # hypothesis draws each
    config, arch, kinds, shape, activation, alpha, beta, extras, seed, data
) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = shape
    left, right = config.source_types[0], config.source_types[-1]
    out = data.draw(st.sampled_from(out_dtypes(left, right, config.accumulator)))
    asked = product(
        config.precision, _values(rng, kinds[0], (m, k), left), _values(rng, kinds[1], (k, n), right),
        _values(rng, "normal", (m, n), out) if beta else None, arch=arch, activation=activation,
        limits=(-0.3, 0.7), alpha=alpha, beta=beta, out_dtype=out,
        bias=normal((n,), "float32", seed) if extras[0] else None,
        scale_rows=normal((m, 1), "float32", seed) if extras[1] else None,
        scale_cols=normal((n,), "float64", seed) if extras[2] else None,
    )  # fmt: skip
    found = asked.check(asked.run())
    assert found.passed, found


def test_structural_zeros_have_bound_zero() -> None:
    a, b = normal((4, 6), "float32"), normal((6, 5), "float32")
    a[:, ::2] = 0
    b[1::2, 2] = 0
    for precision in ("scalar", "bf16", "bf16x6", "f16x3", "f16", "i8crt8", "f64"):
        bound = product(precision, a, b).bound()
        assert (bound[:, 2] == 0).all()
        assert (np.delete(bound, 2, axis=1) > 0).all()


def test_the_epilogue_adds_its_terms() -> None:
    a, b = normal((4, 32), "float16"), normal((32, 4), "float16")
    c = normal((4, 4), "float32")
    bias = normal((4,), "float32")
    rows = np.full((4, 1), 3.0, np.float32)
    u = 2.0**-24
    plain = product("native", a, b, out_dtype="float32").bound()
    exact = np.abs(a.astype(float) @ b.astype(float))
    scaled = product("native", a, b, alpha=2.5, out_dtype="float32").bound()
    np.testing.assert_allclose(scaled, 2.5 * plain + u * (2.5 * exact + 2.5 * plain), rtol=1e-9)
    tripled = product("native", a, b, scale_rows=rows, out_dtype="float32").bound()
    np.testing.assert_allclose(tripled, 3 * plain + u * (3 * exact + 3 * plain), rtol=1e-9)
    summed = np.abs(a.astype(float) @ b.astype(float) + c.astype(float))
    added = product("native", a, b, c, beta=1, out_dtype="float32").bound()
    np.testing.assert_allclose(added, plain + u * (summed + plain), rtol=1e-9)
    biased = product("native", a, b, bias=bias, out_dtype="float32").bound()
    assert (biased > plain).all()
    stored = product("native", a, b, out_dtype="float16").bound()
    np.testing.assert_allclose(stored, plain + 2.0**-11 * (exact + plain) + 2.0**-25, rtol=1e-9)


def test_an_activation_multiplies_by_its_slope_and_adds_its_own_error() -> None:
    a, b = normal((4, 32), "float32"), normal((32, 4), "float32")
    plain = product("scalar", a, b).bound()
    exact = np.abs(a.astype(float) @ b.astype(float))
    curved = product("scalar", a, b, activation="gelu").bound()
    np.testing.assert_allclose(curved, 1.13 * plain + 8 * 2.0**-24 * (exact + plain), rtol=1e-6)
    np.testing.assert_array_equal(product("scalar", a, b, activation="relu").bound(), plain)


def test_a_sum_that_may_overflow_makes_the_bound_void() -> None:
    a = typed([[2.0**100, -(2.0**100), 1.0], [1.0, 1.0, 1.0]], "float32")
    b = typed([[2.0**28], [2.0**28], [1.0]], "float32")
    bound = product("scalar", a, b).bound()
    assert np.isinf(bound[0, 0])
    assert np.isfinite(bound[1, 0])


def test_the_bound_of_float64_survives_both_ends_of_its_range() -> None:
    a = typed([[1e300, 1e-300], [1e-200, 1e-250]], "float64")
    b = typed([[1e-300], [1e-20]], "float64")
    bound = product("native", a, b).bound()
    gamma = Fraction(2, 2**53)
    total = [
        Fraction(1e300) * Fraction(1e-300),
        Fraction(1e-200) * Fraction(1e-300) + Fraction(1e-250) * Fraction(1e-20),
    ]
    for i in range(2):
        assert Fraction(float(bound[i, 0])) >= gamma * total[i]
        assert float(bound[i, 0]) <= float(gamma * total[i]) * (1 + 1e-9) + 2.0**-1065


def test_batches_are_bounded_one_by_one() -> None:
    a, b = normal((3, 1, 4, 8), "float32"), normal((2, 8, 5), "float32")
    found = product("bf16x3", a, b).bound()
    assert found.shape == (3, 2, 4, 5)
    np.testing.assert_array_equal(found[2, 1], product("bf16x3", a[2, 0], b[1]).bound())
