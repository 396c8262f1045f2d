"""Versions in the tail of the log: durable by one write and one sync, whole or not there, and damage is told."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dynq_cli.errors import DamagedError
from dynq_cli.storage import log_tail, wal
from dynq_cli.storage.integrity import check
from dynq_cli.storage.layout import checksum_of
from dynq_cli.storage.ledger import ledger_of
from dynq_cli.storage.manifest import read_checkpoint, read_manifest
from dynq_cli.storage.state import State, open
from dynq_cli.storage.writer import Origin
from tests.seeds import seeds
from tests.storage.states import files_of, printed_by, small_batch, small_live, small_rows, small_state

FIRST, LAST = 2, 8
SECTOR = 512


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """The files of a state after each version, all of which are in the tail of one log."""
    folder = tmp_path_factory.mktemp("history")
    small_state(folder, FIRST).close()
    found = [files_of(folder / "state")]
    for version in range(FIRST + 1, LAST + 1):
        with open(folder / "state") as state:
            state.apply(small_batch(version))
        found.append(files_of(folder / "state"))
    assert len(read_manifest(folder / "state").unwritten) == LAST
    return found


def put(folder: Path, files: dict[str, bytes]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def goes_on(folder: Path, version: int) -> None:
    """The state is at a version, whole, for readers and the next writer."""
    state = open(folder)
    assert state.version == version
    assert small_rows(state) == small_rows(small_live(version))
    check(folder, read_data=True)
    state.apply(small_batch(version + 1))
    assert small_rows(open(folder)) == small_rows(small_live(version + 1))
    assert [e.version for e in ledger_of(folder, read_manifest(folder)).entries()] == [*range(version + 1, -1, -1)]


def test_a_lost_write_leaves_the_version_before_whatever_parts_of_it_came_to_the_disk(
    history: list[dict[str, bytes]], tmp_path: Path
) -> None:
    for seed in seeds(12):
        chance = Random(seed)
        number = chance.randrange(len(history) - 1)
        old, new = history[number], history[number + 1]
        before, after = old["wal-0001"], bytearray(new["wal-0001"])
        lost = 0
        # Of the sectors that were written, any may be on the disk, and others have zeros, or what was there before.
        for start in range(len(before) - len(before) % SECTOR, len(after), SECTOR):
            if chance.random() < 0.5:
                stop = min(start + SECTOR, len(after))
                lost += after[start:stop] != before[start:stop].ljust(stop - start, b"\0")
                after[start:stop] = before[start:stop].ljust(stop - start, b"\0")
        known = history[chance.randrange(number + 1)]["synced"] if chance.random() < 0.7 else b""
        folder = put(tmp_path / "state", {**old, "wal-0001": bytes(after), "synced": known})
        goes_on(folder, FIRST + number + (not lost))


def test_any_part_of_a_write_leaves_before_or_after(history: list[dict[str, bytes]], tmp_path: Path) -> None:
    old, new = history[0], history[1]
    before, after = old["wal-0001"], new["wal-0001"]
    chance = Random(1)
    for length in [len(before), *sorted(chance.sample(range(len(before) + 1, len(after)), 12)), len(after)]:
        folder = put(tmp_path / "state", {**old, "wal-0001": after[:length]})
        goes_on(folder, FIRST + (length == len(after)))


def test_a_flipped_bit_in_a_version_that_was_durable_is_damage(history: list[dict[str, bytes]], tmp_path: Path) -> None:
    log = history[-1]["wal-0001"]
    ends = [len(files["wal-0001"]) for files in history]
    for seed in seeds(30):
        chance = Random(seed)
        place = chance.randrange(len(log))
        flipped = bytearray(log)
        flipped[place] ^= 1 << chance.randrange(8)
        # After a loss of power the last version alone has no witness.
        is_last = place >= ends[-2]
        known = history[-1]["synced"] if is_last else history[chance.randrange(len(history))]["synced"]
        if not is_last and chance.random() < 0.5:
            known = b""
        folder = put(tmp_path / "state", {**history[-1], "wal-0001": bytes(flipped), "synced": known})
        with pytest.raises(DamagedError, match="wal-0001"):
            open(folder)
        with pytest.raises(DamagedError, match="wal-0001"):
            check(folder)
        assert (folder / "wal-0001").read_bytes() == flipped, "nothing is cut"


def test_the_last_version_without_its_witness_is_cut_as_a_torn_one(
    history: list[dict[str, bytes]], tmp_path: Path
) -> None:
    flipped = bytearray(history[-1]["wal-0001"])
    flipped[-20] ^= 4
    folder = put(tmp_path / "state", {**history[-1], "wal-0001": bytes(flipped), "synced": history[-2]["synced"]})
    goes_on(folder, LAST - 1)


def calls(patch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the writes and syncs of files from now on."""
    counted: Counter[str] = Counter()

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: int, *args: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{file}")
            counted[f"{name} {os.path.basename(path)}"] += 1
            return real(file, *args)

        return call

    for name in ("fsync", "fdatasync", "pwrite"):
        patch.setattr(os, name, wrapped(name, getattr(os, name)))
    return counted


