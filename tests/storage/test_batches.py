"""A batch is applied once, and never over another one."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from dynq_cli.errors import RejectedError
from dynq_cli.storage.batches import Batch, Intervals, add_batch, check_batch
from tests.every_case import every_case
from tests.seeds import seeds


def batch(start: object, stop: object) -> Batch:
    return Batch("shop", str(start), str(stop))


def taken(*bounds: tuple[object, object]) -> tuple[tuple[str, str], ...]:
    intervals: tuple[tuple[str, str], ...] = ()
    for start, stop in bounds:
        assert check_batch(intervals, batch(start, stop), is_known=False) == "new"
        intervals = add_batch(intervals, batch(start, stop))
    return intervals


def refused(intervals: Intervals, start: object, stop: object, why: str) -> None:
    with pytest.raises(RejectedError, match=why) as told:
        check_batch(intervals, batch(start, stop), is_known=False)
    assert told.value.exit_code == 3
    assert f"shop from {str(start) or 'the beginning'} to {stop}" in str(told.value), "the batch is named"


def test_the_very_batch_is_applied_already() -> None:
    assert check_batch(taken((0, 10), (10, 20)), batch(0, 10), is_known=True) == "applied"


def test_batches_that_touch_become_one_interval() -> None:
    assert taken((0, 10), (10, 20), (20, 30)) == (("0", "30"),)
    assert taken((0, 10), (20, 30), (10, 20)) == (("0", "30"),)
    assert taken((20, 30), (0, 10)) == (("0", "10"), ("20", "30"))
    assert taken(("", 5), (5, 7)) == (("", "7"),)


@every_case(("start", "stop"), [(5, 15), (0, 20), (-5, 1), (2, 3), (9, 10), (0, 10), ("", 1), ("", 99)])
def test_a_batch_that_overlaps_is_refused_and_both_are_named(start: object, stop: object) -> None:
    refused(taken((0, 10)), start, stop, "overlaps the batch applied already, shop from 0 to 10")


def test_intervals_as_json_gives_them_will_do() -> None:
    kept = [["0", "10"], ["20", "30"]]
    assert check_batch(kept, batch(10, 20), is_known=False) == "new"
    assert add_batch(kept, batch(10, 20)) == (("0", "30"),)
    refused(kept, 29, 31, "from 20 to 30")


def test_numbers_compare_as_numbers() -> None:
    assert taken((9, 10), (10, 100), (-3, 9)) == (("-3", "100"),)
    refused((), 10, 9, "does not stop after its start")
    refused((), 7, 7, "does not stop after its start")
    refused((), 7, "007", "does not stop after its start")


def test_times_compare_as_times_whatever_way_they_are_written() -> None:
    day = taken(("2024-01-01", "2024-01-02T00:00:00Z"), ("2024-01-02 00:00:00", "2024-01-03T01:00:00+01:00"))
    assert day == (("2024-01-01", "2024-01-03T01:00:00+01:00"),)
    refused(day, "2024-01-02T23:59:59.999999Z", "2024-01-05", "overlaps")
    assert check_batch(day, batch("2024-01-03", "2024-01-04"), is_known=False) == "new"


def test_names_form_a_chain() -> None:
    chain = taken(("", "ab12"), ("ab12", "cd34"), ("cd34", "ef56"))
    assert chain == (("", "ef56"),)
    assert check_batch(chain, batch("ab12", "cd34"), is_known=True) == "applied"
    refused(chain, "ab12", "9f9f", "does not go on from the batch applied already, shop from the beginning to ef56")
    refused(chain, "ef56", "ef56", "does not stop after its start")
    back = add_batch(chain, batch("ef56", "ab12"))
    assert check_batch(back, batch("ab12", "9f9f"), is_known=False) == "new"


def test_a_long_digest_of_digits_is_a_name() -> None:
    assert taken(("0" * 32, "f" * 32), ("f" * 32, "1" * 32)) == (("0" * 32, "1" * 32),)


@pytest.mark.parametrize(
    ("start", "stop", "why"),
    [
        (5, "2024-01-01", "two kinds, a number and a time"),
        ("abc", 5, "two kinds, a name and a number"),
        ("2024-01-01", "2024-13-01", "two kinds, a name and a time"),
        (0, "", "does not say where it stops"),
    ],
)
def test_bounds_that_cannot_be_compared_are_refused(start: object, stop: object, why: str) -> None:
    refused((), start, stop, why)


def test_a_source_keeps_to_one_kind() -> None:
    refused(taken((0, 10)), "2024-01-01", "2024-01-02", "are times where .* has numbers")
    refused(taken(("a", "b")), 1, 2, "are numbers where .* has names")


@pytest.mark.parametrize("seed", seeds(12))
def test_exactly_the_batches_apart_from_all_others_are_new(seed: int) -> None:
    chance = Random(seed)
    intervals: tuple[tuple[str, str], ...] = ()
    covered: set[int] = set()
    for _ in range(60):
        start = chance.randrange(-20, 100)
        stop = start + chance.randrange(1, 12)
        steps = set(range(start + 1, stop + 1))
        if steps & covered:
            refused(intervals, start, stop, "overlaps")
        else:
            assert check_batch(intervals, batch(start, stop), is_known=False) == "new"
            intervals = add_batch(intervals, batch(start, stop))
            covered |= steps
        numbers = [(int(a), int(b)) for a, b in intervals]
        assert {step for a, b in numbers for step in range(a + 1, b + 1)} == covered
        assert all(one[1] < two[0] for one, two in pairwise(numbers)), "as few intervals as can be"
