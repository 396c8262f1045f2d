"""Where no tree exists for the query as it is, atoms joined first and larger heads still give its result."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dynq_cli.plan import materialise as materialise_module
from dynq_cli.plan.free_connex_extension import extensions
from dynq_cli.plan.materialise import merge
from dynq_cli.plan.search import Search
from dynq_cli.query.hypergraph import Hypergraph
from dynq_cli.query.reduction import is_acyclic, is_free_connex
from tests.property.cases import Case, fuzz, random_case
from tests.property.evaluate import Instance, Row, Views, enumerated, joined, project, random_data
from tests.property.test_trees import with_tests


def graph_of(instance: Instance) -> Hypergraph:
    plain = instance.case.graph
    return Hypergraph(plain.edges, plain.comparisons, plain.free, tuple(m != "join" for m in instance.modes))


def check_result(instance: Instance) -> None:
    """The tree is well formed, and its result, projected to the head, is the query's."""
    start = instance.case.search()
    graph, leaves = graph_of(instance), tuple(start.leaves)
    if not is_acyclic(graph):
        merged = merge(graph, start.weights, start.rank)
        graph, leaves = merged.graph, merged.leaves
    if not is_free_connex(graph):
        graph = graph.with_free(graph.free.union(next(iter(extensions(graph)))))
    tree = Search(graph, leaves, start.weights, start.rank).run()
    assert tree is not None
    tested = frozenset(i for i, mode in enumerate(instance.modes) if mode != "join")
    tree._check(instance.case.graph.edges, instance.case.graph.comparisons, graph.free, tested)
    head = sorted(graph.free)
    found: Counter[Row] = Counter()
    for row, count in enumerated(tree, Views(tree, instance), head):
        found[project(head, row, instance.case.head)] += count
    assert found == joined(instance), f"another result:\n{tree!r}"


def hard(instance: Instance | None) -> Instance | None:
    """Only queries that have no tree of their own."""
    return None if instance is None or is_free_connex(graph_of(instance)) else instance


def random_instance(random: Random) -> Instance | None:
    case = random_case(random, atoms=4)
    return hard(Instance(case, random_data(random, case, rows=6), ("join",) * len(case.atoms)))


def test_hard_queries_get_their_result_from_joined_atoms_and_larger_heads() -> None:
    fuzz(400, random_instance, check_result)


def test_hard_queries_with_atoms_that_are_only_looked_up_do_too() -> None:
    fuzz(150, lambda random: hard(with_tests(random)), check_result)


@pytest.mark.parametrize("mode", ["semi", "anti"])
def test_comparisons_with_a_row_that_is_only_looked_up_say_nothing_about_the_rows_joined(mode: str) -> None:
    compared = (("d", "<=", "b"), ("c", "<=", "d"), ("d", "<=", "a"))
    case = Case(("ac", "bc", "ab", "d"), "", compared)
    for seed in range(100):
        check_result(Instance(case, random_data(Random(seed), case), ("semi", "join", "join", mode)))


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        pytest.param("within", lambda graph, bounds, group: (), id="forgets the comparisons within a group"),
        pytest.param("is_acyclic", lambda graph: True, id="joins nothing"),
    ],
)
def test_a_broken_join_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, broken: object) -> None:
    monkeypatch.setattr(materialise_module, name, broken)
    assert any(is_noticed(Random(seed)) for seed in range(1500))


def is_noticed(random: Random) -> bool:
    instance = random_instance(random)
    if instance is None:
        return False
    try:
        check_result(instance)
    except (AssertionError, StopIteration):
        return True
    return False
