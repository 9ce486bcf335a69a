"""Python source to IR: one kernel, with its device functions, for given argument types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mxgemm.lang import ir
from mxgemm.lang.place import Place, refuse
from mxgemm.lang.scope import ArrayValue, Environment, ScalarBinding, StaticValue, TupleBinding
from mxgemm.lang.source import KernelSource
from mxgemm.lang.statements import StatementLowering
from mxgemm.lang.types import ArrayType, Scalar, TupleType, Type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["lower"]

#: Static shared memory that a block can have, on every architecture (CUDA C++ Programming Guide).
_STATIC_SHARED: Final = 49152


class _Program:
    """The device functions of one kernel, by function and argument types."""

    def __init__(self) -> None:
        self.functions: dict[tuple[Any, tuple[Type | StaticValue, ...]], ir.Function] = {}
        self.active: list[Any] = []

    def specialise(self, target: Any, types: tuple[Type | StaticValue, ...], place: Place) -> ir.Function:
        """Lower ``target`` for ``types``, once."""
        key = (target.py_func, types)
        if key in self.functions:
            return self.functions[key]
        if target.py_func in self.active:
            raise refuse(place, f"{target.__name__} calls itself; recursion is not part of the dialect")
        self.active.append(target.py_func)
        function = self._lower(target.source_view, types)
        self.active.pop()
        self.functions[key] = function
        return function

    def _lower(self, source: KernelSource, types: tuple[Type | StaticValue, ...]) -> ir.Function:
        _check_parameters(source)
        name = f"{source.name}.{len(self.functions)}"
        result: tuple[Scalar, ...] | None = None
        for _ in range(8):
            lowering, body = _run(source, types, self.specialise, is_kernel=False, result=result)
            if lowering.unified_result() == result:
                break
            result = lowering.unified_result()
        if lowering.returns and lowering.environment is not None and result:
            raise lowering.refuse(
                source.tree, f"{source.name} returns a value on some paths and none on others"
            )
        return ir.Function(
            Place.of(source.tree, source.filename),
            name,
            _flattened(source.parameters, types),
            lowering.result_type(),
            body,
            tuple(lowering.arrays.values()),
        )


def lower(source: KernelSource, types: tuple[Type, ...]) -> ir.Kernel:
    """Lower a kernel for the argument types ``types``.

    Raises
    ------
    KernelSyntaxError
        For anything outside the dialect, with file, line and caret.
    """
    _check_parameters(source)
    if source.defaults:
        place = Place.of(source.tree, source.filename)
        raise refuse(place, "the parameters of a kernel have no defaults; those of device functions may")
    if len(types) != len(source.parameters):
        raise TypeError(f"{source.name} takes {len(source.parameters)} arguments, {len(types)} given")
    program = _Program()
    lowering, body = _run(source, types, program.specialise, is_kernel=True, result=())
    kernel = ir.Kernel(
        Place.of(source.tree, source.filename),
        source.name,
        tuple(zip(source.parameters, types, strict=True)),
        body,
        tuple(lowering.arrays.values()),
        tuple(program.functions.values()),
    )
    if kernel.shared_bytes > _STATIC_SHARED:
        raise refuse(
            kernel.place,
            f"{kernel.shared_bytes} bytes of static shared memory; CUDA allows {_STATIC_SHARED} a block. "
            "Dynamic memory may be larger: cuda.shared.array(0, dtype), its bytes as the fourth launch value",
        )
    return kernel


def _flattened(names: tuple[str, ...], types: tuple[Type | StaticValue, ...]) -> tuple[tuple[str, Type], ...]:
    """Parameters as a call passes them: a tuple's items one by one, compile-time objects not at all."""
    parameters: list[tuple[str, Type]] = []
    for name, t in zip(names, types, strict=True):
        if isinstance(t, TupleType):
            parameters += [(f"{name}.{i}", item) for i, item in enumerate(t.items)]
        elif not isinstance(t, StaticValue):
            parameters.append((name, t))
    return tuple(parameters)


def _run(
    source: KernelSource,
    types: tuple[Type | StaticValue, ...],
    specialise: Callable[[Any, tuple[Type | StaticValue, ...], Place], ir.Function],
    *,
    is_kernel: bool,
    result: tuple[Scalar, ...] | None,
) -> tuple[StatementLowering, tuple[ir.Statement, ...]]:
    environment: Environment = {}
    for name, argument in zip(source.parameters, types, strict=True):
        if isinstance(argument, ArrayType):
            environment[name] = ArrayValue(name, argument)
        elif isinstance(argument, Scalar):
            environment[name] = ScalarBinding(argument)
        elif isinstance(argument, StaticValue):
            environment[name] = argument
        else:
            environment[name] = TupleBinding(len(argument.items))
            environment.update({f"{name}.{i}": ScalarBinding(t) for i, t in enumerate(argument.items)})
    lowering = StatementLowering(source, environment, specialise)
    return lowering, lowering.run(is_kernel, result)


def _check_parameters(source: KernelSource) -> None:
    arguments = source.tree.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        place = Place.of(source.tree, source.filename)
        raise refuse(place, "functions take plain parameters: no *args or **kwargs, no * or / among them")
