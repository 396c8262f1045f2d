"""Lay out the arena for a spec: the tables, nodes and records of its relations and trees.

- A relation has a base table, key columns first.
- A leaf has its own table, or uses the base rows: if its columns tell them apart, or, in a tree that feeds relations,
  if few rows are equal in these columns.
- An inner node has a table keyed by its variables. A child that is no guard has a table of groups, keyed by the
  variables that it shares with its parent. Nodes are numbered children before parents, tree after tree.
- A derived relation has a base table too, and with a row per group also the tables of `group_layout`. In a tree that
  feeds one, output rows also store their old multiplicity during a commit (`kernels.delta_log`).
- Partitions of a derived relation have the tables of `partition_layout`.
- A tree whose rows are those of one relation (`program.passages`) has no tables: the base rows store the values of its
  expressions and the result of its filter.
- A cycle has a table per edge and a table of groups per index, and tables of pairs if it keeps these (`cycle_layout`).

If a plan has an order, its enumeration levels follow that order, and the groups of each level that adds variables are
order-statistic trees over these variables. `ordered` describes them, encoded for `kernels.order_statistic_blocks`. So
are the groups of a child that is compared with its parent, and the readers in the parent (`kernels.ranges`). All share
the same pools of blocks, which are the last tables.

The layout depends only on the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.base_layout import BaseLayout, Computed, Leaf, PassageLayout
from dynq_cli.engine.codes import needs_labels
from dynq_cli.engine.cycle_layout import CycleLayout, Edge, EdgeTables, PairTables, cycle_layout, edges_of, viewed_atoms
from dynq_cli.engine.edges import ranges_of
from dynq_cli.engine.group_layout import GroupLayout, group_layout
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.order_statistic_blocks import COUNT, LANES, UNIT
from dynq_cli.engine.order_statistic_tree import OrderKey, Sizes, TreeDescription, pools
from dynq_cli.engine.partition_layout import PartitionLayout, partition_layout
from dynq_cli.engine.record_fields import RecordFields
from dynq_cli.engine.tree_layout import Labelled, Place, TreeLayout
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import Cycle, Derived, Lookups, Step, Together, Tree, passages
from dynq_cli.plan.view_tree import Node
from dynq_cli.plan.waiting_sums import waiting_nodes
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, VariableOrder
from dynq_cli.records import record
from dynq_cli.spec.model import Relation
from dynq_cli.spec.types import Type

# Positions count only the first column of the payload.
_WIDTH = 2
BLOCKS = Sizes()


@record()
class Layout:
    """The tables, nodes and records of a spec.

    `bases`, `trees` and `steps` include derived relations and inner trees, each after those that it depends on. `trees`
    does not include the trees of `passages`, which have no tables. `together` are the results read from several trees,
    by query, and `tested` those of which rows are looked up in several; both have no data and are not in `steps`.
    """

    tables: f.Rows
    nodes: f.Rows
    lists: NDArray[np.int64]
    bases: dict[str, BaseLayout]
    trees: dict[str, TreeLayout]
    passages: dict[str, PassageLayout]
    cycles: dict[str, CycleLayout]
    variables: list[tuple[str, ...]]
    leaf_paths: dict[int, tuple[int, ...]]
    ordered: tuple[TreeDescription, ...]
    labelled: tuple[Labelled, ...]
    steps: tuple[Tree | Derived | Cycle, ...]
    groups: dict[str, GroupLayout]
    partitions: dict[str, PartitionLayout]
    together: dict[str, Together]
    tested: dict[str, Lookups]

    @property
    def derived(self) -> dict[str, Derived]:
        """The derived relations by name."""
        return {step.relation.name: step for step in self.steps if isinstance(step, Derived)}

    @property
    def base_tables(self) -> frozenset[int]:
        return frozenset(b.table for b in self.bases.values())

    @property
    def scans(self) -> tuple[PassageLayout, ...]:
        """All that is read of base deltas alone: trees that are not stored, and the edges of cycles."""
        return *self.passages.values(), *(edge.rows for cycle in self.cycles.values() for edge in cycle.edges)

    def query_of(self, step: str) -> ConjunctiveQuery:
        """Return the query of a tree, stored or not, or of a cycle."""
        if step in self.cycles:
            return self.cycles[step].step.query
        return self.passages[step].query if step in self.passages else self.trees[step].plan.query

    def trees_of(self, query: str) -> tuple[str, ...]:
        """Return the names of the trees from which the rows of a query are read, and of those whose rows it lacks."""
        step = self.together.get(query)
        return (query,) if step is None else tuple(dict.fromkeys(m.tree for m in step.read))

    def leaves_of(self, tree: str) -> int:
        """Return how many leaves a tree has."""
        return sum(leaf.query == tree for base in self.bases.values() for leaf in base.leaves)

    def result_of(self, query: str) -> tuple[TreeLayout, ...]:
        """Return the trees from which the rows of a query are read, and those whose rows it lacks."""
        step = self.together.get(query)
        return (self.trees[query],) if step is None else tuple(self.trees[m.tree] for m in step.read)

    @property
    def widest(self) -> int:
        """The number of columns of the longest key."""
        return max([len(b.order) for b in self.bases.values()] + [len(v) for v in self.variables] + [1])

    @property
    def first_pool(self) -> int:
        """The first of the tables that hold the blocks of counted trees; there are none without an order."""
        return self.ordered[0].first_pool

    @property
    def ordered_dictionaries(self) -> frozenset[str]:
        """The dictionaries whose ids are keys of order-statistic trees."""
        of_groups = (v.labels.name for g in self.groups.values() for v in g.values if v.labels and v.tree >= 0)
        of_partitions = (kind.name for p in self.partitions.values() for kind in p.labels if kind is not None)
        return frozenset(key.dictionary for key in self.labelled).union(of_groups, of_partitions)

    def ordered_above(self, leaf: int) -> int:
        """Return how many order-statistic trees a change of a leaf's row may insert into or delete from."""
        many, node = 0, leaf
        while node >= 0:
            many += int(self.nodes["tree"][node] >= 0)
            # A row of the node may begin to read a range, and end it; waiting readers are in the node's own tree.
            below = self.lists[self.nodes["children"][node] :][: self.nodes["degree"][node]]
            many += 2 * int(((self.nodes["readers"][below] >= 0) & (self.nodes["waits"][below] < 0)).sum())
            node = int(self.nodes["parent"][node])
        return many

    def position(self, node: int, variable: str) -> int:
        """Return the index of a node's variable in the codes of its table."""
        at = self.variables[node].index(variable)
        if int(self.nodes["table"][node]) in self.base_tables:
            return int(self.lists[self.nodes["source"][node] + at])
        return at


