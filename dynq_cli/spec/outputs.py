"""The `outputs:` of a spec: which files `dynq run` writes, and from which results."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from itertools import islice
from typing import cast

from dynq_cli.errors import Place
from dynq_cli.spec.model import Keep, Output, OutputKind, Text
from dynq_cli.spec.nodes import ListNode, MapNode, Node, RefusedNode, Scalar
from dynq_cli.spec.output_formats import extensions
from dynq_cli.spec.report import Report, Shape
from dynq_cli.spec.served import SERVED
from dynq_cli.spec.shown import shown

_OUTPUT_HINT = "write `- {query: NAME, kind: count, path: out/NAME.json}`"
_PATH_HINT = "write the file to be made, as in `path: out/result.csv`"
_SHAPE = Shape(
    hint=_OUTPUT_HINT,
    required={
        "query": "write `query:` with the name of a query",
        "kind": "write `kind: count`, `kind: enum` or `kind: diff`",
        "path": _PATH_HINT,
    },
    optional=("mark", "expand"),
    synonyms={"file": "path", "type": "kind", "name": "query", "to": "path"},
)
_KINDS = ("count", "enum", "diff")
_COUNT_EXTENSIONS = (".json", ".csv", ".txt")
_PLACEHOLDERS = ("query", "version")
_MARK_HINT = "write a name, as in `mark: hourly`, or leave `mark` out"
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
_MARK = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def read_outputs(report: Report, node: Node, place: Place, queries: Mapping[str, Keep]) -> tuple[Output, ...]:
    """`queries` are all queries of the spec, right or wrong, with what they are kept for; empty if it has none."""
    match node:
        case RefusedNode():
            return ()
        case Scalar() if node.absent:
            report.add(place, "`outputs` is empty", f"leave `outputs:` out, or {_OUTPUT_HINT}")
            return ()
        case MapNode() | Scalar():
            hint = f"begin each output with `- `: {_OUTPUT_HINT}"
            report.add(node.place, "`outputs` has to be a list", hint)
            return ()
        case ListNode():
            return _Reader(report, queries).read(node)


class _Reader:
    def __init__(self, report: Report, queries: Mapping[str, Keep]) -> None:
        self._report = report
        self._queries = queries
        self._written: dict[str, Place] = {}

    def read(self, node: ListNode) -> tuple[Output, ...]:
        found = (self._read_output(number, item) for number, item in enumerate(node.items, start=1))
        return tuple(output for output in found if output)

    def _read_output(self, number: int, node: Node) -> Output | None:
        owner = f"output {number}"
        fields = self._report.fields(node, owner, node.place, _SHAPE)
        if fields is None:
            return None
        query = kind = mark = None
        if "query" in fields:
            query = self._read_query(fields["query"].value, f"`query` of {owner}")
        if "kind" in fields:
            kind = self._report.choice(fields["kind"].value, f"`kind` of {owner}", _KINDS)
            keep = self._queries.get(query or "", "all")
            if kind is not None and kind not in SERVED[keep]:
                message = f"{owner} is a `kind: {kind}` of query {shown(query or '')}, which has `keep: {keep}`"
                self._report.add(fields["kind"].place, message, f"leave the output out, or `keep: {keep}`")
        if "mark" in fields:
            mark = self._read_mark(fields["mark"].value, f"`mark` of {owner}")
            if kind in ("count", "enum"):
                message = f"`mark` of {owner} needs `kind: diff`; a {kind} is of the last version"
                self._report.add(fields["mark"].place, message, "leave `mark` out, or write `kind: diff`")
        expand = None
        if "expand" in fields:
            expand = self._report.choice(fields["expand"].value, f"`expand` of {owner}", ("true", "false"))
            if kind in ("count", "diff"):
                message = f"`expand` of {owner} needs `kind: enum`"
                self._report.add(fields["expand"].place, message, "leave `expand` out, or write `kind: enum`")
        path = None
        if "path" in fields:
            path = self._read_path(fields["path"].value, f"`path` of {owner}", query, kind)
        if not (query and kind and path):
            return None
        return Output(query, cast(OutputKind, kind), path, mark, node.place, expand == "true")

    def _read_query(self, node: Node, owner: str) -> str | None:
        text = self._report.text(node, owner, "write the name of a query")
        if text is None:
            return None
        if self._queries and text.value not in self._queries:
            meant = self._report.nearest(text.value, self._queries)
            listed = ", ".join(shown(name) for name in islice(self._queries, 12))
            hint = f"did you mean {shown(meant)}?" if meant else f"the queries are {listed}"
            self._report.add(text.place(), f"{owner}: there is no query {shown(text.value)}", hint)
        return text.value

    def _read_mark(self, node: Node, owner: str) -> str | None:
        text = self._report.text(node, owner, _MARK_HINT)
        if text is None:
            return None
        if _MARK.fullmatch(text.value):
            return text.value
        hint = "a mark has letters, digits, `_`, `-` and `.`, and begins with a letter or `_`"
        self._report.add(text.place(), f"{owner} cannot be {shown(text.value)}", hint)
        return None

    def _read_path(self, node: Node, owner: str, query: str | None, kind: str | None) -> str | None:
        if isinstance(node, MapNode):
            hint = 'a path that begins with `{` needs quotes, as in `path: "{query}.csv"`'
            self._report.add(node.place, f"{owner} has to be one value, not a map", hint)
            return None
        text = self._report.text(node, owner, _PATH_HINT)
        if text is None:
            return None
        self._check_braces(text, owner)
        self._check_visible(text, owner)
        if kind:
            self._check_extension(text, owner, kind)
        if ".." in re.split(r"[/\\]", text.value):
            message = f"{owner} leaves its directory with `..`"
            self._report.add(text.place(), message, "write the path without `..`; an absolute path is allowed")
        else:
            self._check_unique(text, owner, query)
        return text.value

    def _check_braces(self, text: Text, owner: str) -> None:
        for found in _BRACES.finditer(text.value):
            if found[1] in _PLACEHOLDERS:
                continue
            message = f"{owner} has {shown(found[0])}, which stands for nothing"
            meant = self._report.nearest(found[1] or "", _PLACEHOLDERS)
            known = "a path may have `{version}` and `{query}`, and no other braces"
            hint = f"did you mean `{{{meant}}}`?" if meant else known
            self._report.add(text.place(found.start()), message, hint)

    def _check_visible(self, text: Text, owner: str) -> None:
        hidden = next((at for at, char in enumerate(text.value) if not char.isprintable()), None)
        if hidden is not None:
            message = f"{owner} has a character that cannot be seen: {shown(text.value)}"
            self._report.add(text.place(hidden), message, "delete it")

    def _check_extension(self, text: Text, owner: str, kind: str) -> None:
        extension = posixpath.splitext(text.value)[1]
        known = _COUNT_EXTENSIONS if kind == "count" else extensions()
        if extension in known:
            return
        message = f"{owner} ends in {shown(extension)}, a format that `kind: {kind}` is not written in"
        if not extension:
            message = f"{owner} has no extension, so the format is not known"
        *first, last = (f"`{e}`" for e in known)
        self._report.add(text.place(), message, f"for `kind: {kind}` end it in {', '.join(first)} or {last}")

    def _check_unique(self, text: Text, owner: str, query: str | None) -> None:
        target = posixpath.normpath(text.value.replace("{query}", query or "{query}"))
        first = self._written.setdefault(target, text.place())
        if first != text.place():
            message = f"{owner} is the file that the output at line {first.line}, column {first.column} writes already"
            self._report.add(text.place(), message, "give each output a file of its own")
