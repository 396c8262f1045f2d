"""What a query costs: one object for the whole program, whatever its steps are.

    update   the costliest change of a row, through all steps (`change_cost`)
    delay    from one row of the result to the next
    count    the number of rows
    jth      the row at a position; `rank`: the position of a row
    test     whether, and how often, the result has a row
    diff     what came and went since a version
    space    the base tables, and every relation between the trees

A bound is in n, the number of base rows. Hash tables are taken to find a row in O(1). What a query is not kept for
(`keep: test`, `keep: rows`) has the bound "not kept".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dynq_cli.plan.change_cost import ChangeCost, Costs
from dynq_cli.plan.heavy_pairs import pairs_space
from dynq_cli.plan.multi_tree_cost import count_of, delay_of, positions_of, read_together
from dynq_cli.plan.program import (
    Cycle,
    Derived,
    Feed,
    Lookups,
    Partitions,
    Program,
    Together,
    Tree,
    passed_rows,
    variables_of,
)
from dynq_cli.query.normal_form import ConjunctiveQuery
from dynq_cli.spec.model import Keep, Spec


@dataclass(frozen=True)
class Guarantee:
    """A bound in n, the number of base rows, and what it means for this query."""

    bound: str
    meaning: str


NOT_KEPT = "not kept"


@dataclass(frozen=True)
class Guarantees:
    update: Guarantee
    delay: Guarantee
    count: Guarantee
    jth: Guarantee
    space: Guarantee
    test: Guarantee
    rank: Guarantee
    diff: Guarantee

    def items(self) -> tuple[tuple[str, Guarantee], ...]:
        return tuple(vars(self).items())


@dataclass(frozen=True)
class AtomCost:
    """What a changed row of one atom of a tree costs, there and in the steps after it."""

    atom: str
    bound: str
    meaning: str


@dataclass(frozen=True)
class ProgramCost:
    """`strategy` names what is kept beside trees; `changes` are per relation, `updates` per atom.

    `steps` are in words, none if one tree is all there is.
    """

    strategy: str
    guarantees: Guarantees
    changes: tuple[ChangeCost, ...]
    updates: tuple[AtomCost, ...]
    steps: tuple[str, ...]


def program_cost(program: Program, spec: Spec) -> ProgramCost:
    """What a program promises, and how it does it."""
    return _Program(program, spec).cost()


def stored_result(program: Program) -> Derived | None:
    """The relation that holds the rows of the result, if one does."""
    last = program.result
    if not isinstance(last, Tree) or len(last.plan.query.atoms) != 1:
        return None
    (atom,) = last.plan.query.atoms
    return next((s for s in program.steps if isinstance(s, Derived) and s.name == atom.source), None)


class _Program:
    def __init__(self, program: Program, spec: Spec) -> None:
        self.program = program
        written = spec.query(program.result.name)
        self.keep: Keep = "all" if written is None else written.keep
        self.costs = Costs(program, spec)
        self.trees = self.costs.trees
        self.passed = passed_rows(program.steps)
        self.derived = [s for s in program.steps if isinstance(s, Derived) and s.name not in self.passed]
        # By relation: whether it has no more rows than the base tables together.
        self.linear: dict[str, bool] = {r.name: True for r in spec.relations}
        for step in (s for s in program.steps if isinstance(s, Derived)):
            self.linear[step.name] = all(self._is_linear(step, feed) for feed in step.feeds)
        self.changes = self.costs.by_relation()

    def cost(self) -> ProgramCost:
        jth, rank = self._positions()
        return ProgramCost(
            self._strategy(),
            Guarantees(
                update=self._update(),
                delay=self._delay(),
                count=self._count(),
                jth=jth,
                space=self._space(),
                test=self._test(),
                rank=rank,
                diff=self._diff(),
            ),
            self.changes,
            tuple(AtomCost(f"{tree}: {a.brief}", c.bound, c.meaning) for tree, a, c in self.costs.by_atom()),
            tuple(self._steps()) if len(self.program.steps) > 1 else (),
        )

    def _strategy(self) -> str:
        """View trees, and what is stored beside them.

        `lookups`: trees in which a row is looked up, and from which nothing else is read.

        `+join`: relations between trees that may be larger than the base tables. `+projection`: the rows of the result.
        `+groups`: the groups that are the result. `union`: the rows of several queries, read from their trees.
        `union+table`: such rows, stored. `delta-join`: the rows of a cycle's atoms, in lists by their ends.
        `ivm-epsilon`: these, and sums over pairs of heavy values.
        """
        if isinstance(self.program.result, Lookups):
            return "lookups"
        result = stored_result(self.program)
        if isinstance(self.program.result, Together) and not self.program.result.is_filtered:
            return "union"
        if result is not None and result.groups is None and len({f.tree for f in result.feeds if f.sign == 1}) > 1:
            return "union+table"
        is_joined = any(step is not result and not self.linear[step.name] for step in self.derived)
        cycles = [step for step in self.program.steps if isinstance(step, Cycle)]
        if cycles:
            return "ivm-epsilon" if all(step.pairs for step in cycles) else "delta-join"
        words = ["view-tree", *(["join"] if is_joined else [])]
        if result is not None:
            words.append("projection" if result.groups is None else "groups")
        return "+".join(words)

    def _update(self) -> Guarantee:
        worst = max(self.changes, key=lambda c: (c.exponent, c.is_ordered), default=None)
        if worst is None:
            return Guarantee("O(1)", "nothing changes the result")
        if not worst.exponent:
            where = "one row per level of each tree" if len(self.trees) > 1 else "one row per level of the tree"
            how = ", found in or put into an ordered tree" if worst.is_ordered else ""
            return Guarantee(worst.bound, f"a change touches {where}{how}, however large the data and the result are")
        heavy = [c.relation for c in self.changes if c.bound == worst.bound]
        return Guarantee(worst.bound, f"a change of {_either(heavy)} can touch many rows; see changes")

    @property
    def _is_one_row(self) -> bool:
        last = self.program.result
        if self.program.form.is_boolean:
            return True
        one_row = {d.name for d in self.derived if d.groups is not None and not d.groups.keys}
        return isinstance(last, Tree) and all(a.source in one_row for a in last.plan.query.atoms)

    def _delay(self) -> Guarantee:
        last = self.program.result
        if isinstance(last, Lookups):
            return _not_kept("enum")
        if isinstance(last, Together):
            return Guarantee(*delay_of(last))
        if stored_result(self.program) is not None:
            return Guarantee("O(1)", "the rows of the result are stored and read one by one")
        if isinstance(last, Tree) and any(node.output for node in self.costs.waiting(last)):
            return Guarantee("O(1)", "amortised, and O(log n) at most: where a range ends is found from the one before")
        return Guarantee("O(1)", "every step of the enumeration yields a row of the result")

    def _count(self) -> Guarantee:
        last = self.program.result
        if isinstance(last, Lookups):
            return _not_kept("count")
        if isinstance(last, Together):
            return Guarantee(*count_of(last))
        result = stored_result(self.program)
        what = "groups" if result is not None and result.groups is not None else "rows"
        return Guarantee("O(1)", f"the number of {what} is kept with every version")

    def _positions(self) -> tuple[Guarantee, Guarantee]:
        """The row at a position, and the position of a row."""
        last = self.program.result
        if isinstance(last, Lookups) or self.keep != "all":
            return (_not_kept("jth", self.keep), _not_kept("rank", self.keep))
        if self._is_one_row:
            return (Guarantee("O(1)", "the result has at most one row"),) * 2
        if isinstance(last, Together):
            at, of = positions_of(last)
            return Guarantee(*at), Guarantee(*of)
        if last.plan.order:
            return (
                Guarantee("O(log n)", "one descent of a counted tree per column of the order"),
                Guarantee("O(log n)", "the rows before it are counted by one descent per column of the order"),
            )
        is_stored = stored_result(self.program) is not None
        way = "walks the table" if is_stored else "walks the first level and skips whole subtrees by their counts"
        return (
            Guarantee("O(n)", f"{way}; order_by makes it O(log n)"),
            Guarantee("O(n)", "as jth, up to the row; order_by makes it O(log n)"),
        )

    def _test(self) -> Guarantee:
        last, form = self.program.result, self.program.form
        if isinstance(last, Lookups):
            many = len(last.trees)
            return Guarantee("O(1)", f"a row is looked up in {many} tree{'s' if many > 1 else ''}")
        shown = {v for c in form.columns for v in variables_of(c)}
        hidden = [v for v in form.head if v not in shown]
        if hidden and not self._is_one_row:
            said = " and ".join(hidden)
            return Guarantee(
                "O(n)", f"{said} {'is' if len(hidden) == 1 else 'are'} not selected: rows that look alike are walked"
            )
        if isinstance(last, Together):
            return Guarantee("O(1)", f"a row is looked up in {len(last.read)} tree{'s' if len(last.read) > 1 else ''}")
        return Guarantee("O(1)", "one row per level of the tree is looked up")

    def _diff(self) -> Guarantee:
        last = self.program.result
        if isinstance(last, Lookups):
            return _not_kept("diff")
        where = f" in {' and '.join(m.tree for m in last.read)}" if isinstance(last, Together) else ""
        return Guarantee(
            "O(|Δ|)", f"Δ are the rows that came or went{where}; since a mark, the changes since are taken back first"
        )

    def _space(self) -> Guarantee:
        if not self.derived:
            return Guarantee("O(n)", "the views are as large as the base tables; the result is never stored")
        larger = [s.relation.name for s in self.derived if not self.linear[s.relation.name]]
        bound = f"O({' + '.join(['n', *(f'|{name}|' for name in larger)])})"
        names = " and ".join(s.relation.name for s in self.derived)
        limit = ", within the budget of max_view_rows" if larger else ", no larger than the base tables"
        cycles = [step for step in self.program.steps if isinstance(step, Cycle)]
        sources = list(dict.fromkeys(a.source for step in cycles for a in step.query.atoms))
        lists = f"; those of {_both(sources)} are in a list per value of each end" if sources else ""
        for pairs in dict.fromkeys(step.pairs.epsilon for step in cycles if step.pairs is not None):
            lists += f"; pairs of values with n^{pairs} rows or more, O({pairs_space(pairs)}), are summed up"
        return Guarantee(bound, f"the rows of {names} are stored{limit}{lists}")

    def _is_linear(self, step: Derived, feed: Feed) -> bool:
        query = self.costs.queries[feed.tree]
        held = step.kept_variables(feed)
        return not held or any(held <= a.variables and self.linear[a.source] for a in query.atoms)

    def _steps(self) -> Iterator[str]:
        for step in self.program.steps:
            if isinstance(step, Derived):
                said = ", passed on as they come and go" if step.name in self.passed else ""
                yield f"{_derived(step)}{said}"
            elif isinstance(step, Together):
                yield read_together(step)
            elif isinstance(step, Lookups):
                yield _looked_up(step)
            elif isinstance(step, Cycle):
                how = "are joined with the shortest lists they meet"
                if step.pairs is not None:
                    heavy = f"values with n^{step.pairs.epsilon} rows or more"
                    how = f"meet the sums over pairs of {heavy}, or the shorter list"
                yield f"cycle {_brief(step.query)}: rows that come or go {how}"
            elif step.name in self.costs.passages:
                yield f"rows {_brief(step.plan.query)}, passed on as they come and go, without a table of their own"
            else:
                yield f"tree {_brief(step.plan.query)}{_ranges(step.plan.query)}"


def _not_kept(verb: str, keep: Keep = "test") -> Guarantee:
    return Guarantee(NOT_KEPT, f"`keep: {keep}` does not serve `dynq {verb}`")


def _looked_up(step: Lookups) -> str:
    """The step in words."""
    said = []
    for alternative in step.alternatives:
        words = {"copies": "", "present": "there in ", "absent": "not in "}
        inside = [f"{words[each.counts]}{each.tree}" for each in alternative.lookups]
        said.append(" and ".join([*inside, *map(str, alternative.where)]))
    return f"a row of {step.name} is looked up: it is in {'; or in '.join(said)}"


def places_of(partitions: Partitions) -> str:
    """Which rows of partitions a relation has, or what is computed from them."""
    per = f"per {', '.join(partitions.keys)}, " if partitions.keys else ""
    order = f"in the order of {', '.join(map(str, partitions.order))}"
    if partitions.functions:
        made = ", ".join(f"{f.name} = {f.sql}" for f in partitions.functions)
        again = "each partition that a change touches"
        if partitions.reach is not None:
            again = f"the {partitions.reach} rows on either side of each that changes"
        return f"{per}{order}: {made}, computed again for {again}"
    behind = f" behind the first {partitions.offset}" if partitions.offset else ""
    rows = "all rows" if partitions.limit is None else f"the first {partitions.limit} rows"
    return f"{per}{rows}{behind} {order}"


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _both(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _brief(query: ConjunctiveQuery) -> str:
    atoms = ", ".join(a.brief for a in query.atoms)
    return f"{query.name} :- {atoms}"


def _ranges(query: ConjunctiveQuery) -> str:
    """The comparisons that a tree keeps on its edges."""
    return f", in ranges by {' and '.join(map(str, query.comparisons))}" if query.comparisons else ""


def _derived(step: Derived) -> str:
    fed: dict[str, list[str]] = {}
    for feed in step.feeds:
        where = f" where {' and '.join(map(str, feed.where))}" if feed.where else ""
        fed.setdefault("all" if feed.sign == 1 else "less", []).append(f"{feed.tree}{where}")
    source = " and ".join(fed.get("all", []))
    if "less" in fed:
        source += f" without those of {' and '.join(fed['less'])}"
    if step.partitions is not None:
        columns = ", ".join(c.name for c in step.columns)
        return f"relation {step.relation.name}({columns}), {places_of(step.partitions)}; from the rows of {source}"
    if step.groups is None:
        return f"relation {step.relation.name}({', '.join(c.name for c in step.columns)}), the rows of {source}"
    keys = ", ".join(step.groups.keys)
    per = f"per {keys}" if keys else "over all"
    made = ", ".join(f"{m.aggregate.name} = {m.aggregate.function}" for m in step.groups.measures)
    return f"relation {step.relation.name}, {per}: {made}; from the rows of {source}"
