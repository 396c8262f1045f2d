"""The view tree: a generalised join tree with guards and an output set.

For a tuple t over the variables of node n,

    value(n, t)   = Π over children c of  sum(c, t)
    sum(c, t)     = Σ of value(c, s) over rows s of c that agree with t on the shared variables
                    and satisfy the comparisons on the edge n → c
    value(atom,t) = multiplicity of t

A child c with var(n) ⊆ var(c) is a guard of n: a guarded node has at most as many rows as an input
relation. In a simple tree every child is a guard and a change touches one row per level.

The output set N contains the root, is connected and closed under siblings, and its variables are
the head: nested loops from the root through N yield a result row at every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from dynq_cli.query.normal_form import Comparison
from dynq_cli.records import record

NodeKind = Literal["atom", "view", "join"]


@record(frozen=True)
class Node:
    """`comparisons` are on the edge to the parent. Kinds: `atom` is a leaf; `view` has a guard;
    `join` has none: its rows are those of its children's join under `joined_by`, kept by deltas."""

    variables: tuple[str, ...]
    children: tuple[Node, ...] = ()
    kind: NodeKind = "view"
    atom: int | None = None
    comparisons: tuple[Comparison, ...] = ()
    output: bool = False
    joined_by: tuple[Comparison, ...] = ()

    def __repr__(self) -> str:
        return self._indented(None, 0)

    def _indented(self, parent: Node | None, depth: int) -> str:
        name = f"atom {self.atom}" if self.kind == "atom" else self.kind
        marks = [name]
        if parent is not None and self.guards(parent):
            marks.append("guard")
        if self.output:
            marks.append("output")
        marks += [str(c) for c in (*self.comparisons, *self.joined_by)]
        line = f"{'  ' * depth}[{' '.join(self.variables)}] {', '.join(marks)}"
        return "\n".join([line, *(c._indented(self, depth + 1) for c in self.children)])

    @property
    def vars(self) -> frozenset[str]:
        return frozenset(self.variables)

    def guards(self, parent: Node) -> bool:
        """Whether this child is a guard of its parent; a joined node needs none and has none."""
        return parent.kind == "view" and parent.vars <= self.vars

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def edges(self) -> Iterator[tuple[Node, Node]]:
        for child in self.children:
            yield self, child
            yield from child.edges()

    @property
    def atoms(self) -> tuple[int, ...]:
        """The atoms at the leaves below, in order."""
        return tuple(n.atom for n in self.walk() if n.atom is not None)

    @property
    def output_variables(self) -> frozenset[str]:
        return frozenset().union(*(n.vars for n in self.walk() if n.output))

    @property
    def is_simple(self) -> bool:
        """Whether every child is a guard of its parent, so that a change touches one row per level."""
        return all(child.guards(parent) for parent, child in self.edges())

    def condensed(self) -> Node:
        """The tree with an output set that ends at nodes below which it has no other variables.

        The value of such a node is the multiplicity of all that was below it, so there are fewer levels to go through.
        """
        children = tuple(c.condensed() for c in self.children)
        ends = [c for c in children if c.output]
        if (
            self.variables
            and ends
            and all(c.vars <= self.vars and not c.comparisons and not any(g.output for g in c.children) for c in ends)
        ):
            children = tuple(replace(c, output=False) for c in children)
        return replace(self, children=children)

    def _adds_nothing_to(self, parent: Node) -> bool:
        return self.vars <= parent.vars and not self.comparisons and not any(c.output for c in self.children)

    def shared(self, child: Node) -> tuple[str, ...]:
        """The variables that group the child's rows for this node."""
        return tuple(v for v in self.variables if v in child.vars)

    def _check(
        self,
        atoms: tuple[frozenset[str], ...],
        comparisons: tuple[Comparison, ...],
        head: frozenset[str],
        tested: frozenset[int] = frozenset(),
    ) -> None:
        """Assert every condition of a generalised join tree and of its output set.

        `tested` are the semi and anti atoms: they are leaves outside the output set, whatever their siblings.
        """
        leaves = [n for n in self.walk() if n.kind == "atom"]
        assert sorted(n.atom for n in leaves if n.atom is not None) == list(range(len(atoms))), "an atom per leaf"
        for n in leaves:
            assert not n.children and n.atom is not None and n.vars == atoms[n.atom], f"leaf {n!r}"
        for n in self.walk():
            if n.kind == "view":
                assert n.children, f"inner node without children: {n!r}"
                assert any(c.guards(n) for c in n.children), f"no guard: {n!r}"
            if n.kind == "join":
                assert n.vars <= frozenset().union(*(c.vars for c in n.children)), f"variables from nowhere: {n!r}"
        self._check_connected()
        self._check_comparisons(atoms, comparisons)
        self._check_output(head, tested)

    def _check_connected(self) -> None:
        """The nodes that have a variable form a connected part of the tree; a joined node has its children's."""
        for variable in frozenset().union(*(n._held for n in self.walk())):
            tops = [c for p, c in self.edges() if variable in c._held and variable not in p._held]
            tops += [self] if variable in self._held else []
            assert len(tops) == 1, f"{variable} is not connected in\n{self!r}"

    @property
    def _held(self) -> frozenset[str]:
        return self.vars.union(*(c.vars for c in self.children)) if self.kind == "join" else self.vars

    def _check_comparisons(self, atoms: tuple[frozenset[str], ...], comparisons: tuple[Comparison, ...]) -> None:
        placed: list[Comparison] = []
        for parent, child in self.edges():
            for c in child.comparisons:
                assert c.variables <= parent.vars | child.vars, f"{c} is not between a node and its child"
                placed.append(c)
        for c in comparisons:
            local = any(c.variables <= a for a in atoms) or any(
                n.kind == "join" and c in n.joined_by for n in self.walk()
            )
            assert local or c in placed, f"{c} is nowhere in the tree"

    def _check_output(self, head: frozenset[str], tested: frozenset[int]) -> None:
        assert self.output, "the root is in the output set"
        for parent, child in self.edges():
            assert parent.output or not child.output, "the output set is connected"
        for n in self.walk():
            assert not (n.output and n.atom in tested), "a tested atom adds no rows"
            if n.output and any(c.output for c in n.children):
                siblings = [c for c in n.children if c.atom not in tested]
                assert all(c.output for c in siblings), "the output set is closed under siblings"
        assert self.output_variables == head, "the output set has the head"