def layout_of(relations: Sequence[Relation], steps: Sequence[Step]) -> Layout:
    """Lay out relations and steps; each step must follow those that it depends on."""
    return _Builder(relations, steps).build()


class _Builder:
    def __init__(self, relations: Sequence[Relation], steps: Sequence[Step]) -> None:
        self.relations = relations
        self.together = {step.name: step for step in steps if isinstance(step, Together)}
        self.tested = {step.name: step for step in steps if isinstance(step, Lookups)}
        self.steps = tuple(step for step in steps if not isinstance(step, Together | Lookups))
        self.feeding = {feed.tree for step in steps if isinstance(step, Derived) for feed in step.feeds}
        self.passing = passages(steps)
        # Where half words of base tables for filters will be.
        self.flags: dict[tuple[int, int], dict[str, int]] = {}
        self.tables: list[dict[str, int]] = []
        self.nodes: list[dict[str, int]] = []
        self.lists: list[int] = []
        self.fields: list[RecordFields] = []
        self.bases: dict[str, BaseLayout] = {}
        self.variables: list[tuple[str, ...]] = []
        self.leaf_tables: dict[int, int] = {}
        self.ordered: list[TreeDescription] = []
        self.labelled: list[Labelled] = []

    def build(self) -> Layout:
        for relation in self.relations:
            self._base(relation)
        trees, edges, pairs = {}, {}, {}
        for step in self.steps:
            if isinstance(step, Derived):
                self._base(step.relation)
            elif isinstance(step, Cycle):
                edges[step.name] = [self._edges(edge) for edge in edges_of(step)]
                if step.pairs is not None:
                    pairs[step.name] = self._pairs(step, edges[step.name])
            elif step.name in self.passing:
                self._in_place(step.plan.query.atoms[0])
            else:
                trees[step.name] = self._tree(step.name, step.plan)
        for row, fields in zip(self.tables, self.fields, strict=True):
            row["stride"] = fields.close()
        self._place_narrow()
        self._place_lists()
        groups, partitions = self._groups()
        ordered = self._ordered_trees()
        return Layout(
            f.made(f.TABLE, self.tables),
            f.made(f.NODE, self.nodes),
            np.array([*self.lists, 0], np.int64),
            self.bases,
            trees,
            {
                s.name: self._passage(s.plan.query, s.plan.query.atoms[0])
                for s in self.steps
                if isinstance(s, Tree) and s.name in self.passing
            },
            {s.name: self._cycle(s, edges[s.name], pairs.get(s.name)) for s in self.steps if isinstance(s, Cycle)},
            self.variables,
            {leaf.node: self._path(leaf.node) for base in self.bases.values() for leaf in base.leaves},
            ordered,
            tuple(self.labelled),
            self.steps,
            groups,
            partitions,
            self.together,
            self.tested,
        )

    def _groups(self) -> tuple[dict[str, GroupLayout], dict[str, PartitionLayout]]:
        """Add the tables of derived relations with groups or partitions, after all others."""
        groups, partitions = {}, {}
        for step in self.steps:
            if isinstance(step, Derived) and step.groups:
                groups[step.name], tables = group_layout(step.groups, len(self.tables))
                self.tables += tables
            elif isinstance(step, Derived) and step.partitions:
                partitions[step.name], tables = partition_layout(step.partitions, len(self.tables))
                self.tables += tables
        return groups, partitions

    def _base(self, relation: Relation) -> None:
        names = tuple(c.name for c in relation.columns)
        order = (*relation.key, *(n for n in names if n not in relation.key))
        table = self._table(len(order), len(relation.key) or len(order))
        self.tables[table]["mult"] = self.fields[table].wide()
        self.tables[table]["keyed"] = int(bool(relation.key))
        self.bases[relation.name] = BaseLayout(relation, table, order)

    def _ordered_trees(self) -> tuple[TreeDescription, ...]:
        """The descriptions of all counted trees, whose blocks lie in tables behind all others."""
        first = len(self.tables)
        if self.ordered:
            self.tables += pools(BLOCKS, max(tree.width for tree in self.ordered))
        return tuple(replace(tree, first_pool=first) for tree in self.ordered)

    def _table(self, arity: int, hashed: int) -> int:
        row = f.blank(f.TABLE)
        row["arity"], row["hashed"] = arity, hashed
        row["capacity"] = row["used"] = row["live"] = row["mask"] = 0
        self.tables.append(row)
        # The first word of a free row links to the next free row.
        self.fields.append(RecordFields(max(1, arity)))
        table = len(self.tables) - 1
        self._narrow(table, self.tables[table], "mark")
        return table

    def _narrow(self, table: int, owner: dict[str, int], field_: str) -> None:
        self.fields[table].narrow.append((owner, field_))

    def _place_narrow(self) -> None:
        """Place the narrow fields after the wide ones, whose number is known only now."""
        for fields in self.fields:
            for i, (owner, field_) in enumerate(fields.narrow):
                owner[field_] = 2 * fields.words + i

    def _place_lists(self) -> None:
        """Place the heads and sums of lists in the records of groups, for all nodes except ranges."""
        for row in self.nodes:
            if row["readers"] < 0:
                row["total"] = row["sums"]
                if row["begin"] < 0:
                    row["begin"] = row["head"]

    def _list(self, numbers: list[int]) -> int:
        self.lists += numbers
        return len(self.lists) - len(numbers)

    def _tree(self, name: str, plan: Plan) -> TreeLayout:
        first = len(self.nodes)
        # Only results need the number of distinct rows.
        columns = 1 if plan.query.semantics == "set" or name in self.feeding else 2
        waiting = waiting_nodes(plan, feeds=name in self.feeding)
        root = self._node(name, plan, plan.tree, columns, waiting)
        levels, frontier, places = self._levels(plan, root)
        if name in self.feeding:
            for node in levels:
                self._remember(node)
        return TreeLayout(plan, first, len(self.nodes), root, levels, frontier, places)

    def _node(self, name: str, plan: Plan, node: Node, columns: int, waiting: frozenset[Node]) -> int:
        children = [self._node(name, plan, child, columns, waiting) for child in node.children]
        row = f.blank(f.NODE)
        row["listed"] = 0
        self.nodes.append(row)
        self.variables.append(node.variables)
        number = len(self.nodes) - 1
        lane_pairs = columns if node.output else 1
        below = not node.output or not any(c.output for c in node.children)
        row["output"] = int(node.output)
        row["frontier"] = int(node.output and below)
        row["clamp"] = int(plan.query.semantics == "set" and below)
        row["width"] = 2 * lane_pairs
        row["children"], row["degree"] = self._list(children), len(children)
        if node.atom is not None:
            self._leaf(name, plan, plan.query.atoms[node.atom], number, node.variables)
        else:
            table = self._table(len(node.variables), len(node.variables))
            row["table"] = table
            row["value"] = self.fields[table].wide(row["width"])
            self._narrow(table, self.tables[table], "refs")
        for child, below_it in zip(children, node.children, strict=True):
            self._edge(plan, number, node, child, below_it, waits=node in waiting)
            order = self._added_order(plan, number, child)
            # A child that adds no variable has at most one row; a compared one is in order already.
            if order and below_it.output and not below_it.comparisons:
                self._keep_in_order(plan, child, order, _WIDTH)
        return number

    def _stored(self, base: BaseLayout, value: Computed, atom: Atom) -> int:
        """Return the word of base rows that stores a value computed for an atom."""
        number = base.computed_number(value, atom)
        if number not in base.stored:
            base.stored[number] = self.fields[base.table].wide()
        return base.stored[number]

    def _in_place(self, atom: Atom) -> None:
        """Store the computed values of an atom, and the result of its filter, in base rows."""
        base = self.bases[atom.source]
        for b in atom.bindings:
            if base.column_of(b) is None:
                self._stored(base, Computed(b.scalar, b.part), atom)
        number = base.filter_number(atom)
        if number >= 0 and (base.table, number) not in self.flags:
            owner = self.flags[base.table, number] = {"flag": -1}
            self._narrow(base.table, owner, "flag")

    def _edges(self, edge: Edge) -> EdgeTables:
        """Add the tables of an edge of a cycle."""
        self._in_place(edge.scanned)
        table = self._table(len(edge.variables), len(edge.variables))
        self.tables[table]["mult"] = self.fields[table].wide()
        made = EdgeTables(edge, table)
        if edge.weights:
            made.weights = self.fields[table].wide(len(edge.weights))
        for key in edge.keys:
            row = {"group": self._table(len(key), len(key))}
            for name in ("gid", "next", "prev"):
                self._narrow(table, row, name)
            for name in ("head", "size"):
                self._narrow(row["group"], row, name)
            made.indexes.append(row)
        return made

    def _pairs(self, step: Cycle, edges: list[EdgeTables]) -> PairTables:
        """Add the tables of pairs of heavy values, and of one row that says which values are heavy."""
        assert step.pairs is not None
        table = self._table(1, 1)
        lanes = 2 * len(step.pairs.sums)
        exponent, minor, major, totals = (self.fields[table].wide(many) for many in (1, 1, 1, lanes))
        made = PairTables(table, exponent, minor, major, totals)
        for row in (row for edge in edges for row in edge.indexes):
            for name in ("heavy", "heavy_next", "heavy_prev"):
                self._narrow(row["group"], row, name)
            for name in ("heavy_head", "heavies"):
                self._narrow(table, row, name)
        for atom in viewed_atoms(step):
            view = self._table(2, 2)
            made.views[atom] = {"table": view, "sums": self.fields[view].wide(lanes)}
        return made

    def _cycle(self, step: Cycle, tables: list[EdgeTables], pairs: PairTables | None) -> CycleLayout:
        return cycle_layout(step, tables, [self._passage(step.query, made.edge.scanned) for made in tables], pairs)

    def _passage(self, query: ConjunctiveQuery, atom: Atom) -> PassageLayout:
        base = self.bases[atom.source]
        places = {}
        for b in atom.bindings:
            column = base.column_of(b)
            places[b.variable] = self._stored(base, Computed(b.scalar, b.part), atom) if column is None else column
        number = base.filter_number(atom)
        flag = self.flags[base.table, number]["flag"] if number >= 0 else -1
        return PassageLayout(query, atom.source, base.table, number, flag, places)

    def _leaf(self, query: str, plan: Plan, atom: Atom, number: int, variables: tuple[str, ...]) -> None:
        base = self.bases[atom.source]
        row = self.nodes[number]
        bound = {b.variable: b for b in atom.bindings}
        columns = {v: base.column_of(bound[v]) for v in variables}
        shared = self._is_shared(query, plan, base, columns, output=bool(row["output"]))
        sources = []
        for v, column in columns.items():
            value = Computed(bound[v].scalar, bound[v].part)
            if column is None:
                column = self._stored(base, value, atom) if shared else -base.computed_number(value, atom) - 1
            sources.append(column)
        row["filter"] = base.filter_number(atom)
        row["source"] = self._list(sources)
        if shared:
            row["table"] = base.table
        else:
            table = self._table(len(variables), len(variables))
            row["table"] = table
            self.tables[table]["mult"] = self.fields[table].wide()
            self._narrow(table, self.tables[table], "refs")
        if not shared or atom.filters:
            self._narrow(base.table, row, "leaf_row")
        base.leaves.append(Leaf(query, number, atom, row["filter"]))
        self.leaf_tables[number] = base.table

    def _is_shared(
        self, tree: str, plan: Plan, base: BaseLayout, columns: Mapping[str, int | None], *, output: bool
    ) -> bool:
        """Whether a leaf uses the base rows instead of its own table.

        In a result, rows must be distinct. A relation sums up its feeds, so there a leaf has its own table only if many
        rows may be equal: if it binds no column of the key.
        """
        found, identifying = set(columns.values()), range(len(base.relation.key) or len(base.order))
        if None not in found and found.issuperset(identifying):
            return True
        if tree not in self.feeding or plan.query.semantics == "set":
            return False
        return not output or any(column in found for column in range(len(base.relation.key)))

    def _edge(self, plan: Plan, parent: int, node: Node, child: int, below: Node, *, waits: bool) -> None:
        row = self.nodes[child]
        table, above = row["table"], self.nodes[parent]["table"]
        shared = [v for v in node.variables if v in below.vars]
        row["parent"] = parent
        row["guard"] = int(below.guards(node))
        row["key"] = len(shared)
        row["project"] = self._list([self._position(child, v) for v in shared])
        if row["guard"]:
            group = above
        else:
            group = self._table(len(shared), len(shared))
            row["reader_project"] = self._list([node.variables.index(v) for v in shared])
            self._narrow(group, self.tables[group], "refs")
            self._narrow(above, row, "reads")
            if not below.comparisons:
                self._narrow(group, row, "reader_head")
                self._narrow(above, row, "reader_next")
                self._narrow(above, row, "reader_prev")
        row["group"] = row["list_table"] = group
        row["own"] = row["guard"]
        row["sums"] = self.fields[group].wide(row["width"])
        self._narrow(table, row, "gid")
        if row["output"]:
            self._narrow(table, row, "next")
            self._narrow(table, row, "prev")
            self._narrow(group, row, "head")
        if row["waiting"] >= 0:
            self._wait(child)
        if below.comparisons:
            self._ranges(plan, parent, child, below, waits=waits)

    def _wait(self, node: int) -> None:
        """Keep the groups of waiting readers in the order of their key, and where those of them begin that are live."""
        row = self.nodes[node]
        row["note"] = self.fields[row["table"]].wide(row["width"])
        row["tree"], row["pending"] = self.nodes[row["waiting"]]["readers"], 0
        self._narrow(row["group"], row, "root")
        self._narrow(row["table"], row, "noted")
        described = self.ordered[row["tree"]]
        self.ordered[row["tree"]] = replace(described, payload=LANES, place=row["note"], width=row["width"])
        if row["output"]:
            self._narrow(row["group"], row, "begin")
            self._narrow(row["group"], row, "end")

    def _ranges(self, plan: Plan, parent: int, child: int, below: Node, *, waits: bool) -> None:
        """Keep the groups of a compared child in order, and what each row of the parent reads in its record.

        Where readers wait, they are the rows of groups in order themselves (`_wait`).
        """
        row, above = self.nodes[child], self.nodes[parent]["table"]
        edge = ranges_of(plan.query, self.variables[parent], below)
        kind = plan.query.variable(edge.variable).type
        order = self._added_order(plan, parent, child) or [VariableOrder(edge.variable)]
        assert order[0] == VariableOrder(edge.variable), "a range is read in its order"
        words = row["width"] if row["degree"] else 1
        row["note"] = self.fields[row["table"]].wide(words)
        self._keep_in_order(plan, child, order, row["width"])
        row["readers"], row["pending"] = len(self.ordered), 0
        readers = [OrderKey(edge.bounds[0].position, False, True)]
        self._label(0, kind)
        self.ordered.append(TreeDescription(above, UNIT, -1, 0, -1, tuple(readers), edge.bounds))
        self._narrow(row["table"], row, "noted")
        row["list_table"], row["own"] = above, 1
        if waits:
            self.nodes[parent]["waiting"], row["waits"] = child, 1
            return
        self._narrow(row["group"], row, "readers_root")
        row["total"] = self.fields[above].wide(row["width"])
        self._narrow(above, row, "begin")
        self._narrow(above, row, "end")

    def _label(self, key: int, kind: Type) -> None:
        """Register a key of the next tree if it is an id, which is compared by its label."""
        if needs_labels(kind):
            self.labelled.append(Labelled(len(self.ordered), key, kind.name))

    def _remember(self, node: int) -> None:
        """Make room in each row for its old multiplicity, and in its readers for their new range sums."""
        row = self.nodes[node]
        assert row["tree"] < 0 or row["readers"] >= 0, "what feeds relations has no order"
        # What a base row is in one tree, it keeps beside what it is in others: a lane less may be a cache line less.
        row["old"] = self.fields[row["table"]].wide(2 if row["degree"] else 1)
        self._narrow(row["table"], row, "changed")
        if row["readers"] >= 0:
            for place in ("told", "new_begin", "new_end"):
                self._narrow(row["list_table"], row, place)

    def _added_order(self, plan: Plan, parent: int, child: int) -> list[VariableOrder]:
        """Return the order of the variables that a child adds to its parent's."""
        added = set(self.variables[child]) - set(self.variables[parent])
        return [o for o in plan.order if o.variable in added]

    def _keep_in_order(self, plan: Plan, child: int, order: Sequence[VariableOrder], width: int) -> None:
        """Make the groups of a child order-statistic trees."""
        row = self.nodes[child]
        # NULL is the smallest value in either direction, unless the query says otherwise.
        firsts = [not o.descending if o.nulls_first is None else o.nulls_first for o in order]
        keys = [
            OrderKey(self._position(child, o.variable), o.descending, first)
            for o, first in zip(order, firsts, strict=True)
        ]
        for i, o in enumerate(order):
            self._label(i, plan.query.variable(o.variable).type)
        table, payload = row["table"], UNIT if row["clamp"] else LANES if row["degree"] else COUNT
        place = row["note"] if row["note"] >= 0 else row["value"]
        if payload == COUNT and row["note"] < 0:
            # The multiplicities of a batch are known before the first of its rows comes into a tree.
            place = row["value"] = self.fields[table].wide()
        row["tree"] = len(self.ordered)
        self._narrow(row["group"], row, "root")
        self.ordered.append(TreeDescription(table, payload, place, width, -1, tuple(keys)))

    def _position(self, node: int, variable: str) -> int:
        """Return the index of a variable in the codes of the node's table."""
        at = self.variables[node].index(variable)
        if self.nodes[node]["table"] == self.leaf_tables.get(node):
            return self.lists[self.nodes[node]["source"] + at]
        return at

    def _levels(self, plan: Plan, root: int) -> tuple[tuple[int, ...], tuple[bool, ...], dict[str, Place]]:
        """Return the output set below the root, parents first, and where each head variable is first read.

        In preorder; siblings without new variables first, so that their one row is found once, and ranges last, as they
        are long and overlap. If there is an order, levels are sorted by the position of their last variable in it.
        """
        levels: list[int] = []
        todo = [root]
        while todo:
            n = todo.pop()
            if n != root:
                levels.append(n)
            row = self.nodes[n]
            children = self.lists[row["children"] : row["children"] + row["degree"]]
            siblings = [c for c in children if self.nodes[c]["output"]]
            siblings.sort(key=lambda c, n=n: self._place_among_siblings(c, n))  # type: ignore[misc]
            todo += reversed(siblings)
        if plan.order:
            rank = {o.variable: i for i, o in enumerate(plan.order)}
            # The sort is stable, and no variable of a parent comes after the child's last one.
            levels.sort(key=lambda n: max((rank[v] for v in self.variables[n]), default=-1))
        places: dict[str, Place] = {}
        for i, n in enumerate(levels):
            for v in self.variables[n]:
                places.setdefault(v, Place(i, self._position(n, v)))
        return tuple(levels), tuple(bool(self.nodes[n]["frontier"]) for n in levels), places

    def _place_among_siblings(self, child: int, parent: int) -> tuple[bool, bool]:
        is_new = not set(self.variables[child]) <= set(self.variables[parent])
        return self.nodes[child]["readers"] >= 0, is_new

    def _path(self, node: int) -> tuple[int, ...]:
        """Return the tables in which a new row of this leaf may create rows: its own and all above it."""
        tables: set[int] = set()
        n = node
        while n >= 0:
            row = self.nodes[n]
            if n != node or row["table"] != self.leaf_tables[node]:
                tables.add(row["table"])
            if row["group"] >= 0:
                tables.add(row["group"])
            for c in self.lists[row["children"] : row["children"] + row["degree"]]:
                if not self.nodes[c]["guard"]:
                    tables.add(self.nodes[c]["group"])
            n = row["parent"]
        return tuple(sorted(tables))
