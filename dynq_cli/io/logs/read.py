"""Read a change log as a stream of changes: recognise its format, split rows by relation, check and convert them.

    read_log(file, spec).form     the name of the format, as users see it
    read_log(file, spec).rows()   LogRows, chunk after chunk, in bounded memory

The relation of a row comes from `--relation`, else from `_relation`, else from the name of the file or directory, else
from the format (Debezium's `source.table`). Bad input raises a RejectedError that names the file and, if possible, row
and column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.io import read_csv
from dynq_cli.io.damage import refusing
from dynq_cli.io.logs.chunks import read_chunks, schema_columns
from dynq_cli.io.logs.columns import null_mask, texts
from dynq_cli.io.logs.formats import FORMS, LogFormat, detect, mapped, named
from dynq_cli.io.logs.formats.change_type_columns import numbers
from dynq_cli.io.logs.formats.connect import is_wrapped, unwrapped
from dynq_cli.io.logs.formats.log_format import ChangeRows, Rows
from dynq_cli.io.logs.formats.rows import log_rows
from dynq_cli.io.logs.model import Chunk, LogFile, LogRows, RawColumn
from dynq_cli.io.logs.unexplained import refuse_unexplained
from dynq_cli.spec.model import Relation, Spec
from dynq_cli.spec.shown import shown
from dynq_cli.values.convert import CodeError

# Not every command that reads logs has --relation.
_NAME_HINT = (
    "call the file or its directory RELATION, as in RELATION.csv, add a column `_relation`, "
    "or apply it by `dynq apply --relation RELATION`"
)


def read_log(
    file: LogFile,
    spec: Spec,
    *,
    form: str | None = None,
    upsert: bool = False,
    relation: str | None = None,
    whole: bool = False,
) -> Log:
    """Open a log. `form` is the value of `--format`, `relation` the value of `--relation`.

    With `whole` the file must contain a whole relation: a change log is refused. Reads only the column names, and the
    first rows of wrapped events.
    """
    chosen = form_named(form)
    for name in (relation, file.relation):
        if name is not None and spec.relation(name) is None:
            raise UsageError(f"the spec has no relation {shown(name)}\n  hint: it has {_listed(spec)}")
    file = _by_position(file, spec, relation or file.relation, chosen)
    names = frozenset(schema_columns(file))
    declared = _declared(spec, relation or (None if "_relation" in names else file.relation), names)
    _refuse_separators(file, names, declared)
    wrapped = is_wrapped(names - declared, names)
    if wrapped:
        names = _names_inside(file)
        declared = _declared(spec, relation or (None if "_relation" in names else file.relation), names)
    known = relation or (None if "_relation" in names else file.relation)
    sources = {} if chosen else _mapped(spec, known, names - declared, names, whole)
    if chosen is not None:
        found = chosen
    elif known in sources:
        found = sources[known]
    else:
        found = detect(file.path, names - declared, names)
        if not found.says_deletes(names) and not sources:
            refuse_unexplained(file.path, names - declared, found.meta, known)
    if whole:
        _refuse_changes(file, found, names - declared, known)
    return Log(file, spec, found, names, declared, relation, wrapped, upsert, sources, whole, detected=chosen is None)


def form_named(name: str | None) -> LogFormat | None:
    """Return the format with this name; None for None. UsageError if there is no such format."""
    form = None if name is None else named(name)
    if name is not None and form is None:
        raise UsageError(f"there is no format {shown(name)}\n  hint: it is one of {', '.join(f.name for f in FORMS)}")
    return form


@dataclass(frozen=True)
class Log:
    """A log with a known format. `_names` are its columns, `_declared` the ones that the spec declares as data."""

    _file: LogFile
    _spec: Spec
    _form: LogFormat
    _names: frozenset[str]
    _declared: frozenset[str]
    _relation: str | None
    _wrapped: bool
    _upsert: bool
    _sources: Mapping[str, LogFormat]
    _whole: bool
    detected: bool

    @property
    def form(self) -> str:
        """The format's name, as `--format` takes it."""
        return self._form.name

    @property
    def continues(self) -> bool:
        """Whether the numbers of commits go on from one file to the next, so that none may go back."""
        return self._form.continues

    def rows(self) -> Iterator[LogRows]:
        """Yield the changes of the file: for each chunk, one or more LogRows per relation. O(rows)."""
        is_empty = True
        for chunk in read_chunks(self._file, self._wanted()):
            rows = self._rows(chunk)
            is_empty = is_empty and not len(rows)
            for relation, part in self._by_relation(rows) if len(rows) else ():
                called = _as_called(relation, self._names)
                for marked in self._sources.get(relation.name, self._form).translate(part, called):
                    made = log_rows(marked, called, self._commits(marked), upsert=self._upsert)
                    if len(made):
                        yield _as_declared(made, relation, called)
        if is_empty:
            self._check_columns()

    def _check_columns(self) -> None:
        """RejectedError if a file without rows lacks columns that rows of its relation need."""
        name = self._relation or self._file.relation
        if self._file.format == "jsonl" or self._wrapped:
            return
        rows = Rows(self._file.path, self._names, {}, np.empty(0, np.int64))
        if self._form.nested and self._names.isdisjoint(self._form.meta):
            marks = ", ".join(self._form.meta)
            raise rows.refused(f"it has no rows, and no column of {self._form.name}: {marks}", self._first_line())
        if self._form.nested or "_relation" in self._names:
            return
        if name is None:
            raise rows.refused("nothing says which relation it belongs to", _NAME_HINT)
        relation = _as_called(self._known(name), self._names)
        by_key = relation.key and not self._whole and self._sources.get(name, self._form).says_deletes(self._names)
        needed = relation.key if by_key else [column.name for column in relation.columns]
        missing = [column for column in needed if column not in self._names]
        if missing:
            raise rows.refused(f"it has no rows, and column {missing[0]} of {name} is missing", self._first_line())

    def _first_line(self) -> str:
        """What the columns of a file without rows are, in a hint."""
        listed = ", ".join(shown(n) for n in schema_columns(self._file)[:8])
        if self._file.format == "csv":
            header = f"its first line, taken as the header, is {listed}"
            return f"{header}; `dynq apply --format dms` reads files of DMS without one"
        return f"its columns are {listed}: every column that the spec declares has to be there"

    def _wanted(self) -> Collection[str] | None:
        if self._wrapped:
            return {"schema", "payload"}
        # JSON is parsed as a whole anyway, and columns that first occur late must be seen.
        is_whole = self._file.format == "jsonl" or self._looks_at_all()
        return None if is_whole else self._declared | set(self._meta()) | {"_relation"}

    def _looks_at_all(self) -> bool:
        """Whether a condition of the spec may need any column."""
        sources = (r.source for r in self._spec.relations if r.name in self._sources)
        return any(source is not None and mapped.needs_all_columns(source, self._names) for source in sources)

    def _meta(self) -> list[str]:
        """Return the columns that the format interprets.

        A declared column is data, unless `--format` was given and needs it.
        """
        if self._sources:
            forms = (self._form, *self._sources.values())
            return list(dict.fromkeys(name for form in forms for name in form.meta))
        free = [name for name in self._form.meta if name not in self._declared]
        is_marked = self.detected or any(name in self._names for name in free)
        return free if is_marked else list(self._form.meta)

    def _rows(self, chunk: Chunk) -> Rows:
        rows = Rows(
            self._file.path,
            self._names | set(chunk.columns),
            chunk.columns,
            np.arange(chunk.first, chunk.first + chunk.rows),
            is_text=self._file.format == "csv",
            is_json=self._file.format == "jsonl",
            is_whole=self._whole,
        )
        if self._wrapped:
            rows = unwrapped(rows)
        if rows.is_json:
            self._refuse_late_columns(rows)
        meaning = {*self._meta(), "_relation"}
        whole = self._looks_at_all()
        columns = {n: c for n, c in rows.columns.items() if whole or n in self._declared or n in meaning}
        # A chunk of JSON lines may lack a column of the file: its values are NULL.
        columns |= {name: [None] * len(rows) for name in meaning & self._names if name not in columns}
        return replace(rows, columns=columns)

    def _refuse_late_columns(self, rows: Rows) -> None:
        """RejectedError if a later row of JSON lines has columns of another format than the first rows."""
        late = rows.names - self._names
        if not late:
            return
        names = self._names | rows.names
        if self._whole:
            _refuse_operations(self._file, self._spec, late - self._declared)
        if self._form.name == "source":
            return
        other = detect(self._file.path, names - self._declared, names) if self.detected else self._form
        if self.detected and not other.says_deletes(names) and not self._sources:
            refuse_unexplained(self._file.path, late - self._declared, other.meta, self._file.relation)
        # The first column of a format has the change kind, which earlier rows did not have.
        decisive = [name for name in (*self._form.order, *self._form.sorts, *self._form.meta[:1]) if name in late]
        if other is self._form and not decisive:
            return
        marks = decisive or [name for name in sorted(late) if name in other.meta] or sorted(late)
        row = min(int((~null_mask(rows.columns[name])).argmax()) for name in marks)
        message = f"the column comes up here first, and the rows before were read as {self._form.name}"
        raise rows.rejected(
            row, marks[0], message, "give every row the column, or name the format by `dynq apply --format NAME`"
        )

    def _by_relation(self, rows: Rows) -> Iterator[tuple[Relation, Rows]]:
        if self._relation is not None:
            yield self._known(self._relation), rows
            return
        said = self._named_relations(rows)
        if said is None:
            if self._file.relation is not None:
                yield self._known(self._file.relation), rows
            else:
                raise rows.refused("nothing says which relation it belongs to", _NAME_HINT)
            return
        column, words = said
        coded = words.dictionary_encode()
        indices = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        unnamed = indices < 0
        if unnamed.any() and self._file.relation is None:
            raise rows.rejected(int(unnamed.argmax()), column, "NULL where the name of a relation has to be")
        by_name: dict[str, list[int]] = {}
        for index, name in enumerate(coded.dictionary.to_pylist()):
            if self._spec.relation(name) is None:
                row = int((indices == index).argmax())
                message = f"{shown(name)} is no relation of the spec"
                raise rows.rejected(row, column, message, f"it has {_listed(self._spec)}")
            by_name.setdefault(name, []).append(index)
        if unnamed.any() and self._file.relation is not None:
            by_name.setdefault(self._file.relation, []).append(-1)
        for name, several in by_name.items():
            whole = len(by_name) == 1
            picked = rows if whole else rows.pick(np.nonzero(np.isin(indices, several))[0])
            yield self._known(name), picked

    def _named_relations(self, rows: Rows) -> tuple[str, pa.StringArray] | None:
        """Return the column with the relation of each row, and its values; None if missing or not needed."""
        column: tuple[str, RawColumn] | None = None
        if "_relation" in rows.columns:
            column = "_relation", rows.columns["_relation"]
        elif self._file.relation is None:
            column = self._form.tables(rows)
        if column is None:
            return None
        try:
            return column[0], texts(column[1])
        except CodeError as error:
            raise rows.rejected(error.row, column[0], error.reason) from None

    def _known(self, name: str) -> Relation:
        relation = self._spec.relation(name)
        if relation is None:
            raise RejectedError(f"{self._file.path}: the spec has no relation {shown(name)}")
        return relation

    def _commits(self, marked: ChangeRows) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
        columns: Mapping[str, RawColumn] = marked.rows.columns
        order = next((name for name in self._form.order if name in columns and name not in self._declared), None)
        return None if order is None else numbers(marked.rows, order)


