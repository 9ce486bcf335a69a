"""Matrices in ``.npy`` files: what is read, what is converted, and what is refused."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mxgemm.cli_files import read_matrix
from mxgemm.errors import DTypeError, UnsupportedError


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_raw_elements_are_taken_as_the_type_named(tmp_path: Path, dtype: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, dtype))
    np.save(tmp_path / "x.npy", x.view(f"V{x.dtype.itemsize}"))
    assert np.array_equal(read_matrix(tmp_path / "x.npy", dtype).array, x)


def test_raw_elements_of_another_size_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 2), "V2"))
    with pytest.raises(DTypeError, match="raw elements of 2 bytes, not float32"):
        read_matrix(tmp_path / "x.npy", "float32")


def test_integers_are_converted_where_they_fit(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[-128, 127]], np.int64))
    assert read_matrix(tmp_path / "x.npy", "int8").array.dtype == np.int8
    with pytest.raises(DTypeError, match="from -128 to 127 do not fit uint8"):
        read_matrix(tmp_path / "x.npy", "uint8")


def test_integers_beyond_float64_are_not_made_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[2**53 + 1]], np.int64))
    with pytest.raises(DTypeError, match=r"beyond 2\^53"):
        read_matrix(tmp_path / "x.npy", "float32")


def test_big_endian_files_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1.5]], ">f4"))
    assert read_matrix(tmp_path / "x.npy", "float16").array == np.float16(1.5)


def test_a_float_is_rounded_once_to_nearest_even(tmp_path: Path) -> None:
    # float32 would round this first to 1 + 2^-8, a tie that then goes to 1.
    np.save(tmp_path / "x.npy", np.array([1 + 2.0**-8 + 2.0**-40]))
    found = read_matrix(tmp_path / "x.npy", "bfloat16")
    assert float(found.array[0]) == 1 + 2.0**-7
    assert found.conversion == "float64 rounded to bfloat16, to nearest even"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"not a \.npy file"):
        read_matrix(tmp_path, None)


def test_records_are_not_taken_for_raw_elements(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 2), [("real", "f4"), ("imaginary", "f4")]))
    with pytest.raises(DTypeError, match="records"):
        read_matrix(tmp_path / "x.npy", "float64")
