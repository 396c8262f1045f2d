"""Ids are dense, depend on nothing but the history of values, and lead back to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynq_cli.engine import dictionary as module
from dynq_cli.engine.dictionary import Dictionaries, Dictionary
from dynq_cli.engine.kernels.codes import NULL, UNKNOWN
from dynq_cli.engine.kernels.intern import hash_bytes
from dynq_cli.errors import RejectedError
from dynq_cli.spec.types import STRING, Type, decimal

VALUES = st.lists(st.none() | st.binary(max_size=20) | st.sampled_from([b"", b"a", b"ab", b"abcdefgh", b"abcdefghi"]))


class Oracle:
    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}

    def intern(self, values: list[bytes | None]) -> list[int]:
        return [NULL if value is None else self.ids.setdefault(value, len(self.ids)) for value in values]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(["intern", "roll back", "lookup", "reopen", "replay"]), VALUES), max_size=12))
def test_any_history_gives_the_ids_of_a_plain_dict(actions: list[tuple[str, list[bytes | None]]]) -> None:
    made, oracle = Dictionary(), Oracle()
    for action, values in actions:
        array = pa.array(values, pa.binary())
        if action == "intern":
            assert made.intern(array).tolist() == oracle.intern(values)
        elif action == "roll back":
            count = len(made)
            made.intern(array)
            made.truncate(count)
        elif action == "lookup":
            wanted = [NULL if value is None else oracle.ids.get(value, UNKNOWN) for value in values]
            assert made.lookup(array).tolist() == wanted
        elif action == "reopen":
            made = Dictionary.from_arrays(made.arrays())
        else:
            copy = Dictionary()
            copy.extend(*made.since(0))
            made = copy
        made._check()
        assert made.decode(np.arange(len(made)), pa.binary()).to_pylist() == list(oracle.ids)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()],
    ids=str,
)
def test_every_layout_of_arrow_gives_the_same_ids_even_from_the_middle_of_an_array(kind: pa.DataType) -> None:
    values = ["left out", "b", None, "", "a value of more than twelve bytes", "b", "left out too"]
    array = (
        pa.array(values).cast(kind) if "binary" not in str(kind) else pa.array([v and v.encode() for v in values], kind)
    )
    made = Dictionary()
    assert made.intern(array[1:6]).tolist() == [0, NULL, 1, 2, 0]
    assert made.decode(np.array([2, NULL, 1]), pa.string()).to_pylist() == [values[4], None, ""]


def test_many_values_keep_their_ids_through_growth() -> None:
    values = pa.array([str(i) for i in range(50_000)])
    made = Dictionary()
    assert np.array_equal(made.intern(values), np.arange(50_000))
    made._check()
    assert np.array_equal(made.intern(values.take(pa.array([7, 49_999]))), [7, 49_999])


def test_a_value_of_ten_megabytes_is_one_value() -> None:
    long = "é" * 5_000_000
    made = Dictionary()
    assert made.intern(pa.array([long, "", long, long + "!"])).tolist() == [0, 1, 0, 2]
    assert made.decode(np.array([2, 0]), pa.string()).to_pylist() == [long + "!", long]
    made._check()


def test_arrays_that_cannot_be_written_are_copied_and_others_are_not() -> None:
    made = Dictionary()
    made.intern(pa.array(["a", "b"]))
    kept = {name: array.copy() for name, array in made.arrays().items()}
    assert Dictionary.from_arrays(kept).flat.data is kept["data"]
    for array in kept.values():
        array.flags.writeable = False
    opened = Dictionary.from_arrays(kept)
    assert opened.intern(pa.array(["c", "a"])).tolist() == [2, 0]
    assert Dictionary.from_arrays(kept).lookup(pa.array(["c"])).tolist() == [UNKNOWN]


def test_files_mapped_copy_on_write_are_used_in_place_and_never_written(tmp_path: Path) -> None:
    made = Dictionary()
    made.intern(pa.array(["a", "b"]))
    for name, array in made.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    mapped = {path.stem: np.load(path, mmap_mode="c") for path in tmp_path.iterdir()}
    opened = Dictionary.from_arrays(mapped)
    assert np.shares_memory(opened.flat.slots, mapped["slots"])
    assert opened.intern(pa.array(["c", "a"])).tolist() == [2, 0]
    opened._check()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_opened_dictionary_has_room_for_a_quarter_more() -> None:
    made = Dictionary()
    made.intern(pa.array([f"{i:08d}" for i in range(1000)]))
    opened = Dictionary.from_arrays(made.arrays())
    before = opened.flat
    opened.intern(pa.array([f"{i:08d}" for i in range(1250)]))
    assert all(old is new for old, new in zip(before, opened.flat, strict=True))


@pytest.mark.parametrize(
    ("data", "offsets", "reason"),
    [
        (b"newa", [0, 3, 4], "already"),
        (b"twicetwice", [0, 5, 10], "already"),
        (b"abc", [0, 2], "do not fit"),
        (b"abc", [1, 3], "do not fit"),
        (b"abc", [0, 2, 1, 3], "do not fit"),
        (b"", [], "do not fit"),
    ],
)
def test_a_log_that_does_not_continue_the_dictionary_is_refused_and_changes_nothing(
    data: bytes, offsets: list[int], reason: str
) -> None:
    made = Dictionary()
    made.intern(pa.array(["a", "b"]))
    with pytest.raises(ValueError, match=reason):
        made.extend(np.frombuffer(data, np.uint8), np.array(offsets, np.int64))
    made._check()
    assert made.decode(np.arange(len(made)), pa.string()).to_pylist() == ["a", "b"]


def test_more_values_than_ids_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VALUES", 40)
    made = Dictionary()
    with pytest.raises(RejectedError, match="at most 40 different values"):
        made.intern(pa.array([str(i) for i in range(100)]))
    made._check()


def test_the_hash_never_changes_because_it_is_kept_on_disk() -> None:
    values = [b"", b"a", b"abcdefgh", b"abcdefghijklmnopqrst"]
    hashes = [int(hash_bytes(np.frombuffer(value, np.uint8), 0, len(value))) for value in values]
    assert hashes == [0xE255F2F48FA6632A, 0x527DE2EA96DAFAD5, 0xC9A4B94520FA87DC, 0x7A0855954B8DA099]


def test_values_with_the_same_hash_are_different_values() -> None:
    def after_first(word: int) -> int:
        start = 0x9E3779B97F4A7C15 ^ (16 * 0x9FB21C651E98DF25 % 2**64)
        mixed = (start ^ word) * 0x9FB21C651E98DF25 % 2**64
        return mixed ^ mixed >> 32

    second = [after_first(word) ^ after_first(0) for word in range(50)]
    values = [word.to_bytes(8, "little") + other.to_bytes(8, "little") for word, other in enumerate(second)]
    made = Dictionary()
    assert made.intern(pa.array(values)).tolist() == list(range(50))
    assert len(np.unique(made.flat.hashes[:50])) == 1
    made._check()


def test_similar_values_spread_over_the_slots() -> None:
    made = Dictionary()
    made.intern(pa.array([f"customer#{i:09d}" for i in range(100_000)]))
    hashes = made.flat.hashes[:100_000]
    taken = len(np.unique(hashes & np.uint64(2**17 - 1)))
    expected = 2**17 * (1 - np.exp(-100_000 / 2**17))
    assert taken == pytest.approx(expected, rel=0.01)


def test_the_dictionaries_of_a_state_travel_together() -> None:
    made = Dictionaries()
    made.of(STRING).intern(pa.array(["a", "b"]))
    counts = made.counts()
    assert counts == {"string": 2, "binary": 0, "decimal": 0}
    made.of(STRING).intern(pa.array(["c"]))
    made.of(Type("binary")).intern(pa.array([b"\xff"]))
    news = made.since(counts)
    assert sorted(news) == ["binary", "string"]

    opened = Dictionaries.from_arrays(made.arrays())
    opened.truncate(counts)
    assert opened.counts() == counts
    opened.extend(news)
    opened._check()
    assert opened.strings.lookup(pa.array(["c"])).tolist() == [2]
    assert opened.of(decimal(38, 0)) is opened.decimals
