"""Where an event stands in the log of its database: what puts events right that arrive out of order, or twice.

    version    a number that does not fall from one commit to the next: `_commit_version`
    minor      the order within a commit
    unique     tells an event of a row from all others of that row; None where nothing does

| `kind` | version | minor | unique |
|---|---|---|---|
| lsn: PostgreSQL | the end of the commit before (`source.sequence`), else `lsn` | `lsn` | `lsn` |
| binlog: MySQL, MariaDB | number of the binlog file, position in it | `row` | all three |
| commit_lsn: SQL Server, Db2 | log block of `commit_lsn` | it, `change_lsn`, `event_serial_no` | the last two |
| scn: Oracle | `commit_scn`, else `scn` | `scn` | nothing |
| time: anything else | `source.ts_ms`, else `ts_ms` | nothing | nothing |

PostgreSQL's `lsn` alone would not do: a transaction that began earlier and ended later has smaller ones. What shares
version and minor stays in the order of the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_BITS = 32
_LARGEST = (1 << 63) - 1
_LSN = re.compile(r"([0-9a-f]{8}):([0-9a-f]{8}):[0-9a-f]{4}")
_BINLOG = re.compile(r".*\.(\d{1,9})", re.DOTALL)
TIME = "time"


class Position(NamedTuple):
    """See the module; `server` is who numbered it, where several may."""

    kind: str
    version: int
    minor: str = ""
    unique: str | None = None
    server: str | None = None


def position_of(event: Mapping[str, Any]) -> Position | None:
    """The position that an event says; None where it says none.

    >>> position_of({"source": {"lsn": 40, "sequence": '["39","40"]'}})
    Position(kind='lsn', version=39, minor='00000000000000000040', unique='40', server=None)
    >>> position_of({"source": {"file": "bin.000002", "pos": 3, "row": 1}})[:2] == ("binlog", 2 << 32 | 3)
    True
    >>> position_of({"source": {"commit_lsn": "00000001:00000002:0003"}})[:2] == ("commit_lsn", 1 << 32 | 2)
    True
    >>> position_of({"source": {}, "ts_ms": 5})
    Position(kind='time', version=5, minor='', unique=None, server=None)
    """
    source = event.get("source")
    said: Mapping[str, Any] = source if isinstance(source, dict) else {}
    kinds = (_postgres(said), _mysql(said), _sql_server(said), _oracle(said), _time(event, said))
    return next((found for found in kinds if found is not None and abs(found.version) < _LARGEST), None)


def _whole(value: Any) -> int | None:
    """A whole number, or the digits of one."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        return int(value)
    return value if type(value) is int else None


def _padded(number: int) -> str:
    """Numbers from 0 as texts that sort alike."""
    return f"{number:020}"


def _postgres(said: Mapping[str, Any]) -> Position | None:
    lsn = _whole(said.get("lsn"))
    if lsn is None:
        return None
    try:
        # `["24023128","24023200"]`: the end of the last commit, then the event's own lsn.
        before = _whole(json.loads(said["sequence"])[0])
    except (KeyError, TypeError, ValueError, IndexError):
        before = None
    return Position("lsn", lsn if before is None else before, _padded(lsn), str(lsn))


def _mysql(said: Mapping[str, Any]) -> Position | None:
    pos, row = _whole(said.get("pos")), _whole(said.get("row")) or 0
    numbered = _BINLOG.fullmatch(str(said.get("file", "")))
    if pos is None or numbered is None or not 0 <= pos < 1 << _BITS:
        return None
    server = said.get("server_id")
    unique = f"{said['file']}:{pos}:{row}"
    version = int(numbered[1]) << _BITS | pos
    return Position("binlog", version, _padded(row), unique, None if server is None else str(server))


def _sql_server(said: Mapping[str, Any]) -> Position | None:
    commit, change = str(said.get("commit_lsn", "")).lower(), str(said.get("change_lsn", "")).lower()
    numbered = _LSN.fullmatch(commit)
    if numbered is None:
        return None
    serial = _whole(said.get("event_serial_no")) or 0
    # 80 bits: the last 16, the place within a log block, order events only.
    version = int(numbered[1], 16) << _BITS | int(numbered[2], 16)
    unique = f"{change}:{serial}" if change else None
    return Position("commit_lsn", version, f"{commit}:{change}:{_padded(serial)}", unique)


def _oracle(said: Mapping[str, Any]) -> Position | None:
    scn, commit = _whole(said.get("scn")), _whole(said.get("commit_scn"))
    version = scn if commit is None else commit
    return None if version is None else Position("scn", version, _padded(scn or 0))


def _time(event: Mapping[str, Any], said: Mapping[str, Any]) -> Position | None:
    at = _whole(said.get("ts_ms"))
    at = _whole(event.get("ts_ms")) if at is None else at
    return None if at is None else Position(TIME, at)
