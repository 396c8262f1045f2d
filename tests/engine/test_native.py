"""Kernels called through entries return what numba's do, for the arguments they were compiled for and no others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynq_cli.engine.kernels import native, signatures
from dynq_cli.engine.kernels.signatures import Signature
from tests.every_case import every_case

ROOT = Path(__file__).parent.parent.parent
KERNELS = """
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel

TABLE = np.dtype([("rows", np.int64), ("mark", np.int32), ("stride", np.int64)], align=True)


class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray


class Store(NamedTuple):
    words: np.ndarray
    tables: np.ndarray
    pair: Pair
    first: int


class Status(NamedTuple):
    reason: int
    is_whole: bool


@kernel
def places(a, b, flag):
    return a.shape[0], a.shape[1], a.size, a.itemsize, np.int64(a[1, 2]), np.int64(b[len(b) - 1]), flag

@kernel
def largest(x):
    return np.uint64(2**63) + np.uint64(x)

@kernel
def is_odd(x):
    return x % 2 == 1

@kernel
def cleared(target):
    for i in range(len(target)):
        target[i] = 0
    return len(target)

@kernel
def one(x):
    return (x + 1,)

@kernel
def fill(target, pair, value):
    for i in range(len(target)):
        target[i] = pair.left[i] + pair.right[i] + value

@kernel
def half(x):
    return x * 0.5

@kernel
def at_record(store, table, row):
    return store.tables[table].rows + row * store.tables[table].stride + store.first

@kernel
def stored(store, row):
    at = at_record(store, 1, row)
    store.tables[1].mark += 1
    return Status(store.words[at] + store.pair.right[0], store.tables[1].mark == 8)

@kernel(_nrt=True)
def allocates(n):
    return np.arange(n).sum()

@kernel(_nrt=True)
def raises(x):
    if x < 0:
        raise ValueError("below zero")
    return x

@kernel
def divides(x, y):
    return x // y

@kernel
def same(x):
    return x
"""
TOOLS = ("cache", "compiling", "entry", "jit", "library", "native", "reached", "build", "signatures", "sources")
Called = dict[str, Any]
Calls = Callable[..., Called]


def make_package(folder: Path, **kernels: str) -> Path:
    """A checkout with kernels of its own around the real modules that list, compile, build and find them."""
    package = folder / "dynq_cli" / "engine" / "kernels"
    package.mkdir(parents=True)
    for directory in (package, package.parent, package.parent.parent):
        (directory / "__init__.py").touch()
    for name in TOOLS:
        shutil.copy(ROOT / "dynq_cli" / "engine" / "kernels" / f"{name}.py", package)
    shutil.copy(ROOT / "dynq_cli" / "engine" / "installed.py", package.parent)
    shutil.copy(ROOT / "dynq_cli" / "errors.py", package.parent.parent)
    (folder / "hatch_build.py").touch()
    for name, text in kernels.items():
        (package / f"{name}.py").write_text(text)
    return folder


def run(package: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=package,
        env={**clean, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def build(package: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run(package, "-m", "dynq_cli.engine.kernels.build", *options, **env)


def evaluate(package: Path, *expressions: str, **env: str) -> list[Called]:
    """Evaluate expressions over the kernels in one process: the value of each, and whether numba was needed for it."""
    code = f"""
import json, sys
import numpy as np
from dynq_cli.engine.kernels.samples import *

def shown(each):
    return each if isinstance(each, (bool, int, str, type(None))) else repr(each)

for text in {expressions!r}:
    try:
        found = eval(text)
    except Exception as error:
        found = repr(error)
    value = [shown(each) for each in found] if type(found) is tuple else shown(found)
    print(json.dumps({{"value": value, "numba": bool({{"numba", "llvmlite"}} & set(sys.modules))}}))
