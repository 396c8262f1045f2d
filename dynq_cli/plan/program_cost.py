"""What keeping a program costs, and its steps in words.

    update   what a change touches in every tree, and every row that comes or goes in a tree that feeds a relation
    space    the base tables, and every relation between the trees

A tree passes on one row per changed row where the variables of each atom, with what keys add to them, fix the head.
If all trees that feed do so, the relations add nothing to the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dynq_cli.plan.bounds import total
from dynq_cli.plan.change_cost import ChangeCost, Costs, change_costs
from dynq_cli.plan.choose import weights_of
from dynq_cli.plan.multi_tree_cost import of_together, read_together
from dynq_cli.plan.plan import Guarantee, Guarantees, Plan, UpdateCost
from dynq_cli.plan.program import Derived, Feed, Program, Together, Tree, passages
from dynq_cli.query.normal_form import ConjunctiveQuery
from dynq_cli.spec.model import Spec


@dataclass(frozen=True)
class Kept:
    """`changes` per relation, through all steps; `steps` in words, none if one tree is all there is."""

    guarantees: Guarantees
    updates: tuple[UpdateCost, ...]
    changes: tuple[ChangeCost, ...]
    steps: tuple[str, ...] = ()


def kept_of(program: Program, spec: Spec) -> Kept:
    """What a program promises, and how it does it."""
    last = program.result
    if len(program.steps) == 1 and isinstance(last, Tree):
        return Kept(last.plan.guarantees, last.plan.updates, change_costs(program, spec))
    return _Costs(program, spec).kept()


class _Costs:
    def __init__(self, program: Program, spec: Spec) -> None:
        self.program = program
        self.spec = spec
        self.trees = {s.name: s.plan for s in program.steps if isinstance(s, Tree)}
        self.passages = passages(program.steps)
        self.derived = [s for s in program.steps if isinstance(s, Derived)]
        # Groups are told apart by what they are grouped by.
        grouped = [replace(d.relation, key=d.groups.keys) for d in self.derived if d.groups]
        self.keyed = replace(spec, relations=(*spec.relations, *grouped))
        # By relation: whether it has no more rows than the base tables together.
        self.linear: dict[str, bool] = {r.name: True for r in spec.relations}
        for step in self.derived:
            self.linear[step.relation.name] = all(self._is_linear(step, feed) for feed in step.feeds)

    def kept(self) -> Kept:
        delay, count, jth = self._reading(self.program.result)
        return Kept(
            Guarantees(self._update(), delay, count, jth, self._space()),
            tuple(self._updates()),
            change_costs(self.program, self.spec),
            tuple(self._steps()),
        )

    def _reading(self, last: Tree | Together) -> tuple[Guarantee, Guarantee, Guarantee]:
        """Delay, count and jth."""
        if isinstance(last, Tree):
            jth = last.plan.guarantees.jth
            if all(a.source in self._one_row for a in last.plan.query.atoms):
                jth = Guarantee("O(1)", "the result has at most one row")
            return last.plan.guarantees.delay, last.plan.guarantees.count, jth
        return of_together(last)

    @property
    def _one_row(self) -> frozenset[str]:
        """The relations of at most one row."""
        return frozenset(d.name for d in self.derived if d.groups is not None and not d.groups.keys)

    def _feeding(self) -> dict[str, Plan]:
        return {f.tree: self.trees[f.tree] for d in self.derived for f in d.feeds}

    def _update(self) -> Guarantee:
        bounds = [plan.guarantees.update.bound for plan in self.trees.values()]
        if any(m.aggregate.function in ("min", "max") for d in self.derived if d.groups for m in d.groups.measures):
            bounds.append("O(log n)")
        wide = [name for name, plan in self._feeding().items() if not all(self._passes_one(plan))]
        if not self.derived:
            meaning = "a change touches one row per level of each tree"
            if total(bounds) not in ("O(1)", "O(log n)"):
                meaning = "that of the tree that costs most; see changes"
            return Guarantee(total(bounds), meaning)
        if not wide:
            meaning = "a change touches one row per level of each tree, and passes one on to the next"
            if total(bounds) not in ("O(1)", "O(log n)"):
                meaning = "that of the tree that costs most; a change passes one row on from tree to tree"
            return Guarantee(total(bounds), meaning)
        fed = " and ".join(f"in {name}{self._before_filters(name)}" for name in wide)
        meaning = f"Δ counts the rows that come or go {fed}: each of them updates a row of a relation"
        return Guarantee(total([*bounds, "O(|Δ|)"]), meaning)

    def _before_filters(self, tree: str) -> str:
        """What the rows of a tree are filtered by on their way into relations."""
        where = dict.fromkeys(str(c) for d in self.derived for f in d.feeds if f.tree == tree for c in f.where)
        return f" before {' and '.join(where)} filter{'' if len(where) > 1 else 's'} them" if where else ""

    def _passes_one(self, plan: Plan) -> Iterator[bool]:
        """For each atom, whether one changed row changes at most one row of the result."""
        query = plan.query
        keys = weights_of(query, self.keyed).keys
        for atom in query.atoms:
            fixed = atom.variables
            for _ in query.atoms:
                for other, key in zip(query.atoms, keys, strict=True):
                    if key is not None and key <= fixed:
                        fixed |= other.variables
            yield fixed >= frozenset(query.head)

    def _is_linear(self, step: Derived, feed: Feed) -> bool:
        query = self.trees[feed.tree].query
        held = frozenset(step.groups.keys if step.groups else feed.columns)
        return not held or any(held <= a.variables and self.linear[a.source] for a in query.atoms)

    def _space(self) -> Guarantee:
        if not self.derived:
            return Guarantee("O(n)", "the views are as large as the base tables; the result is never stored")
        larger = [s.relation.name for s in self.derived if not self.linear[s.relation.name]]
        bound = f"O({' + '.join(['n', *(f'|{name}|' for name in larger)])})"
        names = " and ".join(s.relation.name for s in self.derived)
        limit = ", within the budget of max_view_rows" if larger else ", no larger than the base tables"
        return Guarantee(bound, f"the rows of {names} are stored{limit}")

    def _updates(self) -> Iterator[UpdateCost]:
        """What changes of the spec's relations cost, atom by atom, in their tree and in the steps after it."""
        for name, atom, cost in Costs(self.program, self.spec).by_atom():
            yield UpdateCost(f"{name}: {atom.brief}", cost.bound, cost.meaning)

    def _steps(self) -> Iterator[str]:
        for step in self.program.steps:
            if isinstance(step, Derived):
                yield _derived(step)
            elif isinstance(step, Together):
                yield read_together(step)
            elif step.name in self.passages:
                yield f"rows {_brief(step.plan.query)}, passed on as they come and go, without a table of their own"
            else:
                yield f"tree {_brief(step.plan.query)}{_ranges(step.plan.query)}"


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
    if step.groups is None:
        return f"relation {step.relation.name}({', '.join(c.name for c in step.columns)}), the rows of {source}"
    keys = ", ".join(step.groups.keys)
    per = f"per {keys}" if keys else "over all"
    made = ", ".join(f"{m.aggregate.name} = {m.aggregate.function}" for m in step.groups.measures)
    return f"relation {step.relation.name}, {per}: {made}; from the rows of {source}"
