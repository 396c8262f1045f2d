"""`dynq status`: the facts of a state, without opening its data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dynq_cli.cli import output
from dynq_cli.cli.rows import row_counts_text
from dynq_cli.lazy import Lazy

if TYPE_CHECKING:
    import typer

    from dynq_cli.cli import options
    from dynq_cli.storage.facts import StateFacts
    from dynq_cli.storage.ledger import Entry
    from dynq_cli.storage.manifest import Counts
else:
    typer, options = Lazy("typer"), Lazy("dynq_cli.cli.options")


def status(
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Print version, rows and bytes of relations and queries, sizes on disk, marks, the latest logs, and the writer.

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
    yield from _tables(facts)
    yield from _files(facts)
    yield "kept", _kept(facts)
    for name, version in sorted(facts.marks.items()):
        yield f"mark {name}", f"version {version:,}"
    yield "outputs", "never written" if facts.outputs_at is None else f"of version {facts.outputs_at:,}"
    yield "writer", "none" if facts.writer is None else f"process {facts.writer}"
    for relation, commit in facts.commits.items():
        yield f"commits of {relation}", f"up to {commit:,}"
    for entry in facts.recent:
        yield f"version {entry.version}", f"{_time(entry.time)}  {_logs(entry)}"


def _tables(facts: StateFacts) -> Iterator[tuple[str, str]]:
    """Rows of relations and results, and the bytes that their tables use."""
    tables = facts.tables
    for name, relation in tables.relations.items() if tables else ():
        copies = f", {_number(relation.copies, 'row')} with copies" if relation.copies != relation.rows else ""
        yield f"relation {name}", f"{_number(relation.rows, 'row')}{copies}; {relation.length:,} bytes"
    for name, counts in facts.counts.items():
        rows = "rows not counted" if counts is None else _number(counts.rows, "row")
        distinct = f", {counts.distinct:,} distinct" if counts is not None and counts.distinct != counts.rows else ""
        views = ""
        if tables and name in tables.queries:
            query = tables.queries[name]
            views = f"; views of {query.length:,} bytes"
            views += f", {_number(query.stored, 'stored row')}" if query.stored else ""
        yield f"query {name}", f"{rows}{distinct}{views}"
    if tables is None:
        yield "tables", "sizes are not known yet: an earlier version of dynq wrote this; the next apply notes them"
        return
    if tables.shared:
        yield "shared views", f"{tables.shared:,} bytes, used by several queries"
    yield "dictionaries", f"{tables.dictionaries:,} bytes, of strings, binary values and wide decimals"


def _files(facts: StateFacts) -> Iterator[tuple[str, str]]:
    """The bytes of all files; they add up to the last line."""
    sizes = facts.sizes
    yield "snapshot", f"{sizes.snapshot:,} bytes on disk, {sizes.dictionaries:,} of them dictionaries"
    yield "write-ahead log", f"{sizes.wal:,} bytes, {_number(facts.waiting, 'change')} that opening the state replays"
    if sizes.history:
        yield "logs before", f"{sizes.history:,} bytes, for versions before the snapshot"
    if sizes.before:
        yield (
            "snapshot before",
            f"{sizes.before:,} bytes, in case the one in force is damaged; the next snapshot replaces it, "
            "`dynq prune` removes it",
        )
    yield "ledger", f"{sizes.ledger:,} bytes, {_number(facts.versions_noted, 'version')}"
    yield "spec and manifest", f"{sizes.manifest:,} bytes"
    if sizes.other:
        yield "other files", f"{sizes.other:,} bytes, left behind, being written, or not of the state"
    yield "total", f"{sizes.total:,} bytes in files, {sizes.allocated:,} allocated on disk"


def _kept(facts: StateFacts) -> str:
    """Which versions can be read, and for whose sake."""
    kept = f"versions since {facts.kept_since:,}"
    names = [name for name, version in sorted(facts.marks.items()) if version == facts.needed_since < facts.before]
    return kept + (f", those since {facts.needed_since:,} for {', '.join(names)}" if names else "")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _logs(entry: Entry) -> str:
    said = [f"{log.name} ({row_counts_text(log.inserted, log.replaced, log.deleted)})" for log in entry.logs[:3]]
    more = len(entry.logs) - len(said)
    return ", ".join(said) + (f", and {more} more" if more else "") or "no logs"


def _time(microseconds: int) -> str:
    """A moment as in results, to the second.

    >>> _time(1_700_000_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _views(facts: StateFacts, query: str) -> dict[str, int | None]:
    """The views of a query; nothing is known of them in a state that an earlier version of dynq wrote."""
    size = facts.tables.queries.get(query) if facts.tables else None
    return {"bytes": None if size is None else size.length, "stored_rows": None if size is None else size.stored}


def _counts(counts: Counts | None) -> dict[str, int | None]:
    return {"rows": None, "distinct": None} if counts is None else vars(counts)


def _as_json(state: str, facts: StateFacts) -> dict[str, Any]:
    return {
        "state": state,
        "version": facts.version,
        "made": _time(facts.made),
        "applied": _time(facts.applied),
        "relations": {
            name: {"rows": size.rows, "copies": size.copies, "bytes": size.length}
            for name, size in (facts.tables.relations if facts.tables else {}).items()
        },
        "queries": {name: {**_counts(counts), **_views(facts, name)} for name, counts in facts.counts.items()},
        "shared_bytes": facts.tables and facts.tables.shared,
        "dictionary_bytes": facts.tables and facts.tables.dictionaries,
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
