"""Imports point one way only and form no cycles, libraries stay in their place, and one module prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.util import resolve_name
from pathlib import Path

import pytest

from tests.every_case import every_case

PACKAGE = Path(__file__).parent.parent / "dynq_cli"
MODULES = sorted(PACKAGE.rglob("*.py"))

# A layer imports from itself and from layers of a lower rank; layers of one rank do not know each other.
RANK = {
    "records": -1,
    "lazy": -1,
    "phases": -1,
    "errors": 0,
    "atomic": 1,
    "spec": 1,
    "values": 2,
    "query": 2,
    "plan": 3,
    "engine": 4,
    "storage": 5,
    "io": 5,
    "session": 6,
    "spark": 6,
    "serve": 7,
    "cli": 8,
    "__main__": 9,
    "": 9,
}
HOME = {
    "typer": "dynq_cli.cli",
    "sqlglot": "dynq_cli.query.sql",
    "lark": "dynq_cli.query.rule",
    "duckdb": "dynq_cli.query.duck",
    "pyspark": "dynq_cli.spark",
    "numba": "dynq_cli.engine.kernels",
    "yaml": "dynq_cli.spec",
    "starlette": "dynq_cli.serve",
    "uvicorn": "dynq_cli.serve",
    "watchfiles": "dynq_cli.serve",
    "psycopg": "dynq_cli.io.tables",
    "deltalake": "dynq_cli.io.tables",
    "pyiceberg": "dynq_cli.io.tables",
}
PRINTER = "dynq_cli.cli.output"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> str:
    return [*module.split("."), ""][1]


def within(module: str, home: str) -> bool:
    return module == home or module.startswith(f"{home}.")


def imported(module: str, tree: ast.AST, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every module that an import statement names, with its line; relative names made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = module if is_package else module.rpartition(".")[0]
            base = resolve_name("." * node.level + (node.module or ""), around)
            if base == "dynq_cli":
                yield from ((node.lineno, f"dynq_cli.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, base


def violations(module: str, source: str, is_package: bool = False) -> list[str]:
    """What is wrong with the imports and the printing of a module, one sentence each."""
    tree = ast.parse(source)
    found = []
    for line, name in imported(module, tree, is_package):
        if within(name, "dynq_cli"):
            target = layer(name)
            if target not in RANK:
                if name != "dynq_cli.__version__":
                    found.append(f"{module}:{line} imports {name}, which is in no layer")
            elif target != layer(module) and RANK[target] >= RANK[layer(module)]:
                found.append(f"{module}:{line} imports {name}, which is not below it")
        home = HOME.get(name.split(".")[0])
        if home is not None and not within(module, home):
            found.append(f"{module}:{line} imports {name}, which belongs to {home}")
    if module != PRINTER:
        found.extend(f"{module}:{line} prints, which only {PRINTER} does" for line in printing(tree))
    return found


def printing(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                yield node.lineno
            case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"):
                yield node.lineno


def test_imports_point_downwards_and_libraries_stay_home() -> None:
    found = [violations(module_name(path), path.read_text("utf-8"), path.name == "__init__.py") for path in MODULES]
    assert [each for some in found for each in some] == []


def named_modules(module: str, source: str, known: Collection[str], is_package: bool = False) -> frozenset[str]:
    """The modules that a module imports anywhere: at its top, in functions, and for the type checker alone.

    Only what it does as a program of its own (`__main__`) is left out, since nobody imports that.
    """
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "__main__" in ast.unparse(node.test))]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name(
                "." * node.level + (node.module or ""), module if is_package else module[: module.rfind(".")]
            )
            found |= {name if (name := f"{base}.{alias.name}") in known else base for alias in node.names}
    return frozenset(found & set(known)) - {module}


def import_cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The groups of modules each of which imports all others of its group, directly or through others."""
    reached = {module: set(names) for module, names in graph.items()}
    for through in graph:
        for names in reached.values():
            if through in names:
                names |= reached[through]
    groups = {
        frozenset(n for n in names if module in reached[n]) for module, names in reached.items() if module in names
    }
    return sorted(map(sorted, groups))


