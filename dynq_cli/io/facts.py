"""Collect what data files show about a relation: the columns' types, where NULLs are, which columns are unique.

The facts of several files of one relation are those of the files one after the other.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dynq_cli.errors import RejectedError
from dynq_cli.io.arrow_types import from_arrow
from dynq_cli.io.keys import KeyFinder
from dynq_cli.io.pieces import Piece
from dynq_cli.io.sniff import FLOAT, NOTHING, TEXT, Guess, join, sniff
from dynq_cli.spec.types import Type, widen

_MOST_COMBINED = {2: 16, 3: 10}  # columns that keys of a size are made of: 120 pairs, 120 triples
_MOST_KEYS = 3
_SAMPLED = 1000  # values whose words are counted
_WORDS_OF_PROSE = 3  # spaces between them, on average
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass
class ColumnFacts:
    """A column: the type files declare, or the one their texts suggest, and its NULLs."""

    name: str
    declared: Type | None = None
    guess: Guess = NOTHING
    nulls: bool = False
    values: int = 0
    unusable: str = ""
    files: set[str] = field(default_factory=set)
    _sampled: int = 0
    _spaces: int = 0
    _declared_in: str = ""
    _guessed_in: str = ""
    _json_family: str = ""

    def observe(self, relation: str, piece: Piece) -> None:
        file, values = piece.file, piece.columns[self.name]
        self.files.add(file.path)
        if file.format == "csv":
            self.guess, self._guessed_in = sniff(values, self.guess), file.path
        elif file.format == "jsonl":
            self._observe_json(relation, file.path, values)
        else:
            self._observe_declared(relation, file.path, from_arrow(values.type))
        self._observe_nulls(piece, values)
        self._sample_words(values)

    def _sample_words(self, values: pa.Array) -> None:
        if self._sampled >= _SAMPLED or not _is_text(values.type):
            return
        sample = values.slice(0, _SAMPLED).drop_null()
        if isinstance(sample, pa.DictionaryArray):  # spelled out, texts may be far larger than the file
            sample = sample.dictionary.take(sample.indices.unique())
        self._sampled += len(sample)
        self._spaces += pc.sum(pc.count_substring(sample.cast(pa.large_string()), " ")).as_py() or 0

    def _observe_nulls(self, piece: Piece, values: pa.Array) -> None:
        if piece.nulls is not None:
            missing = piece.nulls.get(self.name, 0)
            self.nulls |= missing > 0
            self.values += piece.rows - missing
            return
        self.values += len(values) - values.null_count
        live = values if piece.live is None or values.null_count == 0 else values.filter(piece.live)
        self.nulls |= live.null_count > 0

    def _observe_declared(self, relation: str, file: str, found: Type | None) -> None:
        if found is None:
            return
        if self.declared is not None and self.declared != found:
            both = widen(self.declared, found)
            if both is None:
                raise self._conflict(relation, self.declared, self._declared_in, found, file)
            found = both
        self.declared, self._declared_in = found, file

    def _observe_json(self, relation: str, file: str, values: pa.Array) -> None:
        if values.null_count == len(values):
            return
        found = _guess_json(values)
        family = "string" if pt.is_string(values.type) else "bool" if pt.is_boolean(values.type) else "number"
        if self._json_family not in ("", family):
            raise self._conflict(relation, self.guess.type, self._guessed_in, found.type, file)
        self.guess, self._guessed_in, self._json_family = join(self.guess, found), file, family

    def settle(self, relation: str) -> Type:
        """The one type for a spec; raises RejectedError where files disagree."""
        if self.declared is None or self.guess.fits(self.declared):
            return self.declared or self.guess.type
        both = widen(self.declared, self.guess.type)
        if both is None:
            raise self._conflict(relation, self.declared, self._declared_in, self.guess.type, self._guessed_in)
        return both

    def _conflict(self, relation: str, a: Type, a_file: str, b: Type, b_file: str) -> RejectedError:
        return RejectedError(
            f"column {self.name} of {relation} is {a} in {a_file} and {b} in {b_file}:"
            " no type holds both without loss; make the files agree, or infer them one by one"
        )

    @property
    def may_identify(self) -> bool:
        """Whether a key of this type makes sense. Texts of four words and more are prose."""
        kind = self.declared or self.guess.type
        if self._spaces >= _WORDS_OF_PROSE * max(self._sampled, 1):
            return False
        return not (self.unusable or kind.is_float or kind.name == "bool" or kind.scale)


def _is_text(kind: pa.DataType) -> bool:
    inside = kind.value_type if pt.is_dictionary(kind) else kind
    return bool(pt.is_string(inside) or pt.is_large_string(inside))


def _guess_json(values: pa.Array) -> Guess:
    if pt.is_string(values.type):
        found = sniff(values)
        # Written as a string on purpose: an identifier made of digits.
        return TEXT if found.kind == "int" else found
    if pt.is_int64(values.type):
        return Guess("int", 19)
    if pt.is_decimal(values.type):
        return Guess("fixed", values.type.precision)
    return Guess("bool") if pt.is_boolean(values.type) else FLOAT


@dataclass
class RelationFacts:
    """A relation: its columns in the order of the first file, and its candidate keys."""

    name: str
    key_rows: int
    columns: dict[str, ColumnFacts] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    rows: int = 0
    by_column: bool = False
    logged: bool = False
    keys: list[tuple[str, ...]] = field(default_factory=list)
    rows_compared: int = 0
    _lower: set[str] = field(default_factory=set)
    _live_rows: Counter[str] = field(default_factory=Counter)
    _finder: KeyFinder | None = None

    def observe(self, piece: Piece) -> None:
        """Take in one piece of the relation's data."""
        if piece.file.path not in self.files:
            self.files.append(piece.file.path)
        self.rows += piece.rows
        self.by_column |= piece.by_column
        self.logged |= piece.live is not None
        for name in piece.columns:
            column = self._column(name)
            column.nulls |= self._is_late(column, piece)
            column.observe(self.name, piece)
        self._live_rows[piece.file.path] += piece.rows if piece.live is None else piece.live.true_count
        for name, reason in piece.unusable.items():
            column = self._column(name)
            column.unusable = column.unusable or reason
            column.files.add(piece.file.path)
        self._look_for_keys(piece)

    def _is_late(self, column: ColumnFacts, piece: Piece) -> bool:
        """Whether earlier lines of a JSON file have left the column out, which means NULL."""
        path = piece.file.path
        return piece.file.format == "jsonl" and path not in column.files and self._live_rows[path] > 0

    @property
    def own_columns(self) -> list[ColumnFacts]:
        """The columns; in a log that mixes relations, those that have values in the rows of this one."""
        return [c for c in self.columns.values() if c.values or not self.by_column]

    def _column(self, name: str) -> ColumnFacts:
        if name not in self.columns:
            self.columns[name] = ColumnFacts(name, unusable=_name_problem(name, self._lower))
            self._lower.add(name.lower())
        return self.columns[name]

    def _look_for_keys(self, piece: Piece) -> None:
        if piece.rows == 0 or piece.nulls is not None:
            return
        if self._finder is None:
            self._finder = KeyFinder(((name,) for name in piece.columns), self.key_rows)
        self.feed(self._finder, piece)

    def feed(self, finder: KeyFinder, piece: Piece) -> None:
        finder.drop(lambda name: not self.columns[name].may_identify)
        wanted = {name for candidate in finder.candidates for name in candidate}
        columns = {name: self._comparable(name, piece) for name in wanted & piece.columns.keys()}
        finder.feed(columns, piece.rows if piece.inserted is None else piece.inserted.true_count)

    def _comparable(self, name: str, piece: Piece) -> pa.Array:
        values = piece.columns[name] if piece.inserted is None else piece.columns[name].filter(piece.inserted)
        as_numbers = piece.file.format == "csv" and self.columns[name].guess.kind == "int"
        return values.cast(pa.int64()) if as_numbers else values

    def settle_keys(self) -> None:
        """Close the search for single columns."""
        if self._finder is not None:
            self.keys, self.rows_compared = self._finder.finish(), self._finder.rows
            self._finder = None

    def ranked_keys(self) -> list[tuple[str, ...]]:
        """The likeliest keys: of integers before others, of earlier columns before later ones."""
        order = {name: position for position, name in enumerate(self.columns)}

        def rank(key: tuple[str, ...]) -> tuple[int, list[int]]:
            others = sum(not self.columns[name].settle(self.name).is_integer for name in key)
            return others, [order[name] for name in key]

        return sorted(self.keys, key=rank)[:_MOST_KEYS]

    def wider_finder(self, size: int) -> KeyFinder | None:
        """A finder for keys of two or three columns, to be fed with the same rows again; None if smaller ones do."""
        names = [c.name for c in self.columns.values() if c.may_identify and not c.nulls][: _MOST_COMBINED[size]]
        if self.keys or self.rows_compared < 2 or len(names) < size:
            return None
        return KeyFinder(combinations(names, size), self.key_rows)


def _name_problem(name: str, lower: set[str]) -> str:
    if name.startswith("_"):
        return "names that begin with _ belong to change logs: rename it"
    if not _NAME.fullmatch(name):
        return "a name has letters, digits and _ only, and begins with a letter: rename it"
    return "another column has this name but for upper and lower case" if name.lower() in lower else ""
