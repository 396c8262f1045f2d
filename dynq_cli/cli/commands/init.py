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
    shards: Annotated[
        int | None,
        typer.Option("--shards", metavar="N", help="Split the rows among N shards, which all cores work on."),
    ] = None,
) -> None:
    """Make the state of a spec, at version 0, empty or with the rows of snapshots.

    It is there whole or not at all; a state that is there already is not touched.

    With --shards N every row goes to the shards that need it; explain --shards N says which these are. Commands give
    the same answers as on a state without shards, and use as many cores as there are.
    """
    loads = [load_of(item) for item in load or ()]
    from dynq_cli.session.apply_logs import make
    from dynq_cli.session.explain import always_empty, check_supported, explain_spec
    from dynq_cli.spec.clock import moment

    with Progress("loading") as bar:
        try:
            view = make(spec, state, loads, bar.add, None if now is None else moment(now), shards)
        except RejectedError:
            check_supported(spec)  # which knows the place of a query that is refused
            raise
    plans = view.planned.plans if shards is None else explain_spec(spec).plans
    for name, text in always_empty(plans):
        output.warn(f"query {name}: {text}")
    rows: dict[str, int] = {}
    for log in (log for entry in view.recent(5) for log in entry.logs):
        rows[log.relation] = rows.get(log.relation, 0) + log.inserted
    for relation, number in rows.items():
        output.note(f"{relation}: {number:,} inserted")
    counts = [(name, view.kept_counts(name)) for name in view.queries]
    view.close()
    kept = ", ".join(
        name if c is None else f"{name} ({c.rows:,} row{'' if c.rows == 1 else 's'})" for name, c in counts
    )
    among = "" if shards is None else f" of {shards} shard{'s' * (shards != 1)}"
    output.note(f"made {state}{among} at version 0; it keeps {kept}")


def load_of(item: str) -> tuple[str, str]:
    """Split `REL=PATH`. UsageError if it is not that, or the path is not there."""
    relation, equals, path = item.partition("=")
    if not (relation and equals and path):
        raise UsageError(f"--load {item} names no relation: write --load RELATION=PATH")
    if not Path(path).exists():
        raise UsageError(f"--load {item}: there is no {path}")
    return relation, path