def test_no_modules_import_each_other() -> None:
    known = {module_name(path): path for path in MODULES}
    graph = {m: named_modules(m, p.read_text("utf-8"), known, p.name == "__init__.py") for m, p in known.items()}
    assert import_cycles(graph) == []


def test_a_cycle_is_found_however_its_modules_are_imported() -> None:
    known = {"p", "p.a", "p.b", "p.c", "p.d"}
    sources = {
        "p": "from p.a import x",
        "p.a": "if TYPE_CHECKING:\n    from p.b import T",
        "p.b": "def f():\n    from p import c",
        "p.c": "import p.a, p.d",
        "p.d": "x = 1\nif __name__ == '__main__':\n    import p.a",
    }
    graph = {m: named_modules(m, source, known, m == "p") for m, source in sources.items()}
    assert import_cycles(graph) == [["p.a", "p.b", "p.c"]]
    assert import_cycles(graph | {"p.a": {"p.d"}}) == []


def test_every_module_begins_with_what_it_guarantees() -> None:
    assert [module_name(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []


@every_case(
    ("module", "source"),
    [
        ("dynq_cli.spec.load", "from dynq_cli.query.compile import compile_spec"),
        ("dynq_cli.spec.load", "def f():\n    import dynq_cli.plan.search"),
        ("dynq_cli.query.sql.parse", "from dynq_cli import session"),
        ("dynq_cli.query.sql.parse", "from ...plan import search"),
        ("dynq_cli.plan.search", "from ..engine import table"),
        ("dynq_cli.storage.wal", "from dynq_cli.io.pieces import Piece"),
        ("dynq_cli.session", "from dynq_cli.cli import output"),
        ("dynq_cli.errors", "from .spec import model"),
        ("dynq_cli.spec.load", "from dynq_cli.helpers import misc"),
        ("dynq_cli.session", "import typer"),
        ("dynq_cli.query.normal_form", "import sqlglot.expressions as exp"),
        ("dynq_cli.query.scalar", "import duckdb"),
        ("dynq_cli.engine.table", "from numba import njit"),
        ("dynq_cli.io.pieces", "if True:\n    from yaml import safe_load"),
        ("dynq_cli.plan.search", "print('here')"),
        ("dynq_cli.cli.app", "import sys\nsys.stderr.write('oh')"),
    ],
)
def test_a_wrong_import_or_print_is_found(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


def test_a_relative_import_in_a_package_is_resolved_from_the_package() -> None:
    assert violations("dynq_cli.plan", "from .engine import table", is_package=True) == []
    assert len(violations("dynq_cli.plan", "from ..engine import table", is_package=True)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "dynq_cli.cli.app",
            "import typer\nfrom dynq_cli import __version__\nfrom dynq_cli.session import explain_spec",
        ),
        ("dynq_cli.query.sql.parse", "import sqlglot\nfrom dynq_cli.spec.model import Spec\nfrom . import lower"),
        ("dynq_cli.query.duck", "import duckdb"),
        ("dynq_cli.engine.kernels.table", "from numba import njit"),
        ("dynq_cli.io.facts", "from dynq_cli.io.keys import KeyFinder\nfrom dynq_cli.errors import DynqError"),
        ("dynq_cli.cli.output", "print('result')"),
    ],
)
def test_a_right_import_passes(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_no_regular_expression_repeats_possessively() -> None:
    """Python before 3.11.5, which Debian 12 has, may match more than such a pattern says."""
    possessive = re.compile(r"[])}.][*+?]\+")
    texts = {
        (module_name(path), text)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.")
        for text in map(ast.unparse, node.args[:1])
        if possessive.search(text) or "(?>" in text
    }
    assert texts == set()
