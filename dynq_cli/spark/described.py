"""Which relation a job extracts, as a spec or a state describes it."""

from __future__ import annotations

import os
from pathlib import Path

from dynq_cli.errors import UsageError
from dynq_cli.spec.load import load_spec
from dynq_cli.spec.model import Relation, Spec

DEFAULT_STATE = ".dynq"


def relation_of(name: str, spec: str | None, state: str | None) -> Relation:
    """The relation `name` of a spec file, else of a state: that given, `$DYNQ_STATE`, or `.dynq` if it is there.

    Where there is neither, a relation without columns: all columns of the table are taken as they are.
    """
    state = state or os.environ.get("DYNQ_STATE") or (DEFAULT_STATE if Path(DEFAULT_STATE).is_dir() else None)
    if spec is None and state is None:
        return Relation(name, ())
    found = load_spec(spec) if spec is not None else _spec_of(Path(str(state)))
    relation = found.relation(name)
    if relation is None:
        named = ", ".join(r.name for r in found.relations)
        raise UsageError(f"--relation {name}: {spec or state} has no such relation; it has {named}")
    return relation


def _spec_of(state: Path) -> Spec:
    from dynq_cli.storage.manifest import read_manifest
    from dynq_cli.storage.plans import read_plans

    return read_plans(state, read_manifest(state)).spec
