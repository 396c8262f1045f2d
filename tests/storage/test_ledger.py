"""The ledger knows every log that was applied, for as long as the state lives, and nothing that was not committed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import xxhash

from dynq_cli.errors import DamagedError
from dynq_cli.storage import ledger
from dynq_cli.storage.batches import Batch
from dynq_cli.storage.ledger import AppliedLog, Entry, Ledger, append_entry, verify_ledger
from dynq_cli.storage.ledger_facts import LEDGER, LedgerFacts
from dynq_cli.storage.ledger_index import OpenIndex, write_index
from tests.storage.states import files_of


def log(number: int, relation: str = "orders") -> AppliedLog:
    return AppliedLog(relation, f"{relation}-{number}.csv", f"{number:032x}", 100 + number, "plain", 3, 2, 1, 0)


def entry(version: int, *logs: AppliedLog, batch: Batch | None = None) -> Entry:
    return Entry(version, 1_700_000_000_000_000 + version, logs or (log(version),), (batch,) if batch else ())


def written(directory: Path, entries: list[Entry], facts: LedgerFacts | None = None) -> LedgerFacts:
    facts = facts or LedgerFacts()
    for each in entries:
        facts = append_entry(directory, facts, each)
        facts = LedgerFacts.of(json.loads(json.dumps(vars(facts), default=vars)))
    return facts


@pytest.fixture
def small_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes after a few entries instead of hundreds."""
    monkeypatch.setattr(ledger, "TAIL_KEYS", 12)


def test_a_ledger_that_has_not_begun_knows_nothing_and_needs_no_file(tmp_path: Path) -> None:
    known = Ledger(tmp_path, LedgerFacts())
    assert known.find("orders", "a.csv") is None
    assert list(known.entries()) == []
    verify_ledger(tmp_path, LedgerFacts())
    assert LedgerFacts().files == frozenset()


def test_a_log_is_found_by_name_and_by_content_of_its_relation(tmp_path: Path) -> None:
    facts = written(tmp_path, [entry(1, log(1), log(2, "items")), entry(2, log(3))])
    known = Ledger(tmp_path, facts)
    found = known.find("items", "items-2.csv")
    assert found is not None
    assert (found.version, found.time, found.log) == (1, entry(1).time, log(2, "items"))
    assert known.find("orders", "items-2.csv") is None
    by_content = known.find_content("orders", log(3).content)
    assert by_content is not None and (by_content.version, by_content.log) == (2, log(3))
    assert known.find_content("items", log(3).content) is None


def test_of_logs_with_one_name_or_content_the_latest_is_given(tmp_path: Path, small_tail: None) -> None:
    again = [replace(log(1), content=f"{i:032x}") for i in range(40)]
    facts = written(tmp_path, [entry(i, again[i], replace(log(7), name=f"{i}.csv")) for i in range(40)])
    for known in (Ledger(tmp_path, facts), Ledger(tmp_path, facts)):
        by_name, by_content = known.find("orders", log(1).name), known.find_content("orders", log(7).content)
        assert by_name is not None and by_name.log == again[39]
        assert by_content is not None and by_content.log.name == "39.csv"
    assert facts.indexes


def test_of_two_logs_of_one_version_the_later_is_given(tmp_path: Path) -> None:
    one, two = replace(log(1), rows=7), replace(log(1), rows=8)
    known = Ledger(tmp_path, written(tmp_path, [entry(1, one, two)]))
    by_name, by_content = known.find("orders", one.name), known.find_content("orders", one.content)
    assert by_name is not None and by_name.log == two
    assert by_content is not None and by_content.log == two


@pytest.mark.parametrize("name", ["a b.csv", "été.csv", "行.csv", "x" * 255, "\udcff.csv", "a\nb", '"', "\\"])
def test_any_file_name_is_known_again(tmp_path: Path, name: str, small_tail: None) -> None:
    facts = written(tmp_path, [entry(1, replace(log(1), name=name)), *(entry(i) for i in range(2, 20))])
    found = Ledger(tmp_path, facts).find("orders", name)
    assert found is not None and found.log.name == name


