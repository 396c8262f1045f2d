"""Format the estimate of an `apply` as lines and as JSON, for `dynq explain --data`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynq_cli.session.estimate import Estimate

_DIGITS = 3


def about(number: float) -> str:
    """Format a number, rounded to the precision of an estimate.

    >>> about(1_234_567), about(12), about(0)
    ('1,230,000', '12', '0')
    """
    whole = round(number)
    return f"{round(whole, min(0, _DIGITS - len(str(abs(whole))))):,}"


def lines(found: Estimate, advice: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the estimate, one per relation and query; `advice` tells how to shrink the largest query."""
    said = list(_entries(found, advice))
    width = max(len(name) for name, _ in said)
    yield f"apply of these files, estimated ({_looked_at(found)}):"
    for name, text in said:
        yield f"  {name:<{width}}  {text}"


def _looked_at(found: Estimate) -> str:
    part = [f"{share:.2g} of the rows of {name}" for name, share in found.kept.items() if share < 1]
    return f"from {', '.join(part)}, and all of the others" if part else "from all rows"


def _entries(found: Estimate, advice: Sequence[str]) -> Iterator[tuple[str, str]]:
    tables = found.tables
    for name, relation in tables.relations.items():
        yield f"relation {name}", f"{about(relation.rows)} rows; {about(relation.length)} bytes"
    for name, query in tables.queries.items():
        stored = f", {about(query.stored)} stored rows" if query.stored else ""
        rough = sorted(step for step in found.rough if step.split("/")[0] == name)
        guessed = f"; the rows of {' and '.join(rough)} are a guess: they are too many to count" if rough else ""
        yield f"query {name}", f"views of {about(query.length)} bytes{stored}{guessed}"
    if tables.shared:
        yield "shared views", f"{about(tables.shared)} bytes, used by several queries"
    yield "dictionaries", f"{about(tables.dictionaries)} bytes, of strings, binary values and wide decimals"
    disk = found.disk
    logs = disk.wal + disk.history
    yield "on disk", f"{about(disk.snapshot + logs)} bytes: snapshot {about(disk.snapshot)}, logs {about(logs)}"
    yield "", f"{about(disk.total)} bytes with the generation before"
    yield "memory", f"{about(found.memory)} bytes at the peak of `dynq apply`"
    for each in found.too_large:
        limit = f"and may have {each.limit:,}: raise the query's max_view_rows, or apply refuses the files"
        yield "too large", f"{each.step} would have {about(each.rows)} rows, {limit}"
    kind, name, length = found.largest
    total = sum(part for _, _, part in found.parts())
    share = f"{100 * length / max(total, 1):.0f} % of the memory that is kept"
    yield "largest", f"{f'{kind} {name}'.strip()}: {about(length)} bytes, {share}"
    of_query = [f"query {found.largest_query}: {text}" for text in advice]
    for i, text in enumerate([*_smaller(found), *of_query]):
        yield ("smaller" if i == 0 else ""), text


def _smaller(found: Estimate) -> Iterator[str]:
    """Yield advice to make the state smaller: relations with unused columns."""
    for unused in sorted(found.unused, key=lambda each: -each.saves):
        named = ", ".join(unused.columns)
        them = "it" if len(unused.columns) == 1 else "them"
        saves = f"saves {about(unused.saves)} bytes"
        if unused.columns:
            yield f"leave {named} out of {unused.relation} in the spec, no query uses {them}: {saves}"
        else:
            yield f"leave {unused.relation} out of the spec, no query uses it: {saves}"


def as_json(found: Estimate, advice: Sequence[str]) -> dict[str, Any]:
    """Return the numbers, not rounded, under the names of `status --json`."""
    kind, name, length = found.largest
    return {
        "relations": {n: {"rows": r.rows, "bytes": r.length} for n, r in found.tables.relations.items()},
        "queries": {n: {"bytes": q.length, "stored_rows": q.stored} for n, q in found.tables.queries.items()},
        "shared_bytes": found.tables.shared,
        "dictionary_bytes": found.tables.dictionaries,
        "bytes": {**vars(found.disk), "total": found.disk.total},
        "memory": found.memory,
        "changes": dict(found.changes),
        "looked_at": dict(found.kept),
        "guessed": list(found.rough),
        "too_large": [vars(each) for each in found.too_large],
        "largest": {"kind": kind, "name": name, "bytes": length, "query": found.largest_query},
        "smaller": {
            "unused": [{"relation": u.relation, "columns": list(u.columns), "saves": u.saves} for u in found.unused],
            "query": list(advice),
        },
    }
