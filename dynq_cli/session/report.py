"""A state as one page: queries with counts over the versions, costs in words, trees drawn, sizes, logs.

    report(state)      HTML, complete in itself: no network, no script, light and dark, for a phone too

Everything is read at the version in force. Counts of earlier versions take an engine each (`State.views_at`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from dynq_cli.engine.table_sizes import rows_of_steps
from dynq_cli.errors import DynqError
from dynq_cli.io.results.row import row_of
from dynq_cli.phases import phase
from dynq_cli.plan.explain import explain_json
from dynq_cli.plan.picture import frame_of
from dynq_cli.plan.svg import as_svg
from dynq_cli.session.explain import explain_state
from dynq_cli.session.report_html import derivations, document, rows_in, rows_table
from dynq_cli.session.why import why
from dynq_cli.spec.model import HIDDEN
from dynq_cli.storage.facts import StateFacts, facts_of
from dynq_cli.storage.state import State

VERSIONS = 12
_LOGS = 30
# Rows and derivations that a page shows of a result, and the base rows up to which it shows changes and derivations.
_ROWS, _DERIVATIONS, _FEW = 10, 3, 200_000
_CLASSES = {
    "q-hierarchical": "The best class: without an order, every change and every row of the result take constant time.",
    "free-connex acyclic": "Each row of the result comes in constant time; a change may touch many rows.",
    "acyclic": "The joins form a tree, but the selected columns do not hang together in it: something is stored.",
    "cyclic": "The joins form a cycle: part of them is stored as rows.",
}
_LEGEND = (
    '<p class="quiet small">Bold frames: the result is read from there. Bold lines: one row above, in constant time. '
    "Green: groups with their aggregates; sand: stored rows. Grey: rows of relations, after filters.</p>"
)
_PROMISES = {
    "update": "a changed row",
    "delay": "the next row",
    "count": "how many rows",
    "test": "is a row there",
    "jth": "the j-th row",
    "rank": "a row's position",
    "diff": "what changed",
    "space": "memory and disk",
}


@dataclass(frozen=True)
class Point:
    """A query's rows at a version; None where it was not there, or is not counted."""

    version: int
    rows: int | None


def report(
    state: State,
    directory: Path,
    versions: int = VERSIONS,
    *,
    curves: Mapping[str, Sequence[Point]] | None = None,
    live: str = "",
) -> str:
    """Return the page. A process that serves it gives the counts that it has seen, and HTML below the head line."""
    facts = facts_of(directory, recent=_LOGS)
    explanation = explain_state(directory)
    views = state.current()
    if curves is None:
        curves = counts_over(state, facts, versions)
    rows = rows_of_steps(views)
    body = [*_head(directory, facts), live]
    for name, plan in explanation.plans.items():
        if name.startswith(HIDDEN) or name not in views.queries:
            continue
        told = explain_json(plan, explanation.spec)
        drawn = as_svg(frame_of("q", name, views.queries[name]), rows)
        written = explanation.spec.query(name)
        texts = [text.value for text in written.texts] if written is not None else []
        shown = f'<p><a href="pages/{escape(name)}">rows, changes, derivations</a></p>'
        if not live:
            shown = "\n".join(_rows(state, name, facts))
        body += _query(name, facts, told, drawn, texts, curves.get(name, []), shown)
    body += [*_relations(facts), *_sizes(facts), *_versions(facts)]
    return document(f"dynq: {directory.resolve().name or directory}, version {facts.version}", body)


def _rows(state: State, name: str, facts: StateFacts) -> Iterator[str]:
    """The first rows of a result; of a small state also what came and went last, and how the first row comes about."""
    written = state.spec.query(name)
    keep, schema = written.keep if written is not None else "all", state.schema(name)
    if keep == "test":
        return
    first = rows_in(state.enum(name), _ROWS)
    counts = facts.counts[name]
    more = "" if counts is None or counts.distinct <= len(first) else f" of {counts.distinct:,}"
    order = "in its order" if state.current().is_ordered(name) else "in no particular order"
    yield f"<details><summary>The first {len(first)}{more} rows, {order}</summary>"
    yield f"{rows_table(first, schema.names)}</details>"
    base = sum(size.rows for size in facts.tables.relations.values()) if facts.tables is not None else _FEW + 1
    if base > _FEW:
        return  # a difference opens the state twice, and derivations read all base rows
    try:
        found = state.diff(name)
        changed = rows_in(found.batches, _ROWS + 1)
    except DynqError as error:  # the query is new, or had other columns
        yield f'<p class="quiet">{escape(str(error).splitlines()[0])}</p>'
    else:
        last = f"<p class=quiet>the first {_ROWS}; `dynq diff` has all</p>" if len(changed) > _ROWS else ""
        yield f"<details><summary>What came and went since version {found.since:,}</summary>"
        yield f"{rows_table(changed[:_ROWS], found.schema.names)}{last}</details>"
    if first:
        told = {column: value for column, value in first[0].items() if column != "_count"}
        try:
            row = row_of(json.dumps(told), schema)
            found_rows = derivations(why(state, row, name, limit=_DERIVATIONS))
        except DynqError as error:  # DuckDB cannot find them
            found_rows = f'<p class="quiet">{escape(str(error).splitlines()[0])}</p>'
        yield f"<details><summary>Why the first row is there</summary>{found_rows}</details>"