def test_a_batch_and_a_version_are_found(tmp_path: Path, small_tail: None) -> None:
    batches = [Batch("shop", str(i), str(i + 1)) for i in range(30)]
    facts = written(tmp_path, [entry(i, batch=batch) for i, batch in enumerate(batches)])
    known = Ledger(tmp_path, facts)
    for i, batch in enumerate(batches):
        assert known.find_batch(batch) == known.entry(i) == entry(i, batch=batch)
    assert known.find_batch(Batch("shop", "1", "3")) is None
    assert known.find_batch(Batch("other", "1", "2")) is None
    assert known.entry(30) is None


def test_entries_are_read_backwards_from_the_latest(tmp_path: Path, small_tail: None) -> None:
    made = [entry(version) for version in range(40)]
    known = Ledger(tmp_path, written(tmp_path, made))
    assert list(known.entries()) == made[::-1]
    assert list(known.entries(limit=3)) == made[:-4:-1]
    assert list(known.entries(since_version=37)) == [made[39], made[38]]
    assert list(known.entries(since_version=39)) == []


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_sizes_of_entries_all_is_found_and_verified(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    monkeypatch.setattr(ledger, "TAIL_KEYS", chance.choice([0, 1, 5, 50]))
    monkeypatch.setattr(ledger, "RATIO", chance.choice([1, 2, 4]))
    facts, made, number = LedgerFacts(), list[Entry](), 0
    for version in range(120):
        many = chance.choice([0, 1, 1, 2, 300])
        logs = tuple(log(number + i) for i in range(many))
        made.append(Entry(version, version, logs))
        number += many
        facts = written(tmp_path, made[-1:], facts)
    verify_ledger(tmp_path, facts)
    assert facts.entries == 120
    assert len(facts.indexes) <= 20
    known = Ledger(tmp_path, facts)
    for each in made:
        for one in each.logs[:3]:
            found = known.find(one.relation, one.name)
            assert found is not None and (found.version, found.log) == (each.version, one)
        assert known.entry(each.version) == each
    assert known.find("orders", "never.csv") is None


def test_keys_that_collide_are_told_apart_by_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_tail: None
) -> None:
    monkeypatch.setattr(ledger, "_key", lambda *_: 2**64 - 1)
    facts = written(tmp_path, [entry(version) for version in range(600)])
    verify_ledger(tmp_path, facts)
    known = Ledger(tmp_path, facts)
    for version in (0, 1, 300, 598, 599):
        found = known.find("orders", log(version).name)
        assert found is not None and found.version == version
    assert known.find("orders", "never.csv") is None


def test_what_was_never_committed_is_not_known_and_is_cut_by_the_next_writer(tmp_path: Path) -> None:
    committed = written(tmp_path, [entry(1), entry(2)])
    written(tmp_path, [entry(3), entry(4)], committed)
    known = Ledger(tmp_path, committed)
    assert known.find("orders", log(3).name) is None
    assert [e.version for e in known.entries()] == [2, 1]
    other = entry(3, log(33))
    facts = written(tmp_path, [other], committed)
    assert (tmp_path / LEDGER).stat().st_size == facts.length
    assert list(Ledger(tmp_path, facts).entries(limit=1)) == [other]
    assert known.find("orders", log(1).name) is not None, "a reader of the version before goes on"


@pytest.mark.parametrize("tail", [b"\0", b"torn", bytes(70_000), "part of an entry"])
def test_a_torn_tail_is_no_part_of_the_ledger(tmp_path: Path, tail: bytes | str) -> None:
    facts = written(tmp_path, [entry(1), entry(2)])
    path = tmp_path / LEDGER
    whole = path.read_bytes()
    path.write_bytes(whole + (whole[:-3] if isinstance(tail, str) else tail))
    assert [e.version for e in Ledger(tmp_path, facts).entries()] == [2, 1]
    verify_ledger(tmp_path, facts)
    written(tmp_path, [entry(3)], facts)
    assert path.read_bytes().startswith(whole)


