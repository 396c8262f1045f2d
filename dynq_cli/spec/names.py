"""The names of relations, columns and queries.

A name is an identifier, so that SQL and rules can say it without quotes, and no two names of
one kind differ only in case, because SQL would not tell them apart.
"""

from __future__ import annotations

import re

from dynq_cli.errors import Place
from dynq_cli.spec.nodes import Scalar
from dynq_cli.spec.report import Report
from dynq_cli.spec.shown import shown

IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class Names:
    """The names given so far in one scope; reports those that are no names, or clash."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._given: dict[str, tuple[str, str, Place]] = {}

    def give(self, key: Scalar, what: str) -> None:
        """Take `key` as the name of a `what`: "relation", "column", "query"."""
        name = key.value
        if not IDENTIFIER.fullmatch(name):
            self._report.add(key.place, f"{shown(name)} cannot be the name of a {what}", _name_hint(name))
            return
        if what == "column" and name.startswith("_"):
            message = f"the column {shown(name)} begins with `_`, as only the columns of change logs do"
            self._report.add(key.place, message, _underscore_hint(name))
            return
        other = self._given.setdefault(name.lower(), (name, what, key.place))
        if other[2] != key.place:
            self._report.add(key.place, _clash(name, what, *other), "rename one of them")


def _name_hint(name: str) -> str:
    rule = "a name has letters (A-Z, a-z), digits and `_`, and does not begin with a digit"
    mended = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") if name.isascii() else ""
    if mended[:1].isdigit():
        mended = f"n{mended}"
    return f"{rule}, as in {shown(mended)}" if mended else rule


def _underscore_hint(name: str) -> str:
    mended = name.lstrip("_")
    rename = f"name it {shown(mended)}" if IDENTIFIER.fullmatch(mended) else "give it another name"
    return f"{rename}; columns such as `_change_type` and `_count` are known without being listed"


def _clash(name: str, what: str, other: str, other_what: str, place: Place) -> str:
    where = f"line {place.line}, column {place.column}"
    if name == other:
        return f"the {what} {shown(name)} has the name of the {other_what} at {where}"
    return f"the {what} {shown(name)} differs only in case from the {other_what} {shown(other)} at {where}"
