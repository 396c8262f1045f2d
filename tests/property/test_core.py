"""The core of a set query has the query's result on all data, and no atom of it can go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from random import Random

import pytest

from dynq_cli.query import core as core_module
from dynq_cli.query.core import core
from dynq_cli.query.normal_form import Atom, Binding, Comparison, ConjunctiveQuery, OutputColumn, Scalar, Variable
from dynq_cli.spec.types import BOOL, INT64
from tests.property.cases import OPS, fuzz
from tests.property.evaluate import holds

COLUMNS = {"E": "ab", "T": "abc"}
# Compared with constants in the filters of atoms.
CONSTANTS = "01"
Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Term:
    """An atom as written: E("xx") binds x once and has a filter, "_" is unbound, a digit is a filter."""

    source: str
    terms: str
    mode: str = "join"

    @property
    def variables(self) -> set[str]:
        return {t for t in self.terms if t.isalpha()}


@dataclass(frozen=True)
class Rule:
    """A set query over E and T."""

    atoms: tuple[Term, ...]
    head: str = ""
    comparisons: tuple[tuple[str, str, str, int], ...] = ()

    @property
    def query(self) -> ConjunctiveQuery:
        variables = sorted({v for a in self.atoms for v in a.variables})
        between: list[Comparison] = []
        filters: list[list[str]] = [[] for _ in self.atoms]
        for x, op, y, offset in self.comparisons:
            inside = [i for i, a in enumerate(self.atoms) if {x, y} <= a.variables]
            for i in inside:
                left, right = (_column(self.atoms[i], v) for v in (x, y))
                filters[i].append(f"{left} {op} {right} + {offset}")
            if not inside:
                between.append(Comparison(x, op, y, Decimal(offset)))  # type: ignore[arg-type]
        return ConjunctiveQuery(
            "q",
            tuple(_atom(i, a, filters[i]) for i, a in enumerate(self.atoms)),
            tuple(between),
            tuple(Variable(v, INT64) for v in variables),
            tuple(self.head),
            tuple(OutputColumn(v, INT64, False, "variable", v) for v in self.head),
            "set",
        )


def _column(atom: Term, variable: str) -> str:
    return f'"{COLUMNS[atom.source][atom.terms.index(variable)]}"'


def _atom(number: int, atom: Term, filters: list[str]) -> Atom:
    bindings, made = [], []
    for column, term in zip(COLUMNS[atom.source], atom.terms, strict=True):
        sql = f'"{column}"'
        if term.isdigit():
            made.append(f"{sql} = {term}")
        elif term.isalpha() and _column(atom, term) != sql:
            made.append(f"{_column(atom, term)} = {sql}")
        elif term.isalpha():
            bindings.append(Binding(term, Scalar(sql, INT64, False, (column,))))
    scalars = tuple(Scalar(f, BOOL, False, ()) for f in (*made, *filters))
    return Atom(f"t{number}", atom.source, tuple(bindings), scalars, atom.mode)  # type: ignore[arg-type]


def evaluated(query: ConjunctiveQuery, data: dict[str, Rows]) -> set[tuple[int, ...]]:
    """The result by trying every combination of rows."""
    result = set()

    def extend(left: list[Atom], binding: dict[str, int]) -> None:
        if left:
            for extended in _matches(left[0], data, binding):
                extend(left[1:], extended)
        elif _hold(query, binding) and all(_passes(query, a, data, binding) for a in query.atoms):
            result.add(tuple(binding[v] for v in query.head))

    extend([a for a in query.atoms if a.mode == "join"], {})
    return result


def _passes(query: ConjunctiveQuery, atom: Atom, data: dict[str, Rows], binding: dict[str, int]) -> bool:
    if atom.mode == "join":
        return True
    found = any(_hold(query, extended) for extended in _matches(atom, data, binding))
    return found == (atom.mode == "semi")


def _matches(atom: Atom, data: dict[str, Rows], binding: dict[str, int]) -> Iterator[dict[str, int]]:
    for row in data[atom.source]:
        values = {f'"{c}"': value for c, value in zip(COLUMNS[atom.source], row, strict=True)}
        extended = dict(binding)
        bound = [(b.variable, values[b.scalar.sql]) for b in atom.bindings]
        if all(extended.setdefault(v, value) == value for v, value in bound) and _pass(atom, values):
            yield extended


def _pass(atom: Atom, values: dict[str, int]) -> bool:
    return all(_filter_holds(f.sql, values) for f in atom.filters)


def _filter_holds(sql: str, values: dict[str, int]) -> bool:
    left, op, right, *offset = sql.split()
    shifted = values.get(right, int(right) if right.isdigit() else 0) + (int(offset[1]) if offset else 0)
    return {"=": values[left] == shifted, "<": values[left] < shifted, "<=": values[left] <= shifted}.get(
        op, values[left] != shifted
    )


def _hold(query: ConjunctiveQuery, binding: dict[str, int]) -> bool:
    return all(holds(c, binding) for c in query.comparisons if c.variables <= binding.keys())


@dataclass(frozen=True)
class Case:
    rule: Rule
    data: tuple[tuple[str, Rows], ...]

    def smaller(self) -> Iterator[Case]:
        rule = self.rule
        for i in range(len(rule.comparisons)):
            left = rule.comparisons[:i] + rule.comparisons[i + 1 :]
            yield replace(self, rule=replace(rule, comparisons=left))
        for i in range(len(rule.atoms)):
            atoms = rule.atoms[:i] + rule.atoms[i + 1 :]
            if is_normal(fewer := replace(rule, atoms=atoms)):
                yield replace(self, rule=fewer)
        for i in range(len(rule.head)):
            yield replace(self, rule=replace(rule, head=rule.head[:i] + rule.head[i + 1 :]))
        for i, (source, rows) in enumerate(self.data):
            for j in range(len(rows)):
                fewer_rows = (source, rows[:j] + rows[j + 1 :])
                yield replace(self, data=(*self.data[:i], fewer_rows, *self.data[i + 1 :]))


def is_normal(rule: Rule) -> bool:
    """The head is bound by joins; a tested atom's own variables are its own; comparisons have both sides bound."""
    joins = {v for a in rule.atoms if a.mode == "join" for v in a.variables}
    tested = [a for a in rule.atoms if a.mode != "join"]
    own = [a.variables - joins for a in tested]
    private = set().union(*own)
    sides = [{x, y} for x, _, y, _ in rule.comparisons]
    return (
        bool(joins)
        and set(rule.head) <= joins
        and sum(map(len, own)) == len(private)
        and all(s <= joins | private and (not s <= private or any(s <= o for o in own)) for s in sides)
        # A comparison of two joined variables is no filter of an atom that is only looked up.
        and not any(s <= joins and s <= a.variables for s in sides for a in tested)
    )