def test_an_index_that_was_never_committed_is_in_nobodys_way(tmp_path: Path, small_tail: None) -> None:
    committed = written(tmp_path, [entry(version) for version in range(4)])
    lost = written(tmp_path, [entry(4, log(77))], committed)
    assert lost.made == committed.made + 1, "this append made an index"
    facts = written(tmp_path, [entry(version) for version in range(4, 12)], committed)
    verify_ledger(tmp_path, facts)
    known = Ledger(tmp_path, facts)
    assert known.find("orders", log(77).name) is None
    assert known.find("orders", log(4).name) is not None


def failing(patch: pytest.MonkeyPatch, step: str, after: int) -> None:
    real, left = getattr(os, step), after

    def counted(*args: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        return real(*args)

    patch.setattr(os, step, counted)


@pytest.mark.parametrize("step", ["pwrite", "fsync", "ftruncate"])
def test_an_append_that_fails_leaves_the_ledger_as_it_was(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = written(tmp_path, [entry(1)])
    before = files_of(tmp_path)
    with monkeypatch.context() as patch:
        failing(patch, step, 0)
        with pytest.raises(OSError, match="No space"):
            append_entry(tmp_path, facts, entry(2))
    assert files_of(tmp_path) == before
    verify_ledger(tmp_path, written(tmp_path, [entry(2)], facts))


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: real(file, data[:7], place))
    facts = written(tmp_path, [entry(1), entry(2)])
    verify_ledger(tmp_path, facts)
    assert list(Ledger(tmp_path, facts).entries()) == [entry(2), entry(1)]


def answers(directory: Path, facts: LedgerFacts, versions: int) -> list[object]:
    known = Ledger(directory, facts)
    found: list[object] = [known.find("orders", log(v).name) for v in range(versions)]
    found += [known.find_content("orders", log(v).content) for v in range(versions)]
    return [*found, known.find("orders", "never.csv"), *known.entries()]


def flips(whole: bytes, chance: Random, many: int) -> Iterator[bytes]:
    for place in [*range(8), len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(many))]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        yield bytes(flipped)


def test_a_flipped_bit_is_found_and_never_an_answer(tmp_path: Path, small_tail: None) -> None:
    versions = 41
    facts = written(tmp_path, [entry(version) for version in range(versions)])
    assert len(facts.indexes) >= 2 and facts.tail_keys > 0
    right = answers(tmp_path, facts, versions)
    chance = Random(5)
    for name in sorted(facts.files):
        path = tmp_path / name
        whole = path.read_bytes()
        for flipped in flips(whole, chance, 80):
            path.write_bytes(flipped)
            with pytest.raises(DamagedError, match=name):
                verify_ledger(tmp_path, facts)
            with pytest.raises(DamagedError, match=name):
                answers(tmp_path, facts, versions)
        path.write_bytes(whole)
    assert answers(tmp_path, facts, versions) == right


def test_a_lookup_alone_never_answers_from_flipped_bits(tmp_path: Path, small_tail: None) -> None:
    versions = 41
    facts = written(tmp_path, [entry(version) for version in range(versions)])
    chance, refused = Random(6), 0
    for name in sorted(facts.files):
        path = tmp_path / name
        whole = path.read_bytes()
        for flipped in flips(whole, chance, 60):
            path.write_bytes(flipped)
            version = chance.randrange(versions)
            try:
                found = Ledger(tmp_path, facts).find("orders", log(version).name)
            except DamagedError:
                refused += 1
            else:
                assert found is not None and (found.version, found.log) == (version, log(version))
        path.write_bytes(whole)
    assert refused > 20


