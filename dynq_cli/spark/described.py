"""The relations that a job extracts, from a spec or a state."""

from __future__ import annotations

import os
from pathlib import Path

from dynq_cli.errors import UsageError
from dynq_cli.spec.load import load_spec
from dynq_cli.spec.model import Relation, Spec

DEFAULT_STATE = ".dynq"


def relation_of(name: str, spec: str | None, state: str | None) -> Relation:
    """Return the relation `name` of a spec file, else of a state: the given one, `$DYNQ_STATE`, or an existing `.dynq`.

    Without either, return a relation without columns: the job extracts all columns of the table.
    """
    place = _place(spec, state)
    if place is None:
        return Relation(name, ())
    return named(name, spec_of(spec, state), place)


def spec_of(spec: str | None, state: str | None) -> Spec:
    """Return the spec of a job whose source does not describe its columns. UsageError if there is none."""
    place = _place(spec, state)
    if place is None:
        raise UsageError(
            "the relations and their columns are not known: name a spec with --spec, or a state with --state"
        )
    return load_spec(spec) if spec is not None else _spec_of(Path(place))


def state_of(state: str | None) -> str | None:
    """Return the state that a job goes on from: the given one, `$DYNQ_STATE`, or an existing `.dynq`."""
    return _place(None, state)


def named(name: str, spec: Spec, place: str) -> Relation:
    """Return a relation of a spec; UsageError if there is no such relation."""
    relation = spec.relation(name)
    if relation is None:
        there = ", ".join(r.name for r in spec.relations)
        raise UsageError(f"--relation {name}: {place} has no such relation; it has {there}")
    return relation


def _place(spec: str | None, state: str | None) -> str | None:
    default = DEFAULT_STATE if Path(DEFAULT_STATE).is_dir() else None
    return spec or state or os.environ.get("DYNQ_STATE") or default


def _spec_of(state: Path) -> Spec:
    from dynq_cli.storage.manifest import read_manifest
    from dynq_cli.storage.plans import read_plans

    return read_plans(state, read_manifest(state)).spec