def random_rule(random: Random, tested: bool = False, comparisons: int = 2) -> Rule:
    names = "xyzw"[: random.randint(1, 4)]
    atoms = []
    for _ in range(random.randint(2, 4)):
        source = random.choice("EEET")
        terms = "".join(_term(random, names) for _ in COLUMNS[source])
        atoms.append(Term(source, terms, random.choice(("join", "join", "semi", "anti")) if tested else "join"))
    used = sorted({v for a in atoms for v in a.variables})
    compared = []
    for _ in range(random.randint(0, comparisons) if len(used) > 1 else 0):
        x, y = random.sample(used, 2)
        compared.append((x, random.choice(OPS), y, random.choice((0, 0, 0, 1, -1))))
    head = "".join(v for v in used if random.random() < random.choice((0.1, 0.5)))
    rule = Rule(tuple(atoms), head, tuple(dict.fromkeys(compared)))
    return _doubled(random, rule) if random.random() < 0.6 else rule


def _doubled(random: Random, rule: Rule) -> Rule:
    """Most of the rule once more with other variables outside the head: what the core is there to undo."""
    renamed = str.maketrans({v: v if v in rule.head else v.upper() for v in "xyzw"})
    copied = [a for a in rule.atoms[:3] if random.random() < 0.9]
    again = [replace(a, terms=_altered(random, a.terms.translate(renamed))) for a in copied]
    atoms = tuple(dict.fromkeys((*rule.atoms, *again)))
    bound = {v for a in atoms for v in a.variables}
    compared = [(x.translate(renamed), op, y.translate(renamed), offset) for x, op, y, offset in rule.comparisons]
    both = [*rule.comparisons, *(c for c in compared if {c[0], c[2]} <= bound)]
    return Rule(atoms, rule.head, tuple(dict.fromkeys(both)))


def _altered(random: Random, terms: str) -> str:
    """Now and then one term less or more."""
    i = random.randrange(len(terms))
    return terms[:i] + random.choice("_01") + terms[i + 1 :] if random.random() < 0.2 else terms


def _term(random: Random, names: str) -> str:
    drawn = random.random()
    return random.choice(names) if drawn < 0.85 else "_" if drawn < 0.93 else random.choice(CONSTANTS)


def random_data(random: Random) -> tuple[tuple[str, Rows], ...]:
    data = []
    for source, columns in COLUMNS.items():
        rows = {tuple(random.randrange(3) for _ in columns) for _ in range(random.randint(1, 7))}
        data.append((source, tuple(sorted(rows))))
    return tuple(data)


