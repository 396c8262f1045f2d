"""The library of kernels is never stale; without one, kernels are compiled or an error says what to do."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dynq_cli.engine.kernels import library, sources
from dynq_cli.engine.kernels.build import told
from tests.engine.test_native import ROOT, build, make_package, run

CALLER = """
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.callee import inner

@kernel
def outer(x: int) -> int:
    return inner(x) + 1
"""
CALLEE = """
from dynq_cli.engine.kernels.cache import kernel

@kernel
def inner(x: int) -> int:
    return x * {factor}
"""
DEEP = """
from dynq_cli.engine.kernels.cache import kernel

@kernel(forceinline=True)
def least(a, i):
    a[i] -= 1

@kernel
def deeper(a, i):
    if i > 0:
        least(a, i)

@kernel
def deep(a):
    for i in range(len(a)):
        deeper(a, i)
    least(a, 0)

@kernel
def top(a):
    deeper(a, 1)
    deep(a)
"""
CALL = """
import sys
from dynq_cli.engine.kernels.caller import outer
print(outer(10), 'numba' in sys.modules)
"""
CALL_DEEP = """
import sys
import numpy as np
from dynq_cli.engine.kernels.deep import *
a = np.zeros(3, np.int64)
top(a)
print(a.tolist(), 'numba' in sys.modules)
"""
WITHOUT_NUMBA = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in ("numba", "llvmlite"):
            raise ModuleNotFoundError(name)
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("numba", "llvmlite") else found(name, *rest)
sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_package(tmp_path_factory.mktemp("original"), caller=CALLER, callee=CALLEE.format(factor=2), deep=DEEP)
    listed = folder / "dynq_cli" / "engine" / "kernels" / "signatures.txt"
    listed.write_text("# kernels\ncaller.outer(int)\ndeep.top(int64[1])\n")
    made = build(folder)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture
def package(original: Path, tmp_path: Path) -> Path:
    """A checkout with kernels of its own, all of them built."""
    return shutil.copytree(original, tmp_path / "package")


def kernels(package: Path) -> Path:
    return package / "dynq_cli" / "engine" / "kernels"


def test_built_kernels_need_no_numba(package: Path) -> None:
    assert run(package, "-c", CALL).stdout.split() == ["21", "False"]
    assert run(package, "-c", CALL_DEEP).stdout == "[-1, -2, -1] False\n"


def test_an_edit_of_a_called_kernel_is_noticed_and_said_once(package: Path) -> None:
    (kernels(package) / "callee.py").write_text(CALLEE.format(factor=3))
    ran = run(package, "-c", CALL + CALL_DEEP)
    assert ran.stdout.splitlines()[0] == "31 True"
    (line,) = ran.stderr.splitlines()
    assert "built from other sources" in line and "make install" in line


def test_an_edited_kernel_is_compiled_once_and_those_that_do_not_call_it_are_not(package: Path) -> None:
    (kernels(package) / "callee.py").write_text(CALLEE.format(factor=3))
    assert run(package, "-c", CALL_DEEP).stdout.endswith("False\n"), "it is kept from the first build"
    assert run(package, "-c", CALL).stdout.split() == ["31", "True"]
    assert run(package, "-c", CALL).stdout.split() == ["31", "False"]
    assert build(package).returncode == 0
    ran = run(package, "-c", CALL)
    assert (ran.stdout.split(), ran.stderr) == (["31", "False"], "")


def test_a_changed_list_makes_the_library_stale(package: Path) -> None:
    with (kernels(package) / "signatures.txt").open("a") as listed:
        listed.write("callee.inner(int)\n")
    assert run(package, "-c", "from dynq_cli.engine.kernels.library import *; usable()").returncode == 1
    assert build(package).returncode == 0
    assert run(package, "-c", "from dynq_cli.engine.kernels.library import *; usable()").returncode == 0


def test_a_kernel_that_the_list_lacks_is_noted_and_one_command_adds_it(package: Path) -> None:
    call = "import dynq_cli.engine.kernels.callee as c; print(c.inner(4))"
    ran = run(package, "-c", call)
    assert ran.stdout == "8\n" and "the list of kernels lacks callee.inner" in ran.stderr
    unlisted = "from dynq_cli.engine.kernels import reached; print(*reached.unlisted())"
    assert run(package, "-c", unlisted).stdout == "callee.inner(int)\n"
    assert run(package, "-m", "dynq_cli.engine.kernels.reached").stderr.splitlines()[0] == "+ callee.inner(int)"
    assert run(package, "-c", unlisted).stdout == "\n"
    assert build(package).returncode == 0
    assert run(package, "-c", call).stderr == ""


def test_a_test_that_reaches_a_kernel_that_the_list_lacks_fails(package: Path) -> None:
    """Also where it is reached in another process, and once in a run."""
    (package / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", package / "tests")
    (package / "tests" / "test_reach.py").write_text(
        "import subprocess, sys\n"
        "def test_listed(): from dynq_cli.engine.kernels.caller import outer; assert outer(10) == 21\n"
        "CALL = 'from dynq_cli.engine.kernels.callee import inner; inner(4)'\n"
        "def test_elsewhere(): subprocess.run([sys.executable, '-c', CALL], check=True)\n"
        "def test_again(): exec(CALL)\n"
    )
    for _ in range(2):
        ran = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "tests/test_reach.py")
        assert "3 passed, 1 error" in ran.stdout, ran.stdout
        assert "ERROR at teardown of test_elsewhere" in ran.stdout
        assert "`make kernels` adds it:\n  callee.inner(int)" in ran.stdout


def test_a_line_that_fits_no_kernel_fails_the_build_or_is_left_out(package: Path) -> None:
    with (kernels(package) / "signatures.txt").open("a") as listed:
        listed.write("caller.gone(int)\n")
    made = build(package)
    assert made.returncode == 1
    assert "caller.gone(int)" in made.stderr and "make kernels" in made.stderr
    assert build(package, "--skip-stale").returncode == 0
    assert run(package, "-c", CALL).stdout.split() == ["21", "False"]
    assert "- caller.gone(int)" in run(package, "-m", "dynq_cli.engine.kernels.reached").stderr


@pytest.mark.parametrize(
    "what",
    [
        "missing",
        "damaged",
        "of other sources",
        pytest.param("for another CPU", marks=pytest.mark.skipif(not library.is_x86(), reason="x86 has levels")),
    ],
)
def test_without_library_and_numba_the_error_says_what_to_do(package: Path, what: str) -> None:
    built = kernels(package) / "kernels.so"
    if what == "missing":
        built.unlink()
    elif what == "damaged":
        built.write_bytes(b"no library")
    elif what == "of other sources":
        (kernels(package) / "callee.py").write_text(CALLEE.format(factor=3))
    else:
        (kernels(package) / "library.py").write_text(
            (kernels(package) / "library.py").read_text() + "\n_FEATURES[V3] = {'no such feature'}\n"
        )
        made = build(package, DYNQ_KERNELS_CPU=library.V3)
        assert made.returncode == 0, made.stderr
    code = f"""{WITHOUT_NUMBA}
