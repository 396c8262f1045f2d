"""Trees exist exactly where the class says so, satisfy every condition, and give the query's result."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from dynq_cli.plan import search as search_module
from dynq_cli.plan.search import Part, Search
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.classify import classify
from dynq_cli.query.hypergraph import Edge, Hypergraph
from dynq_cli.query.reduction import Drop, State, drops
from tests.every_case import every_case
from tests.property.cases import Case, fuzz, random_case
from tests.property.definitions import q_hierarchical
from tests.property.evaluate import Instance, Views, enumerated, joined, random_data

ROOT = Path(__file__).parents[2]


def check_tree(case: Case) -> None:
    """A tree exists exactly for free-connex queries, is well formed, and is simple exactly where it can be."""
    tree = case.search().run()
    assert (tree is not None) == classify(case.graph).free_connex, "a tree exactly for free-connex queries"
    if tree is not None:
        case.check(tree)
        assert tree.is_simple == q_hierarchical(case.graph), f"simple exactly if q-hierarchical:\n{tree!r}"


def test_free_connex_queries_get_a_tree_and_q_hierarchical_ones_a_simple_tree() -> None:
    fuzz(1800, lambda random: random_case(random, variables=6), check_tree)


def check_result(instance: Instance) -> None:
    tree = instance_search(instance).run()
    if tree is None:
        return
    graph, tested = instance.case.graph, frozenset(i for i, mode in enumerate(instance.modes) if mode != "join")
    tree._check(graph.edges, graph.comparisons, graph.free, tested)
    rows = enumerated(tree, Views(tree, instance), instance.case.head)
    assert len(dict(rows)) == len(rows), f"a row comes twice:\n{tree!r}"
    assert dict(rows) == dict(joined(instance)), f"another result:\n{tree!r}"


def instance_search(instance: Instance) -> Search:
    found = instance.case.search()
    if set(instance.modes) == {"join"}:
        return found
    graph = Hypergraph(
        found.graph.edges, found.graph.comparisons, found.graph.free, tuple(m != "join" for m in instance.modes)
    )
    return Search(graph, found.leaves, found.weights, found.rank)


def random_instance(random: Random) -> Instance | None:
    case = random_case(random, atoms=4)
    if not classify(case.graph).free_connex:
        return None
    return Instance(case, random_data(random, case), ("join",) * len(case.atoms))


def test_the_tree_gives_the_result_with_multiplicities_and_without_dead_ends() -> None:
    fuzz(2500, random_instance, check_result)


def with_tests(random: Random) -> Instance | None:
    """Some atoms only looked up; their own variables are in no other atom, nor in the head."""
    case = random_case(random, atoms=4)
    modes = tuple(random.choice(("join", "semi", "anti")) for _ in case.atoms)
    pairs = list(zip(case.atoms, modes, strict=True))
    joins = {v for a, mode in pairs if mode == "join" for v in a}
    lonely = {v for v in case.variables if v not in joins}
    compared = [{x, y} for x, _, y in case.comparisons]
    if (
        "join" not in modes
        or not set(case.head) <= joins
        or any(sum(v in a for a in case.atoms) > 1 for v in lonely)
        or any(pair <= lonely and not any(pair <= set(a) for a in case.atoms) for pair in compared)
        or any(pair <= set(a) and not pair <= lonely for pair in compared for a, m in pairs if m == "anti")
    ):
        return None
    return Instance(case, random_data(random, case), modes)


def test_atoms_that_are_only_looked_up_give_the_result_of_exists_and_not_exists() -> None:
    trees = 0

    def check(instance: Instance) -> None:
        nonlocal trees
        trees += instance_search(instance).run() is not None
        check_result(instance)

    assert fuzz(2000, with_tests, check) <= 4 * trees, "few of the cases have a tree"


def described(seeds: range) -> str:
    cases = (random_case(Random(seed), variables=6) for seed in seeds)
    return "\n".join(f"{case}\n{case.search().run()!r}" for case in cases)


def test_trees_do_not_depend_on_the_order_of_hashes() -> None:
    script = "from tests.property.test_trees import described; print(described(range(250)))"
    outputs = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        outputs.add(done.stdout.strip())
    assert outputs == {described(range(250))}


def worst_cost_ratio(cases: Iterator[Case], monkeypatch: pytest.MonkeyPatch) -> float:
    """Cost of the tree found under the limit, over the cheapest of all trees; 0.1 stands for a cost of 0."""
    worst = 1.0
    for case in cases:
        limited = case.search()
        if limited.run() is None:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(search_module, "LIMIT", 10**6)
            complete = case.search()
            complete.run()
        assert limited.best_cost is not None and complete.best_cost is not None
        assert complete.best_cost <= limited.best_cost
        worst = max(worst, (limited.best_cost[0] + 0.1) / (complete.best_cost[0] + 0.1))
    return worst


def test_the_limit_of_the_search_hides_no_cheaper_tree_of_small_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = (random_case(Random(seed), atoms=4, variables=6) for seed in range(400))
    assert worst_cost_ratio(cases, monkeypatch) == 1.0


def test_a_short_search_finds_a_tree_close_to_the_cheapest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "LIMIT", 12)
    cases = (random_case(Random(seed), atoms=4, variables=6) for seed in range(400))
    assert worst_cost_ratio(cases, monkeypatch) <= 3.0


def part_of_pass_1(tree: Node, level: int = search_module.PASS_1) -> Part:
    return Part(tree, level)


def frontier_without_projection(search: Search, number: int, edge: Edge, part: Part) -> Part:
    return Part(replace(part.tree, output=True), search_module.FRONTIER)


def drops_without_comparisons(graph: Hypergraph, state: State, output: Edge, first_pass: bool) -> Iterator[Drop]:
    return (Drop(d.e, d.f, ()) for d in _drops(graph, state, output, first_pass))


_drops = drops


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        pytest.param("FRONTIER", search_module.PASS_2, id="merges into the frontier"),
        pytest.param("Part", part_of_pass_1, id="merges into leaves"),
        pytest.param("Search._frontier", frontier_without_projection, id="does not project the frontier"),
        pytest.param("drops", drops_without_comparisons, id="loses comparisons"),
        pytest.param("step_a", lambda state, output: state, id="never does step A"),
    ],
)
def test_a_broken_search_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, broken: object) -> None:
    monkeypatch.setattr(f"dynq_cli.plan.search.{name}", broken)
    assert any(is_noticed(Random(seed)) for seed in range(1500))


def is_noticed(random: Random) -> bool:
    case = random_case(random, atoms=4)
    try:
        check_tree(case)
        if classify(case.graph).free_connex:
            check_result(Instance(case, random_data(random, case), ("join",) * len(case.atoms)))
    except (AssertionError, StopIteration):
        return True
    return False


def damaged_trees() -> Iterator[tuple[str, Node]]:
    """{x, z : R(x, y), S(x, z), T(z), y < z} with one condition broken each time."""
    case = DAMAGED
    tree = case.search().run()
    assert tree is not None
    case.check(tree)
    for path, node in _paths(tree, ()):
        if node.comparisons:
            yield "a comparison is gone", _replaced(tree, path, replace(node, comparisons=()))
        if path:
            yield "a node is gone", _replaced(tree, path, None)
        yield "the output mark is changed", _replaced(tree, path, replace(node, output=not node.output))
        for i in range(len(node.variables)):
            fewer = node.variables[:i] + node.variables[i + 1 :]
            yield "a variable is gone", _replaced(tree, path, replace(node, variables=fewer))
        yield "a variable is new", _replaced(tree, path, replace(node, variables=(*node.variables, "q")))


DAMAGED = Case(("xy", "xz", "z"), "xz", (("y", "<", "z"),))


def _paths(node: Node, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Node]]:
    yield path, node
    for i, child in enumerate(node.children):
        yield from _paths(child, (*path, i))


def _replaced(tree: Node, path: tuple[int, ...], new: Node | None) -> Node:
    if not path:
        assert new is not None
        return new
    i, rest = path[0], path[1:]
    below = _replaced(tree.children[i], rest, new) if rest else new
    children = (*tree.children[:i], *([below] if below is not None else []), *tree.children[i + 1 :])
    return replace(tree, children=children)


@every_case(("damage", "tree"), list(damaged_trees()))
def test_the_check_notices_every_kind_of_damage(damage: str, tree: Node) -> None:
    with pytest.raises(AssertionError):
        DAMAGED.check(tree)
