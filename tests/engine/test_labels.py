"""Labels stand in the order of the values, whatever came when, and few of them ever change."""

from __future__ import annotations

import random
from math import log2

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sortedcontainers import SortedKeyList

from dynq_cli.engine.dictionary import Dictionary
from dynq_cli.engine.labels import Labels

TINY = {"stride": 2, "bits": 20, "block_size": 4}
BATCHES = st.lists(st.lists(st.binary(max_size=3) | st.binary(min_size=7, max_size=18), max_size=30), max_size=12)


def add(dictionary: Dictionary, labels: Labels, values: list[bytes]) -> None:
    dictionary.intern(pa.array(values, pa.binary()))
    labels.update(dictionary)


def values_of(dictionary: Dictionary, ids: np.ndarray) -> list[bytes]:
    values: list[bytes] = dictionary.decode(ids, pa.binary()).to_pylist()
    return values


@settings(deadline=None, derandomize=True)
@given(BATCHES, st.sampled_from([TINY, {"stride": 1, "bits": 9, "block_size": 6}, {}]))
def test_labels_order_ids_as_a_sorted_list_orders_values(batches: list[list[bytes]], options: dict[str, int]) -> None:
    dictionary, labels, oracle = Dictionary(), Labels(**options), SortedKeyList(key=lambda item: item[0])
    for batch in batches:
        add(dictionary, labels, batch)
        for value in dict.fromkeys(batch):
            if (value,) not in oracle:
                oracle.add((value,))
        labels._check(dictionary)
        assert values_of(dictionary, labels.order()) == [value for (value,) in oracle]
        assert values_of(dictionary, np.argsort(labels.labels)) == [value for (value,) in oracle]


@settings(deadline=None, derandomize=True)
@given(BATCHES, st.binary(max_size=4))
def test_floor_is_the_greatest_value_not_greater(batches: list[list[bytes]], value: bytes) -> None:
    dictionary, labels = Dictionary(), Labels(**TINY)
    for batch in batches:
        add(dictionary, labels, batch)
    found = labels.floor(dictionary, value)
    smaller = [known for batch in batches for known in batch if known <= value]
    assert (values_of(dictionary, np.array([found])) if found >= 0 else []) == ([max(smaller)] if smaller else [])


@pytest.mark.parametrize("seed", range(8))
def test_any_history_of_inserts_rollbacks_and_reopening_keeps_all_invariants(seed: int) -> None:
    rng = random.Random(seed)
    dictionary, labels = Dictionary(), Labels(**TINY)
    alphabet = rng.choice([2, 26, 256])
    for _ in range(60):
        count = len(dictionary)
        batch = [bytes(rng.randrange(alphabet) for _ in range(rng.randrange(12))) for _ in range(rng.randrange(20))]
        add(dictionary, labels, batch)
        what = rng.randrange(6)
        if what == 0:
            dictionary.truncate(count)
            labels.truncate(count)
        elif what == 1:
            kept = {name: array.copy() for name, array in labels.arrays().items()}
            for array in kept.values():
                array.flags.writeable = rng.random() < 0.5
            labels = Labels.from_arrays(kept, stride=2, bits=20)
        labels._check(dictionary)


def test_strings_that_begin_alike_are_ordered_by_what_follows() -> None:
    values = [b"", b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaa\0", b"aaaaaaaab", b"aaaaaaab", b"\x7f", b"\x80", b"\xff\xff"]
    dictionary, labels = Dictionary(), Labels()
    add(dictionary, labels, values[::-1])
    assert values_of(dictionary, labels.order()) == values


def names(count: int) -> list[bytes]:
    return [b"name %09d" % i for i in range(count)]


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("is_descending", [False, True])
def test_values_that_come_in_order_never_change_a_label(batch: int, is_descending: bool) -> None:
    values = names(200_000 if batch > 1 else 20_000)[:: -1 if is_descending else 1]
    dictionary, labels = Dictionary(), Labels()
    for start in range(0, len(values), batch):
        add(dictionary, labels, values[start : start + batch])
    assert labels.relabelled == 0
    assert values_of(dictionary, labels.order()) == sorted(values)


@pytest.mark.parametrize(
    ("order", "batch"), [("ascending", 1), ("descending", 1), ("ascending", 1000), ("shuffled", 1), ("inwards", 1)]
)
def test_values_within_one_gap_change_few_labels_each(order: str, batch: int) -> None:
    values = names(20_000)
    if order == "descending":
        values.reverse()
    elif order == "shuffled":
        random.Random(1).shuffle(values)
    elif order == "inwards":
        values = [value for pair in zip(values, values[::-1], strict=True) for value in pair][: len(values)]
    dictionary, labels = Dictionary(), Labels()
    add(dictionary, labels, [b"a", b"z"])
    for start in range(0, len(values), batch):
        add(dictionary, labels, values[start : start + batch])
    labels._check(dictionary)
    assert labels.relabelled <= 2 * log2(len(values)) * len(values)


def test_a_batch_shares_its_gap_evenly() -> None:
    dictionary, labels = Dictionary(), Labels(stride=1000)
    add(dictionary, labels, [b"a", b"z"])
    add(dictionary, labels, [b"p", b"g", b"k"])
    a, z, p, g, k = labels.labels.tolist()
    assert (g - a, k - g, p - k, z - p) == (250, 250, 250, 250)


def test_labels_never_swap_the_order_of_two_ids() -> None:
    dictionary, labels = Dictionary(), Labels(stride=2, bits=40)
    rng = random.Random(2)
    add(dictionary, labels, [bytes([rng.randrange(256), rng.randrange(256)]) for _ in range(200)])
    before = np.argsort(labels.labels)
    known = len(labels)
    add(dictionary, labels, [bytes(rng.randrange(256) for _ in range(3)) for _ in range(2000)])
    assert labels.relabelled > 0
    assert np.array_equal(np.argsort(labels.labels[:known]), before)


def test_every_label_can_be_used_and_no_more() -> None:
    dictionary, labels = Dictionary(), Labels(stride=1, bits=4, block_size=4)
    for i in range(32):
        add(dictionary, labels, [b"%02d" % (i * 7 % 32)])
        labels._check(dictionary)
    assert sorted(labels.labels) == list(range(-16, 16))
    with pytest.raises(OverflowError, match="33 values"):
        add(dictionary, labels, [b"more"])