"""
    ran = run(package, "-c", code, **env)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


MATRIX = "np.arange(12).reshape(3, 4)"
FILL = "(lambda t: (fill(t, Pair(np.arange(3), np.arange(3) * 10), 100), str(t)))(np.zeros(3, np.int64))"
STORE = (
    "Store(np.arange(50), np.array([(0, 0, 0), (10, 7, 4)], TABLE), Pair(np.zeros(1, np.int64), np.array([1000])), 2)"
)
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
    "a double": ("half(3)", "1.5"),
    "structured rows and tuples inside tuples": (f"stored({STORE}, 3)", "Status(reason=1024, is_whole=True)"),
    "the same again": (f"(lambda s: (stored(s, 3), stored(s, 4).is_whole)[1])({STORE})", False),
}
FIRST = "places(np.arange(12).reshape(3, 4), np.arange(5), True)"
ANOTHER_KIND = {
    "another dtype": "places(np.arange(12, dtype=np.int32).reshape(3, 4), np.arange(5), True)",
    "another order of axes": "places(np.arange(12).reshape(4, 3).T, np.arange(5), True)",
    "steps between items": "places(np.arange(48).reshape(6, 8)[::2, ::2], np.arange(9)[::4], True)",
    "items that cannot be written": "places(np.arange(12).reshape(3, 4), np.frombuffer(bytes(40), np.int64), True)",
    "items at odd places": "places(np.arange(12).reshape(3, 4), np.zeros(41, np.uint8)[1:].view(np.int64), True)",
}


@pytest.fixture(scope="module")
def compiling(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Called]]:
    """A checkout in which all calls have been recorded, and what they returned: nothing is built yet."""
    package = make_package(tmp_path_factory.mktemp("kernels"), samples=KERNELS)
    (package / "build" / "kernels").mkdir(parents=True)
    (package / "build" / "kernels" / "recording").touch()
    calls = [*(expression for expression, _ in CALLS.values()), *ANOTHER_KIND.values()]
    return package, evaluate(package, *calls)


@pytest.fixture(scope="module")
def built(compiling: tuple[Path, list[Called]]) -> Path:
    """The same checkout with a library of all that was recorded."""
    package, _ = compiling
    listed = run(package, "-m", "dynq_cli.engine.kernels.reached", "--all")
    assert listed.returncode == 0, listed.stderr
    made = build(package)
    assert made.returncode == 0, made.stderr
    return package


@pytest.fixture
def call(built: Path) -> Calls:
    return lambda *expressions: evaluate(built, *expressions)[-1]


def test_without_a_library_kernels_are_compiled_in_the_process(compiling: tuple[Path, list[Called]]) -> None:
    _, called = compiling
    assert [each["value"] for each in called[: len(CALLS)]] == [value for _, value in CALLS.values()]
    assert called[0]["numba"] is True


@pytest.mark.parametrize("what", CALLS)
def test_the_library_gives_the_same_without_numba(what: str, call: Calls) -> None:
    expression, value = CALLS[what]
    assert call(expression) == {"value": value, "numba": False}


def test_the_list_names_dtypes_and_named_tuples(built: Path) -> None:
    listed = (built / "dynq_cli" / "engine" / "kernels" / "signatures.txt").read_text().splitlines()
    assert (
        "samples.stored(samples.Store(int64[1], samples.TABLE[1], samples.Pair(int64[1], int64[1]), int), int)"
        in listed
    )
    assert "samples.places(int64[2] A, int64[1] A, bool)" in listed
    assert "samples.places(int64[2], uint8[1] readonly, bool)" in listed
    assert "samples.places(int64[2], int64[1] unaligned, bool)" in listed
    assert listed[1:] == sorted(listed[1:])


def test_a_library_that_is_up_to_date_is_left_as_it_is(built: Path) -> None:
    library = built / "dynq_cli" / "engine" / "kernels" / "kernels.so"
    before = library.stat()
    assert build(built).stderr == ""
    assert library.stat() == before


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("allocates(10)", "it calls"),
        ("raises(3)", "it can raise"),
        ("divides(3, 0)", "error_model='numpy'"),
        ("same(np.arange(3))", "it returns a"),
    ],
)
def test_a_kernel_that_needs_numba_to_be_called_is_an_error_with_the_reason(
    expression: str, reason: str, built: Path
) -> None:
    (called,) = evaluate(built, expression)
    assert called["value"].startswith("KernelError") and reason in called["value"]


@pytest.mark.parametrize("given", ["np.int32(7)", "np.uint64(7)", "7.0", "2**70 + 1"])
def test_numbers_of_other_kinds_are_refused(given: str, call: Calls) -> None:
    assert str(call("is_odd(7)", f"is_odd({given})")["value"]).startswith(
        "TypeError('kernel samples.is_odd takes int64"
    )


@pytest.mark.parametrize("what", ANOTHER_KIND)
def test_a_call_of_the_same_types_and_another_kind_is_no_call_of_the_first(what: str, call: Calls) -> None:
    """One after the other, so that the second call is tried with what the first one was compiled to."""
    alone = call(ANOTHER_KIND[what])
    assert alone["numba"] is False
    assert call(FIRST, ANOTHER_KIND[what]) == alone
    assert call(FIRST, ANOTHER_KIND[what], FIRST)["value"] == [3, 4, 12, 8, 6, 4, True]


@pytest.mark.parametrize("given", ["np.arange(12).astype('>i8').reshape(3, 4)", "np.array(5)", "np.ma.ones((3, 4))"])
def test_a_call_that_numba_cannot_compile_is_an_error(given: str, call: Calls) -> None:
    assert "Error" in call(FIRST, f"places({given}, np.arange(5), True)")["value"]


def test_a_second_call_takes_what_the_first_one_does(call: Calls) -> None:
    numbers = "one(1) + one(np.int64(2)) + one(3) + one(-2**63) + one(2**63 - 2)"
    assert call(numbers)["value"] == [2, 3, 4, 1 - 2**63, 2**63 - 1]
    assert call(FIRST, FIRST.replace("True", "np.True_"), FIRST.replace("True", "np.False_"))["value"][-1] is False
    assert call(FILL, FILL)["value"] == [None, "[100 111 122]"]


def test_members_of_tuples_of_other_types_are_looked_at_again(call: Calls) -> None:
    other = STORE.replace("np.array([1000])", "5")
    assert "KernelError" in call(f"stored({STORE}, 3)", f"stored({other}, 3)")["value"]
    assert call(f"stored({STORE}, 3)", f"stored({STORE.replace('), 2)', '), np.int64(2))')}, 3)") == {
        "value": "Status(reason=1024, is_whole=True)",
        "numba": False,
    }


FAR_APART = """
import mmap
from dynq_cli.engine.kernels.samples import *
no_reserve, kept = 0x4000, []
for i in range(400):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    kept.append(mmap.mmap(-1, 1 << (33, 38, 36)[i % 3], flags=flags))
print(one(1), is_odd(3), largest(1), half(3))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reserves address space in Linux's way")
def test_code_is_compiled_whatever_address_space_is_taken(compiling: tuple[Path, list[Called]]) -> None:
    """The parts of an object have to be within reach of each other; a linker that fails at that ends the process."""
    package, _ = compiling
    ran = run(package, "-c", FAR_APART)
    assert (ran.returncode, ran.stdout) == (0, "(2,) True 9223372036854775809 1.5\n"), ran.stderr


