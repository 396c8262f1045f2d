"""An order of the head is kept exactly where the definition allows it, and then rows come in that order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

import pytest

from dynq_cli.plan import order as order_module
from dynq_cli.plan.order import completions, layered, obstacle
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.classify import classify
from dynq_cli.query.reduction import State, reduce, start
from tests.property.cases import Case, fuzz, random_case
from tests.property.definitions import disruptive_trio
from tests.property.evaluate import Instance, Views, enumerated, joined, random_data


@dataclass(frozen=True)
class Ordered:
    """A query with data, and an order of its whole head."""

    instance: Instance
    order: str

    @property
    def case(self) -> Case:
        return self.instance.case

    def smaller(self) -> Iterator[Ordered]:
        return (replace(self, instance=smaller) for smaller in self.instance.smaller())


def random_order(random: Random, comparisons: int) -> Ordered | None:
    case = random_case(random, atoms=4, variables=6, comparisons=comparisons)
    if len(case.head) < 2 or not classify(case.graph).free_connex:
        return None
    order = "".join(random.sample(case.head, len(case.head)))
    return Ordered(Instance(case, random_data(random, case), ("join",) * len(case.atoms)), order)


def frontier(case: Case) -> State:
    return reduce(case.graph, start(case.graph), case.graph.free, first_pass=True)


def found_obstacle(ordered: Ordered) -> str:
    state = frontier(ordered.case)
    return obstacle((edge for _, edge in state.edges), state.comparisons, ordered.order)


def check_trio(ordered: Ordered) -> None:
    found = found_obstacle(ordered)
    assert bool(found) == disruptive_trio(ordered.case.graph, ordered.order), found
    assert ("disruptive trio" in found) == bool(found)


def test_without_comparisons_an_order_fails_exactly_by_a_disruptive_trio() -> None:
    fuzz(2500, lambda random: random_order(random, comparisons=0), check_trio)


def check_sorted(ordered: Ordered) -> None:
    case, order = ordered.case, ordered.order
    if not classify(case.graph).free_connex:
        return
    tree = case.search(layered(order)).run()
    if not found_obstacle(ordered):
        assert tree is not None, "no tree though nothing stands in the way"
    if tree is None:
        return
    case.check(tree)
    rows = enumerated(tree, Views(tree, ordered.instance), case.head, order)
    assert dict(rows) == dict(joined(ordered.instance)), f"another result:\n{tree!r}"
    keys = [tuple(dict(zip(case.head, row, strict=True))[v] for v in order) for row, _ in rows]
    assert all(a < b for a, b in pairwise(keys)), f"out of order:\n{tree!r}"


def test_layered_trees_give_the_result_in_order() -> None:
    fuzz(1500, lambda random: random_order(random, comparisons=0), check_sorted)


def test_layered_trees_with_comparisons_give_the_result_in_order() -> None:
    fuzz(1800, lambda random: random_order(random, comparisons=3), check_sorted)


def test_most_of_the_orders_tried_are_kept() -> None:
    made = [random_order(Random(seed), comparisons=3) for seed in range(600)]
    kept = [not found_obstacle(ordered) for ordered in made if ordered is not None]
    assert sum(kept) > len(kept) / 2 > 50


def test_completions_begin_as_asked_and_start_with_the_order_of_the_head() -> None:
    found = list(completions("c", "abcd"))
    assert found[0] == ("c", "a", "b", "d")
    assert len(set(found)) == len(found) == 6
    assert all(order[0] == "c" and sorted(order) == list("abcd") for order in found)


def collapses_whatever_follows(node: Node, order: object) -> Node:
    if len(node.children) == 1 and node.children[0].output and not node.children[0].comparisons:
        return node.children[0]
    return node


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        pytest.param("obstacle", lambda edges, comparisons, order: "", id="keeps every order"),
        pytest.param("_collapsed", collapses_whatever_follows, id="collapses layers that are no neighbours"),
        pytest.param("_needed", lambda edges, comparisons, order, i: frozenset(), id="hangs layers below the root"),
    ],
)
def test_a_broken_order_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, broken: object) -> None:
    monkeypatch.setattr(order_module, name, broken)
    assert any(is_noticed(Random(seed)) for seed in range(1500))


def is_noticed(random: Random) -> bool:
    ordered = random_order(random, comparisons=2)
    if ordered is None:
        return False
    try:
        check_sorted(ordered)
    except AssertionError:
        return True
    return False
