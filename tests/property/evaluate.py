"""Queries and view trees evaluated by their equations, one row at a time.

`joined` is the query's meaning: all combinations of rows. `views` and `enumerated` are the tree's: value
and sum as `plan.view_tree` states them, and nested loops through the output set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from dynq_cli.plan.view_tree import Node
from dynq_cli.query.normal_form import Comparison
from tests.property.cases import Case

Row = tuple[int, ...]
Binding = Mapping[str, int]
# One multiset per atom, with the columns in the order of the atom's letters.
Data = tuple[tuple[tuple[Row, int], ...], ...]


@dataclass(frozen=True)
class Instance:
    """A query, data for it, and how each atom takes part: `join`, `semi` or `anti`."""

    case: Case
    data: Data
    modes: tuple[str, ...]

    def smaller(self) -> Iterator[Instance]:
        for i, rows in enumerate(self.data):
            for j in range(len(rows)):
                yield replace(self, data=(*self.data[:i], rows[:j] + rows[j + 1 :], *self.data[i + 1 :]))
        for i in range(len(self.case.comparisons)):
            left = self.case.comparisons[:i] + self.case.comparisons[i + 1 :]
            yield replace(self, case=replace(self.case, comparisons=left))


def random_data(random: Random, case: Case, rows: int = 9) -> Data:
    """Parts of a few whole bindings, so that wide atoms join too, among random rows."""
    values = random.choice((2, 3, 4))
    whole = [{v: random.randrange(values) for v in case.variables} for _ in range(rows)]
    data = []
    for atom in case.atoms:
        parts = {tuple(binding[v] for v in atom) for binding in whole if random.random() < 0.7}
        noise = {tuple(random.randrange(values) for _ in atom) for _ in range(random.randint(0, rows // 2))}
        data.append(tuple((row, random.choice((1, 1, 2, 3))) for row in sorted(parts | noise)))
    return tuple(data)


def holds(c: Comparison, binding: Binding) -> bool:
    left, right = binding[c.left], binding[c.right] + int(c.offset)
    return {"<": left < right, "<=": left <= right, "!=": left != right}[c.op]


def joined(instance: Instance) -> Counter[Row]:
    """The result by definition: every combination of rows that agrees, tested atoms looked up for each."""
    case, comparisons = instance.case, instance.case.graph.comparisons
    joins = [i for i, mode in enumerate(instance.modes) if mode == "join"]
    result: Counter[Row] = Counter()

    def extend(left: list[int], binding: dict[str, int], count: int) -> None:
        if left:
            for row, multiplicity in instance.data[left[0]]:
                extended = dict(binding)
                if _bind(extended, case.atoms[left[0]], row):
                    extend(left[1:], extended, count * multiplicity)
        elif _all_hold(comparisons, binding) and all(_passes(instance, i, binding) for i in range(len(case.atoms))):
            result[tuple(binding[v] for v in case.head)] += count

    extend(joins, {}, 1)
    return result


def _passes(instance: Instance, atom: int, binding: dict[str, int]) -> bool:
    if instance.modes[atom] == "join":
        return True
    found = False
    for row, _ in instance.data[atom]:
        extended = dict(binding)
        if _bind(extended, instance.case.atoms[atom], row):
            found = found or _all_hold(instance.case.graph.comparisons, extended)
    return found == (instance.modes[atom] == "semi")


def _bind(binding: dict[str, int], variables: Iterable[str], row: Row) -> bool:
    return all(binding.setdefault(v, value) == value for v, value in zip(variables, row, strict=True))


def _all_hold(comparisons: Iterable[Comparison], binding: Binding) -> bool:
    """Whether every comparison holds that has both its variables bound."""
    return all(holds(c, binding) for c in comparisons if c.variables <= binding.keys())


class Views:
    """The rows of every node of a tree with their values."""

    def __init__(self, tree: Node, instance: Instance) -> None:
        self.instance = instance
        self.rows: dict[int, dict[Row, int]] = {}
        self._fill(tree)

    def _fill(self, node: Node) -> None:
        for child in node.children:
            self._fill(child)
        if node.atom is not None:
            self.rows[id(node)] = self._leaf(node, node.atom)
            return
        if node.kind == "join":
            self.rows[id(node)] = dict(self._join(node))
            return
        guard = next(c for c in node.children if c.guards(node) and self._mode(c) == "join")
        candidates = {project(guard.variables, row, node.variables) for row in self.rows[id(guard)]}
        values = {row: self._value(node, row) for row in candidates}
        self.rows[id(node)] = {row: value for row, value in values.items() if value}

    def _join(self, node: Node) -> Counter[Row]:
        """All combinations of the children's rows that agree and satisfy what they are joined by."""
        found: Counter[Row] = Counter()

        def extend(left: Sequence[Node], binding: dict[str, int], count: int) -> None:
            if not left:
                if all(holds(c, binding) for c in node.joined_by):
                    found[tuple(binding[v] for v in node.variables)] += count
                return
            for row, value in self.rows[id(left[0])].items():
                extended = dict(binding)
                if _bind(extended, left[0].variables, row):
                    extend(left[1:], extended, count * value)

        extend(node.children, {}, 1)
        return found

    def _leaf(self, node: Node, atom: int) -> dict[Row, int]:
        """The atom's rows that pass the comparisons within it."""
        letters = self.instance.case.atoms[atom]
        kept = {}
        for row, multiplicity in self.instance.data[atom]:
            if _all_hold(self.instance.case.graph.comparisons, dict(zip(letters, row, strict=True))):
                kept[project(letters, row, node.variables)] = multiplicity
        return kept

    def _mode(self, node: Node) -> str:
        return "join" if node.atom is None else self.instance.modes[node.atom]

    def _value(self, node: Node, row: Row) -> int:
        value = 1
        for child in node.children:
            total = sum(self.rows[id(child)][s] for s in self.matching(node, row, child))
            mode = self._mode(child)
            value *= total if mode == "join" else int((total > 0) == (mode == "semi"))
        return value

    def matching(self, node: Node, row: Row, child: Node) -> Iterator[Row]:
        """The child's rows that agree with a row of its parent and satisfy the comparisons on the edge."""
        above = dict(zip(node.variables, row, strict=True))
        for below in sorted(self.rows[id(child)]):
            binding = dict(above)
            if _bind(binding, child.variables, below) and all(holds(c, binding) for c in child.comparisons):
                yield below


