"""A small history of change logs, and what each version of it must look like, worked out without dynq.

history.write(folder)      spec, snapshots and logs as files: CSV, JSON lines, with and without commit versions
history.seen[v]            what version v has to show: rows of every query, in plain Python
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: string}, key: [x]}
  S: {columns: {y: string, z: int64?}}
queries:
  pairs: {rule: "pairs(x, y, z) :- R(x, y), S(y, z)", semantics: bag}
  names: {rule: "names(y) :- R(_, y), S(y, _)"}
outputs:
  - {query: pairs, kind: enum, path: "out/pairs-{version}.jsonl"}
  - {query: names, kind: count, path: "out/names-{version}.txt"}
  - {query: pairs, kind: count, path: out/latest.json}
  - {query: pairs, kind: diff, path: "out/diff-{version}.jsonl", mark: outputs}
"""
QUERIES = ("pairs", "names")
Row = tuple[Any, ...]
Rows = dict[str, list[Row]]


@dataclass
class Model:
    """The base tables in plain Python: R by its key, S as a multiset."""

    left: dict[int, str] = field(default_factory=dict)
    right: Counter[tuple[str, int | None]] = field(default_factory=Counter)

    def rows(self) -> Rows:
        """The result of each query, sorted; of a bag with copies last."""
        pairs = [(x, y, z, many) for x, y in self.left.items() for (name, z), many in self.right.items() if name == y]
        return {"pairs": sorted(pairs, key=repr), "names": sorted({(y,) for _, y, _, _ in pairs})}


@dataclass(frozen=True)
class Log:
    """A change log: the changes of one relation, and how its file spells them."""

    name: str
    relation: str
    changes: tuple[tuple[str, Row], ...]

    def text(self) -> str:
        names = ("x", "y") if self.relation == "R" else ("y", "z")
        if self.name.endswith(".jsonl"):
            rows = [{"_change_type": kind, **dict(zip(names, row, strict=True))} for kind, row in self.changes]
            return "".join(json.dumps(row) + "\n" for row in rows)
        lines = [",".join(["_change_type", *names])]
        lines += [",".join([kind, *("" if v is None else str(v) for v in row)]) for kind, row in self.changes]
        return "\n".join(lines) + "\n"


class History:
    """Version 0 is what `init` loads; each log is a version. The same seed gives the same history."""

    def __init__(self, seed: int, logs: int) -> None:
        self._chance = Random(seed)
        self._model = Model()
        self._next = 0
        self.loads = [self._log("R.0.csv", "R", 12), self._log("S.0.csv", "S", 9)]
        self.seen = [self._model.rows()]
        self.logs: list[Log] = []
        self.extend(logs)

    init = ("init", "spec.yaml", "--load", "R=R.0.csv", "--load", "S=S.0.csv")
    enum = ("enum", "-q", "pairs", "-o", "pairs.jsonl")
    diff = ("diff", "-q", "pairs", "--since", "read", "--advance", "-o", "diff.jsonl")
    inspect = (
        ("check", "--read-data"),
        *(("count", "--json", "-q", query) for query in QUERIES),
        *(("enum", "--json", "-o", "-", "-q", query) for query in QUERIES),
    )

    def extend(self, logs: int) -> None:
        """More logs; names sort in the order of versions."""
        for _ in range(logs):
            number = len(self.logs) + 1
            relation = self._chance.choice("RS")
            ending = self._chance.choice(["csv", "jsonl"])
            self.logs.append(self._log(f"{number:05d}.{ending}", relation, self._chance.randrange(1, 8)))
            self.seen.append(self._model.rows())

    def write(self, folder: Path) -> None:
        """The spec, what is loaded, and all logs in `logs/RELATION.NUMBER…`; what is there already stays."""
        (folder / "spec.yaml").write_text(SPEC)
        for log in self.loads:
            (folder / log.name).write_text(log.text())
        self.put(folder / "logs", self.logs)

    @staticmethod
    def put(folder: Path, logs: Sequence[Log]) -> None:
        """Logs into a directory, in which they sort by version."""
        folder.mkdir(exist_ok=True)
        for log in logs:
            inside = folder / f"{log.name.partition('.')[0]}"
            inside.mkdir(exist_ok=True)
            (inside / f"{log.relation}.{log.name}").write_text(log.text())

    def _log(self, name: str, relation: str, rows: int) -> Log:
        make = self._left if relation == "R" else self._right
        return Log(name, relation, tuple(change for _ in range(rows) for change in make()))

    def _name(self) -> str:
        return f"name {self._chance.randrange(5)}"

    def _left(self) -> list[tuple[str, Row]]:
        left = self._model.left
        kind = self._chance.choice(["insert", "insert", "delete", "update"]) if len(left) > 4 else "insert"
        if kind == "insert":
            self._next += 1
            left[self._next] = self._name()
            return [("insert", (self._next, left[self._next]))]
        key = self._chance.choice(list(left))
        old = left.pop(key)
        if kind == "delete":
            return [("delete", (key, old))]
        left[key] = self._name()
        return [("update_preimage", (key, old)), ("update_postimage", (key, left[key]))]

    def _right(self) -> list[tuple[str, Row]]:
        right = self._model.right
        if right.total() > 4 and self._chance.random() < 0.4:
            row = self._chance.choice(list(right))
            right[row] -= 1
            if not right[row]:
                del right[row]
            return [("delete", row)]
        row = (self._name(), self._chance.choice([None, 1, 2, 3]))
        right[row] += 1
        return [("insert", row)]
