"""Names that mean something only inside a kernel, such as ``cuda.threadIdx`` and ``cuda.shared.array``."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from mxgemm.errors import UnsupportedError

__all__ = ["ROOT", "Stub"]


class Stub:
    """A word of the dialect, known by its dotted name; children are its attributes.

    Calling one in host code is an error that says so.
    """

    def __init__(self, name: str, children: tuple[str, ...] = ()) -> None:
        self.name = name
        for child in children:
            setattr(self, child, Stub(f"{name}.{child}"))

    def __repr__(self) -> str:
        return f"<cuda.{self.name}: a word of the kernel dialect>"

    def __call__(self, *_arguments: Any, **_keywords: Any) -> NoReturn:
        """Refused in host code."""
        raise UnsupportedError(f"cuda.{self.name} has a meaning only inside a function under @cuda.jit")

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cuda.{self.name} has no attribute {name!r} in the dialect")


_AXES: Final = ("x", "y", "z")
_ATOMICS: Final = (
    "add", "sub", "max", "min", "nanmax", "nanmin", "and_", "or_", "xor", "inc", "dec", "exch",
    "cas", "compare_and_swap",
)  # fmt: skip

#: Every word, by its name in ``mxgemm.cuda``.
ROOT: Final[dict[str, Stub]] = {
    **{name: Stub(name, _AXES) for name in ("threadIdx", "blockIdx", "blockDim", "gridDim")},
    "shared": Stub("shared", ("array",)),
    "local": Stub("local", ("array",)),
    "const": Stub("const", ("array_like",)),
    "atomic": Stub("atomic", _ATOMICS),
    **{
        name: Stub(name)
        for name in (
            "grid", "gridsize", "laneid", "warpsize", "syncthreads", "syncthreads_count",
            "syncthreads_and", "syncthreads_or", "syncwarp", "shfl_sync", "shfl_up_sync",
            "shfl_down_sync", "shfl_xor_sync", "all_sync", "any_sync", "eq_sync", "ballot_sync",
            "match_any_sync", "match_all_sync", "activemask", "lanemask_lt", "threadfence",
            "threadfence_block", "threadfence_system", "fma", "popc", "clz", "ffs", "brev", "cbrt",
            "selp",
        )
    },
}  # fmt: skip