def check_same_result(case: Case) -> None:
    query, data = case.rule.query, dict(case.data)
    smaller = core(query)
    assert evaluated(smaller, data) == evaluated(query, data), f"{smaller}"


def test_the_core_has_the_result_of_the_query() -> None:
    def make(random: Random) -> Case | None:
        rule = random_rule(random)
        return Case(rule, random_data(random)) if is_normal(rule) and shrinks(rule) else None

    fuzz(2000, make, check_same_result)


def test_the_core_has_the_result_of_a_query_with_exists_and_not_exists() -> None:
    def make(random: Random) -> Case | None:
        rule = random_rule(random, tested=True)
        return Case(rule, random_data(random)) if is_normal(rule) and shrinks(rule) else None

    fuzz(1000, make, check_same_result)


def shrinks(rule: Rule) -> bool:
    """Only cores with fewer atoms have anything to show."""
    return len(core(rule.query).atoms) < len(rule.atoms)


@dataclass(frozen=True)
class Joins:
    """A rule without comparisons, constants and tested atoms."""

    rule: Rule

    def smaller(self) -> Iterator[Joins]:
        return (Joins(case.rule) for case in Case(self.rule, ()).smaller())


def random_joins(random: Random) -> Joins | None:
    rule = random_rule(random, comparisons=0)
    return Joins(rule) if is_normal(rule) and not any(c in a.terms for c in CONSTANTS for a in rule.atoms) else None


def check_minimal(joins: Joins) -> None:
    """No atom of the core is implied by the others: frozen, they are data on which the core fails."""
    smaller = core(joins.rule.query)
    terms = {f"t{i}": a for i, a in enumerate(joins.rule.atoms)}
    for gone in smaller.atoms:
        kept = [terms[a.alias] for a in smaller.atoms if a is not gone]
        bound = {v for a in kept for v in a.variables}
        if not kept or not set(smaller.head) <= bound:
            continue
        fresh = count(len(bound))
        value = {v: i for i, v in enumerate(sorted(bound))}
        data: dict[str, Rows] = dict.fromkeys(COLUMNS, ())
        for atom in kept:
            row = tuple(value[t] if t in value else next(fresh) for t in atom.terms)
            data[atom.source] = (*data[atom.source], row)
        assert tuple(value[v] for v in smaller.head) not in evaluated(smaller, data), f"{gone} is implied in {smaller}"


def test_no_atom_of_the_core_is_implied_by_the_others() -> None:
    fuzz(3000, random_joins, check_minimal)


def kept_atoms(rule: Rule) -> list[str]:
    kept = {a.alias for a in core(rule.query).atoms}
    return [a.terms for i, a in enumerate(rule.atoms) if f"t{i}" in kept]


def test_loops_imply_the_edge_between_them() -> None:
    assert kept_atoms(Rule((Term("E", "xx"), Term("E", "xy"), Term("E", "yy")))) in (["xx"], ["yy"])
    assert kept_atoms(Rule((Term("E", "xx"), Term("E", "xy"), Term("E", "yy")), "xy")) == ["xx", "xy", "yy"]
    assert kept_atoms(Rule((Term("E", "xx"), Term("E", "xy"), Term("E", "yy")), "x")) == ["xx"]


def test_an_atom_whose_variable_a_not_exists_needs_stays() -> None:
    rule = Rule((Term("E", "xy"), Term("E", "xz"), Term("T", "y__", "anti"), Term("T", "z__", "anti")), "x")
    data = {"E": ((0, 1), (0, 2)), "T": ((1, 0, 0),)}
    assert evaluated(rule.query, data) == evaluated(core(rule.query), data) == {(0,)}


def test_bags_and_groups_are_left_alone() -> None:
    query = Rule((Term("E", "xy"), Term("E", "xz")), "x").query
    assert len(core(query).atoms) == 1
    assert core(replace(query, semantics="bag")).atoms == query.atoms
    assert core(replace(query, grouped=True)).atoms == query.atoms


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        pytest.param("_implied", lambda target, c, mapping: True, id="comparisons are ignored"),
        pytest.param("_extend", lambda target, atoms, mapping: True, id="everything is implied"),
        pytest.param("_maps_without", lambda query, index: False, id="nothing is implied"),
    ],
)
def test_a_broken_core_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, broken: object) -> None:
    monkeypatch.setattr(core_module, name, broken)
    assert any(is_noticed(Random(seed)) for seed in range(2000))


def is_noticed(random: Random) -> bool:
    rule = random_rule(random)
    if not is_normal(rule):
        return False
    try:
        check_same_result(Case(rule, random_data(random)))
        if not rule.comparisons and not any(c in a.terms for c in CONSTANTS for a in rule.atoms):
            check_minimal(Joins(rule))
    except AssertionError:
        return True
    return False
