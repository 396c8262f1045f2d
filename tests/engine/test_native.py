"""Machine code that is kept by itself does what numba's does, for the arguments it was made for and no others."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from dynq_cli.engine.kernels import native
from dynq_cli.engine.kernels.linking import place

ROOT = Path(__file__).parent.parent.parent
# Elsewhere LLVM links what is kept.
IS_NOT_PLAIN = sys.platform != "linux" or platform.machine() != "x86_64"
KERNELS = """
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import bare


class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray


@bare
def places(a, b, flag):
    return a.shape[0], a.shape[1], a.size, a.itemsize, np.int64(a[1, 2]), np.int64(b[len(b) - 1]), flag

@bare
def largest(x):
    return np.uint64(2**63) + np.uint64(x)

@bare
def is_odd(x):
    return x % 2 == 1

@bare
def cleared(target):
    for i in range(len(target)):
        target[i] = 0
    return len(target)

@bare
def one(x):
    return (x + 1,)

@bare
def fill(target, pair, value):
    for i in range(len(target)):
        target[i] = pair.left[i] + pair.right[i] + value

@bare(_nrt=True)
def allocates(n):
    return np.arange(n).sum()

@bare(_nrt=True)
def raises(x):
    if x < 0:
        raise ValueError("below zero")
    return x

@bare(_nrt=True)
def real(x):
    return x * 0.5
"""
Called = dict[str, Any]
Calls = Callable[[str], Called]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    kernels = folder / "package" / "dynq_cli" / "engine" / "kernels"
    kernels.mkdir(parents=True)
    for directory in (kernels, kernels.parent, kernels.parent.parent):
        (directory / "__init__.py").touch()
    for name in ("cache", "compiling", "entry", "linking", "native"):
        shutil.copy(ROOT / "dynq_cli" / "engine" / "kernels" / f"{name}.py", kernels)
    shutil.copy(ROOT / "dynq_cli" / "engine" / "installed.py", kernels.parent)
    (kernels / "samples.py").write_text(KERNELS)
    return folder


@pytest.fixture
def call(package: Path) -> Calls:
    """Evaluate an expression over the kernels in a process of its own: its value, and whether numba was needed."""

    def run(expression: str) -> Called:
        code = f"""
import json, sys
import numpy as np
from dynq_cli.engine.kernels.samples import *
try:
    found = {expression}
except Exception as error:
    found = repr(error)
shown = lambda each: each if isinstance(each, (bool, int, str, type(None))) else repr(each)
found = [shown(each) for each in found] if isinstance(found, tuple) else shown(found)
needed = [name for name in ("numba", "llvmlite") if name in sys.modules]
print(json.dumps({{"value": found, "numba": "numba" in needed, "llvm": "llvmlite" in needed}}))
"""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=package,
            env={**clean, "PYTHONPATH": str(package / "package"), "XDG_CACHE_HOME": str(package / "cache")},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert ran.returncode == 0, ran.stderr
        called: Called = json.loads(ran.stdout)
        return called

    return run


MATRIX = "np.arange(12).reshape(3, 4)"
FILL = "(lambda t: (fill(t, Pair(np.arange(3), np.arange(3) * 10), 100), str(t)))(np.zeros(3, np.int64))"
CALLS = {
    "shapes and strides": (f"places({MATRIX}, np.arange(5), True)", [3, 4, 12, 8, 6, 4, True]),
    "another order of axes": (f"places({MATRIX}.T, np.arange(5), False)", [4, 3, 12, 8, 9, 4, False]),
    "steps between items": (
        "places(np.arange(48).reshape(6, 8)[::2, ::2], np.arange(9)[::4], True)",
        [3, 4, 12, 8, 20, 8, True],
    ),
    "narrow items": (
        "places(np.arange(12, dtype=np.int32).reshape(3, 4), np.arange(-5, 0, dtype=np.int8), np.True_)",
        [3, 4, 12, 4, 6, -1, True],
    ),
    "items that cannot be written": (
        f"places({MATRIX}, np.frombuffer(b'abc', np.uint8), True)",
        [3, 4, 12, 8, 6, ord("c"), True],
    ),
    "a number beyond int64": ("largest(5)", 2**63 + 5),
    "truth values": ("is_odd(7), is_odd(np.int64(-8))", [True, False]),
    "a function of the process": ("(lambda t: (cleared(t), int(t.sum())))(np.ones(1000, np.int64))", [1000, 0]),
    "a tuple of one": ("one(-1)", [0]),
    "the ends of int64": ("one(-2**63) + one(2**63 - 2)", [1 - 2**63, 2**63 - 1]),
    "a named tuple, and nothing returned": (FILL, [None, "[100 111 122]"]),
}


@pytest.mark.parametrize("what", CALLS)
def test_the_second_process_gets_the_same_without_numba(what: str, call: Calls) -> None:
    expression, value = CALLS[what]
    assert call(expression)["value"] == value
    assert call(expression) == {"value": value, "numba": False, "llvm": IS_NOT_PLAIN}


@pytest.mark.parametrize(
    ("expression", "value"),
    [("allocates(10)", 45), ("raises(3)", 3), ("raises(-3)", "ValueError('below zero')"), ("real(3)", "1.5")],
)
def test_what_is_not_simple_is_left_to_numba(expression: str, value: object, call: Calls) -> None:
    for _ in range(2):
        assert call(expression) == {"value": value, "numba": True, "llvm": True}


def test_arguments_of_other_kinds_are_left_to_numba(call: Calls) -> None:
    call("is_odd(7)")
    assert call("is_odd(7)")["numba"] is False
    for other in ("np.int32(7)", "np.uint64(7)", "7.0"):
        assert call(f"is_odd({other})") == {"value": True, "numba": True, "llvm": True}
    assert call("is_odd(2**70 + 1)")["numba"] is True


DIGITS = """
module asm ".space 30000"
@digits = internal constant [4 x i64] [i64 3, i64 1, i64 4, i64 1]
define i32 @dynq_entry(ptr %block) {
  %i = load i64, ptr %block
  %digit = getelementptr [4 x i64], ptr @digits, i64 0, i64 %i
  %value = load i64, ptr %digit
  %returned = getelementptr i64, ptr %block, i64 1
  store i64 %value, ptr %returned
  ret i32 0
}
"""
FAR_APART = f"""
import mmap
from pathlib import Path
import llvmlite.binding as llvm
from dynq_cli.engine.kernels import native

