"""The frozen model of a spec: relations, queries as text, outputs.

Queries are not parsed here. A query's text has the place of each character in the file, so that later errors can name
line and column.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
from decimal import Decimal
from math import comb
from typing import Literal

from dynq_cli.errors import Place
from dynq_cli.records import record
from dynq_cli.spec.mirror_kinds import without_password
from dynq_cli.spec.types import Type

Changes = Literal["rare", "normal", "often"]
Semantics = Literal["bag", "set"]
Keep = Literal["all", "rows", "test"]
OnDegree = Literal["refuse", "warn"]


@record(frozen=True)
class Text:
    """A scalar of the file with the place of its characters.

    `anchors` are (offset in value, line, column), ascending by offset: characters between two
    anchors stand on one line, one column after the other.
    """

    value: str
    file: str
    anchors: tuple[tuple[int, int, int], ...]

    def place(self, offset: int = 0) -> Place:
        at = bisect_right(self.anchors, (offset, 1 << 60, 0)) - 1
        start, line, column = self.anchors[max(at, 0)]
        return Place(self.file, line, column + max(offset - start, 0))

    def __str__(self) -> str:
        return self.value


@record(frozen=True)
class Column:
    """A column of a relation, or of a view (which has no place)."""

    name: str
    type: Type
    nullable: bool = False
    place: Place | None = field(default=None, compare=False)


@record(frozen=True)
class LogSource:
    """How the logs of a relation mark changes, for logs in no known format.

    - `columns`: pairs (column of the spec, column of the log)
    - `deleted_when`: a column, or SQL, that is true for deleted rows; `condition`: its text in the spec if it is SQL
    - `op`: the column with the words of `inserts`, `updates` and `deletes`, which are in lower case
    """

    columns: tuple[tuple[str, str], ...] = ()
    deleted_when: str | None = None
    op: str | None = None
    inserts: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    condition: Text | None = field(default=None, compare=False)

    @property
    def says_changes(self) -> bool:
        """Whether it describes changes, not only names of columns."""
        return self.deleted_when is not None or self.op is not None


# Hidden queries have names that no query of a spec can have: they keep the sums of models, and degrees.
MODELS, DEGREES = "models/", "degrees/"
HIDDEN = (MODELS, DEGREES)
# The relation of the clock has a name that no relation of a spec can have.
CLOCK = "the clock"


@record(frozen=True)
class Relation:
    """A relation; no value is in more than `max_degree` rows of one column of it, counting copies, if that is given."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    changes: Changes = "normal"
    place: Place | None = field(default=None, compare=False)
    source: LogSource | None = None
    append_only: bool = False
    max_degree: int | None = None
    on_degree: OnDegree = "refuse"

    def degree_query(self, column: str) -> str:
        """The name of the hidden query that counts the rows of each value of a column."""
        return f"{DEGREES}{self.name}/{column}"

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)


@record(frozen=True)
class OrderKey:
    """One entry of `order_by`: an output column, ascending or descending."""

    column: str
    descending: bool = False
    place: Place | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.column} desc" if self.descending else self.column


@record(frozen=True)
class Requirement:
    """A bound that the plan of a query has to promise: of `update`, `space` and so on, as `explain` names them."""

    guarantee: str
    bound: str
    place: Place | None = field(default=None, compare=False)


@record(frozen=True)
class QuerySpec:
    """A query as written: its texts, and the key of their language; `keep` says which reads it is kept for.

    `epsilon` is that of IVM-ε, for queries that count or sum up triangles.
    """

    name: str
    language: str
    texts: tuple[Text, ...]
    semantics: Semantics | None = None
    order_by: tuple[OrderKey, ...] = ()
    max_view_rows: int | None = None
    place: Place | None = field(default=None, compare=False)
    require: tuple[Requirement, ...] = ()
    keep: Keep = "all"
    epsilon: Decimal | None = None


@record(frozen=True)
class ModelSpec:
    """A least-squares regression of `label` on all products of up to `degree` `features`, one per group of `per`.

    `places` are those of `over`, `label`, the features and the columns of `per`, in this order.
    """

    name: str
    over: str
    label: str
    features: tuple[str, ...]
    degree: int = 1
    ridge: Decimal = Decimal(0)
    per: tuple[str, ...] = ()
    place: Place | None = field(default=None, compare=False)
    places: tuple[Place, ...] = field(default=(), compare=False)

    @property
    def query(self) -> str:
        """The name of the hidden query that keeps the sums."""
        return MODELS + self.name

    @property
    def many_sums(self) -> int:
        """How many sums the model needs, the number of rows among them."""
        many = len(self.features)
        return comb(many + 2 * self.degree, 2 * self.degree) + comb(many + self.degree, self.degree) + 1


OutputKind = Literal["count", "enum", "diff", "model", "mirror"]


@record(frozen=True)
class Output:
    """One file that `dynq run` writes, or a table that it keeps; of `kind: model`, `query` is the model.

    With `expand` a row with copies stands there so often, without `_count`. A mirror has no path: it is the `table` in
    `to`.
    """

    query: str
    kind: OutputKind
    path: str
    mark: str | None = None
    place: Place | None = field(default=None, compare=False)
    expand: bool = False
    to: str = ""
    table: str = ""

    @property
    def target(self) -> str:
        """What is written, as it may be shown: a path, or a table and where it is."""
        if not self.to:
            return self.path
        return f"{self.table} in {without_password(self.to)}" if self.table else without_password(self.to)


@record(frozen=True)
class Spec:
    file: str
    relations: tuple[Relation, ...]
    queries: tuple[QuerySpec, ...]
    outputs: tuple[Output, ...] = ()
    models: tuple[ModelSpec, ...] = ()

    @property
    def own_relations(self) -> tuple[Relation, ...]:
        """The relations that the spec declares: all but the clock."""
        return tuple(r for r in self.relations if r.name != CLOCK)

    def relation(self, name: str) -> Relation | None:
        return next((r for r in self.relations if r.name == name), None)

    def query(self, name: str) -> QuerySpec | None:
        return next((q for q in self.queries if q.name == name), None)

    def model(self, name: str) -> ModelSpec | None:
        return next((m for m in self.models if m.name == name), None)
