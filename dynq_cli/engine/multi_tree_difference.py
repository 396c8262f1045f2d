"""The difference between two engines of a result that is read from several trees, its members.

    result(old) + combined_differences(old, new) = result(new)

A row that changes in the result changes in some member, or in a tree whose rows the result lacks, so the differences
of these (`difference`) contain all candidates. The multiplicity of a candidate in each engine is looked up in all of
them. A row is reported once, with the last tree in which it changed. O(the trees' differences · trees).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dynq_cli.engine.difference import Changed, differences
from dynq_cli.engine.engine import BLOCK, Engine
from dynq_cli.engine.kernels.fields import Flags, Words
from dynq_cli.engine.multi_tree_result import MultiTreeResult


def combined_differences(
    old: Engine, new: Engine, query: str, variables: Sequence[str], block: int = BLOCK
) -> Iterator[Changed]:
    """Yield the deleted and inserted rows, tree by tree; with multiplicities if the result is a bag."""
    before, after = old.combined[query], new.combined[query]
    wanted = [after.head.index(v) for v in variables]
    trees = after.step.read
    for number, member in enumerate(trees):
        for changed in differences(old, new, member.tree, member.variables, block):
            codes, copies = changed.codes, changed.copies
            passing = after.passes(codes)
            if passing is not None:
                codes, copies = codes[:, passing], copies[passing]
            if len(trees) == 1:
                if len(copies):
                    yield Changed(changed.is_insert, codes[wanted], copies)
                continue
            codes = codes[:, ~_changes_later(before, after, number, codes)]
            net = after.total(codes) - before.total(codes)
            for is_insert in (False, True):
                kept = np.flatnonzero(net > 0 if is_insert else net < 0)
                if len(kept):
                    yield Changed(is_insert, codes[wanted][:, kept], np.abs(net[kept]))


def _changes_later(before: MultiTreeResult, after: MultiTreeResult, member: int, codes: Words) -> Flags:
    """Return which rows change in a later tree, too."""
    found: Flags = np.zeros(codes.shape[1], np.bool_)
    olds, news = ([*each.lookups, *each.lacking][member + 1 :] for each in (before, after))
    for was, now in zip(olds, news, strict=True):
        found |= was.copies(codes) != now.copies(codes)
    return found