llvm.initialize_native_target(), llvm.initialize_native_asmprinter(), llvm.initialize_native_asmparser()
machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
code = machine.emit_object(llvm.parse_assembly({DIGITS!r}))
path = Path("far_apart.native")
path.write_bytes(native.packed(code, ["int"], native.Returned(["int"], False)))
no_reserve, kept, found = 0x4000, [], set()
for i in range(400):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    kept.append(mmap.mmap(-1, 1 << (33, 38, 36)[i % 3], flags=flags))
    kept.append(native.load(path, ["int"], 1))
    found.add(kept[-1]([2]))
print(found)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reserves address space in Linux's way")
def test_code_is_linked_whatever_address_space_is_taken(package: Path) -> None:
    """The parts of an object have to be within reach of each other; a linker that fails at that ends the process."""
    ran = subprocess.run(
        [sys.executable, "-c", FAR_APART],
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(package / "package")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (ran.returncode, ran.stdout) == (0, "{4}\n"), ran.stderr


LEFT_TO_LLVM = """
@seen = global i64 40
define i32 @dynq_entry(ptr %block) {
  %i = load i64, ptr %block
  %had = load i64, ptr @seen
  %sum = add i64 %had, %i
  store i64 %sum, ptr @seen
  %returned = getelementptr i64, ptr %block, i64 1
  store i64 %sum, ptr %returned
  ret i32 0
}
"""


def test_code_that_is_not_plain_is_linked_by_llvm(tmp_path: Path) -> None:
    """What others may see is referred to through a table of addresses, which kernels do not need."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
    code = machine.emit_object(llvm.parse_assembly(LEFT_TO_LLVM))
    assert place(code, native.ENTRY) is None
    path = tmp_path / "kernel"
    path.write_bytes(native.packed(code, ["int"], native.Returned(["int"], False)))
    loaded = native.load(path, ["int"], 1)
    assert loaded is not None and (loaded([1]), loaded([1])) == (41, 42)


@pytest.mark.skipif(IS_NOT_PLAIN, reason="LLVM links objects of other kinds")
def test_data_of_code_is_its_own_and_can_be_written_to() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
    code = machine.emit_object(llvm.parse_assembly(LEFT_TO_LLVM.replace("global", "internal global")))
    for _ in range(2):
        placed = place(code, native.ENTRY)
        assert placed is not None
        kept = native.Native(placed, 1, native.Returned(["int"], False))
        assert (kept([1]), kept([5])) == (41, 46)


def test_a_file_that_is_not_whole_is_as_good_as_none(package: Path, call: Calls) -> None:
    call("largest(1)")
    (path,) = (package / "cache").rglob("samples.largest-*.native")
    whole = path.read_bytes()
    wrong = [b"", b"\n", whole[:-1], whole[:40], whole[70:], whole + b"\0"]
    for byte in (3, 70, 200, len(whole) - 1):
        flipped = bytearray(whole)
        flipped[byte] ^= 4
        wrong.append(bytes(flipped))
    for content in wrong:
        path.write_bytes(content)
        assert call("largest(1)") == {"value": 2**63 + 1, "numba": True, "llvm": True}
    path.unlink()
    assert call("largest(1)")["numba"] is True
    assert path.read_bytes().split(b"\n")[1] == whole.split(b"\n")[1], "it is kept again"
    assert call("largest(1)")["numba"] is False


def test_code_that_needs_what_is_not_there_is_not_linked(tmp_path: Path) -> None:
    path = tmp_path / "kernel"
    path.write_bytes(native.packed(b"no object code", ["int"], native.Returned(["int"], False)))
    assert native.load(path, ["int"], 1) is None


def test_code_for_other_arguments_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "kernel"
    path.write_bytes(native.packed(b"", ["int"], native.Returned(["int"], False)))
    assert native.load(path, ["bool"], 1) is None


def words(*given: object) -> list[str] | None:
    found = native.arguments(given)
    return None if found is None else found.words()


def test_kinds_tell_apart_what_numba_compiles_apart() -> None:
    plain = np.zeros((3, 4), np.int64)
    readonly = plain.view()
    readonly.flags.writeable = False
    unaligned = np.zeros(33, np.uint8)[1:].view(np.int64)
    different = [
        words(plain),
        words(plain.T),
        words(plain[:, ::2]),
        words(plain[0]),
        words(plain.astype(np.int32)),
        words(plain.astype(">i8")),
        words(plain.view(np.uint64)),
        words(readonly),
        words(unaligned),
        words(1),
        words(True),
    ]
    assert len({str(each) for each in different}) == len(different)
    assert words(np.zeros((1, 4), np.int64)) == words(plain)
    assert words(np.int64(1)) == words(1) and words(np.True_) == words(True)


@pytest.mark.parametrize("given", [1.0, "a", None, 2**63, -(2**63) - 1, [1], np.int32(1), np.ma.masked, (1, 2)])
def test_what_no_entry_takes_is_said(given: object) -> None:
    assert words(1, given) is None


FIRST = "places(np.arange(12).reshape(3, 4), np.arange(5), True)"
ANOTHER_KIND = {
    "another dtype": "places(np.arange(12, dtype=np.int32).reshape(3, 4), np.arange(5), True)",
    "a dtype of another byte order": "places(np.arange(12).astype('>i8').reshape(3, 4), np.arange(5), True)",
    "another order of axes": "places(np.arange(12).reshape(4, 3).T, np.arange(5), True)",
    "steps between items": "places(np.arange(48).reshape(6, 8)[::2, ::2], np.arange(9)[::4], True)",
    "items that cannot be written": "places(np.arange(12).reshape(3, 4), np.frombuffer(bytes(40), np.int64), True)",
    "items at odd places": "places(np.arange(12).reshape(3, 4), np.zeros(41, np.uint8)[1:].view(np.int64), True)",
    "fewer dimensions": "places(np.arange(12).reshape(3, 4), np.array(5), True)",
}


@pytest.mark.parametrize("what", ANOTHER_KIND)
def test_a_call_of_the_same_types_and_another_kind_is_no_call_of_the_first(what: str, call: Calls) -> None:
    """Both one after the other, so that the second call is tried with what the first one was compiled to."""
    alone = call(ANOTHER_KIND[what])["value"]
    assert call(f"({FIRST}, {ANOTHER_KIND[what]})[1]")["value"] == alone
    if isinstance(alone, list):
        # Numba does not compile the others.
        assert call(f"({FIRST}, {ANOTHER_KIND[what]}, {FIRST})[2]")["value"] == [3, 4, 12, 8, 6, 4, True]


def test_a_second_call_takes_what_the_first_one_does(call: Calls) -> None:
    assert call("one(1) + one(np.int64(2)) + one(3) + one(-2**63) + one(2**63 - 2)")["value"] == [
        2,
        3,
        4,
        1 - 2**63,
        2**63 - 1,
    ]
    assert call(f"({FIRST}, {FIRST.replace('True', 'np.True_')}, {FIRST.replace('True', 'np.False_')})[2]")[
        "value"
    ] == [
        3,
        4,
        12,
        8,
        6,
        4,
        False,
    ]
    assert call(f"({FILL}, {FILL})[1]")["value"] == [None, "[100 111 122]"]
    assert call("(is_odd(7), is_odd(2**70 + 1))")["numba"] is True
