"""Random formulas with their texts, and a model checker that shares nothing with dynq: it tries all values.

A formula is a nested tuple: ("atom", relation, terms), ("cmp", op, left, right), ("not", f), ("and", f, g),
("or", f, g), ("->", f, g), ("<->", f, g), ("exists", x, f), ("forall", x, f), ("count", kind, number, modulus, x, f).
A term is a variable, a number, or `_`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

ARITY = {"E": 2, "F": 2, "S": 1, "T": 1, "R": 3}
NULLABLE = {("F", 1), ("T", 0)}
COLUMNS = "abc"
Rows = Mapping[str, list[tuple[int | None, ...]]]
_COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_VARIABLES = ["x", "y", "z", "u", "v", "w"]


@dataclass(frozen=True)
class Drawn:
    head: tuple[str, ...]
    formula: tuple[Any, ...]

    @property
    def text(self) -> str:
        return f"q({', '.join(self.head)}) := {text_of(self.formula)}"

    @property
    def relations(self) -> set[str]:
        return {f[1] for f in _walk(self.formula) if f[0] == "atom"}


def text_of(f: tuple[Any, ...]) -> str:
    kind = f[0]
    if kind == "atom":
        return f"{f[1]}({', '.join(map(str, f[2]))})"
    if kind == "cmp":
        return f"{f[2]} {f[1]} {f[3]}"
    if kind == "not":
        return f"not ({text_of(f[1])})"
    if kind in ("and", "or", "->", "<->"):
        return f"({text_of(f[1])} {kind} {text_of(f[2])})"
    if kind == "count":
        _, how, number, modulus, x, body = f
        said = f"[{number} mod {modulus}]" if how == "mod" else f"{how}{number}"
        return f"(exists{said} {x}: {text_of(body)})"
    return f"({kind} {f[1]}: {text_of(f[2])})"


def drawn(chance: Random) -> Drawn:
    """A formula in which each variable stands in an atom."""
    while True:
        head = tuple(_VARIABLES[: chance.choice([0, 1, 1, 1, 2, 2])])
        fresh = iter(_VARIABLES[len(head) :])
        made = Drawn(head, _formula(chance, list(head), fresh, chance.choice([1, 2, 2, 3])))
        if all(places for places in _sorts(made).values()) and set(head) <= set(_sorts(made)):
            return made


def drawn_unguarded(chance: Random) -> Drawn:
    """A formula whose quantifier ranges over values that no atom ties to the other variables."""
    near = chance.choice(
        [
            ("atom", "E", ("x", "y")),
            ("atom", "F", ("y", "x")),
            ("atom", "R", ("x", "y", "_")),
            ("atom", "R", ("y", "x", "x")),
            ("cmp", "=", "x", "y"),
            ("exists", "z", ("and", ("atom", "E", ("x", "z")), ("atom", "E", ("z", "y")))),
            ("and", ("atom", "E", ("x", "y")), ("not", ("atom", "F", ("x", "y")))),
            ("count", ">=", 2, 0, "w", ("atom", "R", ("x", "y", "w"))),
        ]
    )
    far = chance.choice(
        [
            ("atom", "S", ("y",)),
            ("atom", "T", ("y",)),
            ("atom", "E", ("y", 1)),
            ("exists", "u", ("atom", "E", ("u", "y"))),
            ("not", ("atom", "S", ("y",))),
            ("and", ("atom", "S", ("y",)), ("not", ("atom", "E", ("y", "y")))),
        ]
    )
    body = chance.choice(
        [
            ("and", far, ("not", near)),
            ("->", far, near),
            ("not", near),
            ("and", ("and", far, ("not", near)), ("cmp", "!=", "x", "y")),
            ("and", ("and", ("atom", "T", ("x",)), far), ("not", near)),
            ("or", ("not", far), ("and", near, ("atom", "S", ("x",)))),
            ("<->", far, near),
        ]
    )
    kind = chance.choice(["exists", "forall", "forall", "count", "count", "not"])
    if kind == "count":
        how = chance.choice([">=", "=", "<=", "mod"])
        number = chance.randrange(2) if how == "mod" else chance.randrange(4)
        formula: tuple[Any, ...] = ("count", how, number, 2, "y", body)
    else:
        formula = ("not", ("forall", "y", body)) if kind == "not" else (kind, "y", body)
    guard = chance.choice([("atom", "S", ("x",)), ("atom", "E", ("x", "_")), ("not", ("atom", "T", ("x",))), None])
    if guard is not None:
        formula = (chance.choice(["and", "and", "or", "->"]), guard, formula)
    made = (
        Drawn(("x",), formula)
        if chance.random() < 0.8
        else Drawn((), (chance.choice(["exists", "forall"]), "x", formula))
    )
    return made if all(_sorts(made).values()) and _sorts(made).get("x") else drawn_unguarded(chance)


def drawn_guarded(chance: Random) -> Drawn:
    """A formula of pairs that an atom guards, each of which several denials tie to what is counted."""

    def one(name: str, *terms: str) -> tuple[Any, ...]:
        return ("atom", name, terms)

    guard = chance.choice([one("E", "x", "z"), one("F", "z", "x"), one("R", "x", "z", "_")])
    far = chance.choice([one("S", "y"), one("T", "y"), ("exists", "u", one("E", "u", "y"))])
    first = chance.choice([one("E", "x", "y"), one("F", "y", "x"), ("cmp", "=", "x", "y")])
    second = chance.choice([one("R", "z", "y", "_"), one("E", "z", "y"), ("not", one("E", "z", "y"))])
    near = (chance.choice(["or", "or", "and"]), first, second)
    kind = chance.choice(["forall", "forall", "exists", "count"])
    body = ("->", far, near) if kind == "forall" else ("and", far, ("not", near))
    how = chance.choice([">=", "=", "<=", "mod"])
    asked = ("count", how, chance.randrange(2), 2, "y", body) if kind == "count" else (kind, "y", body)
    return Drawn(("x", "z"), (chance.choice(["and", "and", "and", "->"]), guard, asked))


def _formula(chance: Random, scope: list[str], fresh: Iterator[str], depth: int) -> tuple[Any, ...]:
    if depth == 0 or chance.random() < 0.15:
        return _leaf(chance, scope)
    kind = chance.choice(["and", "and", "or", "not", "->", "<->", "exists", "exists", "forall", "forall", "count"])
    if kind in ("exists", "forall", "count"):
        new = next(fresh, None)
        if new is None:
            return _leaf(chance, scope)
        body = _formula(chance, [*scope, new], fresh, depth - 1)
        if kind != "count":
            return (kind, new, body)
        how = chance.choice([">=", "=", "<=", "mod", "mod"])
        modulus = chance.choice([2, 2, 3])
        number = chance.randrange(modulus) if how == "mod" else chance.randrange(4)
        return ("count", how, number, modulus, new, body)
    if kind == "not":
        return ("not", _formula(chance, scope, fresh, depth - 1))
    return (kind, _formula(chance, scope, fresh, depth - 1), _formula(chance, scope, fresh, depth - 1))


def _leaf(chance: Random, scope: list[str]) -> tuple[Any, ...]:
    if scope and chance.random() < 0.2:
        left, right = chance.choice(scope), chance.choice([*scope, *scope, 1, 2])
        if left != right:
            return ("cmp", chance.choice(["=", "=", "!=", "<", "<="]), left, right)
    relation = chance.choice(["E", "E", "E", "F", "S", "S", "T", "R"])
    newest = scope[-2:] + scope
    terms = [chance.choice([*newest, *newest, chance.randrange(3), "_"]) for _ in range(ARITY[relation])]
    return ("atom", relation, tuple(terms))


def _sorts(made: Drawn) -> dict[str, set[tuple[str, int]]]:
    """The columns over whose values each variable ranges; names of variables are unique in a drawn formula."""
    groups: list[set[Any]] = [{v} for v in (*made.head, *_bound(made.formula))]

    def tie(one: Any, other: Any) -> None:
        touched = [g for g in groups if one in g or other in g]
        for g in touched:
            groups.remove(g)
        groups.append({one, other}.union(*touched))

    for f in _walk(made.formula):
        if f[0] == "atom":
            for i, term in enumerate(f[2]):
                if isinstance(term, str) and term != "_":
                    tie(term, (f[1], i))
        elif f[0] == "cmp" and f[1] in ("=", "!=") and isinstance(f[3], str):
            tie(f[2], f[3])
    return {v: {p for p in g if isinstance(p, tuple)} for g in groups for v in g if isinstance(v, str)}


def _walk(f: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield f
    for child in f[1:]:
        if isinstance(child, tuple) and f[0] != "atom":
            yield from _walk(child)


def _bound(f: tuple[Any, ...]) -> list[str]:
    return [str(g[-2]) for g in _walk(f) if g[0] in ("exists", "forall", "count")]


def satisfied(made: Drawn, rows: Rows) -> set[tuple[int | None, ...]]:
    """The result, by trying all values of each variable's sort."""
    sorts = _sorts(made)
    domain = {
        v: sorted({row[i] for relation, i in places for row in rows[relation] if row[i] is not None})  # type: ignore[type-var]
        for v, places in sorts.items()
    }

    def holds(f: tuple[Any, ...], env: dict[str, Any]) -> bool:
        kind = f[0]
        if kind == "atom":
            return any(_meets(row, f[2], env) for row in rows[f[1]])
        if kind == "cmp":
            return bool(_COMPARE[f[1]](env[f[2]], env[f[3]] if isinstance(f[3], str) else f[3]))
        if kind == "not":
            return not holds(f[1], env)
        if kind == "and":
            return holds(f[1], env) and holds(f[2], env)
        if kind == "or":
            return holds(f[1], env) or holds(f[2], env)
        if kind == "->":
            return not holds(f[1], env) or holds(f[2], env)
        if kind == "<->":
            return holds(f[1], env) == holds(f[2], env)
        x, body = f[-2], f[-1]
        n = sum(holds(body, {**env, x: value}) for value in domain[x])
        if kind == "exists":
            return n > 0
        if kind == "forall":
            return n == len(domain[x])
        _, how, number, modulus, _, _ = f
        return n % modulus == number if how == "mod" else bool(_COMPARE[how](n, number))

    return {
        values
        for values in product(*(domain[v] for v in made.head))
        if holds(made.formula, dict(zip(made.head, values, strict=True)))
    }


def _meets(row: tuple[int | None, ...], terms: tuple[Any, ...], env: Mapping[str, Any]) -> bool:
    return all(
        t == "_" or (value is not None and value == (env[t] if isinstance(t, str) else t))
        for value, t in zip(row, terms, strict=True)
    )


def spec_text(queries: Mapping[str, str]) -> str:
    relations = "\n".join(
        f"  {name}: {{columns: {{"
        + ", ".join(f'{COLUMNS[i]}: "int64{"?" if (name, i) in NULLABLE else ""}"' for i in range(arity))
        + "}}"
        for name, arity in ARITY.items()
    )
    listed = "\n".join(f'  {name}: {{formula: "{text}"}}' for name, text in queries.items())
    return f"version: 1\nrelations:\n{relations}\nqueries:\n{listed}\n"
