"""One flipped bit, in any file of a state: what is read is right or refused, never wrong; `check` finds every one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from dynq_cli.errors import DamagedError
from dynq_cli.session.apply_logs import Options, apply_logs
from dynq_cli.storage.integrity import check
from dynq_cli.storage.state import open as open_state
from tests.crash.history import QUERIES, History, Rows
from tests.crash.runner import Runner

FLIPS = 1000 if "DYNQ_CRASH" in os.environ else 300
HISTORY = History(seed=8, logs=9)
APPLIED = 8
# Nothing reads who holds a lock but the one who cannot have it.
NO_DATA = ("lock", "run-lock")
# It says again what the log says, and a killed process may leave half of it: `check` lets it be.
WITNESS = "synced"


@pytest.fixture(scope="module")
def folder(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with every kind of file, and records behind its snapshot."""
    made = tmp_path_factory.mktemp("flips")
    HISTORY.write(made)
    assert runner.run(made, HISTORY.init).status == 0
    for number in range(1, APPLIED):
        assert runner.run(made, ["apply", f"logs/{number:05d}"]).status == 0
    with open_state(made / ".dynq") as state:
        apply_logs(state, [str(made / f"logs/{APPLIED:05d}")])
    return made


def look(folder: Path) -> tuple[object, ...]:
    """All that commands read: counts, rows, what was applied before, and what the next log would do."""
    state = open_state(folder / ".dynq")
    counts = [state.counts(query) for query in QUERIES]
    rows: Rows = {}
    for query in QUERIES:
        found = [tuple(row.values()) for batch in state.enum(query) for row in batch.to_pylist()]
        rows[query] = sorted(found, key=repr)
    told = apply_logs(state, [str(folder / "logs")], Options(dry_run=True))
    return state.version, counts, rows, [(log.version, log.inserted, log.deleted, log.reason) for log in told]


def refused(read: Callable[[], object]) -> str | None:
    """What a reader says about damage; None if it met none."""
    try:
        read()
    except DamagedError as error:
        return str(error)
    return None


def test_a_flipped_bit_is_never_returned_as_data(folder: Path) -> None:
    truth = look(folder)
    assert truth[0] == APPLIED
    assert truth[2] == HISTORY.seen[APPLIED]
    state = folder / ".dynq"
    files = sorted(path for path in state.iterdir() if path.name not in NO_DATA and path.stat().st_size)
    assert WITNESS in {path.name for path in files}
    kinds = {path.name.rstrip("0123456789-") for path in files}
    assert {"CURRENT", "PREVIOUS", "spec.yaml", "plans.json", "snapshot", "wal", "ledger", "ledger-index"} <= kinds
    chance = Random(2)
    for turn in range(FLIPS):
        path = files[turn % len(files)]
        whole = path.read_bytes()
        place, bit = chance.randrange(len(whole)), chance.randrange(8)
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), bytes([whole[place] ^ 1 << bit]), place)
        where = f"bit {bit} of byte {place} of {path.name}"
        try:
            said = refused(lambda: look(folder))
            if said is None:
                assert look(folder) == truth, where
            else:
                assert path.name in said, where
            found = refused(lambda: check(state, read_data=True))
            if path.name != WITNESS:
                assert found is not None, f"check does not find {where}"
                assert path.name in found, where
        finally:
            path.write_bytes(whole)
    assert look(folder) == truth