from dynq_cli.engine.kernels.caller import outer
from dynq_cli.errors import DynqError
try:
    outer(10)
except DynqError as error:
    print(error)
"""
    ran = run(package, "-c", code)
    assert ran.returncode == 0, ran.stderr
    assert "numba is not installed" in ran.stdout and "pip install 'dynq-cli[jit]'" in ran.stdout
    said = {"missing": "not been built", "damaged": "cannot be loaded", "of other sources": "other sources"}
    assert said.get(what, "built for CPUs with x86-64-v3, which this one has not") in ran.stdout


def test_a_build_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    failure = ("caller.gone(int)", "why")
    with caplog.at_level("INFO", logger="dynq.build"):
        assert list(told([None, failure, None], 3, every=0)) == [None, failure, None]
    assert caplog.messages == ["compiled 1 of 3 kernels", "compiled 2 of 3 kernels"]


def test_without_a_linker_the_build_says_so(package: Path, tmp_path: Path) -> None:
    (kernels(package) / "kernels.so").unlink()
    made = run(package, "-m", "dynq_cli.engine.kernels.build", PATH=str(tmp_path))
    assert (made.returncode, made.stderr) == (
        4,
        "there is no C linker in PATH (cc, gcc, clang or ld) to link the kernels with\n",
    )


@pytest.mark.skipif(shutil.which("ld") is None, reason="needs a linker of its own")
def test_a_linker_alone_is_enough(package: Path, tmp_path: Path) -> None:
    (kernels(package) / "kernels.so").unlink()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ld").symlink_to(str(shutil.which("ld")))
    made = run(package, "-m", "dynq_cli.engine.kernels.build", PATH=str(tmp_path / "bin"))
    assert made.returncode == 0, made.stderr
    assert run(package, "-c", CALL).stdout.split() == ["21", "False"]


def test_nothing_is_written_outside_a_checkout(package: Path, tmp_path: Path) -> None:
    (package / "hatch_build.py").unlink()
    shutil.rmtree(package / "build")
    (kernels(package) / "callee.py").write_text(CALLEE.format(factor=3))
    before = sorted(package.rglob("*"))
    home = tmp_path / "home"
    home.mkdir()
    for _ in range(2):
        ran = run(package, "-c", CALL, HOME=str(home), XDG_CACHE_HOME=str(home))
        assert ran.stdout.split() == ["31", "True"], ran.stderr
    assert sorted(package.rglob("*")) == before
    assert list(home.iterdir()) == []


def test_kernels_that_are_switched_off_are_plain_functions(package: Path) -> None:
    ran = run(package, "-c", CALL + "print(type(outer).__name__)", NUMBA_DISABLE_JIT="1")
    assert ran.stdout.split() == ["21", "False", "function"]


def test_indices_are_checked_when_numba_is_told_to(package: Path) -> None:
    code = "import numpy as np\nfrom dynq_cli.engine.kernels.deep import deeper\ndeeper(np.zeros(3, np.int64), 5)"
    checked = run(package, "-c", code, NUMBA_BOUNDSCHECK="1")
    assert checked.returncode == 1 and "IndexError" in checked.stderr


def test_the_numba_settings_of_the_program_around_are_left_alone(package: Path) -> None:
    (kernels(package) / "kernels.so").unlink()
    shutil.rmtree(package / "build")
    code = f"import os, numba\nnumba.config.CACHE_DIR = 'mine'{CALL}print(numba.config.CACHE_DIR, len(os.environ))"
    counted = run(package, "-c", "import os; print(len(os.environ))").stdout.strip()
    assert run(package, "-c", code).stdout.split() == ["21", "True", "mine", counted]


def test_kernels_take_nothing_from_outside_their_package() -> None:
    """Compiled code is known by the sources of this package, so it must depend on no others."""
    tools = {"build", "jit", "library", "reached"}
    for path in sorted(sources.FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            outside = [n for n in named if n.startswith("dynq_cli") and not n.startswith("dynq_cli.engine.kernels")]
            assert path.stem in tools or outside == [], f"{path.name} imports {outside}"


def test_the_digest_of_a_kernel_is_that_of_all_it_is_made_of() -> None:
    assert set(sources.imports("table")) >= {"cache", "fields"}
    assert sources.digest_for("table") != sources.digest_for("update") != sources.digest()


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="Linux tells the features of the CPU")
def test_a_cpu_has_what_the_system_says_it_has() -> None:
    assert library.has("generic")
    if library.is_x86():
        flags = Path("/proc/cpuinfo").read_text().split()
        assert library.has(library.V3) == ("avx2" in flags and "bmi2" in flags and "fma" in flags)


def test_the_library_calls_nothing_but_the_c_library() -> None:
    """Neither numba nor Python: one library serves every Python."""
    if shutil.which("nm") is None or not library.FILE.exists():
        pytest.skip("needs nm and a library")
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", library.FILE], capture_output=True, text=True, check=True, env=os.environ
    )
    names = {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines()}
    weak = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize", "__gmon_start__"}
    assert names - weak <= {"memcpy", "memmove", "memset"}
