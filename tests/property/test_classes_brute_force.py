"""The classes agree with their definitions, on every small query and on thousands of random ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import pytest

from dynq_cli.plan.free_connex_extension import extensions
from dynq_cli.query import reduction
from dynq_cli.query.classify import classify
from dynq_cli.query.hypergraph import Edge, Hypergraph
from dynq_cli.query.reduction import NOTHING, Drop, State
from tests.property.cases import Case, fuzz, random_case, small_cases, subsets
from tests.property.definitions import (
    TreeSpace,
    free_connex_by_head_edge,
    has_join_tree,
    q_hierarchical,
    t_hierarchical,
)


def space_of(graph: Hypergraph, closed: bool = False, simple: bool = False) -> TreeSpace:
    return TreeSpace(graph.edges, [c.variables for c in graph.comparisons], closed, simple)


def check_all_heads(case: Case) -> None:
    space = space_of(case.graph)
    for head in subsets(case.variables):
        graph = case.graph.with_free(head)
        found = classify(graph)
        assert found.acyclic == space.acyclic, "acyclic"
        assert found.free_connex == (graph.free in space.heads), f"free-connex with head {head!r}"
        if case == case.between_atoms():
            assert found.q_hierarchical == q_hierarchical(graph), f"q-hierarchical with head {head!r}"
            assert found.t_hierarchical == t_hierarchical(graph), f"t-hierarchical with head {head!r}"
        assert bool(found.witness) != found.q_hierarchical, f"witness with head {head!r}"


def test_the_classes_are_the_definitions_on_every_query_of_three_atoms_and_variables() -> None:
    for case in small_cases(atoms=3, variables=3):
        check_all_heads(case)


def test_the_classes_are_the_definitions_on_random_queries() -> None:
    fuzz(600, random_case, check_all_heads)


def test_the_classes_are_the_definitions_on_random_queries_without_filters() -> None:
    fuzz(350, lambda random: random_case(random).between_atoms(), check_all_heads)


def check_textbook(case: Case) -> None:
    space = space_of(case.graph)
    assert space.acyclic == has_join_tree(case.graph.edges)
    for head in map(frozenset, subsets(case.variables)):
        assert (head in space.heads) == free_connex_by_head_edge(case.graph.edges, head), sorted(head)


def test_without_comparisons_the_definitions_are_the_textbook_ones() -> None:
    for case in small_cases(atoms=3, variables=3):
        if not case.comparisons:
            check_textbook(case)
    fuzz(60, lambda random: random_case(random, atoms=4, variables=4, comparisons=0), check_textbook)


def check_closing_under_siblings(case: Case) -> None:
    assert space_of(case.graph).heads == space_of(case.graph, closed=True).heads


def test_closing_the_output_set_under_siblings_loses_no_query() -> None:
    fuzz(250, random_case, check_closing_under_siblings)


def check_simple_trees(case: Case) -> None:
    simple = space_of(case.graph, closed=True, simple=True)
    for head in subsets(case.variables):
        graph = case.graph.with_free(head)
        assert (graph.free in simple.heads) == q_hierarchical(graph), head


def test_simple_trees_exist_exactly_for_q_hierarchical_queries() -> None:
    fuzz(400, random_case, check_simple_trees)


def reduced_at_random(graph: Hypergraph, state: State, output: Edge, first_pass: bool, random: Random) -> State:
    while True:
        state = reduction.step_a(state, output)
        possible = list(reduction.drops(graph, state, output, first_pass))
        if not possible:
            return state
        state = reduction.apply_drop(state, random.choice(possible))


def check_confluence(case: Case) -> None:
    graph, random = case.graph, Random(repr(case))
    for _ in range(5):
        everything = reduced_at_random(graph, reduction.start(graph), NOTHING, False, random)
        assert reduction.second_pass_done(everything) == reduction.is_acyclic(graph)
        first = reduced_at_random(graph, reduction.start(graph), graph.free, True, random)
        second = reduced_at_random(graph, first, NOTHING, False, random)
        done = reduction.first_pass_done(graph, first) and reduction.second_pass_done(second)
        assert done == reduction.is_free_connex(graph)


def test_every_order_of_reduction_steps_gives_the_same_verdict() -> None:
    fuzz(1500, lambda random: random_case(random, atoms=6, variables=6), check_confluence)


def check_extensions(case: Case) -> None:
    graph, space = case.graph, space_of(case.graph)
    if not space.acyclic or graph.free in space.heads:
        return
    found = [frozenset(added) for added in extensions(graph)]
    least = min(len(head - graph.free) for head in space.heads if head > graph.free)
    assert found, "an acyclic query has an extension"
    assert all(graph.free | added in space.heads for added in found)
    assert {len(added) for added in found} == {least}


def test_head_extensions_are_free_connex_and_least() -> None:
    fuzz(450, random_case, check_extensions)


def step_a_never(state: State, output: Edge) -> State:
    return state


def drops_that_ignore_comparisons(graph: Hypergraph, state: State, output: Edge, first_pass: bool) -> Iterator[Drop]:
    blind = State(state.edges, ())
    return _drops(graph, blind, output, first_pass)


def drops_that_forget_the_output(graph: Hypergraph, state: State, output: Edge, first_pass: bool) -> Iterator[Drop]:
    return (d for d in _drops(graph, state, NOTHING, False) if not first_pass or not state.edge(d.e) <= output)


def start_with_no_filters(graph: Hypergraph) -> State:
    return State(tuple(enumerate(graph.edges)), graph.comparisons)


_drops = reduction.drops


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("step_a", step_a_never),
        ("drops", drops_that_ignore_comparisons),
        ("drops", drops_that_forget_the_output),
        ("start", start_with_no_filters),
    ],
)
def test_a_broken_reduction_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, broken: object) -> None:
    monkeypatch.setattr(reduction, name, broken)
    if name == "start":
        monkeypatch.setattr("dynq_cli.query.classify.start", broken)
    assert any(fails(case) for case in some_cases())


def some_cases() -> Iterable[Case]:
    return (random_case(Random(seed)) for seed in range(300))


def fails(case: Case) -> bool:
    try:
        check_all_heads(case)
    except AssertionError:
        return True
    return False
