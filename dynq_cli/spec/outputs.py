"""The `outputs:` of a spec: which files `dynq run` writes, which tables it keeps, and from which results."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from itertools import islice
from typing import cast

from dynq_cli.errors import Place
from dynq_cli.spec import mirror_kinds
from dynq_cli.spec.model import Keep, Output, OutputKind, Text
from dynq_cli.spec.nodes import ListNode, MapNode, Node, RefusedNode, Scalar
from dynq_cli.spec.output_formats import extensions
from dynq_cli.spec.report import Field, Report, Shape
from dynq_cli.spec.served import SERVED
from dynq_cli.spec.shown import shown

_OUTPUT_HINT = "write `- {query: NAME, kind: count, path: out/NAME.json}`"
_PATH_HINT = "write the file to be made, as in `path: out/result.csv`"
_SHAPE = Shape(
    hint=_OUTPUT_HINT,
    required={"kind": "write `kind: count`, `kind: enum`, `kind: diff`, `kind: model` or `kind: mirror`"},
    optional=("path", "query", "model", "mark", "expand", "to", "table"),
    synonyms={"file": "path", "type": "kind", "name": "query", "url": "to"},
)
_KINDS = ("count", "enum", "diff", "model", "mirror")
# What a result has to be kept for.
_NEEDS = {"mirror": "diff"}
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")
_EXTENSIONS = {"count": (".json", ".csv", ".txt"), "model": (".json",)}
_PLACEHOLDERS = ("query", "version")
_MARK_HINT = "write a name, as in `mark: hourly`, or leave `mark` out"
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
_MARK = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def read_outputs(
    report: Report, node: Node, place: Place, queries: Mapping[str, Keep], models: Collection[str]
) -> tuple[Output, ...]:
    """`queries` are all queries of the spec, right or wrong, with what they are kept for, and `models` its models."""
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
            return _Reader(report, queries, models).read(node)


class _Reader:
    def __init__(self, report: Report, queries: Mapping[str, Keep], models: Collection[str]) -> None:
        self._report = report
        self._queries = queries
        self._models = models
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
        if "kind" in fields:
            kind = self._report.choice(fields["kind"].value, f"`kind` of {owner}", _KINDS)
        of = "model" if kind == "model" else "query"
        named = fields.get("model", fields.get("query")) if of == "model" else fields.get("query")
        if named is not None:
            query = self._read_name(named.value, f"`{of}` of {owner}", of)
        else:
            self._report.add(node.place, f"{owner} has no `{of}`", f"write `{of}:` with the name of a {of}")
        if "model" in fields and kind not in (None, "model"):
            self._report.add(fields["model"].place, f"`model` of {owner} needs `kind: model`", "write `kind: model`")
        if "model" in fields and "query" in fields:
            message = f"{owner} has both `model` and `query`"
            self._report.add(fields["model"].place, message, "make two outputs of it")
        keep = self._queries.get(query or "", "all")
        if kind not in (None, "model") and _NEEDS.get(kind, kind) not in SERVED[keep]:
            message = f"{owner} is a `kind: {kind}` of query {shown(query or '')}, which has `keep: {keep}`"
            self._report.add(fields["kind"].place, message, f"leave the output out, or `keep: {keep}`")
        if "mark" in fields:
            mark = self._read_mark(fields["mark"].value, f"`mark` of {owner}")
            if kind in ("count", "enum", "model", "mirror"):
                message = f"`mark` of {owner} needs `kind: diff`; a {kind} is of the last version"
                self._report.add(fields["mark"].place, message, "leave `mark` out, or write `kind: diff`")
        expand = None
        if "expand" in fields:
            expand = self._report.choice(fields["expand"].value, f"`expand` of {owner}", ("true", "false"))
            if kind in ("count", "diff", "model", "mirror"):
                message = f"`expand` of {owner} needs `kind: enum`"
                self._report.add(fields["expand"].place, message, "leave `expand` out, or write `kind: enum`")
        if kind == "mirror":
            return self._read_mirror(node, owner, fields, query)
        for key in ("to", "table"):
            if key in fields and kind is not None:
                hint = f"write `kind: mirror`, or leave `{key}` out" + ("; files have a `path`" if key == "to" else "")
                self._report.add(fields[key].place, f"`{key}` of {owner} needs `kind: mirror`", hint)
        path = None
        if "path" not in fields and (kind is not None or "to" not in fields):
            self._report.add(node.place, f"{owner} has no `path`", _PATH_HINT)
        if "path" in fields:
            path = self._read_path(fields["path"].value, f"`path` of {owner}", query, kind)
        if not (query and kind and path):
            return None
        return Output(query, cast(OutputKind, kind), path, mark, node.place, expand == "true")

    def _read_mirror(self, node: Node, owner: str, fields: Mapping[str, Field], query: str | None) -> Output | None:
        *most, last = (f"`to: {example}`" for example in mirror_kinds.examples())
        hint = f"write {', '.join(most)} or {last}"
        if "path" in fields:
            self._report.add(fields["path"].place, f"`path` of {owner} is for files, and a mirror is a table", hint)
        if "to" not in fields:
            self._report.add(node.place, f"{owner} has no `to`", hint)
            return None
        to = self._report.text(fields["to"].value, f"`to` of {owner}", hint)
        table = None
        if "table" in fields:
            table = self._report.text(fields["table"].value, f"`table` of {owner}", "write the name of the table")
        if to is None or ("table" in fields and table is None):
            return None
        kind = mirror_kinds.find(to.value)
        if kind is None:
            shown_to = shown(mirror_kinds.without_password(to.value))
            self._report.add(to.place(), f"`to` of {owner} cannot be {shown_to}", hint)
            return None
        self._check_visible(to, f"`to` of {owner}")
        if table is not None and kind.one_table:
            message = f"`table` of {owner} has no meaning: `to: {kind.example}` is one table"
            self._report.add(table.place(), message, "leave `table` out")
        elif table is not None and not _TABLE.fullmatch(table.value):
            hint = "a table has letters, digits and `_`, at most 63, and may have its schema before a `.`"
            self._report.add(table.place(), f"`table` of {owner} cannot be {shown(table.value)}", hint)
        if ".." in re.split(r"[/\\]", to.value):
            message = f"`to` of {owner} leaves its directory with `..`"
            self._report.add(to.place(), message, "write the path without `..`; an absolute path is allowed")
        name = "" if kind.one_table else table.value if table else query or ""
        first = self._written.setdefault(f"{to.value}\0{name}", to.place())
        if first != to.place():
            message = f"{owner} is the table that the output at line {first.line}, column {first.column} keeps already"
            self._report.add(to.place(), message, "give each mirror a table of its own")
        return Output(query, "mirror", "", place=node.place, to=to.value, table=name) if query else None

    def _read_name(self, node: Node, owner: str, of: str) -> str | None:
        """The name of a query, or of a model."""
        text = self._report.text(node, owner, f"write the name of a {of}")
        if text is None:
            return None
        known: Collection[str] = self._models if of == "model" else self._queries
        if known and text.value not in known:
            meant = self._report.nearest(text.value, known)
            listed = ", ".join(shown(name) for name in islice(known, 12))
            hint = (
                f"did you mean {shown(meant)}?"
                if meant
                else f"the {'models' if of == 'model' else 'queries'} are {listed}"
            )
            self._report.add(text.place(), f"{owner}: there is no {of} {shown(text.value)}", hint)
        elif of == "model" and not known:
            self._report.add(
                text.place(), f"{owner}: the spec has no `models`", "write `models:` at the start of a line"
            )
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
        known = _EXTENSIONS.get(kind, extensions())
        if extension in known:
            return
        message = f"{owner} ends in {shown(extension)}, a format that `kind: {kind}` is not written in"
        if not extension:
            message = f"{owner} has no extension, so the format is not known"
        *first, last = (f"`{e}`" for e in known)
        listed = f"{', '.join(first)} or {last}" if first else last
        self._report.add(text.place(), message, f"for `kind: {kind}` end it in {listed}")

    def _check_unique(self, text: Text, owner: str, query: str | None) -> None:
        target = posixpath.normpath(text.value.replace("{query}", query or "{query}"))
        first = self._written.setdefault(target, text.place())
        if first != text.place():
            message = f"{owner} is the file that the output at line {first.line}, column {first.column} writes already"
            self._report.add(text.place(), message, "give each output a file of its own")