def test_a_version_is_one_write_and_one_sync_of_the_log(tmp_path: Path) -> None:
    state = small_state(tmp_path, 3)
    with pytest.MonkeyPatch.context() as patch:
        counted = calls(patch)
        for version in range(4, 8):
            state.apply(small_batch(version))
    assert counted == {"pwrite wal-0001": 4, "fdatasync wal-0001": 4, "pwrite synced": 4, "pwrite lock": 4}
    assert small_rows(open(tmp_path / "state")) == small_rows(small_live(7))
    state.close()
    assert (tmp_path / "state/wal-0001").stat().st_size == read_manifest(tmp_path / "state").wal.length


def test_several_versions_are_made_durable_by_one_sync(tmp_path: Path) -> None:
    state = small_state(tmp_path, 1)
    with pytest.MonkeyPatch.context() as patch:
        counted = calls(patch)
        with state.writing() as writer:
            for version in (2, 3, 4):
                writer.take(writer.views.changes(small_batch(version)))
                assert writer.commit(Origin(), sync=False) == version
            assert read_manifest(tmp_path / "state").version == 1
        assert (counted["pwrite wal-0001"], counted["fdatasync wal-0001"]) == (1, 1)
    goes_on(tmp_path / "state", 4)


def test_a_group_that_cannot_be_synced_leaves_the_version_before_all_of_it(tmp_path: Path) -> None:
    state = small_state(tmp_path, 1)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(Exception, match="it is at version 1"), state.writing() as writer:
            for version in (2, 3):
                writer.take(writer.views.changes(small_batch(version)))
                writer.commit(Origin(), sync=False)
    assert state.version == 1
    assert small_rows(state) == small_rows(small_live(1))
    goes_on(tmp_path / "state", 1)


def test_a_rejected_version_leaves_those_of_the_group_before_it(tmp_path: Path) -> None:
    state = small_state(tmp_path, 1)
    with pytest.raises(ZeroDivisionError), state.writing() as writer:
        writer.take(writer.views.changes(small_batch(2)))
        writer.commit(Origin(), sync=False)
        writer.take(writer.views.changes(small_batch(3)))
        raise ZeroDivisionError
    assert small_rows(state) == small_rows(small_live(2))
    goes_on(tmp_path / "state", 2)


def test_the_tail_is_bounded_in_commits_and_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynq_cli.storage.commit.MOST_COMMITS", 5)
    state, folder = small_state(tmp_path), tmp_path / "state"
    for version in range(1, 14):
        state.apply(small_batch(version))
        assert len(read_manifest(folder).unwritten) == version % 6
        assert read_checkpoint(folder).version == version - version % 6
    large = pa.table({"x": list(range(40_000)), "y": ["a"] * 40_000})
    state.apply({"R": large})
    assert read_checkpoint(folder).version == 14
    check(folder, read_data=True)


def test_readers_of_other_processes_see_the_tail_without_numpy(tmp_path: Path) -> None:
    with small_state(tmp_path, 3) as state:
        code = "from dynq_cli.storage.state import open\nprint(open(sys.argv[1]).counts('pairs'))"
        assert printed_by(code, tmp_path / "state").strip() == str(state.counts("pairs"))


