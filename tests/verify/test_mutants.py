"""Faults that a product can have, each caught by the check of its configuration."""

from dataclasses import replace

import numpy as np
import pytest

from tests.bounds.products import normal, product, typed

NATIVE = [
    ("float16", "native"), ("bfloat16", "native"), ("float32", "scalar"), ("float32", "bf16x6"),
    ("float32", "tf32x3"), ("float32", "f16x3"), ("float64", "native"), ("float64", "i8crt15"),
]  # fmt: skip


def _operands(source: str, k: int = 128) -> tuple[np.ndarray, np.ndarray]:
    return normal((24, k), source, 1), normal((k, 16), source, 2)


def _accumulator(source: str) -> str:
    return "float64" if source == "float64" else "float32"


@pytest.mark.parametrize(("source", "precision"), NATIVE)
def test_a_dropped_product_is_caught(source: str, precision: str) -> None:
    a, b = _operands(source)
    mutant = a.copy()
    mutant[5, 77] = 0
    asked = product(precision, a, b, out_dtype=_accumulator(source))
    result = product(precision, mutant, b, out_dtype=_accumulator(source)).run()
    assert not asked.check(result)
    assert dict(asked.check(result).verdicts)["outside bound"] > 8


@pytest.mark.parametrize(("source", "precision"), NATIVE)
def test_the_last_step_along_k_missing_is_caught(source: str, precision: str) -> None:
    a, b = _operands(source)
    result = product(precision, a[:, :-8], b[:-8], out_dtype=_accumulator(source)).run()
    assert not product(precision, a, b, out_dtype=_accumulator(source)).check(result)


@pytest.mark.parametrize(("source", "precision"), NATIVE)
def test_two_rows_swapped_are_caught(source: str, precision: str) -> None:
    a, b = _operands(source)
    asked = product(precision, a, b, out_dtype=_accumulator(source))
    result = asked.run()
    result[[3, 4]] = result[[4, 3]]
    assert not asked.check(result)


@pytest.mark.parametrize(("source", "precision"), NATIVE)
def test_an_edge_that_is_off_by_one_is_caught(source: str, precision: str) -> None:
    a, b = _operands(source)
    asked = product(precision, a, b, out_dtype=_accumulator(source))
    result = asked.run()
    result[:, -1] = result[:, -2]
    found = asked.check(result)
    assert not found
    assert found.where is not None
    assert found.where[1] == 15


@pytest.mark.parametrize(("source", "precision"), NATIVE)
@pytest.mark.parametrize("beta", [1, -0.5])
def test_a_dropped_c_is_caught(source: str, precision: str, beta: float) -> None:
    a, b = _operands(source)
    c = normal((24, 16), _accumulator(source), 3)
    result = product(precision, a, b, out_dtype=_accumulator(source)).run()
    assert not product(precision, a, b, c, beta=beta, out_dtype=_accumulator(source)).check(result)


def test_a_float16_accumulator_is_caught() -> None:
    a, b = _operands("float16")
    total = np.zeros((24, 16), np.float16)
    for k in range(128):
        total = (total + a[:, k, None] * b[None, k, :]).astype(np.float16)
    assert not product("native", a, b, out_dtype="float32").check(total.astype(np.float32))


def test_a_float32_accumulator_is_caught_where_float64_was_asked_for() -> None:
    a, b = _operands("float32")
    narrow = product("scalar", a, b).run().astype(np.float64)
    assert not product("f64", a, b, out_dtype="float64").check(narrow)


def test_partial_sums_in_the_output_type_are_caught() -> None:
    a, b = _operands("bfloat16", 512)
    parts = [
        product("native", a[:, i : i + 32], b[i : i + 32]).run().astype(np.float32) for i in range(0, 512, 32)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = typed(total + part, "bfloat16").astype(np.float32)
    assert not product("native", a, b).check(typed(total, "bfloat16"))


def test_a_section_left_out_or_added_twice_is_caught() -> None:
    a, b = (typed(abs(x.astype(np.float32)), "float8_e4m3fn") for x in _operands("float8_e4m3fn", 20000))
    asked = product("native", a, b)
    parts = [
        product("native", a[:, i : i + 8192], b[i : i + 8192]).run().astype(np.float32)
        for i in (0, 8192, 16384)
    ]
    like = asked.run().dtype
    assert asked.check((parts[0] + parts[1] + parts[2]).astype(like))
    for faulty in (parts[0] + parts[1], parts[0] + 2 * parts[1] + parts[2]):
        assert not asked.check(faulty.astype(like))


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6", "tf32x3", "f16x3"])
def test_a_split_without_one_of_its_products_is_caught(precision: str) -> None:
    digits = 8 if precision.startswith("bf16") else 11
    # Every second and third term has the same sign, and nearly its largest magnitude.
    value = 1 + 0.49 * 2.0 ** (1 - digits) + (0.49 * 2.0 ** (2 - 2 * digits) if digits == 8 else 0)
    a, b = np.full((3, 16), value, np.float32), np.full((16, 3), value, np.float32)
    asked = product(precision, a, b)
    assert asked.check(asked.run())
    for dropped in asked.configuration.products:
        kept = tuple(pair for pair in asked.configuration.products if pair != dropped)
        assert not asked.check(asked.run(replace(asked.configuration, products=kept))), dropped


def test_a_rounding_of_the_operands_is_caught_where_a_split_was_asked_for() -> None:
    a, b = _operands("float32")
    result = product("tf32", a, b).run()
    for precision in ("scalar", "bf16x6", "bf16x9", "tf32x3", "f16x3"):
        assert not product(precision, a, b).check(result), precision


def test_alpha_and_beta_swapped_are_caught() -> None:
    a, b = _operands("float32")
    c = normal((24, 16), "float32", 3)
    result = product("scalar", a, b, c, alpha=2, beta=1.2).run()
    assert not product("scalar", a, b, c, alpha=1.2, beta=2).check(result)


@pytest.mark.parametrize("instead", ["identity", "relu", "silu", "gelu-tanh"])
def test_another_activation_is_caught(instead: str) -> None:
    a, b = normal((24, 8), "float32", 1) / 2, normal((8, 16), "float32", 2) / 2
    result = product("scalar", a, b, activation=instead).run()
    assert not product("scalar", a, b, activation="gelu").check(result)


def test_a_bias_along_the_wrong_axis_is_caught() -> None:
    a, b = normal((16, 32), "float32", 1), normal((32, 16), "float32", 2)
    bias = normal((16,), "float32", 3)
    result = product("scalar", a, b, bias=bias[:, None]).run()
    assert not product("scalar", a, b, bias=bias).check(result)