def _listed(spec: Spec) -> str:
    return ", ".join(relation.name for relation in spec.own_relations)


def _declared(spec: Spec, relation: str | None, names: Collection[str]) -> frozenset[str]:
    """Return the columns that the spec declares as data, by their names in the log."""
    known = [r for r in spec.own_relations if relation is None or r.name == relation]
    return frozenset(column.name for r in known for column in _as_called(r, names).columns)


def _as_called(relation: Relation, names: Collection[str]) -> Relation:
    """Rename a relation's columns to their names in the log by `source:`, unless the log has the spec's names."""
    if relation.source is None or not relation.source.columns:
        return relation
    called = {own: there for own, there in relation.source.columns if there in names or own not in names}
    columns = tuple(replace(c, name=called.get(c.name, c.name)) for c in relation.columns)
    return replace(relation, columns=columns, key=tuple(called.get(name, name) for name in relation.key))


def _as_declared(rows: LogRows, relation: Relation, called: Relation) -> LogRows:
    if called is relation:
        return rows
    own = {there.name: here.name for here, there in zip(relation.columns, called.columns, strict=True)}
    return replace(rows, columns={own[name]: values for name, values in rows.columns.items()})


def _mapped(
    spec: Spec, relation: str | None, free: Collection[str], names: frozenset[str], whole: bool
) -> dict[str, LogFormat]:
    """Return the formats of relations whose `source:` describes changes; none if the log has a `_change_type`.

    A file with a whole relation need not have the column of operations.
    """
    found: dict[str, LogFormat] = {}
    for known in spec.own_relations:
        source = known.source
        if whole and source is not None and source.op not in names:
            source = replace(source, op=None)
        if source is None or not source.says_changes or relation not in (None, known.name):
            continue
        if "_change_type" not in free or "_change_type" in (source.op, source.deleted_when):
            found[known.name] = mapped.form_of(source, names)
    return found