def symbol(*given: object) -> str:
    found = native.arguments(given)
    assert found is not None
    signature = Signature("kernel", found.kinds)
    return signature.symbol()


def test_kinds_tell_apart_what_numba_compiles_apart() -> None:
    plain = np.zeros((3, 4), np.int64)
    readonly = plain.view()
    readonly.flags.writeable = False
    unaligned = np.zeros(33, np.uint8)[1:].view(np.int64)
    different: list[object] = [
        plain,
        plain.T,
        plain[:, ::2],
        plain[0],
        plain.astype(np.int32),
        plain.astype(">i8"),
        plain.view(np.uint64),
        plain.view([("a", np.int64)]),
        plain.view([("b", np.int64)]),
        readonly,
        unaligned,
        1,
        True,
    ]
    assert len({symbol(each) for each in different}) == len(different)
    assert symbol(np.zeros((1, 4), np.int64)) == symbol(plain)
    assert symbol(np.int64(1)) == symbol(1) and symbol(np.True_) == symbol(True)


@every_case("given", [1.0, "a", None, 2**63, -(2**63) - 1, [1], np.int32(1), np.ma.masked, (1, 2)])
def test_what_no_entry_takes_is_said(given: object) -> None:
    assert native.arguments((1, given)) is None


@every_case(
    ("line", "said"),
    [
        ("table.find(int64[1]", "ends too early"),
        ("table.find", "is no signature"),
        ("table.find(int64[1]) int", "goes on"),
        ("table.find(float)", "'float' is no kind"),
        ("table.find(table.Nothing(int))", "there is no table.Nothing"),
        ("table.find(fields.Trees(int))", "no named tuple with 1 members"),
        ("table.find(int64[1], %)", "is no signature"),
        ("nowhere.find(int)", "there is no nowhere.find"),
        ("table.find(int, int)", "table.find takes 3 arguments"),
        ("table.np(int)", "table.np is no kernel"),
    ],
)
def test_a_line_that_fits_no_kernel_is_told_so(line: str, said: str) -> None:
    assert said in str(signatures.misfit(line))


def test_a_dtype_without_a_name_cannot_be_listed() -> None:
    kind = native.Array(np.dtype([("nobody_has_this", np.int64)]), 1)
    with pytest.raises(ValueError, match="no module has the dtype"):
        Signature("table.find", (kind,)).text()


def test_every_line_of_the_list_fits_a_kernel_and_is_as_it_would_be_written() -> None:
    lines = signatures.read()
    assert len(lines) > 50 and lines == sorted(set(lines))
    assert [(line, misfit) for line in lines if (misfit := signatures.misfit(line))] == [], "run `make kernels`"
    assert [Signature.parse(line).text() for line in lines] == lines
