"""Views: the queries of a spec, kept up to date in memory. Arrow in, Arrow out.

views = Views(spec, plans)
views.apply({"orders": table})      one commit, all or nothing
views.count("q")                    (rows, distinct rows)
views.enum("q")                     record batches: every distinct row once, `_count` last for bags
views.test("q", {"x": 1})           the multiplicity of a row
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from dynq_cli.engine.alike_commits import alike, together
from dynq_cli.engine.arena_snapshot import Arrays, arena_in, dictionaries_in
from dynq_cli.engine.arrow_changes import changes_of
from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Degree
from dynq_cli.engine.codes import NULL, UNKNOWN, Codes, arrow_type, decode, encode, floor, needs_labels
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.engine import BLOCK, BatchError, Changes, DerivedError, Engine, OverflowedError
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.floor_to_type import floor_to_type
from dynq_cli.engine.frames import table_of
from dynq_cli.engine.in_order import Bound
from dynq_cli.engine.ingest import RowError
from dynq_cli.engine.layout import Layout, layout_of
from dynq_cli.engine.mixed_commits import Ends
from dynq_cli.engine.pairs import joined, split
from dynq_cli.engine.rejection_messages import past_degree, why
from dynq_cli.engine.tree_delta import Signed
from dynq_cli.errors import BlockedError, DynqError, RejectedError, UsageError
from dynq_cli.plan.plan import AnyPlan
from dynq_cli.plan.program import Program, Step, variables_of
from dynq_cli.query.normal_form import ConjunctiveQuery, OutputColumn, VariableOrder
from dynq_cli.query.scalar import ScalarError, evaluate
from dynq_cli.spec.model import Spec
from dynq_cli.spec.served import require
from dynq_cli.spec.types import INT64
from dynq_cli.values.convert import CodeError, convert, python_value

_LARGEST = 2**63 - 1


class Views:
    def __init__(
        self,
        spec: Spec,
        plans: Mapping[str, AnyPlan | Program],
        arrays: Arrays | None = None,
        values: Arrays | None = None,
    ) -> None:
        """Create empty views, or use a snapshot's arrays. ValueError if their layout differs. O(tables).

        The dictionaries of empty views may begin with the `values` of others (`Dictionaries.arrays`).
        """
        self.spec = spec
        self.queries = {name: _program(name, plan, spec) for name, plan in plans.items()}
        self.layout: Layout = layout_of(spec.relations, _steps(self.queries.values()))
        self.dictionaries = Dictionaries(self.layout.ordered_dictionaries)
        self.meaning = Evaluator(lambda: self.dictionaries)
        self._unusable = ""
        if values is not None:
            self.dictionaries = Dictionaries.from_arrays(values, self.layout.ordered_dictionaries)
        if arrays is None:
            self.engine = Engine(self.layout, self.meaning)
            return
        self.dictionaries = dictionaries_in(arrays, self.layout.ordered_dictionaries)
        self.engine = Engine(self.layout, self.meaning, arena_in(arrays, self.layout))
        self.label()

    def apply(self, tables: Mapping[str, pa.Table]) -> None:
        """Apply one commit of changes, by relation. Raises RejectedError with nothing changed."""
        known = self.dictionaries.counts()
        try:
            self.take(self.changes(tables))
        except RejectedError:
            self.dictionaries.truncate(known)
            raise

    def apply_commits(self, relation: str, table: pa.Table, ends: Sequence[int] | Codes) -> None:
        """Apply many commits of one relation in one table: the k-th ends before row `ends[k]`.

        Each is checked by itself. Raises RejectedError at the first refused commit; those before it are applied.
        """
        self.apply_mixed({relation: table}, {relation: ends})

    def apply_mixed(self, tables: Mapping[str, pa.Table], ends: Mapping[str, Sequence[int] | Codes]) -> None:
        """Apply many commits of several relations: commit k has each table's rows from `ends[k - 1]` to `ends[k]`.

        Every table has as many ends as there are commits, ascending. Each commit is checked by itself. Raises
        RejectedError at the first refused commit; those before it are applied.
        """
        stops = {name: np.asarray(given, np.int64) for name, given in ends.items()}
        if stops.keys() != tables.keys() or not stops:
            raise UsageError("every table has the ends of its commits")
        if len({len(each) for each in stops.values()}) > 1:
            raise UsageError("all tables have the ends of the same commits, also of those without a row of theirs")
        for name, each in stops.items():
            if len(each) == 0 or each[-1] != len(tables[name]) or (np.diff(each, prepend=0) < 0).any():
                raise UsageError("the ends of commits must ascend, and the last one must be the number of rows")
        self.take(self.changes(tables, stops), stops)

    def apply_each(self, commits: Iterable[Mapping[str, pa.Table]]) -> None:
        """Apply commits one after the other, each as `apply` does. Small ones together cost little more than one.

        Raises RejectedError at the first refused commit, which names its row; those before it are applied.
        """
        for several in alike(commits):
            tables, ends = together(several)
            if not tables:
                continue
            try:
                self.attempt(self.changes(tables, ends), ends)
            except BatchError as error:
                self.apply(several[error.applied or 0])
                raise AssertionError("a refused commit is refused again") from error
            except RejectedError:
                if not self.is_usable:
                    raise
                for commit in several:
                    self.apply(commit)

    def changes(self, tables: Mapping[str, Any], ends: Ends | None = None) -> dict[str, Changes]:
        """Encode tables as changes, adding values to dictionaries. Raises RejectedError with nothing changed."""
        self._usable()
        known, batch = self.dictionaries.counts(), {}
        try:
            for name, table in tables.items():
                batch[name] = changes_of(
                    table_of(table), self.base(name), self.dictionaries, None if ends is None else ends[name]
                )
        except RowError as error:
            self.dictionaries.truncate(known)
            raise RejectedError.in_row(name, error.row + 1, error.column, error.reason) from None
        except (ScalarError, pa.ArrowException) as error:
            self.dictionaries.truncate(known)
            raise RejectedError(f"{name}: {error}") from None
        except DynqError:
            self.dictionaries.truncate(known)
            raise
        return batch

    def take(self, batch: Mapping[str, Changes], ends: Ends | None = None) -> None:
        """Apply encoded changes: a commit, or several with their ends by relation. Raises RejectedError.

        A refused commit changes nothing, except that dictionaries may keep values that no row has.
        """
        try:
            self.attempt(batch, ends)
        except BatchError as error:
            raise self.rejected(error, batch) from None

    def rejected(
        self, error: BatchError, batch: Mapping[str, Changes], place: str = "", row: int | None = None
    ) -> RejectedError:
        """Turn a BatchError into a RejectedError that names row and columns.

        The row is that of the relation's table, unless the place that it comes from is given.
        """
        columns, reason = why(error, batch[error.relation], self.base(error.relation), self.dictionaries)
        number = error.change + 1 if row is None else row
        return RejectedError.in_row(place or error.relation, number, columns, reason)

    def attempt(self, batch: Mapping[str, Changes], ends: Ends | None = None) -> None:
        """As `take`, but raises the engine's BatchError where a change is refused.

        BlockedError if a result, or a view that is kept for it, would be too large.
        """
        with self._updating():
            if ends is None:
                self.engine.apply(batch)
            elif len(batch) == 1:
                ((relation, changes),) = batch.items()
                self.engine.apply_commits(relation, changes, ends[relation])
            else:
                self.engine.apply_mixed(batch, ends)

    def fill(self, relation: str, rows: Codes, changes: Changes, steps: Collection[str]) -> None:
        """Insert base rows that are there, under these ids, into steps that do not have them. BlockedError."""
        with self._updating():
            self.engine.fill(relation, rows, changes, steps)

    def restart(self) -> None:
        """Begin to use what was written to the arena from outside. O(tables)."""
        self.engine = Engine(self.layout, self.meaning, self.engine.arena)
        self.label()

    @contextmanager
    def _updating(self) -> Iterator[None]:
        """Change the engine inside. BlockedError if a result, or a view that is kept for it, would be too large."""
        self._usable()
        self.label()
        try:
            yield
        except OverflowedError:
            self._unusable = "a result would have more than 2^127 - 1 rows\n  hint: use `semantics: set`"
            raise BlockedError(self._unusable) from None
        except DerivedError as error:
            self._unusable = self._outgrown(error)
            raise BlockedError(self._unusable) from None

    def tell(self, queries: Sequence[str]) -> None:
        """Read the deltas of these results within each commit from now on, and of no others; `take_deltas` has them.

        RejectedError if one is kept for tests alone. O(nodes).
        """
        for query in queries:
            self.require(query, "diff")
        self.engine.tell(queries)

    @property
    def told(self) -> tuple[str, ...]:
        """The results whose deltas are read."""
        return self.engine.told.queries

    def take_deltas(self) -> dict[str, Signed | None]:
        """Return, by query, what came and went since the last call: codes per head variable and signed copies.

        `versions.told_rows` decodes them. None for a result of which a row has more than 2^63 - 1 copies, or that is
        read from a tree with waiting sums: its old state is found by going back alone.
        """
        return self.engine.told.take()

    def take_warnings(self) -> list[str]:
        """Describe the values that came past `max_degree` of a relation with `on_degree: warn`, since the last call."""
        passed, self.engine.degrees.passed = self.engine.degrees.passed, {}
        return [
            f"{relation}, column {column}: "
            + past_degree(Degree(column, value, rows), self.base(relation), self.dictionaries)
            for (relation, column, value), rows in passed.items()
        ]

    def label(self) -> None:
        """Label all ids of ordered dictionaries. O(1) if there are no new ones."""
        if self.layout.labelled:
            labels = self.dictionaries.label()
            self.engine.ordered.label(labels.array, labels.starts)

    def _outgrown(self, error: DerivedError) -> str:
        """Describe why a step of a query cannot be kept; the message names the query."""
        for query, program in self.queries.items():
            if error.step in {step.name for step in program.steps}:
                return f"query {query}: its view {error}" + (f"\n  hint: {error.hint}" if error.hint else "")
        raise AssertionError(error.step)

    @property
    def is_usable(self) -> bool:
        """False after a count or a derived relation became too large during an update."""
        return not self._unusable

    def _usable(self) -> None:
        if not self.is_usable:
            raise BlockedError(self._unusable)

    def base(self, relation: str) -> BaseLayout:
        """Return the base table of a relation. UsageError if there is no such relation."""
        if self.spec.relation(relation) is None:
            known = ", ".join(r.name for r in self.spec.relations)
            raise UsageError(f"no relation {relation} in the spec; there is {known}")
        return self.layout.bases[relation]

    def count(self, query: str) -> tuple[int, int]:
        """Return the number of result rows, as a bag or a set as the query says, and of distinct rows.

        O(1), unless `keep: rows` lets it walk the rows. RejectedError if the query is kept for tests alone.
        """
        self.require(query, "count")
        return self.engine.count(query)

    def kept_count(self, query: str) -> tuple[int, int] | None:
        """Return the same counts if they are kept, else None. O(1)."""
        self.form_of(query)
        return self.engine.count(query) if self.engine.keeps_count(query) else None

    def require(self, query: str, verb: str) -> None:
        """RejectedError if a query is not kept for a command, UsageError if there is no such query."""
        self.form_of(query)
        written = self.spec.query(query)
        require(query, "all" if written is None else written.keep, verb)

    def form_of(self, name: str) -> ConjunctiveQuery:
        """Return a query's normal form. UsageError if there is no such query."""
        self._usable()
        if name not in self.queries:
            raise UsageError(f"no query {name} in the spec; there is {', '.join(self.queries)}")
        several = self.layout.together.get(name) or self.layout.tested.get(name)
        return self.layout.trees[name].plan.query if several is None else several.form

    def is_ordered(self, query: str) -> bool:
        """Whether a query's rows have an order in the spec."""
        return bool(self.order_of(query))

    def order_of(self, query: str) -> tuple[VariableOrder, ...]:
        """Return the whole order of a query's rows, by variables of its normal form; empty if it has none."""
        if query in self.layout.trees:
            return self.layout.trees[query].plan.order
        return self.layout.together[query].form.order if query in self.layout.together else ()

    def schema(self, query: str) -> pa.Schema:
        q = self.form_of(query)
        fields = [pa.field(c.name, arrow_type(c.type), c.nullable) for c in q.columns]
        if q.semantics == "bag":
            fields.append(pa.field("_count", pa.int64(), False))
        return pa.schema(fields)

    def enum(self, query: str, block: int = BLOCK) -> Iterator[pa.RecordBatch]:
        """Yield every distinct row once, in an order that depends only on the history of changes. Constant delay."""
        self.require(query, "enum")
        return self._rows(query, block)

    def _rows(self, query: str, block: int) -> Iterator[pa.RecordBatch]:
        schema, variables = self.schema(query), self.variables(query)
        try:
            for codes, copies in self.engine.blocks(query, variables, block):
                columns = self.decoded(query, variables, codes, len(copies))
                if schema.names[-1:] == ["_count"]:
                    columns.append(decode(copies, INT64, self.dictionaries, nullable=False))
                if columns:
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
                else:
                    yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(copies), pa.struct([])))
        except OverflowedError:
            raise RejectedError(f"query {query}: a row has more than 2^63 - 1 copies; use semantics: set") from None

    def variables(self, query: str) -> list[str]:
        """Return the variables of the columns of a result, each once."""
        found: dict[str, None] = {}
        for c in self.form_of(query).columns:
            found |= dict.fromkeys(variables_of(c))
        return list(found)

    def decoded(self, query: str, variables: list[str], codes: Codes, rows: int) -> list[pa.Array]:
        """Decode the columns of a result, without `_count`, from one row of codes per variable."""
        q, by_name = self.form_of(query), dict(zip(variables, codes, strict=True))
        return [
            pa.repeat(constant_of(c), rows)
            if c.kind == "expression"
            else self._decoded(q, c, [by_name[v] for v in variables_of(c)])
            for c in q.columns
        ]

    def _decoded(self, q: ConjunctiveQuery, column: OutputColumn, several: Sequence[Codes]) -> pa.Array:
        if column.kind == "pair":
            return joined(several[0], several[1], column.type)
        (codes,) = several
        variable = q.variable(column.source)
        kind = variable.type
        values = decode(codes, kind, self.dictionaries, nullable=variable.nullable)
        return values if kind == column.type else convert(values, column.type)

    def test(self, query: str, row: Mapping[str, Any]) -> int:
        """Return the multiplicity of the row given by its output columns; 0 or 1 for sets. O(1)."""
        codes = self.codes_of(query, row)
        if codes is None:
            return 0
        if not self.is_told_apart(query):
            return self._met(query, codes)
        many = self.engine.copies(query, codes)
        return min(many, 1) if self.form_of(query).semantics == "set" else many

    def is_told_apart(self, query: str) -> bool:
        """Whether the output columns identify a row; groups may not if only some key columns are selected."""
        return set(self.form_of(query).head) <= set(self.variables(query))

    def _met(self, query: str, codes: Mapping[str, int]) -> int:
        """Count the rows with these values. O(rows)."""
        names, many = list(codes), 0
        wanted = np.array([[codes[v]] for v in names], np.int64)
        for block, copies in self.engine.blocks(query, names):
            many += int(copies[(block == wanted).all(axis=0)].sum()) if names else int(copies.sum())
        return many

    def codes_of(self, query: str, row: Mapping[str, Any]) -> dict[str, int] | None:
        """Return the codes, by head variable, of a row given by its output columns; None if no result can have it."""
        q = self.form_of(query)
        if len(self._named(q, query, row)) < len(q.columns):
            named = ", ".join(c.name for c in q.columns) or "none"
            raise UsageError(f"a row of {query} has the columns {named}, not {', '.join(row) or 'none'}")
        codes: dict[str, int] = {}
        for c in q.columns:
            if c.kind == "expression":
                if python_value(constant_of(c)) != python_value(row[c.name]):
                    return None
                continue
            for variable, code in zip(variables_of(c), self.coded(q, c, row[c.name]), strict=True):
                if code is None or codes.setdefault(variable, code) != code:
                    return None
        return codes

    def codes_given(self, query: str, row: Mapping[str, Any]) -> dict[str, int] | None:
        """Return the codes, by variable, of some output columns; None if no row can have these values."""
        q = self.form_of(query)
        codes: dict[str, int] = {}
        for c in self._named(q, query, row):
            if c.kind == "expression":
                if python_value(constant_of(c)) != python_value(row[c.name]):
                    return None
                continue
            for variable, code in zip(variables_of(c), self.coded(q, c, row[c.name]), strict=True):
                is_unknown = code == UNKNOWN and needs_labels(q.variable(variable).type)
                if code is None or is_unknown or codes.setdefault(variable, code) != code:
                    return None
        return codes

    def bounds_of_codes(self, query: str, codes: Mapping[str, int]) -> list[Bound]:
        """Return the bounds of the first variables of a query's order, whose codes are given."""
        order = self.order_of(query)
        return [Bound(codes[o.variable]) for o in order[: len(codes)]]

    def bounds_of(self, query: str, row: Mapping[str, Any]) -> list[Bound]:
        """Return the values of the first variables of a query's order, given by output columns; of all for a whole row.

        UsageError if the columns are not the first ones; RejectedError if no row can have the values.
        """
        q, order = self.form_of(query), self.order_of(query)
        found: dict[str, Bound] = {}
        for c in self._named(q, query, row):
            if c.kind == "expression":
                if python_value(constant_of(c)) != python_value(row[c.name]):
                    raise RejectedError(f"column {c.name}: its value is always {constant_of(c)}, not {row[c.name]!r}")
                continue
            for variable, bound in zip(variables_of(c), self._bounds(q, c, row[c.name]), strict=True):
                if found.setdefault(variable, bound) != bound:
                    raise RejectedError(f"column {c.name}: {row[c.name]!r} is not the value of a column that equals it")
        missing = [o.variable for o in order[: len(found)] if o.variable not in found]
        if missing or not found:
            shown = {v: c.name for c in reversed(q.columns) for v in variables_of(c)}
            names = ", ".join(dict.fromkeys(shown[o.variable] for o in order if o.variable in shown))
            raise UsageError(f"a position in the order of {query} needs the first of the columns {names}")
        return [found[o.variable] for o in order[: len(found)]]

    def _bounds(self, q: ConjunctiveQuery, column: OutputColumn, value: Any) -> list[Bound]:
        """Return a bound for the variable of a column, or two for a pair."""
        codes = self.coded(q, column, value)
        if column.kind == "pair":
            return [Bound(code) for code in codes if code is not None]
        kind = q.variable(column.source).type
        if codes[0] is not None and (codes[0] != UNKNOWN or not needs_labels(kind)):
            return [Bound(codes[0])]
        lower = floor_to_type(pa.array([value], arrow_type(column.type)), kind)
        return [Bound(NULL if lower is None else floor(lower, kind, self.dictionaries), is_known=False)]

    def _named(self, q: ConjunctiveQuery, query: str, row: Mapping[str, Any]) -> list[OutputColumn]:
        """Return the columns of a row. UsageError if the result does not have one of them."""
        if any(name not in {c.name for c in q.columns} for name in row):
            named = ", ".join(c.name for c in q.columns) or "none"
            raise UsageError(f"a row of {query} has the columns {named}, not {', '.join(row) or 'none'}")
        return [c for c in q.columns if c.name in row]

    def coded(self, q: ConjunctiveQuery, column: OutputColumn, value: Any) -> list[int | None]:
        """Return the code of a value, two for a pair; None if the variable's type, which may be narrower, lacks it."""
        is_plain = column.kind == "variable" and q.variable(column.source).type == column.type == INT64
        if is_plain and type(value) is int and -_LARGEST <= value <= _LARGEST:
            # Avoid Arrow: for one value it takes longer than the rest of the lookup.
            return [value]
        try:
            typed = pa.array([value], arrow_type(column.type))
            if column.kind == "pair":
                return [int(codes[0]) for codes in split(typed, column.type)]
            kind = q.variable(column.source).type
            try:
                return [int(encode(convert(typed, kind), kind, self.dictionaries, intern=False)[0])]
            except CodeError:
                if kind == column.type:
                    raise
                return [None]
        except (pa.ArrowInvalid, pa.ArrowTypeError, CodeError, OverflowError) as error:
            raise RejectedError(f"column {column.name}: {value!r} is no {column.type}: {error}") from None

    def _check(self) -> None:
        self.dictionaries._check()
        self.engine._check()


def _steps(programs: Iterable[Program]) -> list[Step]:
    """All steps, each once: a query that reads another has steps of this one."""
    found: dict[str, Step] = {}
    for step in (step for program in programs for step in program.steps):
        assert found.setdefault(step.name, step) == step, f"two steps are called {step.name}"
    return list(found.values())


def _program(name: str, plan: AnyPlan | Program, spec: Spec) -> Program:
    """Return the program of a query. RejectedError if it cannot be kept."""
    if isinstance(plan, Program):
        return plan
    if plan.refusal:
        raise RejectedError(f"query {name}: {plan.refusal}")
    # A state has its programs stored: do not import the planner unless it is needed.
    from dynq_cli.plan.lower import program_of

    return program_of(plan.query, spec)


@cache
def constant_of(column: OutputColumn) -> pa.Scalar:
    (values,) = evaluate(pa.table({"_": [0]}), [column.source])
    return values.combine_chunks().cast(arrow_type(column.type))[0]