def _refuse_changes(file: LogFile, form: LogFormat, free: Collection[str], relation: str | None) -> None:
    """RejectedError unless a file can contain a whole relation."""
    if "_relation" in free and relation is None:
        raise RejectedError(
            f"{file.path}: it has a column _relation, so its rows may be of several relations\n"
            "  hint: say which one with --replace RELATION=PATH"
        )
    if not form.can_be_whole(free):
        raise _changes(file, form.name)


def _refuse_operations(file: LogFile, spec: Spec, late: Collection[str]) -> None:
    """RejectedError if later rows have the column of operations of a `source:`."""
    if any(r.source is not None and r.source.op in late for r in spec.relations):
        raise _changes(file, "source")


def _changes(file: LogFile, form: str) -> RejectedError:
    return RejectedError(
        f"{file.path}: it is a change log ({form}), and --replace takes all rows of a relation\n"
        "  hint: apply it without --replace; --format snapshot takes its rows as they are"
    )


def _by_position(file: LogFile, spec: Spec, relation: str | None, chosen: LogFormat | None) -> LogFile:
    """Name the columns of a DMS CSV without header by position: Op, then the columns of the relation."""
    known = None if relation is None else spec.relation(relation)
    if known is None or chosen is None or chosen.name != "dms" or file.format != "csv":
        return file
    with refusing(file.path, file.format):
        first = read_csv.header(file.path)
    columns = [column.name for column in _as_called(known, first).columns]
    if "Op" in first or any(name in first for name in columns):
        return file
    if len(first) == len(columns) + 1:
        return replace(file, columns=("Op", *columns))
    if len(first) == len(columns):
        return replace(file, columns=tuple(columns))
    raise RejectedError(
        f"{file.path}: it has no header and {len(first)} fields; Op and the columns of {known.name}"
        f" are {len(columns) + 1}\n  hint: let DMS write a header (AddColumnName=true), or declare all columns"
    )


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def _refuse_separators(file: LogFile, names: Collection[str], declared: Collection[str]) -> None:
    if file.format != "csv" or any(name in declared for name in names):
        return
    for mark, called in _SEPARATORS.items():
        split = [part.strip(' "') for name in names for part in name.split(mark)]
        if len(split) > len(names) and (len(names) == 1 or any(part in declared for part in split)):
            raise RejectedError(
                f"{file.path}: its fields are separated by {called} ({shown(mark)}), and dynq reads commas\n"
                "  hint: write the file with commas, or as Parquet or JSON lines"
            )


def _names_inside(file: LogFile) -> frozenset[str]:
    for chunk in read_chunks(file, {"schema", "payload"}):
        rows = Rows(
            file.path, frozenset(chunk.columns), chunk.columns, np.arange(chunk.first, chunk.first + chunk.rows)
        )
        inside = unwrapped(rows)
        if len(inside):
            return inside.names
    return frozenset()
