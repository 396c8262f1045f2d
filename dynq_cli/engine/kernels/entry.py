"""From a function that numba has compiled to object code with an entry of our own, to be called without numba.

The entry turns a block of slots (see `native`) into numba's calling convention: a place for the returned values, one
for an exception, and every argument taken apart; of an array the data, the shape and the strides, and nothing to count
references in. That this is still the convention is checked against the function's own type. Before all that, the entry
compares every array with the kind that the function is compiled for. Refused are functions that can raise, allocate or
call into numba, and arguments other than integers, truth values, arrays and named tuples of them.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba
from numba.np import numpy_support

from dynq_cli.engine.kernels.compiling import linked
from dynq_cli.engine.kernels.library import RETURNS
from dynq_cli.engine.kernels.native import (
    BOOL,
    DATA_AT,
    DIMENSIONS_AT,
    DTYPE_AT,
    FLAGS_AT,
    INT,
    OTHER_KIND,
    SHAPE_AT,
    STRIDES_AT,
    Array,
    Kind,
    Returned,
    Tuple,
    flags_of,
)

_SLOT = 8
# Functions that machine code may need and every process has.
_EVERYWHERE = {"memcpy", "memmove", "memset"}
# Where a function notes the exception it raises: seen from outside, so that no such note is optimised away.
_RAISED = "dynq_raised"
types: Any = numba.types
_support: Any = numpy_support


class NotSimpleError(Exception):
    """A function that cannot be called without numba."""


def type_of(kind: Kind) -> Any:
    """Numba's type for arguments of a kind. NotSimpleError if it has none."""
    if isinstance(kind, Array):
        try:
            dtype = _support.from_dtype(kind.dtype)
        except numba.core.errors.NumbaError as error:
            raise NotSimpleError(f"an array has items of {kind.dtype}") from error
        return types.Array(dtype, kind.dimensions, kind.layout, readonly=kind.readonly, aligned=kind.aligned)
    if isinstance(kind, Tuple):
        return types.BaseTuple.from_types(tuple(map(type_of, kind.members)), kind.of)
    return {INT: types.int64, BOOL: types.boolean}[kind]


def object_of(part: Any, symbol: str, kinds: tuple[Kind, ...], cpu: str) -> bytes:
    """A kernel's part as object code with an entry of this name, for arguments of these kinds and for a CPU.

    NotSimpleError if it needs numba to be called.
    """
    taken = tuple(map(type_of, kinds))
    part.compile(taken)
    compiled = part.overloads[taken]
    name, returned = compiled.fndesc.llvm_func_name, _returned(compiled.signature.return_type)
    module = linked(compiled.library)
    entry = _Entry(symbol, name, taken, returned)
    if str(module.get_function(name).global_value_type) != entry.type_of_function:
        raise NotSimpleError("numba passes arguments in another way")
    module.link_in(llvm.parse_assembly(entry.text))
    machine = machine_for(cpu)
    kept = {symbol, f"{symbol}{RETURNS}", _RAISED}
    _keep_only(kept, module, machine)
    _optimise(module, machine)
    _keep_only(kept, module, machine)
    missing = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    if missing - _EVERYWHERE:
        raise NotSimpleError(f"it calls {', '.join(sorted(missing))}")
    if any("picklebuf" in variable.name for variable in module.global_variables):
        raise NotSimpleError("it can raise an exception (a division by zero, if nothing else: error_model='numpy')")
    # Every kernel of a library has one of its own.
    module.get_global_variable(_RAISED).linkage = llvm.Linkage.internal
    return bytes(machine.emit_object(module))


def constant_of(symbol: str, text: str, cpu: str) -> bytes:
    """Object code with nothing but a text."""
    llvm.initialize_native_target()
    module = llvm.parse_assembly(_constant(symbol, text))
    return bytes(machine_for(cpu).emit_object(module))


def _constant(symbol: str, text: str) -> str:
    content = text.encode() + b"\0"
    spelled = "".join(f"\\{byte:02X}" for byte in content)
    return f'@{symbol} = constant [{len(content)} x i8] c"{spelled}"'


def _returned(kind: Any) -> Returned:
    made = ""
    if isinstance(kind, types.BaseTuple):
        of = getattr(kind, "instance_class", None)
        made = "tuple" if of is None else f"{of.__module__}:{of.__qualname__}"
    members = list(kind.types) if made else [] if kind == types.none else [kind]
    named = {types.int64: INT, types.uint64: "uint", types.boolean: BOOL, types.float64: "float"}
    if not set(members) <= set(named):
        raise NotSimpleError(f"it returns a {kind}")
    return Returned(tuple(named[member] for member in members), made)


def machine_for(cpu: str) -> Any:
    """What emits code for a CPU, with nothing but the features that its name stands for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features="", opt=3, reloc="pic", codemodel="small")


def _optimise(module: Any, machine: Any) -> None:
    """Numba's two passes over a module, for the CPU of the machine instead of the one that this runs on."""
    for level in (0, 3):
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization, options.slp_vectorization = level > 0, False
        builder = llvm.create_pass_builder(machine, options)
        passes = builder.getModulePassManager()
        if level == 0:
            passes.add_loop_rotate_pass()
            passes.add_instruction_combine_pass()
            passes.add_jump_threading_pass()
        passes.run(module, builder)


