"""Find columns, or combinations of columns, that are unique and never NULL in the first rows of a relation.

A candidate keeps one 64-bit fingerprint per row and is dropped at its first NULL, or when a
check finds fewer distinct fingerprints than rows. Checks come at row 1,024 and at every fourfold
of it, so most candidates cost nothing soon: memory is 8 bytes per row and surviving candidate.
Two values that share a fingerprint can hide a key; they cannot make one up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_FIRST_CHECK = 1_024
_START = pa.scalar(0x3C6EF372FE94F82B, pa.int64())
_MIX = pa.scalar(0x1E3779B97F4A7C15, pa.int64())  # odd: multiplying by it permutes the 64-bit integers


class KeyFinder:
    """Fed with rows, it keeps the candidates that may still be keys."""

    def __init__(self, candidates: Iterable[tuple[str, ...]], limit: int) -> None:
        self._seen: dict[tuple[str, ...], list[pa.Array]] = {candidate: [] for candidate in candidates}
        self._limit = limit
        self._next_check = _FIRST_CHECK
        self.rows = 0

    @property
    def candidates(self) -> list[tuple[str, ...]]:
        return list(self._seen)

    @property
    def done(self) -> bool:
        return self.rows >= self._limit or not self._seen

    def drop(self, hopeless: Callable[[str], bool]) -> None:
        """Give up the candidates that have a column of which `hopeless` is true."""
        self._seen = {c: rows for c, rows in self._seen.items() if not any(map(hopeless, c))}

    def feed(self, columns: dict[str, pa.Array], rows: int) -> None:
        """Take in some rows; a candidate whose column they lack, or have a NULL in, is dropped."""
        start = 0
        while start < rows and not self.done:
            take = min(rows - start, self._next_check - self.rows, self._limit - self.rows)
            self._take({name: values.slice(start, take) for name, values in columns.items()})
            start += take
            self.rows += take
            if self.rows == self._next_check:
                self._check_unique()
                self._next_check *= 4

    def finish(self) -> list[tuple[str, ...]]:
        """The candidates that are keys of all rows taken in; fewer than two rows prove nothing."""
        self._check_unique()
        return self.candidates if self.rows > 1 else []

    def _take(self, columns: dict[str, pa.Array]) -> None:
        self.drop(lambda name: name not in columns or columns[name].null_count > 0)
        prints = {name: fingerprints(columns[name]) for name in {name for c in self._seen for name in c}}
        for candidate, taken in self._seen.items():
            mixed = prints[candidate[0]]
            for name in candidate[1:]:
                # Scattered first, so that neither (1, 2) and (2, 1) nor (1, 1) and (-1, -1) meet.
                scattered = pc.multiply(pc.add(mixed, _START), _MIX)
                mixed = pc.add(pc.bit_wise_xor(scattered, pc.shift_right(scattered, 29)), prints[name])
            taken.append(mixed)

    def _check_unique(self) -> None:
        self._seen = {c: rows for c, rows in self._seen.items() if _distinct(rows) == self.rows}


def _distinct(pieces: list[pa.Array]) -> int:
    distinct: int = pc.count_distinct(pa.chunked_array(pieces, pa.int64())).as_py()
    return distinct


def fingerprints(values: pa.Array) -> pa.Array:
    """An int64 per value: integers and days as they are, other types by Python's hash of the value."""
    if isinstance(values, pa.DictionaryArray):
        # A dictionary may be far longer than the piece, and spelled-out texts far larger: only entries in use count.
        used = values.indices.unique()
        return fingerprints(values.dictionary.take(used)).take(pc.index_in(values.indices, value_set=used))
    if pt.is_signed_integer(values.type) or pt.is_unsigned_integer(values.type):
        return values.cast(pa.int64(), safe=False)
    if pt.is_date32(values.type):
        return values.cast(pa.int32()).cast(pa.int64())
    if pt.is_timestamp(values.type) or pt.is_date64(values.type):
        return values.cast(pa.int64())
    return pa.array(map(hash, values.to_pylist()), pa.int64())
