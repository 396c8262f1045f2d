"""A run, and the state that it left, as Prometheus text for node_exporter's textfile collector.

    write_metrics("dynq.prom", ".dynq", report)      the file appears whole or not at all

Every sample has the label `state`, so that files of several states do not contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynq_cli.atomic import atomic_file
from dynq_cli.errors import DynqError
from dynq_cli.storage.facts import StateFacts, facts_of

if TYPE_CHECKING:
    from dynq_cli.session.apply_logs import Outcome

_MICROSECONDS = 1e6
Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True)
class RunReport:
    """What a run did, for monitoring: `ended` and `seconds` are wall-clock time."""

    exit_code: int
    ended: float
    seconds: float
    outcomes: Sequence[Outcome]
    written: Sequence[str]


def write_metrics(path: str, state: str, report: RunReport) -> None:
    """Write the metrics of a run; of a state that cannot be read, those of the run alone. O(size of the manifest)."""
    try:
        facts = facts_of(Path(state))
    except DynqError:
        facts = None
    with atomic_file(path) as file:
        file.write(metrics_text(state, report, facts).encode())


def metrics_text(state: str, report: RunReport, facts: StateFacts | None) -> str:
    """The text exposition format, version 0.0.4."""
    lines = [line for family in _families(report, facts) for line in _exposed(state, *family)]
    return "\n".join(lines) + "\n"


def state_text(state: str, facts: StateFacts, logs: Mapping[str, int]) -> str:
    """As `metrics_text`, of a process that stays: the state, and the logs that the process looked at."""
    looked_at: list[Sample] = [({"outcome": word}, many) for word, many in logs.items()]
    families = [("serve_logs", "Logs that the process looked at.", looked_at), *_state_families(facts)]
    return "\n".join(line for family in families for line in _exposed(state, *family)) + "\n"


def _families(report: RunReport, facts: StateFacts | None) -> Iterator[tuple[str, str, list[Sample]]]:
    applied = [o for o in report.outcomes if o.version is not None]
    refused = [o for o in report.outcomes if o.refused]
    skipped = len(report.outcomes) - len(applied) - len(refused)
    logs = {"applied": len(applied), "refused": len(refused), "skipped": skipped}
    rows = {word: sum(getattr(o, word) for o in applied) for word in ("inserted", "replaced", "deleted")}
    yield "run_exit_code", "Exit code of the last run.", [({}, report.exit_code)]
    yield "run_end_timestamp_seconds", "When the last run ended.", [({}, report.ended)]
    yield "run_duration_seconds", "How long the last run took.", [({}, report.seconds)]
    yield "run_logs", "Logs that the last run looked at.", [({"outcome": w}, n) for w, n in logs.items()]
    yield "run_rows", "Rows of the logs that the last run applied.", [({"change": w}, n) for w, n in rows.items()]
    yield "run_outputs_written", "Output files that the last run wrote.", [({}, len(report.written))]
    if facts is not None:
        yield from _state_families(facts)


def _state_families(facts: StateFacts) -> Iterator[tuple[str, str, list[Sample]]]:
    yield "state_version", "Version in force.", [({}, facts.version)]
    yield "state_applied_timestamp_seconds", "When that version was made.", [({}, facts.applied / _MICROSECONDS)]
    if facts.outputs_at is not None:
        yield "state_outputs_version", "Version of the last outputs.", [({}, facts.outputs_at)]
    yield "state_waiting_changes", "Changes that opening the state replays.", [({}, facts.waiting)]
    yield "state_bytes", "Bytes of all files of the state.", [({}, facts.sizes.total)]
    queries = [(name, counts) for name, counts in facts.counts.items() if counts is not None]
    yield "query_rows", "Result rows, with copies.", [({"query": name}, c.rows) for name, c in queries]
    yield "query_distinct_rows", "Distinct result rows.", [({"query": name}, c.distinct) for name, c in queries]
    relations = facts.tables.relations.items() if facts.tables else ()
    yield "relation_rows", "Distinct rows of a relation.", [({"relation": name}, t.rows) for name, t in relations]
    yield "relation_bytes", "Bytes of a relation's table.", [({"relation": name}, t.length) for name, t in relations]


def _exposed(state: str, name: str, help_text: str, samples: Sequence[Sample]) -> Iterator[str]:
    if not samples:
        return
    yield f"# HELP dynq_{name} {help_text}"
    yield f"# TYPE dynq_{name} gauge"
    for labels, value in samples:
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in {"state": state, **labels}.items())
        yield f"dynq_{name}{{{told}}} {_number(value)}"


def _number(value: float) -> str:
    """A number in full: counts may be past what a float's shortest form shows as one."""
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _escaped(text: str) -> str:
    r"""A label value.

    >>> print(_escaped('a "b" \\ c'))
    a \"b\" \\ c
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode(errors="replace").decode()