def _keep_only(names: set[str], module: Any, machine: Any) -> None:
    """Drop what the entry does not reach: numba's own ways of calling the function."""
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.name not in names:
            each.linkage = llvm.Linkage.internal
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))


def _members(kinds: tuple[Any, ...]) -> list[Any]:
    """A kind for every slot: named tuples are passed by their members."""
    found: list[Any] = []
    for kind in kinds:
        found += _members(tuple(kind.types)) if isinstance(kind, types.BaseNamedTuple) else [kind]
    return found


class _Entry:
    """The LLVM text of an entry, and the type that the function it calls has to have."""

    def __init__(self, symbol: str, function: str, kinds: tuple[Any, ...], returned: Returned) -> None:
        self._lines: list[str] = []
        self._passed = [("ptr", "%returned"), ("ptr", f"@{_RAISED}")]
        self._slots = 0
        self._check(_members(kinds), len(returned.kinds))
        self._pass_all(kinds)
        widths = [{BOOL: "i8", "float": "double"}.get(kind, "i64") for kind in returned.kinds]
        place = f"{{ {', '.join(widths)} }}" if widths else "ptr"
        status = self._set(f'call i32 @"{function}"({", ".join(f"{t} {v}" for t, v in self._passed)})')
        for i, width in enumerate(widths):
            value = self._load(width, self._set(f"getelementptr {place}, ptr %returned, i32 0, i32 {i}"))
            if width == "i8":
                width, value = "i64", self._set(f"zext i8 {value} to i64")
            self._lines.append(f"store {width} {value}, ptr {self._at('%block', self._slots * _SLOT + i * _SLOT)}")
        taken = ", ".join(t for t, _ in self._passed)
        self.type_of_function = f"i32 ({taken})"
        self.text = "\n".join(
            [
                f'declare i32 @"{function}"({taken})',
                f"@{_RAISED} = global ptr null",
                _constant(f"{symbol}{RETURNS}", returned.text()),
                f"define i32 @{symbol}(ptr %block) {{",
                f"%returned = alloca {place}",
                *self._lines,
                f"ret i32 {status}",
                "}",
            ]
        )

    def _check(self, members: list[Any], returned: int) -> None:
        """Go on only if all arrays are of the kinds that they should be."""
        is_kind, arrays = "true", 0
        for slot, kind in enumerate(members):
            if not isinstance(kind, types.Array):
                continue
            array = self._load("ptr", self._at("%block", slot * _SLOT))
            expected = self._load("ptr", self._at("%block", (len(members) + returned + arrays) * _SLOT))
            arrays += 1
            looked_at, flags = flags_of(kind.layout, not kind.mutable, kind.aligned)
            masked = self._set(f"and i32 {self._load('i32', self._at(array, FLAGS_AT))}, {looked_at}")
            for same in (
                f"icmp eq ptr {self._load('ptr', self._at(array, DTYPE_AT))}, {expected}",
                f"icmp eq i32 {self._load('i32', self._at(array, DIMENSIONS_AT))}, {kind.ndim}",
                f"icmp eq i32 {masked}, {flags}",
            ):
                is_kind = self._set(f"and i1 {is_kind}, {self._set(same)}")
        self._lines += [f"br i1 {is_kind}, label %call, label %other", "other:", f"ret i32 {OTHER_KIND}", "call:"]

    def _pass_all(self, kinds: tuple[Any, ...]) -> None:
        for kind in kinds:
            if isinstance(kind, types.BaseNamedTuple):
                self._pass_all(tuple(kind.types))
                continue
            slot = self._at("%block", self._slots * _SLOT)
            self._slots += 1
            if isinstance(kind, types.Array):
                self._pass_array(kind, self._load("ptr", slot))
            elif kind == types.boolean:
                self._passed.append(("i8", self._set(f"trunc i64 {self._load('i64', slot)} to i8")))
            else:
                self._passed.append(("i64", self._load("i64", slot)))

    def _pass_array(self, kind: Any, array: str) -> None:
        data, shape, strides = (self._load("ptr", self._at(array, at)) for at in (DATA_AT, SHAPE_AT, STRIDES_AT))
        sizes = [self._load("i64", self._at(shape, i * _SLOT)) for i in range(kind.ndim)]
        steps = [self._load("i64", self._at(strides, i * _SLOT)) for i in range(kind.ndim)]
        items = "1"
        for size in sizes:
            items = self._set(f"mul i64 {items}, {size}")
        width = str(_support.as_dtype(kind.dtype).itemsize)
        self._passed += [("ptr", "null"), ("ptr", "null"), ("i64", items), ("i64", width), ("ptr", data)]
        self._passed += [("i64", each) for each in (*sizes, *steps)]

    def _at(self, place: str, offset: int) -> str:
        return self._set(f"getelementptr i8, ptr {place}, i64 {offset}")

    def _load(self, width: str, place: str) -> str:
        return self._set(f"load {width}, ptr {place}")

    def _set(self, instruction: str) -> str:
        name = f"%v{len(self._lines)}"
        self._lines.append(f"{name} = {instruction}")
        return name
