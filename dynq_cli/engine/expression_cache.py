"""Cache the results of expressions over one column, by code.

Most filtered columns have few values: days, flags, sizes, brands. So DuckDB evaluates each value once, and a batch of
known values needs no DuckDB call, which takes as long as a thousand rows in the engine.

    cache.of(asked, type, codes)              the code of the result for each code; None if one is not cached
    cache.learn(asked, type, codes, given)    cache these results

Results for ids are valid as long as the ids: call `forget` when ids will be reused. Columns whose codes lie far apart
are not cached.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.spec.types import Type

# Maximum distance of the codes of a cached column; ids are dense.
MOST_APART = 1 << 18
_UNKNOWN = np.int64(NULL + 1)


class _Answers:
    """The results for the codes from `low` on, and for NULL."""

    def __init__(self) -> None:
        self.low = 0
        self.known = np.empty(0, np.int64)
        self.null = _UNKNOWN
        self.is_over = False

    def of(self, codes: Words) -> Words | None:
        missing = codes == NULL if codes.min(initial=0) == NULL else None
        places = codes - self.low if missing is None else np.where(missing, 0, codes - self.low)
        if not len(self.known) or places.min(initial=0) < 0 or places.max(initial=0) >= len(self.known):
            return None
        found = self.known[places]
        if missing is not None:
            found[missing] = self.null
        return None if (found == _UNKNOWN).any() else found

    def learn(self, codes: Words, given: Words) -> None:
        missing = codes == NULL
        if missing.any():
            self.null = given[missing][0]
            codes, given = codes[~missing], given[~missing]
        if not len(codes) or self.is_over:
            return
        low, high = int(codes.min()), int(codes.max()) + 1
        if len(self.known):
            low, high = min(low, self.low), max(high, self.low + len(self.known))
        if high - low > MOST_APART:
            self.is_over, self.known = True, np.empty(0, np.int64)
            return
        if high - low > len(self.known):
            self._widen(low, high)
        self.known[codes - self.low] = given

    def _widen(self, low: int, high: int) -> None:
        before, at = self.known, self.low - low if len(self.known) else 0
        # Double, so that growing ids do not copy everything each time.
        self.known = np.full(min(max(high - low, 2 * len(before)), MOST_APART), _UNKNOWN, np.int64)
        self.known[at : at + len(before)] = before
        self.low = low


class ExpressionCache:
    def __init__(self) -> None:
        self._answers: dict[tuple[Hashable, Type], _Answers] = {}

    def of(self, asked: Hashable, kind: Type, codes: Words) -> Words | None:
        """Return the cached results of an expression for codes of a type; None if one is not cached. O(codes)."""
        answers = self._answers.get((asked, kind))
        return None if answers is None else answers.of(codes)

    def learn(self, asked: Hashable, kind: Type, codes: Words, given: Words) -> None:
        """Cache results of an expression for codes of a type; the results must not be ids."""
        self._answers.setdefault((asked, kind), _Answers()).learn(codes, given)

    def forget(self, counts: Mapping[str, int]) -> None:
        """Drop all results for dictionaries that were truncated to `counts`: their ids will be reused."""
        for (_, kind), answers in self._answers.items():
            # Narrow decimals are no ids, but have the same name: they are dropped too.
            if kind.name in counts:
                answers.known[max(counts[kind.name] - answers.low, 0) :] = _UNKNOWN