def test_a_version_that_is_withdrawn_is_not_remembered(tmp_path: Path) -> None:
    state, folder = small_state(tmp_path, 2), tmp_path / "state"
    seen = []

    def failing(file: int) -> None:
        seen.append(read_manifest(folder).version)
        raise OSError(5, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", failing)
        with pytest.raises(Exception, match="it is at version 2"):
            state.apply(small_batch(3))
    assert seen == [3], "what is written is seen before it is synced"
    goes_on(folder, 2)


def test_a_reader_of_a_version_that_was_withdrawn_reads_the_one_that_took_its_number(tmp_path: Path) -> None:
    state, folder = small_state(tmp_path, 2), tmp_path / "state"
    reader = open(folder)
    follower = reader.subscribe("keys")

    def failing(file: int) -> None:
        assert small_rows(reader) == small_rows(small_live(3)), "what is written is seen before it is synced"
        raise OSError(5, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", failing)
        with pytest.raises(Exception, match="it is at version 2"):
            state.apply(small_batch(3))
    assert small_rows(reader) == small_rows(small_live(2))
    other = pa.table({"x": [-1], "y": ["name 4"]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", failing)
        with pytest.raises(Exception, match="it is at version 2"):
            state.apply(small_batch(3))
    assert state.apply(other, "R") == 3
    assert small_rows(reader) == small_rows(state) == small_rows(open(folder)) != small_rows(small_live(3))
    told = [row for batch in follower.take().batches for row in batch.to_pylist()]
    assert told == [row for batch in open(folder).diff("keys", 2).batches for row in batch.to_pylist()]


def test_what_a_killed_process_wrote_is_synced_before_it_is_said_to_be_applied(
    history: list[dict[str, bytes]], tmp_path: Path
) -> None:
    folder = put(tmp_path / "state", {**history[-1], "synced": history[-2]["synced"]})
    with pytest.MonkeyPatch.context() as patch:
        counted = calls(patch)
        with open(folder).writing() as writer:
            assert writer.version == LAST
        assert counted["fdatasync wal-0001"] == 1
    assert (folder / "synced").read_bytes() == history[-1]["synced"]


def test_no_manifest_names_a_log_that_is_not_synced(history: list[dict[str, bytes]], tmp_path: Path) -> None:
    folder = put(tmp_path / "state", {**history[-1], "synced": history[-2]["synced"]})
    with pytest.MonkeyPatch.context() as patch:
        counted = calls(patch)
        open(folder).mark("here")
    assert list(counted) == [
        "pwrite lock",
        "fdatasync wal-0001",
        "pwrite ledger",
        "fsync ledger",
        "fsync CURRENT.tmp",
        "fsync state",
    ]
    assert read_checkpoint(folder).version == LAST
    check(folder, read_data=True)


def test_a_state_of_the_format_before_opens_and_its_next_version_has_the_new_one(tmp_path: Path) -> None:
    small_state(tmp_path, 2).close()
    folder = tmp_path / "state"
    with open(folder) as state:
        state.mark("m")  # the manifest has all versions
    text = (folder / "CURRENT").read_bytes().partition(b"\n")[2].replace(b'"format": 3', b'"format": 2')
    (folder / "CURRENT").write_bytes(checksum_of(text).encode() + b"\n" + text)
    (folder / "synced").unlink()
    log = (folder / "wal-0001").read_bytes()
    (folder / "wal-0001").write_bytes(log + log[:300])
    assert read_manifest(folder).format == 2
    goes_on(folder, 2)
    assert read_manifest(folder).format == 3
    goes_on(folder, 3)


def other_process(folder: Path, versions: range) -> Iterator[State]:
    """A second handle, which goes on with the log that the first one has left open."""
    for version in versions:
        with open(folder) as state:
            state.apply(small_batch(version))
            yield state


def test_processes_that_take_turns_go_on_with_the_log_of_each_other(tmp_path: Path) -> None:
    first, folder = small_state(tmp_path, 4), tmp_path / "state"
    for other in other_process(folder, range(5, 14, 2)):
        first.apply(small_batch(other.version + 1))
    assert small_rows(first) == small_rows(open(folder)) == small_rows(small_live(14))
    check(folder, read_data=True)


def test_constants_leave_room_for_a_reader(tmp_path: Path) -> None:
    assert wal._ROOM % log_tail.ALIGN == 0
    assert wal._SMALL > log_tail.TAIL_BYTES
