"""dynq keeps the results of queries up to date over change logs.

The layers, top to bottom; each imports only from those below it:

    cli       parse, call, print
    serve     a process that stays: HTTP, a watched folder, events
    session   the library behind the commands: the same verbs
    storage   state directories: snapshots, logs, versions, one writer at a time
    io        data files in, results out; Arrow at every boundary
    engine    base tables and view trees in flat arrays: update, count, enumerate
    plan      a view tree for each query, and the explanation of it
    query     SQL, rules and formulas in one normal form; its class, with a witness
    values    Arrow columns as values of the spec's types; the kinds of changes
    spec      the YAML file as a frozen model; all its errors at once
    lazy      modules that are loaded at their first use
    atomic    files and directories that appear whole or not at all
    errors    one base for every error that reaches a user

The verbs below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynq_cli.io.infer import infer_spec as infer_spec
    from dynq_cli.session.alter import alter as alter
    from dynq_cli.session.estimate import estimate_spec as estimate_spec
    from dynq_cli.session.estimate import estimate_state as estimate_state
    from dynq_cli.session.explain import explain_spec as explain_spec
    from dynq_cli.spec.load import load_spec as load_spec
    from dynq_cli.storage.state import create as create
    from dynq_cli.storage.state import open as open

__version__ = "0.1.0"

_VERBS = {
    "alter": "dynq_cli.session.alter",
    "create": "dynq_cli.storage.state",
    "estimate_spec": "dynq_cli.session.estimate",
    "estimate_state": "dynq_cli.session.estimate",
    "explain_spec": "dynq_cli.session.explain",
    "infer_spec": "dynq_cli.io.infer",
    "load_spec": "dynq_cli.spec.load",
    "open": "dynq_cli.storage.state",
}


def __getattr__(name: str) -> object:
    if name in _VERBS:
        return getattr(import_module(_VERBS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_VERBS])