def counts_over(state: State, facts: StateFacts, most: int) -> dict[str, list[Point]]:
    """Return the counts of every query at up to `most` kept versions, the last one included. O(state) per version."""
    first, last = facts.kept_since, facts.version
    many = max(1, min(most, last - first + 1))
    chosen = sorted({last - (last - first) * i // max(1, many - 1) for i in range(many)}) if many > 1 else [last]
    found: dict[str, list[Point]] = {name: [] for name in facts.counts}
    with phase("counting earlier versions", "versions", total=len(chosen)) as counting:
        for version in chosen:
            views = None if version == last else state.views_at(version)
            for name, points in found.items():
                if views is None:
                    counts = facts.counts[name]
                    rows = None if counts is None else counts.rows
                else:
                    kept = views.kept_count(name) if name in views.queries else None
                    rows = None if kept is None else kept[0]
                points.append(Point(version, rows))
            counting.add(1)
    return found


def _head(directory: Path, facts: StateFacts) -> Iterator[str]:
    applied = _time(facts.applied)
    yield (
        f"<header><h1>{escape(str(directory))}</h1><p>Version <b>{facts.version:,}</b> of {applied} · "
        f"{len(facts.counts)} {_plural('query', len(facts.counts))} · {_bytes(facts.sizes.total)} on disk</p></header>"
    )


def _query(
    name: str,
    facts: StateFacts,
    told: dict[str, object],
    drawn: str,
    texts: Sequence[str],
    points: Sequence[Point],
    shown: str,
) -> Iterator[str]:
    counts = facts.counts[name]
    rows = "not counted" if counts is None else f"{counts.rows:,}"
    summary, guarantees, meanings = told["summary"], told["guarantees"], told["meanings"]
    assert isinstance(summary, dict) and isinstance(guarantees, dict) and isinstance(meanings, dict)
    distinct = ""
    if counts is not None and counts.distinct != counts.rows:
        distinct = f" <small>{counts.distinct:,} distinct</small>"
    yield f'<section id="q-{escape(name)}"><h2>{escape(name)}</h2>'
    yield f'<div class="top"><p class="count">{rows}<span> rows</span>{distinct}</p>{curve(points)}</div>'
    found, strategy = str(told["class"]), str(told["strategy"])
    known = escape(_CLASSES.get(found, ""))
    yield shown
    yield f"<p><b>{escape(found)}</b>, kept as <code>{escape(strategy)}</code>. {known}</p>"
    if told["witness"]:
        yield f'<p class="quiet">Why not better: {escape(str(told["witness"]))}.</p>'
    yield f"<p>Stores {escape(str(summary['stores']))}.</p>"
    yield '<div class="wide"><table class="costs"><thead><tr><th>asked</th><th>cost</th><th>that is</th></tr></thead>'
    yield "<tbody>"
    for promise, words in _PROMISES.items():
        if promise in guarantees:
            yield (
                f"<tr><td>{words}</td><td><code>{escape(str(guarantees[promise]))}</code></td>"
                f"<td>{escape(str(meanings[promise]))}</td></tr>"
            )
    yield "</tbody></table></div>"
    changes = "".join(f"<li>{escape(str(change))}</li>" for change in summary["changes"])
    yield f'<details open><summary>What is kept</summary><div class="wide">{drawn}</div>{_LEGEND}</details>'
    yield f"<details><summary>What a changed row costs</summary><ul>{changes}</ul></details>"
    yield f"<details><summary>The query</summary><pre>{escape(chr(10).join(texts).strip())}</pre></details></section>"


def curve(points: Sequence[Point]) -> str:
    """A small plot of counts over versions, as SVG; a sentence where there is one version."""
    known = [(p.version, p.rows) for p in points if p.rows is not None]
    if len(known) < 2:
        return '<p class="quiet">no earlier version is kept</p>'
    (first, before), (last, now) = known[0], known[-1]
    most = max(rows for _, rows in known) or 1
    at = [(4 + 192 * (v - first) / max(1, last - first), 56 - 50 * rows / most) for v, rows in known]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    area = f"{at[0][0]:.1f},58 {line} {at[-1][0]:.1f},58"
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>version {v:,}: {rows:,} rows</title></circle>'
        for (x, y), (v, rows) in zip(at, known, strict=True)
    )
    label = f"{before:,} rows at version {first:,}, {now:,} at version {last:,}"
    return (
        f'<figure><svg class="curve" viewBox="0 0 200 60" role="img" aria-label="{label}">'
        f'<polygon points="{area}"/><polyline points="{line}"/>{dots}</svg><figcaption>{label}</figcaption></figure>'
    )


def _relations(facts: StateFacts) -> Iterator[str]:
    if facts.tables is None:
        return
    yield '<section><h2>Relations</h2><div class="wide"><table><thead>'
    yield "<tr><th>relation</th><th>rows</th><th>size</th></tr></thead><tbody>"
    for name, size in facts.tables.relations.items():
        yield f"<tr><td>{escape(name)}</td><td class=n>{size.copies:,}</td><td class=n>{_bytes(size.length)}</td></tr>"
    yield "</tbody></table></div></section>"


def _sizes(facts: StateFacts) -> Iterator[str]:
    sizes = facts.sizes
    shown = {
        "snapshot": sizes.snapshot,
        f"write-ahead log, {facts.waiting:,} changes": sizes.wal,
        "older versions": sizes.history,
        "snapshot before": sizes.before,
        "ledger": sizes.ledger,
        "spec and manifest": sizes.manifest,
        "other": sizes.other,
    }
    largest = max(shown.values()) or 1
    yield '<section><h2>On disk</h2><div class="wide"><table class="bars"><tbody>'
    for name, length in shown.items():
        bar = f'<span class="bar" style="width:{100 * length / largest:.1f}%"></span>'
        yield f"<tr><td>{name}</td><td class=n>{_bytes(length)}</td><td class=b>{bar}</td></tr>"
    yield "</tbody></table></div>"
    if facts.tables is not None:
        views = ", ".join(f"{escape(name)} {_bytes(size.length)}" for name, size in facts.tables.queries.items())
        yield f"<p>Views in memory: {views}.</p>"
    yield "</section>"


def _versions(facts: StateFacts) -> Iterator[str]:
    marks = ", ".join(f"<code>{escape(name)}</code> {version:,}" for name, version in facts.marks.items())
    named = f" Marks: {marks}." if marks else ""
    yield f"<section><h2>Versions</h2><p>Kept since {facts.kept_since:,}.{named}</p>"
    yield '<div class="wide"><table><thead><tr><th>version</th><th>made</th><th>log</th><th>inserted</th>'
    yield "<th>replaced</th><th>deleted</th></tr></thead><tbody>"
    for entry in facts.recent:
        for log in entry.logs or (None,):
            told = "<td></td>" * 4
            if log is not None:
                numbers = (log.inserted, log.replaced or 0, log.deleted)
                told = f"<td>{escape(log.name)}</td>" + "".join(f"<td class=n>{n:,}</td>" for n in numbers)
            yield f"<tr><td class=n>{entry.version:,}</td><td>{_time(entry.time)}</td>{told}</tr>"
    more = facts.versions_noted - len(facts.recent)
    yield f"</tbody></table></div>{f'<p class=quiet>and {more:,} before</p>' if more > 0 else ''}</section>"


def _time(microseconds: int) -> str:
    at = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return f'<time datetime="{at:%Y-%m-%dT%H:%M:%SZ}">{at:%Y-%m-%d %H:%M:%S} UTC</time>'


def _bytes(length: int) -> str:
    """A size in words.

    >>> _bytes(999), _bytes(1_234_567)
    ('999 B', '1.2 MB')
    """
    size = float(length)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def _plural(word: str, many: int) -> str:
    return word if many == 1 else "queries" if word == "query" else f"{word}s"