def project(variables: Iterable[str], row: Row, onto: Iterable[str]) -> Row:
    binding = dict(zip(variables, row, strict=True))
    return tuple(binding[v] for v in onto)


def enumerated(tree: Node, views: Views, head: Sequence[str], order: Sequence[str] = ()) -> list[tuple[Row, int]]:
    """Result rows with multiplicities, by nested loops through the output set.

    With an order, the loops nest as the nodes bring in its variables, each loop in that order. Asserts that
    every step of a loop yields a result row: no dead ends.
    """
    steps = list(_output_nodes(tree, None))
    if order:
        steps.sort(key=lambda step: _first_new(step, order))
    found: list[tuple[Row, int]] = []

    def loop(i: int, binding: dict[str, int], chosen: dict[int, Row], count: int) -> None:
        if i == len(steps):
            found.append((tuple(binding[v] for v in head), count))
            return
        node, parent = steps[i]
        if parent is None:
            rows = iter(sorted(views.rows[id(node)]))
        else:
            rows = views.matching(parent, chosen[id(parent)], node)
        by_order = sorted(rows, key=lambda row: project(node.variables, row, [v for v in order if v in node.vars]))
        assert by_order or parent is None, f"a dead end at {node!r}"
        for row in by_order:
            below = dict(binding)
            assert _bind(below, node.variables, row), f"{node!r} disagrees with a node that is not its parent"
            frontier = not any(c.output for c in node.children)
            loop(i + 1, below, {**chosen, id(node): row}, count * (views.rows[id(node)][row] if frontier else 1))

    loop(0, {}, {}, 1)
    return found


def _output_nodes(node: Node, parent: Node | None) -> Iterator[tuple[Node, Node | None]]:
    yield node, parent
    for child in node.children:
        if child.output:
            yield from _output_nodes(child, node)


def _first_new(step: tuple[Node, Node | None], order: Sequence[str]) -> int:
    """Where a node's first variable that its parent lacks stands in the order; without one, where the parent is."""
    node, parent = step
    above = parent.vars if parent is not None else frozenset()
    new = [order.index(v) for v in node.vars - above]
    return min(new) if new else max((order.index(v) for v in node.vars), default=-1)