def test_a_file_that_is_cut_or_gone_is_found(tmp_path: Path, small_tail: None) -> None:
    facts = written(tmp_path, [entry(version) for version in range(20)])
    for name in sorted(facts.files):
        path = tmp_path / name
        whole = path.read_bytes()
        for length in (0, 1, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            for act in (verify_ledger, lambda d, f: answers(d, f, 20)):
                with pytest.raises(DamagedError, match=name):
                    act(tmp_path, facts)
        if name == LEDGER:
            with pytest.raises(DamagedError, match="ledger is shorter"):
                append_entry(tmp_path, facts, entry(20))
        path.unlink()
        with pytest.raises(DamagedError, match=f"{name} is missing"):
            answers(tmp_path, facts, 20)
        if name == LEDGER:
            with pytest.raises(DamagedError, match="ledger is missing"):
                append_entry(tmp_path, facts, entry(20))
        path.write_bytes(whole)


def test_files_of_another_ledger_are_not_taken_for_this_one(tmp_path: Path, small_tail: None) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    facts = written(one, [entry(version) for version in range(5)])
    others = written(two, [entry(version, log(version + 100)) for version in range(5)])
    assert facts.files == others.files and len(facts.files) == 2
    for name in facts.files:
        mine = (one / name).read_bytes()
        (one / name).write_bytes((two / name).read_bytes())
        with pytest.raises(DamagedError, match=name):
            answers(one, facts, 5)
        (one / name).write_bytes(mine)


def test_another_history_of_the_same_length_is_not_taken_for_this_one(tmp_path: Path) -> None:
    facts = written(tmp_path, [entry(1), entry(2)])
    other = written(tmp_path, [entry(1), entry(2, log(3))])
    assert other.length == facts.length
    with pytest.raises(DamagedError, match="ledger has an entry before byte"):
        list(Ledger(tmp_path, facts).entries())
    with pytest.raises(DamagedError, match="ledger does not end with the entry"):
        Ledger(tmp_path, facts).find("orders", log(1).name)


def test_half_a_million_versions_answer_from_as_little_as_a_thousand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in pages of indexes and bytes of the ledger, which do not depend on the machine."""
    young, old = tmp_path / "young", tmp_path / "old"
    young.mkdir()
    old.mkdir()
    few, many = written(young, [entry(v) for v in range(1000)]), grown(old, 500_000)
    assert many.entries == 500_000
    assert len(json.dumps(vars(many), default=vars)) < 2000, "the manifest stays small"

    looked: list[object] = []

    def counted(owner: object, step: str) -> None:
        real = getattr(owner, step)

        def noted(*args: object) -> object:
            looked.append(args)
            return real(*args)

        monkeypatch.setattr(owner, step, noted)

    counted(ledger, "_read")
    counted(OpenIndex, "_page")

    def work(directory: Path, facts: LedgerFacts, version: int) -> int:
        looked.clear()
        known = Ledger(directory, facts)
        found = known.find("orders", log(version).name)
        assert found is not None and found.version == version
        assert known.find("orders", "never.csv") is None
        assert next(known.entries(limit=1)).version == facts.entries - 1
        return len(looked)

    most_of_few = max(work(young, few, v) for v in (0, 500, 999))
    most_of_many = max(work(old, many, v) for v in (0, 250_000, 499_999))
    assert most_of_many < most_of_few + ledger.TAIL_KEYS // 3 + 100
    before = (old / LEDGER).stat().st_size
    appended = append_entry(old, many, entry(500_000))
    assert appended.length - before < 300


def grown(directory: Path, versions: int) -> LedgerFacts:
    """A ledger of so many versions, the last 100 in its tail, made at once what `append_entry` makes bit by bit."""
    checksum, texts, keys, offsets = 0, bytearray(), list[int](), list[int]()
    for version in range(versions - 100):
        name, content = f"orders-{version}.csv", f"{version:032x}"
        told = f'["orders","{name}","{content}",{100 + version},"plain",3,2,1,0]'
        text = f"[{version},{1_700_000_000_000_000 + version},[{told}],[]]".encode()
        framed = ledger._HEAD.pack(len(text)) + text
        checksum = xxhash.xxh3_64_intdigest(framed, seed=checksum)
        keys += ledger._key(0, str(version)), ledger._key(1, "orders", name), ledger._key(2, "orders", content)
        offsets += [len(texts)] * 3
        texts += framed + ledger._END.pack(checksum, len(text))
    (directory / LEDGER).write_bytes(texts)
    index = write_index(directory, 1, len(texts), checksum, np.array(keys, np.uint64), np.array(offsets, np.uint64))
    facts = LedgerFacts(len(texts), checksum, versions - 100, len(keys), 1, (index,))
    return written(directory, [entry(version) for version in range(versions - 100, versions)], facts)


def test_a_ledger_made_at_once_is_the_one_that_grew(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    facts = grown(one, 400)
    verify_ledger(one, facts)
    assert facts.checksum == written(two, [entry(version) for version in range(400)]).checksum
