"""`dynq status`: the facts of a state, without opening its data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynq_cli.cli import options, output

if TYPE_CHECKING:
    from dynq_cli.storage.facts import StateFacts
    from dynq_cli.storage.ledger import Entry


def status(
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Print version, counts, sizes, marks and what keeping old versions costs, the latest logs, and who is writing now.

    It reads no data, so it takes no longer on a large state than on a small one.
    """
    from dynq_cli.storage.facts import facts_of

    facts = facts_of(Path(state))
    if as_json:
        import json

        output.result(json.dumps(_as_json(state, facts), ensure_ascii=False, indent=2))
        return
    lines = list(_lines(state, facts))
    width = max(len(name) for name, _ in lines)
    output.result("\n".join(f"{name:<{width}}  {said}" for name, said in lines))


def _lines(state: str, facts: StateFacts) -> Iterator[tuple[str, str]]:
    yield "state", state
    yield "version", f"{facts.version:,}, of {_time(facts.applied)}; made {_time(facts.made)}"
    for name, counts in facts.counts.items():
        distinct = f", {counts.distinct:,} distinct" if counts.distinct != counts.rows else ""
        yield f"query {name}", f"{counts.rows:,} row{'' if counts.rows == 1 else 's'}{distinct}"
    sizes = facts.sizes
    yield (
        "size",
        f"{sizes.total:,} bytes: snapshot {sizes.snapshot:,}, log {sizes.wal:,} ({facts.waiting:,} changes), "
        f"ledger {sizes.ledger:,} ({facts.versions_noted:,} versions)",
    )
    yield "kept", _kept(facts)
    for name, version in sorted(facts.marks.items()):
        yield f"mark {name}", f"version {version:,}"
    yield "outputs", "never written" if facts.outputs_at is None else f"of version {facts.outputs_at:,}"
    yield "writer", "none" if facts.writer is None else f"process {facts.writer}"
    for relation, commit in facts.commits.items():
        yield f"commits of {relation}", f"up to {commit:,}"
    for entry in facts.recent:
        yield f"version {entry.version}", f"{_time(entry.time)}  {_logs(entry)}"


def _kept(facts: StateFacts) -> str:
    """Which versions can be read, for whose sake, and at what cost."""
    kept = f"versions since {facts.kept_since:,}"
    names = [name for name, version in sorted(facts.marks.items()) if version == facts.needed_since < facts.before]
    needed = f", those since {facts.needed_since:,} for {', '.join(names)}" if names else ""
    return f"{kept}{needed}; the logs of before the snapshot take {facts.sizes.history:,} bytes"


def _logs(entry: Entry) -> str:
    said = [f"{log.name} ({log.inserts:,} in, {log.deletes:,} out)" for log in entry.logs[:3]]
    more = len(entry.logs) - len(said)
    return ", ".join(said) + (f", and {more} more" if more else "") or "no logs"


def _time(microseconds: int) -> str:
    """A moment as in results, to the second.

    >>> _time(1_700_000_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _as_json(state: str, facts: StateFacts) -> dict[str, Any]:
    return {
        "state": state,
        "version": facts.version,
        "made": _time(facts.made),
        "applied": _time(facts.applied),
        "queries": {name: vars(counts) for name, counts in facts.counts.items()},
        "generation": facts.generation,
        "waiting_changes": facts.waiting,
        "bytes": vars(facts.sizes),
        "versions": facts.versions_noted,
        "outputs_at": facts.outputs_at,
        "marks": dict(facts.marks),
        "kept_since": facts.kept_since,
        "needed_since": facts.needed_since,
        "writer": facts.writer,
        "version_before": facts.before,
        "commits": dict(facts.commits),
        "sources": {name: [list(taken) for taken in batches] for name, batches in facts.sources.items()},
        "recent": [
            {"version": entry.version, "time": _time(entry.time), "logs": [vars(log) for log in entry.logs]}
            for entry in facts.recent
        ],
    }
