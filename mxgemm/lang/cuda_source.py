"""IR kernels as CUDA C source, and the order in which a launch passes arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mxgemm.lang import ir
from mxgemm.lang.cuda_expressions import ArrayText
from mxgemm.lang.cuda_prelude import prelude
from mxgemm.lang.cuda_statements import StatementText
from mxgemm.lang.cuda_types import C_TYPES, Names
from mxgemm.lang.types import ArrayType, Scalar, TupleType
from mxgemm.lang.walk import nodes

__all__ = ["Argument", "CudaSource", "cuda_source"]


@dataclass(frozen=True)
class Argument:
    """One machine argument: of parameter ``position``, its value, pointer, an extent or a stride."""

    position: int
    what: str
    axis: int = 0


@dataclass(frozen=True)
class CudaSource:
    """A self-contained source with its entry and the arguments that a launch passes, in order."""

    text: str
    entry: str
    arguments: tuple[Argument, ...]


def cuda_source(kernel: ir.Kernel, launch_bounds: tuple[int, ...] = ()) -> CudaSource:
    """Generate CUDA C for a kernel; contraction must be off in the compiler for the interpreter's bits.

    Parameters
    ----------
    kernel
        Checked IR.
    launch_bounds
        Threads a block and, optionally, blocks a multiprocessor, as ``__launch_bounds__`` takes them.
    """
    outer = Names()
    entry = outer.of(kernel.name)
    functions = {f.name: (outer.of(f.name), f) for f in kernel.functions}
    roots: tuple[ir.Kernel | ir.Function, ...] = (kernel, *kernel.functions)
    parts = [_constants(root, root.name) for root in roots]
    parts += [_function(function, functions, entry) for function in kernel.functions]
    root = _Root(kernel, functions, entry)
    parameters, arguments = _kernel_parameters(kernel, root)
    bounds = f"__launch_bounds__({', '.join(map(str, launch_bounds))}) " if launch_bounds else ""
    parts.append(f'extern "C" __global__ void {bounds}{entry}({", ".join(parameters)}) {{\n{root.text}}}\n')
    body = "".join(parts)
    if "mx_dynamic" in body:
        body = f"extern __shared__ __align__(16) unsigned char mx_dynamic[];\n\n{body}"
    helpers = prelude(body)
    return CudaSource(f"{helpers}\n\n{body}" if helpers else body, entry, arguments)


class _Root:
    """A kernel's or device function's body as text, with the names it used."""

    def __init__(
        self, root: ir.Kernel | ir.Function, functions: dict[str, tuple[str, ir.Function]], entry: str
    ):
        self.names = Names()
        for taken in (entry, *(name for name, _ in functions.values())):
            self.names.fresh(taken)
        self.arrays: dict[str, ArrayText] = {}
        variants = _variants(root)
        for name, parameter in root.parameters:
            if isinstance(parameter, ArrayType):
                self._declare_parameter(root, name, parameter)
        lines = [self._declare(root, declared) for declared in root.arrays]
        writer = StatementText(self.names, variants, self.arrays, functions, root.body)
        self.scalars = {n: writer.variable(n, t) for n, t in root.parameters if isinstance(t, Scalar)}
        body = writer.block(root.body, 1)
        self.text = "".join(lines + writer.declarations(set(self.scalars.values()))) + body
        self.words = set(re.findall(r"\w+", self.text))

    def _declare_parameter(self, root: ir.Kernel | ir.Function, name: str, parameter: ArrayType) -> None:
        pointer = self.names.of(name)
        if parameter.shape is not None:
            self.arrays[name] = _static(parameter, pointer)
            return
        axes = range(parameter.ndim)
        extents = [self.names.fresh(f"{pointer}_n{axis}") for axis in axes]
        strides = [self.names.fresh(f"{pointer}_s{axis}") for axis in axes] if parameter.layout == "A" else []
        self.arrays[name] = ArrayText(parameter, pointer, extents, strides)
        if isinstance(root, ir.Kernel) and name not in root.written:
            self.arrays[name].constant = not _passed_on(root, name)

    def _declare(self, root: ir.Kernel | ir.Function, declared: ir.ArrayDeclaration) -> str:
        pointer = self.names.of(declared.name)
        self.arrays[declared.name] = _static(declared.type, pointer)
        c_type, shape = C_TYPES[declared.type.element.name], declared.type.shape or ()
        if declared.type.space == "constant":
            return (
                f"    const {c_type}* {pointer} = (const {c_type}*){_constant_name(root.name, declared)};\n"
            )
        if -1 in shape:
            return f"    {c_type}* {pointer} = ({c_type}*)mx_dynamic;\n"
        count = 1
        for extent in shape:
            count *= extent
        return f"    {'__shared__ ' if declared.type.space == 'shared' else ''}{c_type} {pointer}[{count}];\n"


def _passed_on(root: ir.Kernel, name: str) -> bool:
    """True when an array reaches a device function, whose parameter is a pointer to mutable elements."""
    calls = [n for s in root.body for n in nodes(s) if isinstance(n, ir.Call)]
    views = {n.name: n.base for s in root.body for n in nodes(s) if isinstance(n, ir.BindView)}

    def base(array: str) -> str:
        return base(views[array]) if array in views else array

    return any(isinstance(a, str) and base(a) == name for call in calls for a in call.arguments)


def _static(array: ArrayType, pointer: str) -> ArrayText:
    shape = array.shape or ()
    if -1 in shape:
        return ArrayText(array, pointer, [f"(long long)(mx_shared_bytes() / {array.element.itemsize}u)"], [])
    return ArrayText(array, pointer, [str(extent) for extent in shape], [])


def _variants(root: ir.Kernel | ir.Function) -> dict[str, set[Scalar]]:
    variants: dict[str, set[Scalar]] = {}
    for name, t in root.parameters:
        if isinstance(t, Scalar):
            variants.setdefault(name, set()).add(t)
    for statement in root.body:
        for node in nodes(statement):
            if isinstance(node, ir.Local):
                variants.setdefault(node.name, set()).add(node.type)
    return variants


def _constant_name(root: str, declared: ir.ArrayDeclaration) -> str:
    return f"mx_{root}_{declared.name}".replace(".", "_")


def _constants(root: ir.Kernel | ir.Function, name: str) -> str:
    return "".join(
        f"__constant__ __align__(16) unsigned char {_constant_name(name, declared)}[] = "
        f"{{{', '.join(map(str, declared.data or bytes(1)))}}};\n"
        for declared in root.arrays
        if declared.type.space == "constant"
    )


def _kernel_parameters(kernel: ir.Kernel, root: _Root) -> tuple[list[str], tuple[Argument, ...]]:
    """C parameters and the plan of arguments; what nothing reads is left out."""
    parameters: list[str] = []
    arguments: list[Argument] = []
    for position, (name, t) in enumerate(kernel.parameters):
        for text, argument in _machine_parameters(position, name, t, root):
            if text.rpartition(" ")[2] in root.words:
                parameters.append(text)
                arguments.append(argument)
    return parameters, tuple(arguments)


def _machine_parameters(position: int, name: str, t: object, root: _Root) -> list[tuple[str, Argument]]:
    if isinstance(t, Scalar):
        return [(f"{C_TYPES[t.name]} {root.scalars[name]}", Argument(position, "value"))]
    if not isinstance(t, ArrayType):
        return []
    array = root.arrays[name]
    const = "const " if array.constant else ""
    result = [(f"{const}{C_TYPES[t.element.name]}* {array.pointer}", Argument(position, "pointer"))]
    if t.shape is None:
        result += [(f"long long {e}", Argument(position, "extent", i)) for i, e in enumerate(array.extents)]
        result += [(f"long long {s}", Argument(position, "stride", i)) for i, s in enumerate(array.strides)]
    return result


def _function(function: ir.Function, functions: dict[str, tuple[str, ir.Function]], entry: str) -> str:
    root = _Root(function, functions, entry)
    name = functions[function.name][0]
    parameters = [
        text
        for position, (parameter, t) in enumerate(function.parameters)
        for text, _ in _machine_parameters(position, parameter, t, root)
    ]
    result, struct = "void", ""
    if isinstance(function.result, TupleType):
        result = f"{name}_result"
        items = " ".join(f"{C_TYPES[t.name]} item{i};" for i, t in enumerate(function.result.items))
        struct = f"struct {result} {{ {items} }};\n"
    elif function.result is not None:
        result = C_TYPES[function.result.name]
    head = f"static __device__ __forceinline__ {result} {name}({', '.join(parameters)})"
    return f"{struct}{head} {{\n{root.text}}}\n\n"
