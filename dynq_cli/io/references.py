"""Find columns that refer to the key of another relation: joins that the data confirm.

    find_references(relations, files, rows)      (child, columns) → (parent, key), each with its evidence

A column refers to a key if the values it has are (nearly) all values of the key, and if that is no accident: two
relations that number their rows from 1 contain each other's numbers. So either the names agree (`o_custkey` and
`c_custkey`, `customer_id` and the `id` of `customers`), or the values do not meet by chance: texts, or numbers of
a key that leaves most numbers of its range out. A key of several columns needs names that agree.

Work is bounded: two passes over the first `rows` rows, one for the keys and one for the columns, 64-bit fingerprints of
distinct values, and a column that misses a key too often in its first rows is dropped. A key whose relation has more
rows is not checked, since nothing says that a value is not in the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dynq_cli.io.data_files import DataFile
from dynq_cli.io.facts import RelationFacts
from dynq_cli.io.pieces import Piece, read_pieces
from dynq_cli.spec.types import Type

Prints = NDArray[np.int64]

_MOST_CANDIDATES = 400
_NEARLY = 0.05  # of the distinct values of a column may be missing in the key
_FEWEST = {"text": 5, "int": 20}  # distinct values from which on columns without a name that agrees are believed
_SPARSE = 4  # a key of numbers has this many times as many numbers in its range as values
_MIX = np.int64(0x1E3779B97F4A7C15)
_GENERIC = ("id", "key", "code", "nr", "num", "number", "no", "sk", "pk", "fk", "uuid", "guid", "name")
_ABBREVIATED = 3  # letters from which on the beginning of a relation's name stands for it
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass
class Reference:
    """Columns of one relation that refer to a key of another. `missing` of their `values` are not in the key."""

    child: RelationFacts
    columns: tuple[str, ...]
    parent: RelationFacts
    key: tuple[str, ...]
    rank: int  # how well the names agree: 0 best, 3 not at all
    values: int = 0
    missing: int = 0

    @property
    def is_certain(self) -> bool:
        return not self.missing


@dataclass
class _Key:
    """A key with the fingerprints of its values, sorted."""

    parent: RelationFacts
    columns: tuple[str, ...]
    families: tuple[str, ...]
    pieces: list[Prints] = field(default_factory=list)
    prints: Prints = field(default_factory=lambda: np.empty(0, np.int64))

    def settle(self) -> None:
        self.prints = np.unique(np.concatenate(self.pieces)) if self.pieces else self.prints
        self.pieces = []

    @property
    def is_sparse(self) -> bool:
        """Whether numbers of its range are mostly not in it."""
        if self.families != ("int",) or len(self.prints) < 2:
            return False
        return int(self.prints[-1]) - int(self.prints[0]) + 1 >= _SPARSE * len(self.prints)

    def lacks(self, values: Prints) -> int:
        if not len(self.prints):
            return len(values)
        places = np.minimum(np.searchsorted(self.prints, values), len(self.prints) - 1)
        return int((self.prints[places] != values).sum())


@dataclass
class _Candidate:
    reference: Reference
    key: _Key
    seen: Prints = field(default_factory=lambda: np.empty(0, np.int64))
    is_dropped: bool = False

    def take(self, prints: Prints) -> None:
        new = np.setdiff1d(prints, self.seen, assume_unique=True)
        self.seen = np.union1d(self.seen, new)
        self.reference.values = len(self.seen)
        self.reference.missing += self.key.lacks(new)
        self.is_dropped = self.reference.missing > max(_NEARLY * len(self.seen), 1)

    def is_believed(self) -> bool:
        found = self.reference
        if self.is_dropped or found.values < 2 or found.missing > _NEARLY * found.values:
            return False
        if found.rank < _UNNAMED:
            return True
        (family,) = self.key.families
        return found.is_certain and found.values >= _FEWEST[family] and (family == "text" or self.key.is_sparse)


_UNNAMED = 3


def find_references(relations: Sequence[RelationFacts], files: Sequence[DataFile], rows: int) -> list[Reference]:
    """The references among these relations, of each column the likeliest. O(rows) for each pass."""
    keys = [key for parent in relations for key in _keys(parent, rows)]
    candidates = [found for key in keys for found in _candidates(key, relations)][:_MOST_CANDIDATES]
    keys = [key for key in keys if any(c.key is key for c in candidates)]
    for piece in _first_rows(files, {key.parent.name for key in keys}, rows):
        for key in keys:
            if key.parent.name == piece.relation:
                key.pieces.append(_fingerprints(piece, key.columns, key.families))
    for key in keys:
        key.settle()
    candidates = [
        c for c in candidates if c.reference.rank < _UNNAMED or c.key.families == ("text",) or c.key.is_sparse
    ]
    for piece in _first_rows(files, {c.reference.child.name for c in candidates}, rows):
        for candidate in candidates:
            if candidate.reference.child.name == piece.relation and not candidate.is_dropped:
                candidate.take(_fingerprints(piece, candidate.reference.columns, candidate.key.families))
    return _likeliest([c for c in candidates if c.is_believed()])


def _keys(parent: RelationFacts, rows: int) -> Iterator[_Key]:
    if parent.rows_compared >= rows and parent.rows > parent.rows_compared:
        return
    for columns in parent.ranked_keys():
        families = tuple(_family(parent.columns[name].settle(parent.name)) for name in columns)
        if all(families):
            yield _Key(parent, columns, families)


def _family(kind: Type) -> str:
    """Types whose values may be equal and that a join takes: whole numbers, texts, days; others are no references."""
    if kind.is_integer or (kind.name == "decimal" and not kind.scale):
        return "int"
    return {"string": "text", "date": "date"}.get(kind.name, "")


def _candidates(key: _Key, relations: Sequence[RelationFacts]) -> Iterator[_Candidate]:
    for child in relations:
        if child is key.parent:
            continue
        usable = [c for c in child.own_columns if not c.unusable and c.values]
        families = {c.name: _family(c.settle(child.name)) for c in usable}
        if len(key.columns) == 1:
            for name, family in families.items():
                if family == key.families[0]:
                    rank = _rank(child.name, name, key.parent.name, key.columns[0])
                    if rank < _UNNAMED or family in _FEWEST:
                        yield _Candidate(Reference(child, (name,), key.parent, key.columns, rank), key)
        else:
            found = _agreeing(key, child, families)
            if found:
                yield _Candidate(Reference(child, found, key.parent, key.columns, 1), key)


def _agreeing(key: _Key, child: RelationFacts, families: dict[str, str]) -> tuple[str, ...]:
    """The columns of a relation whose names agree with those of a key of several, or none."""
    found: list[str] = []
    for column, family in zip(key.columns, key.families, strict=True):
        core = _core(key.parent.name, column)
        same = [n for n, f in families.items() if f == family and n not in found and core]
        same = [n for n in same if n == column or _core(child.name, n) == core]
        if not same:
            return ()
        found.append(same[0])
    return tuple(found)


def _rank(child: str, column: str, parent: str, key: str) -> int:
    """How well the name of a column says that it refers to a key.

    >>> _rank("orders", "o_custkey", "customer", "c_custkey"), _rank("orders", "customer_id", "customers", "id")
    (0, 0)
    >>> _rank("flights", "airline", "airlines", "code"), _rank("flights", "origin", "airports", "iata")
    (0, 3)
    >>> _rank("orders", "billing_address_id", "addresses", "address_id"), _rank("orders", "id", "customers", "id")
    (0, 3)
    >>> _rank("a", "x_ref", "b", "x_ref")
    1
    """
    own, theirs, relation = _core(child, column), _core(parent, key), [_singular(t) for t in _tokens(parent)]
    if not own:
        return _UNNAMED
    names_relation = own[-len(relation) :] == relation or (
        len(own[-1]) >= _ABBREVIATED and relation[-1].startswith(own[-1]) and len(relation) == 1
    )
    if names_relation and (not theirs or own[-len(theirs) :] == theirs or theirs != own):
        return 0
    if theirs and own == theirs:
        return 1
    return 2 if theirs and own[-len(theirs) :] == theirs else _UNNAMED


def _core(relation: str, column: str) -> list[str]:
    """The words of a column's name without the initials of its relation and words such as `id` and `key`.

    >>> _core("customer", "c_custkey"), _core("orders", "shipToAddressId"), _core("orders", "id")
    (['cust'], ['ship', 'to', 'address'], [])
    """
    tokens = _tokens(column)
    if len(tokens) > 1 and len(tokens[0]) < _ABBREVIATED and relation.lower().startswith(tokens[0][0]):
        tokens = tokens[1:]
    while tokens and tokens[-1] in _GENERIC:
        tokens = tokens[:-1]
    if tokens:
        ending = next((g for g in _GENERIC if tokens[-1].endswith(g) and len(tokens[-1]) >= len(g) + _ABBREVIATED), "")
        tokens[-1] = _singular(tokens[-1].removesuffix(ending))
    return tokens


def _tokens(name: str) -> list[str]:
    return [token.lower() for token in _TOKEN.findall(name)] or [name.lower()]


def _singular(word: str) -> str:
    """A word without the ending of a plural, roughly.

    >>> [_singular(word) for word in ("customers", "addresses", "cities", "bus", "address")]
    ['customer', 'address', 'city', 'bus', 'address']
    """
    if word.endswith("ies") and len(word) > _ABBREVIATED + 1:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) and len(word) > _ABBREVIATED else word


def _first_rows(files: Iterable[DataFile], wanted: set[str], rows: int) -> Iterator[Piece]:
    """The first rows of the relations that are wanted, of each at most `rows`, give or take a piece."""
    left = dict.fromkeys(wanted, rows)
    for file in files:
        for piece in read_pieces(file, rows):
            if not piece.by_column and left.get(piece.relation, 0) <= 0:
                break
            if left.get(piece.relation, 0) > 0 and piece.nulls is None and piece.rows:
                left[piece.relation] -= piece.rows
                yield piece


def _fingerprints(piece: Piece, columns: Sequence[str], families: Sequence[str]) -> Prints:
    """The distinct values of columns, as sorted fingerprints; rows with a NULL among them have none."""
    if any(name not in piece.columns for name in columns):
        return np.empty(0, np.int64)
    arrays = [piece.columns[name] for name in columns]
    if piece.live is not None:
        arrays = [values.filter(piece.live) for values in arrays]
    there = arrays[0].is_valid()
    for values in arrays[1:]:
        there = pc.and_(there, values.is_valid())
    mixed = np.zeros(there.true_count or 0, np.int64)
    with np.errstate(over="ignore"):
        for values, family in zip(arrays, families, strict=True):
            printed = _prints(values.filter(there), family)
            mixed = printed if len(arrays) == 1 else (mixed ^ (mixed >> 29)) * _MIX + printed
    return np.unique(mixed)


def _prints(values: pa.Array, family: str) -> Prints:
    """An int64 per value: equal values have equal ones, whatever the type of the file."""
    if isinstance(values, pa.DictionaryArray):  # spelled out, texts may be far larger than the file
        used = values.indices.unique()
        places = np.asarray(pc.index_in(values.indices, value_set=used))
        return np.take(_prints(values.dictionary.take(used), family), places)
    if family == "int":
        try:
            return np.asarray(values.cast(pa.int64()))
        except pa.ArrowInvalid:  # numbers beyond 64 bits
            return np.array([hash(int(v)) for v in values.to_pylist()], np.int64)
    if family == "date":
        return np.asarray(values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()))
    coded = values.dictionary_encode()
    hashes: Prints = np.array([hash(v) for v in coded.dictionary.to_pylist()], np.int64)
    return np.take(hashes, np.asarray(coded.indices))


def _likeliest(candidates: Sequence[_Candidate]) -> list[Reference]:
    """Of each column the reference whose names agree best and whose key is smallest; of two relations not both ways."""
    ordered = sorted(
        candidates, key=lambda c: (c.reference.rank, c.reference.missing, len(c.key.prints), -c.reference.values)
    )
    chosen: dict[tuple[str, tuple[str, ...]], Reference] = {}
    by: dict[tuple[str, str], tuple[str, ...]] = {}
    for candidate in ordered:
        r = candidate.reference
        back = chosen.get((r.parent.name, r.key))
        if back is not None and (back.parent.name, back.key) == (r.child.name, r.columns):
            continue
        if by.setdefault((r.child.name, r.parent.name), r.key) != r.key:
            continue  # `product` beside `product_id`
        chosen.setdefault((r.child.name, r.columns), r)
    place = {id(c.reference): n for n, c in enumerate(candidates)}
    return sorted(chosen.values(), key=lambda r: place[id(r)])
