"""The classes of queries read off their definitions, by trying everything.

Nothing here reduces a hypergraph. Trees are built bottom-up over all sets of atoms, with every label,
every way to group children and every output set; variables are quantified over in pairs. Slow and short,
so that it can be compared with the definitions line by line:

    q-hierarchical, t-hierarchical     pairs of variables (thesis, Definitions 3.1 and 3.4)
    generalised join tree, free-connex Definitions 3.1, 3.4 and 3.5 of the paper on inequality joins
    simple                             every child has all variables of its parent
    join tree of atoms                 all spanning trees, for queries without comparisons
    disruptive trio                    of variables in an order
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations, product

from dynq_cli.query.hypergraph import Edge, Hypergraph

# In `TreeSpace` sets of atoms, variables and comparisons are bits of an integer.
Bits = int
# The output set of a subtree whose root is outside it.
OUTSIDE = -1


def between_atoms(graph: Hypergraph) -> list[Edge]:
    """The variables of each comparison that is no filter of one atom."""
    return [c.variables for c in graph.comparisons if not any(c.variables <= e for e in graph.edges)]


def q_hierarchical(graph: Hypergraph) -> bool:
    for x, y in permutations(graph.variables, 2):
        in_x, in_y = graph.edges_of(x), graph.edges_of(y)
        if not (in_x <= in_y or in_x >= in_y or not in_x & in_y):
            return False
        if in_x < in_y and x in graph.free and y not in graph.free:
            return False
    return not between_atoms(graph)


def t_hierarchical(graph: Hypergraph) -> bool:
    bound = graph.variables - graph.free
    for x, y in permutations(bound, 2):
        in_x, in_y = graph.edges_of(x), graph.edges_of(y)
        if not (in_x <= in_y or in_y <= in_x or not in_x & in_y):
            return False
    for x, y in product(graph.free, bound):
        in_x, in_y = graph.edges_of(x), graph.edges_of(y)
        if in_x & in_y and not in_y <= in_x:
            return False
    return all(variables <= graph.free for variables in between_atoms(graph))


@dataclass
class TreeSpace:
    """Every generalised join tree of a query, up to what matters to its parent.

    A tree over a set of atoms is known by (label of the root, comparisons on its edges, variables of the
    output set or OUTSIDE). `closed` asks for output sets closed under siblings, `simple` for trees whose
    children all have their parent's variables. `heads` are the variables of the output sets of the trees
    that have every atom and every comparison: the heads that the query can have.
    """

    edges: Sequence[Edge]
    compared: Sequence[Edge] = ()
    closed: bool = False
    simple: bool = False
    names: list[str] = field(init=False)
    heads: set[Edge] = field(init=False)
    acyclic: bool = field(init=False)

    def __post_init__(self) -> None:
        self.names = sorted(frozenset().union(*self.edges))
        self._atoms = [self._bits(e) for e in self.edges]
        self._predicates = [self._bits(c) for c in self.compared if not any(c <= e for e in self.edges)]
        self._labels = sorted({label for atom in self._atoms for label in _subsets(atom)})
        everything = (1 << len(self._atoms)) - 1
        self._variables = [0] * (everything + 1)
        self._children: list[list[set[tuple[bool, Bits, int]]]] = []
        self._forests: list[list[set[tuple[bool, Bits, int]]]] = []
        for atoms in range(1, everything + 1):
            trees = self._over(atoms)
            if atoms == everything:
                whole = (1 << len(self._predicates)) - 1
                found = [output for _, placed, output in trees if placed == whole]
                self.acyclic = bool(found)
                self.heads = {self._edge(output) for output in found if output != OUTSIDE}

    def _bits(self, variables: Iterable[str]) -> Bits:
        return sum(1 << self.names.index(v) for v in variables)

    def _edge(self, bits: Bits) -> Edge:
        return frozenset(v for i, v in enumerate(self.names) if bits >> i & 1)

    def _over(self, atoms: Bits) -> set[tuple[Bits, Bits, int]]:
        """All trees over a set of atoms; `_children` and `_forests` say how they hang below each label."""
        if atoms == 1:
            self._children = [[set()] for _ in self._labels]
            self._forests = [[set()] for _ in self._labels]
        lowest = atoms & -atoms
        self._variables[atoms] = self._variables[atoms - lowest] | self._atoms[lowest.bit_length() - 1]
        trees: set[tuple[Bits, Bits, int]] = set()
        if atoms == lowest:
            label = self._variables[atoms]
            trees |= {(label, 0, OUTSIDE), (label, 0, label)}
        for label, children, forests in zip(self._labels, self._children, self._forests, strict=True):
            several = self._several(atoms, label, children, forests)
            forests.append(several)
            for guarded, placed, output in several:
                if guarded:
                    trees |= _rooted(label, placed, output)
        # A node with one child: the label shrinks, and no comparison comes in.
        for label, placed, output in list(trees):
            for smaller in _subsets(label):
                trees |= _rooted(smaller, placed, output)
        for label, children, forests in zip(self._labels, self._children, self._forests, strict=True):
            children.append(self._hung(trees, atoms, label))
            forests[atoms] |= children[atoms]
        return trees

    def _hung(self, trees: set[tuple[Bits, Bits, int]], atoms: Bits, label: Bits) -> set[tuple[bool, Bits, int]]:
        """The trees that can be a child of a node with this label, with the comparisons on the edge."""
        hung = set()
        for below, placed, output in trees:
            if label & self._variables[atoms] & ~below:
                continue  # a variable of the label is in the subtree but not in its root
            if self.simple and label & ~below:
                continue
            for i, p in enumerate(self._predicates):
                if not p & ~(label | below):
                    placed |= 1 << i
            hung.add((not label & ~below, placed, output))
        return _best(hung)

    def _several(
        self,
        atoms: Bits,
        label: Bits,
        children: Sequence[set[tuple[bool, Bits, int]]],
        forests: Sequence[set[tuple[bool, Bits, int]]],
    ) -> set[tuple[bool, Bits, int]]:
        """Two or more children over disjoint sets of atoms below one label."""
        found: set[tuple[bool, Bits, int]] = set()
        lowest = atoms & -atoms
        last = atoms - lowest
        while last:
            first = atoms - last
            if not self._variables[first] & self._variables[last] & ~label:
                for (g1, p1, o1), (g2, p2, o2) in product(forests[first], children[last]):
                    if o1 == OUTSIDE and o2 == OUTSIDE:
                        found.add((g1 or g2, p1 | p2, OUTSIDE))
                    elif not self.closed or (o1 != OUTSIDE and o2 != OUTSIDE):
                        found.add((g1 or g2, p1 | p2, max(o1, 0) | max(o2, 0)))
            last = (last - 1) & (atoms - lowest)
        return _best(found)


def _rooted(label: Bits, placed: Bits, output: int) -> set[tuple[Bits, Bits, int]]:
    """A root over children whose output sets are `output`: in the output set, or not where it may stay out."""
    if output == OUTSIDE:
        return {(label, placed, OUTSIDE), (label, placed, label)}
    return {(label, placed, label | output)}


def _subsets(bits: Bits) -> list[Bits]:
    found, subset = [bits], bits
    while subset:
        subset = (subset - 1) & bits
        found.append(subset)
    return found


def _best(found: set[tuple[bool, Bits, int]]) -> set[tuple[bool, Bits, int]]:
    """Without those that have fewer comparisons, or no guard, and are otherwise the same."""
    return {
        (guarded, placed, output)
        for guarded, placed, output in found
        if not any(
            (g, p) != (guarded, placed) and g >= guarded and p & placed == placed for g, p, o in found if o == output
        )
    }


def has_join_tree(edges: Sequence[Edge]) -> bool:
    """Whether some spanning tree on the atoms keeps each variable connected (no comparisons)."""
    return any(_connects_all(edges, tree) for tree in _spanning_trees(len(edges)))


def free_connex_by_head_edge(edges: Sequence[Edge], head: Edge) -> bool:
    """The textbook criterion: acyclic, and still acyclic with the head as one more edge."""
    return has_join_tree(edges) and has_join_tree([*edges, head])


def _connects_all(edges: Sequence[Edge], tree: Collection[tuple[int, int]]) -> bool:
    # In a tree, k nodes are connected exactly if k − 1 of its edges join two of them.
    return all(
        sum(v in edges[i] and v in edges[j] for i, j in tree) == sum(v in e for e in edges) - 1
        for v in frozenset().union(*edges)
    )


def _spanning_trees(size: int) -> Iterable[list[tuple[int, int]]]:
    """All labelled trees, from their Prüfer codes."""
    if size < 3:
        yield [(0, 1)] if size == 2 else []
        return
    for code in product(range(size), repeat=size - 2):
        degree = [1 + code.count(i) for i in range(size)]
        tree = []
        for i in code:
            leaf = degree.index(1)
            tree.append((leaf, i))
            degree[leaf] -= 1
            degree[i] -= 1
        a, b = (i for i, d in enumerate(degree) if d == 1)
        yield [*tree, (a, b)]


def disruptive_trio(graph: Hypergraph, order: Sequence[str]) -> bool:
    """Whether some variable shares atoms with two earlier ones that share none."""
    return any(
        graph.adjacent(x, z) and graph.adjacent(y, z) and not graph.adjacent(x, y) for x, y, z in combinations(order, 3)
    )
