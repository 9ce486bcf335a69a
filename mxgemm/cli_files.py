"""Matrices in ``.npy`` files: read, converted where asked, written."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mxgemm.configs import ELEMENT_TYPES
from mxgemm.errors import DTypeError, UnsupportedError, one_of
from mxgemm.units.convert import to_output
from mxgemm.units.formats import numpy_dtype

__all__ = ["MatrixFile", "read_matrix", "write_matrix"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class MatrixFile:
    """A matrix that was read, and in words what was done to its elements ("" for nothing)."""

    array: Array
    conversion: str = ""


def read_matrix(path: Path, dtype: str | None) -> MatrixFile:
    """Read one ``.npy`` file.

    Parameters
    ----------
    path : Path
    dtype : str or None
        Element type to multiply in.  Raw elements (NumPy writes bfloat16 and fp8 so) are
        taken as that type; floats are rounded to it once, to nearest even; integers are
        converted where every value fits.

    Raises
    ------
    UnsupportedError
        For a file that is not there or no ``.npy`` file.
    DTypeError
        For an unknown element type, raw elements without ``dtype``, values that do not fit.
    """
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
    except Exception as error:  # a damaged file raises whatever the parser of its kind does
        raise UnsupportedError(f"{path}: not a .npy file that can be read: {error}") from error
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise UnsupportedError(f"{path}: an archive of several arrays; save one array with numpy.save")
    if dtype is not None and dtype not in ELEMENT_TYPES:
        raise DTypeError(f"--dtype {dtype} is not supported; supported are {one_of(ELEMENT_TYPES)}")
    return _converted(path, loaded, dtype)


def _converted(path: Path, array: Array, dtype: str | None) -> MatrixFile:
    if array.dtype.names:
        raise DTypeError(f"{path}: elements are records {array.dtype}; save one field of them")
    if array.dtype.kind == "V":
        return MatrixFile(_from_raw(path, array, dtype))
    source = array.dtype.newbyteorder("=")
    if dtype is None or source == numpy_dtype(dtype):
        return MatrixFile(array)
    array = array.astype(source)
    target = numpy_dtype(dtype)
    if source.kind not in "iuf" or source.itemsize > 8 or (target.kind in "iu" and source.kind == "f"):
        raise DTypeError(f"{path}: {array.dtype} elements are not converted to {dtype}")
    if target.kind in "iu":
        if not _fits(array, target):
            raise DTypeError(
                f"{path}: {array.dtype} values from {array.min()} to {array.max()} do not fit {dtype}"
            )
        return MatrixFile(array.astype(target), f"{array.dtype} as {dtype}, exactly")
    if source.kind in "iu":
        return _integers_as_floats(path, array, dtype)
    return MatrixFile(
        to_output(array.astype(np.float64), dtype), f"{array.dtype} rounded to {dtype}, to nearest even"
    )


def _from_raw(path: Path, array: Array, dtype: str | None) -> Array:
    size = array.dtype.itemsize
    fitting = [name for name in ELEMENT_TYPES if numpy_dtype(name).itemsize == size]
    if dtype not in fitting:
        asked = f", not {dtype}" if dtype else ""
        offer = f"--dtype {one_of(fitting)}" if fitting else "no element type has that size"
        raise DTypeError(f"{path}: raw elements of {size} bytes{asked}; say what they are: {offer}")
    return array.view(numpy_dtype(dtype))


def _fits(array: Array, target: np.dtype[Any]) -> bool:
    limits = np.iinfo(target)
    return array.size == 0 or (int(array.min()) >= limits.min and int(array.max()) <= limits.max)


def _integers_as_floats(path: Path, array: Array, dtype: str) -> MatrixFile:
    if array.size and max(abs(int(array.min())), abs(int(array.max()))) > 2**53:
        raise DTypeError(f"{path}: {array.dtype} values beyond 2^53 are not converted to {dtype}")
    return MatrixFile(
        to_output(array.astype(np.float64), dtype), f"{array.dtype} rounded to {dtype}, to nearest even"
    )


def write_matrix(path: Path, array: Array) -> None:
    """Write ``array`` as ``.npy`` under exactly this name, wholly or not at all.

    A file that was there stays until the new one is complete.  The bytes go through Python's own
    ``write``, since NumPy's road to a file misses an error of its last flush.

    Raises
    ------
    UnsupportedError
        When the file cannot be written.
    """
    content = BytesIO()
    np.save(content, array, allow_pickle=False)
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():  # a pipe or a terminal cannot be replaced
            target.write_bytes(content.getbuffer())
        else:
            _replace(target, content.getbuffer())
    except OSError as error:
        raise UnsupportedError(f"{path}: cannot be written: {error.strerror}") from error


def _replace(target: Path, content: memoryview) -> None:
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
