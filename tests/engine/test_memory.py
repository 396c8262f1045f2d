"""Memory grows in place where the system lets it, by copying where it does not, and never loses a word."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.memory import LARGE, PAGE, WORD, Memory

_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
_COUNTS_ALL = not _OVERCOMMIT.exists() or _OVERCOMMIT.read_text().strip() == "2"


def test_growing_in_place_moves_nothing() -> None:
    memory = Memory(1000)
    place = memory.words.ctypes.data
    memory.words[:1000] = np.arange(1000)
    memory.grow(10_000_000)
    assert memory.words.ctypes.data == place
    assert memory.words[:1000].tolist() == list(range(1000)) and memory.words[9_999_999] == 0


@pytest.mark.parametrize("most", [0, 2 * mmap.PAGESIZE])
def test_growing_by_copying_keeps_every_word(most: int) -> None:
    memory = Memory(1000, most)
    memory.words[:1000] = np.arange(1000)
    memory.grow(50_000)
    assert len(memory.words) >= 50_000
    assert memory.words[:1000].tolist() == list(range(1000)) and not memory.words[1000:].any()


def test_memory_over_an_array_is_copied_when_it_grows_and_the_array_stays() -> None:
    given = np.arange(100)
    memory = Memory.over(given)
    memory.words[0] = 7
    memory.discard(0, 100)
    memory.grow(200)
    memory.words[1] = 9
    assert given[:3].tolist() == [7, 1, 2] and memory.words[:3].tolist() == [7, 9, 2]


def test_memory_over_a_mapped_file_gives_its_pages_up_when_it_grows(tmp_path: Path) -> None:
    path, words = tmp_path / "words", 5 * PAGE + 3
    path.write_bytes(np.arange(2 * PAGE + words).tobytes())
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    first = PAGE + 1
    given = np.frombuffer(mapping, np.int64)[first : first + words]
    given[:] = -given
    memory = Memory.over(given)
    memory.grow(2 * words)
    assert np.array_equal(memory.words[:words], -np.arange(first, first + words)), "no word is lost"
    inner = slice(2 * PAGE, 6 * PAGE)
    everything = np.frombuffer(mapping, np.int64)
    assert np.array_equal(everything[inner], np.arange(inner.start, inner.stop)), "copies of whole pages went back"
    assert everything[first] == -first and everything[first - 1] == first - 1, "pages of others stay"


@pytest.mark.skipif(_COUNTS_ALL, reason="this system counts all address space as memory, whatever it is asked for")
def test_address_space_does_not_count_as_memory_when_a_process_forks() -> None:
    """It does if the mapping is an ordinary one: what the child could write to is then more than there is."""
    several = [Memory(1000) for _ in range(4)]
    assert sum(len(memory.words) for memory in several) * WORD > os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)


@pytest.mark.parametrize("words", [1, PAGE, LARGE - 1, LARGE, LARGE + 3 * PAGE + 5])
def test_a_region_is_moved_whole_wherever_it_starts(words: int) -> None:
    memory = Memory(1 << 16)
    start, to = PAGE // 2 + 3, 3 * LARGE
    memory.words[start : start + words] = np.arange(words)
    memory.words[start - 1], memory.words[start + words] = -1, -2
    memory.move(start, to, words)
    assert np.array_equal(memory.words[to : to + words], np.arange(words))
    assert (memory.words[start - 1], memory.words[start + words]) == (-1, -2), "neighbours stay"


def test_whole_pages_that_are_given_back_read_as_zero_and_others_stay() -> None:
    memory = Memory(1 << 16)
    memory.words[: 4 * PAGE] = 1
    memory.discard(PAGE - 1, 3 * PAGE + 1)
    assert memory.words[:PAGE].all() and memory.words[3 * PAGE : 4 * PAGE].all()
    assert not memory.words[PAGE : 3 * PAGE].any()


def test_tables_keep_their_rows_while_the_arena_is_copied_to_grow() -> None:
    fields = {"arity": 1, "hashed": 1, "stride": 2, "capacity": 0, "used": 0, "live": 0, "mask": 0}
    table = f.made(f.TABLE, [f.blank(f.TABLE) | fields])
    arena = Arena(table, memory=Memory(64, 64 * WORD))
    for rows in (10, 1000, 100_000):
        arena.reserve(0, rows)
        used = int(table["used"][0])
        at = int(table["rows"][0])
        assert arena.words[at : at + 2 * used : 2].tolist() == list(range(used))
        table["used"] = table["live"] = rows
        arena.words[at : at + 2 * rows : 2] = np.arange(rows)


@pytest.mark.parametrize(("most", "sizes"), [(1 << 37, 4), (0, 10)])
def test_a_table_moves_seldom_where_addresses_are_plenty_and_is_doubled_elsewhere(most: int, sizes: int) -> None:
    tables = np.zeros(1, f.TABLE)
    tables["stride"], tables["mask"] = 4, -1
    arena, met = Arena(tables, memory=Memory(1000, most)), set()
    for rows in range(0, 500_000, 1000):
        tables["live"] = tables["used"] = rows
        arena.reserve(0, 1000)
        met.add(int(tables["capacity"][0]))
    assert len(met) == sizes
