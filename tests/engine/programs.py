"""Programs made by hand: trees from SQL over relations and over what other trees feed, and random ones.

`stepped` keeps a drawn query in more steps than it needs, so that what its tree passes on is what is read.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import Derived, Feed, Program, Step, Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery
from dynq_cli.spec.model import Column, QuerySpec, Relation, Semantics, Spec, Text
from tests.engine.random_queries import Drawn


class Steps:
    """Steps in the making; SQL names the relations of the spec and those derived before."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.made: list[Step] = []

    def tree(self, name: str, sql: str, semantics: Semantics | None = None) -> Tree:
        written = QuerySpec(name, "sql", (Text(sql, "spec.yaml", ((0, 1, 1),)),), semantics)
        plan = plan_query(compile_query(self.spec, written), self.spec)
        assert isinstance(plan, Plan) and plan.strategy == "view-tree", plan
        return self.add(Tree(name, plan))

    def add(self, tree: Tree) -> Tree:
        self.made.append(tree)
        return tree

    def derived(self, name: str, first: Tree, *others: Feed, budget: int | None = None, **change: object) -> Relation:
        """A relation with the output columns of a tree, fed by it and by others."""
        query = first.plan.query
        columns = tuple(Column(c.name, query.variable(c.source).type, c.nullable) for c in query.columns)
        feed = replace(feed_of(first), **change)  # type: ignore[arg-type]
        relation = Relation(name, columns)
        self.made.append(Derived(relation, columns, (feed, *others), None, budget))
        self.spec = replace(self.spec, relations=(*self.spec.relations, relation))
        return relation

    def program(self) -> Program:
        return Program(tuple(self.made))


def feed_of(tree: Tree) -> Feed:
    return Feed(tree.name, tuple(c.source for c in tree.plan.query.columns))


def stepped(drawn: Drawn, spec: Spec, chance: Random) -> Drawn:
    """A query made from a drawn one in several steps; one with constant columns, or steps already, stays as it is."""
    query = drawn.plan.query
    if not drawn.is_plain or any(c.kind != "variable" for c in query.columns):
        return drawn
    steps, view, oracle = Steps(spec), f"{drawn.name}/2", drawn.oracle
    inner = steps.add(Tree(f"{drawn.name}/1", drawn.plan))
    style = chance.choice(["same", "twice", "less", "part", "chain", "joined"])
    if style == "twice":
        steps.derived(view, inner, feed_of(inner))
        oracle = f"SELECT * FROM ({oracle}) UNION ALL SELECT * FROM ({oracle})"
    elif style == "less":
        steps.derived(view, inner, feed_of(inner), replace(feed_of(inner), sign=-1))
    else:
        steps.derived(view, inner)
    if not query.columns:
        return replace(drawn, program=_boolean(steps, query, view))
    columns, semantics = [f'a."{c.name}"' for c in query.columns], query.semantics
    if style == "part":
        columns = chance.sample(columns, min(len(columns), chance.randint(1, 3)))
        semantics = chance.choice(["bag", "set"])
    if style == "chain":
        above = steps.tree(f"{drawn.name}/3", f'SELECT {", ".join(columns)} FROM "{view}" AS a', semantics)
        steps.derived(f"{drawn.name}/4", above)
        oracle, view = f'WITH "{view}" AS ({oracle}) SELECT * FROM "{view}"', f"{drawn.name}/4"
    text = f'SELECT {"DISTINCT " * (semantics == "set")}{", ".join(columns)} FROM "{view}" AS a'
    if style == "joined":
        met = chance.choice(columns)
        text += f', "{view}" AS b WHERE {met} = b{met[1:]}'
    tree = steps.tree(drawn.name, text)
    return replace(drawn, oracle=f'WITH "{view}" AS ({oracle}) {text}', plan=tree.plan, program=steps.program())


def _boolean(steps: Steps, query: ConjunctiveQuery, view: str) -> Program:
    """Whether a relation without columns has its row."""
    outer = replace(query, atoms=(Atom(view, view, ()),), variables=())
    plan = plan_query(outer, steps.spec)
    assert isinstance(plan, Plan)
    steps.add(Tree(query.name, plan))
    return steps.program()
