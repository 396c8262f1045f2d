"""A run as OpenLineage events: which files it applied, and which files and tables it wrote from them.

    write_lineage("lineage.jsonl", ".dynq", report)     two lines, START and COMPLETE or FAIL

The file appears whole or not at all, with the events of the last run alone: a collector sends its lines on. Names of
datasets are those of OpenLineage: absolute paths in `file`, DATABASE.TABLE in `postgres://HOST:PORT`.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dynq_cli import __version__
from dynq_cli.atomic import atomic_file
from dynq_cli.errors import DynqError
from dynq_cli.storage.state import open as open_state

if TYPE_CHECKING:
    from dynq_cli.session.metrics import RunReport
    from dynq_cli.spec.model import Output

_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FAILED = "FAIL"


def write_lineage(path: str, state: str, report: RunReport) -> None:
    """Write the events of a run; of a state that cannot be read, without its mirrors. O(logs + outputs)."""
    outputs: Sequence[Output] = ()
    with suppress(DynqError), open_state(state) as view:
        outputs = view.spec.outputs
    with atomic_file(path) as file:
        for event in lineage_events(state, outputs, report):
            file.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")


def lineage_events(state: str, outputs: Sequence[Output], report: RunReport) -> Iterator[dict[str, Any]]:
    """Yield the event of the beginning and that of the end."""
    run = str(uuid.uuid4())
    inputs = [_file(outcome.path) for outcome in report.outcomes if outcome.version is not None]
    written = [_dataset(text, outputs) for text in report.written]
    ends = "COMPLETE" if report.exit_code == 0 else _FAILED
    for kind, at in (("START", report.ended - report.seconds), (ends, report.ended)):
        yield {
            "eventType": kind,
            "eventTime": datetime.fromtimestamp(at, UTC).isoformat(),
            "run": {"runId": run},
            "job": {"namespace": "dynq", "name": os.path.abspath(state)},
            "inputs": inputs,
            "outputs": [] if kind == "START" else written,
            "producer": f"dynq {__version__}",
            "schemaURL": _SCHEMA,
        }


def _dataset(text: str, outputs: Sequence[Output]) -> dict[str, str]:
    """The dataset that a run says to have written: a path, or a mirror and what was done to it."""
    mirror = next((o for o in outputs if o.to and text.startswith(f"{o.target} (")), None)
    if mirror is None:
        return _file(text)
    if mirror.to.startswith(("postgresql:", "postgres:")):
        url = urlsplit(mirror.to)
        table = mirror.table if "." in mirror.table else f"public.{mirror.table}"
        name = f"{url.path.strip('/') or url.username or ''}.{table}"
        return {"namespace": f"postgres://{url.hostname or 'localhost'}:{url.port or 5432}", "name": name}
    place = mirror.to.partition(":")[2]
    if "://" in place:
        url = urlsplit(place)
        return {"namespace": f"{url.scheme}://{url.netloc}", "name": url.path.strip("/")}
    found = _file(place.removeprefix("///"))
    return {**found, "name": f"{found['name']}#{mirror.table}"} if mirror.table else found


def _file(path: str) -> dict[str, str]:
    return {"namespace": "file", "name": os.path.abspath(path)}
