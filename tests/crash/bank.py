"""Transfers between accounts: logs that may be applied in any order, and the results at every version in plain Python.

A transfer is two entries with opposite amounts, so balances add up to 0 and there is an even number of entries. A log
books a transfer, and maybe takes one of its writer's earlier ones back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

ACCOUNTS = {letter: f"account {letter}" for letter in "abcdefgh"}
SPEC = """\
version: 1
relations:
  L: {columns: {id: int64, account: string, amount: int64}, key: [id]}
  A: {columns: {account: string, name: string}, key: [account]}
queries:
  entries: {sql: "SELECT id, L.account, name, amount FROM L JOIN A ON L.account = A.account ORDER BY id"}
  balances: {sql: "SELECT account, SUM(amount) balance, COUNT(*) entries FROM L GROUP BY account ORDER BY account"}
outputs:
  - {query: balances, kind: enum, path: out/balances.jsonl}
"""
Entries = Mapping[int, tuple[str, int]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Transfer:
    """A log: its name, and its changes (change type, id, account, amount)."""

    name: str
    changes: tuple[tuple[str, int, str, int], ...]

    def text(self) -> str:
        return "_change_type,id,account,amount\n" + "".join(f"{','.join(map(str, c))}\n" for c in self.changes)

    def torn(self) -> str:
        """The same log with a line that is refused at its end."""
        return self.text() + "insert,no number,a,1\n"

    def after(self, entries: Entries) -> dict[int, tuple[str, int]]:
        made = dict(entries)
        for kind, id_, account, amount in self.changes:
            if kind == "insert":
                assert id_ not in made, self
                made[id_] = account, amount
            else:
                assert made.pop(id_) == (account, amount), self
        return made


class Writer:
    """Makes the logs of one writer; those before have to be applied before the next one is."""

    def __init__(self, number: int, writers: int, seed: int) -> None:
        self._name, self._chance = f"w{number}", Random(f"{seed} {number}")
        self._numbers = count(number, writers)
        self._mine: list[tuple[tuple[int, str, int], ...]] = []
        self._made = 0

    def next(self) -> Transfer:
        chance, self._made = self._chance, self._made + 1
        changes: list[tuple[str, int, str, int]] = []
        if (len(self._mine) > 4 and chance.random() < 0.4) or len(self._mine) > 25:
            changes += [("delete", *row) for row in self._mine.pop(chance.randrange(len(self._mine)))]
        first, second = chance.sample(list(ACCOUNTS), 2)
        id_, amount = 2 * next(self._numbers), chance.randrange(1, 1000)
        rows = ((id_, first, amount), (id_ + 1, second, -amount))
        self._mine.append(rows)
        changes += [("insert", *row) for row in rows]
        chance.shuffle(changes)
        return Transfer(f"L.{self._name}-{self._made}", tuple(changes))


def entry_rows(entries: Entries) -> list[Row]:
    """The result `entries`."""
    return [
        {"id": id_, "account": account, "name": ACCOUNTS[account], "amount": amount}
        for id_, (account, amount) in sorted(entries.items())
    ]


def balance_rows(entries: Entries) -> list[Row]:
    """The result `balances`."""
    sums: dict[str, list[int]] = {}
    for account, amount in entries.values():
        sums.setdefault(account, []).append(amount)
    return [{"account": a, "balance": str(sum(held)), "entries": len(held)} for a, held in sorted(sums.items())]


def rows_of(query: str, entries: Entries) -> list[Row]:
    return entry_rows(entries) if query == "entries" else balance_rows(entries)


def difference(query: str, old: Entries, new: Entries) -> list[str]:
    """What went and came, in a form to compare."""
    before, after = ([*map(_text, rows_of(query, entries))] for entries in (old, new))
    gone, came = set(before) - set(after), set(after) - set(before)
    return sorted([f"delete {text}" for text in gone] + [f"insert {text}" for text in came])


def told(changes: Iterable[Row]) -> list[str]:
    """Changes that were answered, in the form of `difference`."""
    return sorted(
        f"{row['_change_type']} {_text({k: v for k, v in row.items() if k not in ('_change_type', '_count')})}"
        for row in changes
        for _ in range(row.get("_count", 1))
    )


def _text(row: Row) -> str:
    return repr(sorted(row.items()))
