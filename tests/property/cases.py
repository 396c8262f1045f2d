"""Random and exhaustive small queries, and how a failing one is made smaller.

Every case is a function of its seed and of nothing else. DYNQ_FUZZ multiplies the number of cases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, permutations
from random import Random
from typing import Protocol, Self, TypeVar

from dynq_cli.plan.cost import Weights
from dynq_cli.plan.search import Finish, Search, leaf
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.hypergraph import Hypergraph
from dynq_cli.query.normal_form import Comparison
from tests.seeds import FUZZ

FIRST_SEED = int(os.environ.get("DYNQ_SEED", "0"))
OPS = ("<", "<=", "!=")


class Shrinkable(Protocol):
    def smaller(self) -> Iterable[Self]: ...


T = TypeVar("T", bound=Shrinkable)


@dataclass(frozen=True)
class Case:
    """A query's shape with variables of one letter; atoms and head as strings."""

    atoms: tuple[str, ...]
    head: str
    comparisons: tuple[tuple[str, str, str], ...] = ()

    @property
    def graph(self) -> Hypergraph:
        return Hypergraph(
            tuple(frozenset(a) for a in self.atoms),
            tuple(Comparison(x, op, y) for x, op, y in self.comparisons),  # type: ignore[arg-type]
            frozenset(self.head),
        )

    @property
    def variables(self) -> str:
        return "".join(sorted(set("".join(self.atoms))))

    def smaller(self) -> Iterator[Case]:
        """The case without one atom, one comparison, one variable or one head variable."""
        for i in range(len(self.atoms)):
            if len(self.atoms) > 1:
                yield self._restricted(self.atoms[:i] + self.atoms[i + 1 :])
        for i in range(len(self.comparisons)):
            yield replace(self, comparisons=self.comparisons[:i] + self.comparisons[i + 1 :])
        for v in self.variables:
            yield self._restricted(tuple(a.replace(v, "") for a in self.atoms))
        for v in self.head:
            yield replace(self, head=self.head.replace(v, ""))

    def _restricted(self, atoms: tuple[str, ...]) -> Case:
        left = set("".join(atoms))
        return Case(
            atoms,
            "".join(v for v in self.head if v in left),
            tuple(c for c in self.comparisons if {c[0], c[2]} <= left),
        )

    def between_atoms(self) -> Case:
        """Without the comparisons within one atom, as the normal form has it."""
        kept = tuple(c for c in self.comparisons if not any({c[0], c[2]} <= set(a) for a in self.atoms))
        return replace(self, comparisons=kept)

    def search(self, finish: Finish | None = None) -> Search:
        rank = {v: i for i, v in enumerate(self.variables)}
        leaves = [leaf(i, a, rank) for i, a in enumerate(self.atoms)]
        return Search(self.graph, leaves, Weights((1.0,) * len(self.atoms)), rank, finish)

    def check(self, tree: Node) -> None:
        tree._check(self.graph.edges, self.graph.comparisons, self.graph.free)


def random_case(random: Random, atoms: int = 5, variables: int = 5, comparisons: int = 3) -> Case:
    """Duplicate atoms, empty atoms, products, comparisons within atoms: all of them occur."""
    names = "abcdefgh"[: _rather_large(random, variables)]
    make = random.choice((_dense_edge, _narrow_edge))
    made = [make(random, names) for _ in range(_rather_large(random, atoms))]
    used = "".join(v for v in names if any(v in a for a in made))
    pairs = list(permutations(used, 2))
    apart = [p for p in pairs if not any(set(p) <= set(a) for a in made)]
    chosen: list[tuple[str, str, str]] = []
    for _ in range(random.randint(0, comparisons)):
        drawn_from = apart if apart and random.random() < 0.7 else pairs
        if drawn_from:
            x, y = random.choice(drawn_from)
            chosen.append((x, random.choice(OPS), y))
    share = random.choice((0.0, 0.4, 0.6, 0.8, 1.0))
    head = "".join(v for v in used if random.random() < share)
    return Case(tuple(made), head, tuple(dict.fromkeys(chosen)))


def _dense_edge(random: Random, names: str) -> str:
    return "".join(v for v in names if random.random() < 0.5)


def _narrow_edge(random: Random, names: str) -> str:
    return "".join(sorted(random.sample(names, min(len(names), random.choice((0, 1, 1, 2, 2, 2, 2, 2, 3, 3))))))


def _rather_large(random: Random, most: int) -> int:
    return max(random.randint(1, most), random.randint(1, most))


def small_cases(atoms: int, variables: int) -> Iterator[Case]:
    """All multisets of edges and all sets of compared pairs, with an empty head."""
    names = "abcdefgh"[:variables]
    edges = [e for size in range(variables + 1) for e in map("".join, combinations(names, size))]
    for count in range(1, atoms + 1):
        for chosen in combinations_with_replacement(edges, count):
            used = [v for v in names if any(v in e for e in chosen)]
            pairs = [p for p in combinations(used, 2) if not any(set(p) <= set(e) for e in chosen)]
            for size in range(len(pairs) + 1):
                for compared in combinations(pairs, size):
                    yield Case(chosen, "", tuple((x, "<", y) for x, y in compared))


def subsets(names: str) -> Iterator[str]:
    return (subset for size in range(len(names) + 1) for subset in map("".join, combinations(names, size)))


def fuzz(cases: int, make: Callable[[Random], T | None], check: Callable[[T], None]) -> int:
    """Check `cases` random cases (`make` may pass on a seed); on failure, report the smallest one found."""
    checked = 0
    seed = FIRST_SEED
    while checked < max(1, int(cases * FUZZ)):
        made = make(Random(seed))
        if made is not None:
            checked += 1
            failure = _failure(made, check)
            if failure is not None:
                small, failure = minimised(made, check, failure)
                raise AssertionError(f"seed {seed}: {small!r}\n{failure!r}\nfound as {made!r}") from failure
        seed += 1
    return checked


def minimised(case: T, check: Callable[[T], None], failure: Exception) -> tuple[T, Exception]:
    """The smallest case reached by taking things away while the check fails with the same exception."""
    while True:
        for smaller in case.smaller():
            found = _failure(smaller, check)
            if type(found) is type(failure):
                case, failure = smaller, found
                break
        else:
            return case, failure


def _failure(case: T, check: Callable[[T], None]) -> Exception | None:
    try:
        check(case)
    except Exception as e:
        return e
    return None
