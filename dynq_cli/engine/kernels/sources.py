"""Digests of kernel sources: they say for which sources compiled code was made.

    digest()            of all files of this package
    digest_for(module)  of the files that the kernels of one module depend on: those it imports, and those they import

Kernels take nothing from outside this package, so these files are all that their code depends on.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
_PACKAGE = __name__.rpartition(".")[0]
# How every kernel is compiled, and what finds, builds and lists compiled code but has no part in it.
_COMPILERS = {"cache", "compiling", "entry", "native"}
_TOOLS = {"build", "jit", "library", "reached", "signatures", "sources"}
# Python 3.11 miscounts the depth of syntax trees that several threads make at a time, and raises SystemError.
_PARSING = threading.Lock()


def digest() -> str:
    """A digest of all files: 400 kB, read at the start of every process that calls a kernel."""
    found = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*.py")):
        found.update(f"{path.relative_to(FOLDER)}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


@functools.cache
def digest_for(module: str) -> str:
    """A digest of the files that the code of a module's kernels depends on; the module by its name in this package."""
    reached, waiting = set(_COMPILERS), [module]
    while waiting:
        each = waiting.pop()
        if each not in reached and each not in _TOOLS:
            reached.add(each)
            waiting += imports(each)
    found = hashlib.sha256()
    for each in sorted(reached):
        if (path := _path(each)) is not None:
            found.update(f"{each}\0".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


@functools.cache
def imports(module: str) -> tuple[str, ...]:
    """The modules of this package that a module of it imports."""
    path = _path(module)
    if path is None:
        return ()
    with _PARSING:
        tree = ast.parse(path.read_text("utf-8"))
    return tuple(sorted(set(_imported(tree))))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            inside = name.removeprefix(f"{_PACKAGE}.")
            if inside != name and _path(inside) is not None:
                yield inside


def _path(module: str) -> Path | None:
    place = FOLDER.joinpath(*module.split("."))
    for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None
