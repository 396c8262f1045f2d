"""Group `peers`: dynq beside what one would pick instead, on one stream of three relations with deletes.

Pathway and PyFlink run in environments of their own. What cannot be installed or does not finish here has no numbers,
and the section says why.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

from environments import CannotInstallError, install
from processes import ENVIRONMENT, ROOT, BenchmarkError, Numbers, output_of, printed, say, script
from report import Section, many, rate, seconds, times
from settings import Settings

TITLE = "Beside other engines"
SCALE, QUICK_SCALE, QUICK_RUNS = 0.1, 0.01, 1
TASKS = ("groups", "join")
PATIENCE = 900  # seconds for one run of a peer
PEERS = {"Pathway": ("pathway", "run_peer_pathway.py"), "PyFlink": ("flink", "run_peer_flink.py")}


class NoNumbersError(Exception):
    """Why a peer has none."""


def measure(settings: Settings) -> Section:
    scale = QUICK_SCALE if settings.runs == QUICK_RUNS else SCALE
    folder = settings.data / "peers"
    changes = int(json.loads(output_of(script("peer_stream.py", settings.data, "--scale", scale)))["changes"])
    ours = {task: printed(_said("dynq", task, script("run_peer.py", folder, task))) for task in TASKS}
    others = {"DuckDB": {t: printed(_said("DuckDB", t, script("run_peer.py", folder, t, "--duckdb"))) for t in TASKS}}
    missing = []
    for name, (environment, run) in PEERS.items():
        try:
            python = _python(environment)
            others[name] = {t: _run(_said(name, t, [python, *script(run, folder, t)[1:]])) for t in TASKS}
        except NoNumbersError as error:
            missing.append(f"{name} has no numbers here: {error}.")
            say(f"  {missing[-1]}")
    for name, numbers in others.items():
        _same(name, ours, numbers)
    rows = [_row("dynq", ours, ours), *(_row(name, numbers, ours) for name, numbers in others.items())]
    head = ("", "groups", "dynq ÷", "peak", "join", "dynq ÷", "peak", "join read once")
    return Section(TITLE, "\n".join([_says(scale, changes), *missing]), head, rows)


def _said(name: str, task: str, command: list[str]) -> list[str]:
    say(f"  {name}: {task}")
    return command


def _python(environment: str) -> str:
    try:
        return str(install(environment))
    except CannotInstallError as error:
        raise NoNumbersError(f"it cannot be installed ({error})") from error


def _run(command: Sequence[str]) -> Numbers:
    """What a peer printed as its last line; it may say other things on the way."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise NoNumbersError(f"it did not finish within {PATIENCE} s") from None
    if done.returncode:
        raise NoNumbersError(f"it ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    numbers: Numbers = json.loads(done.stdout.splitlines()[-1])
    return numbers


def _same(name: str, ours: dict[str, Numbers], theirs: dict[str, Numbers]) -> None:
    """Stop unless an engine counted and added up the same: a wrong answer has no speed."""
    for task in TASKS:
        for check in ("rows", "cents"):
            if check in theirs[task] and theirs[task][check] != ours[task][check]:
                found = f"{theirs[task][check]:,.0f}, dynq has {ours[task][check]:,.0f}"
                raise BenchmarkError(f"{task}: the {check} of {name} are {found}")


def _row(name: str, numbers: dict[str, Numbers], ours: dict[str, Numbers]) -> tuple[str, ...]:
    cells = [name]
    for task in TASKS:
        speed, peak = numbers[task]["changes_per_s"], numbers[task].get("peak_mb")
        cells += [rate(speed), times(ours[task]["changes_per_s"], speed), f"{peak:,.0f} MB" if peak else "–"]
    read = numbers["join"].get("enum_s")
    return (*cells, seconds(read) if read else "–")


def _says(scale: float, changes: int) -> str:
    return (
        f"customer, orders and lineitem of TPC-H at scale {scale:g} as one stream of {many(changes)} changes:\n"
        "inserts in 20 commits, then 4 with deletes and updates of a fifth of the rows. Kept are the join of the\n"
        "three, or its count and sum by nation; number and sum of the sales are the same at the end, but for Flink's\n"
        "join, which has none to compare. Changes of dynq and DuckDB are Arrow tables; DuckDB uses all cores and\n"
        "computes the result again after every commit. Pathway takes rows from Python; Flink reads files of JSON, and\n"
        "its time includes starting the job. Neither has a result to be read: what comes and goes runs into a sink.\n"
        "One run."
    )
