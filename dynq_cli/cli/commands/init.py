"""`dynq init`: make a state from a spec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress
from dynq_cli.errors import RejectedError, UsageError


def init(
    spec: options.Spec,
    load: Annotated[
        list[str] | None,
        typer.Option("--load", metavar="REL=PATH", help="Fill a relation from a snapshot; may be repeated."),
    ] = None,
    state: options.State = ".dynq",
    now: options.Now = None,
) -> None:
    """Make the state of a spec, at version 0, empty or with the rows of snapshots.

    It is there whole or not at all; a state that is there already is not touched.
    """
    loads = [load_of(item) for item in load or ()]
    from dynq_cli.session.apply_logs import make
    from dynq_cli.session.explain import always_empty, check_supported
    from dynq_cli.spec.clock import moment
    from dynq_cli.storage.facts import facts_of

    with Progress("loading") as bar:
        try:
            with make(spec, state, loads, bar.add, None if now is None else moment(now)) as made:
                warnings = [f"query {name}: {text}" for name, text in always_empty(made.planned.plans)]
        except RejectedError:
            check_supported(spec)  # which knows the place of a query that is refused
            raise
    for text in warnings:
        output.warn(text)
    facts = facts_of(Path(state))
    rows: dict[str, int] = {}
    for log in (log for entry in facts.recent for log in entry.logs):
        rows[log.relation] = rows.get(log.relation, 0) + log.inserted
    for relation, number in rows.items():
        output.note(f"{relation}: {number:,} inserted")
    counts = facts.counts.items()
    kept = ", ".join(
        name if c is None else f"{name} ({c.rows:,} row{'' if c.rows == 1 else 's'})" for name, c in counts
    )
    output.note(f"made {state} at version 0; it keeps {kept}")


def load_of(item: str) -> tuple[str, str]:
    """Split `REL=PATH`. UsageError if it is not that, or the path is not there."""
    relation, equals, path = item.partition("=")
    if not (relation and equals and path):
        raise UsageError(f"--load {item} names no relation: write --load RELATION=PATH")
    if not Path(path).exists():
        raise UsageError(f"--load {item}: there is no {path}")
    return relation, path
