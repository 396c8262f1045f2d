"""Group `payoff`: when dynq pays off: time, memory and disk beside a DuckDB that computes the query again.

Both sides take the same commits, from a tenth of `--rows` base rows to ten times as many, and are asked the same. What
they answer is compared in the first round.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from commands import dynq
from payoff_cases import BY_HAND, CASES, COMMITS, COUNT, DELTA, LARGEST, MEMORY_LIMIT, ROWS, Case
from processes import BenchmarkError, Run, output_of, run_of, say, script
from report import Section, Table, many, seconds, times
from settings import Settings

TITLE = "When dynq pays off"
SCALES = (0.1, 1, 10)
# A process that stays first takes these, which do not count: it maps its data, and copies a page when it changes it.
OPENING = (1_000,) * 5 + (100_000,)
# Then so many commits of each size but the last, where tables and result have fewer rows than this; else one.
REPEATED, REPEATED_ROWS = 3, 3_000_000
MB = 1e6

Pair = tuple[float, float]  # of dynq, of DuckDB


@dataclass
class Measured:
    """One case with so many base rows."""

    case: Case
    rows: int
    folder: Path
    result_rows: int = 0
    loads: list[Pair] = field(default_factory=list)
    load_peak: Pair = (0, 0)
    parquet: int = 0
    loaded_disk: Pair = (0, 0)
    allocated: int = 0
    last_disk: Pair = (0, 0)
    tables_bytes: int = 0
    # By what is asked and the size of the commit, a pair for every round.
    commands: dict[tuple[str, int], list[Pair]] = field(default_factory=lambda: defaultdict(list))
    staying: dict[tuple[str, int], list[Pair]] = field(default_factory=lambda: defaultdict(list))
    commands_peak: Pair = (0, 0)
    staying_peak: Pair = (0, 0)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def database(self) -> Path:
        return self.folder / "shop.duckdb"

    def duckdb(self, verb: str, *words: object) -> list[str]:
        return script("run_payoff_duckdb.py", verb, self.case.name, self.database, *words)


def measure(settings: Settings) -> Section:
    measured = []
    for scale in SCALES:
        for case in CASES.values():
            asks = case.asks if scale <= 1 else LARGEST.get(case.name, ())
            if asks:
                measured.append(_measured(settings, case, int(settings.rows * scale), asks))
    return _section(measured, settings.runs)


def _measured(settings: Settings, case: Case, rows: int, asks: Sequence[str]) -> Measured:
    sizes = [size for size in COMMITS if size <= rows]
    repeated = REPEATED if rows * (1 + case.result_per_row) < REPEATED_ROWS else 1
    stays = [*(size for size in sizes[:-1] for _ in range(repeated)), sizes[-1]]
    opening = [size for size in OPENING if size <= rows] or [1]
    folder = settings.data / "payoff"
    it = Measured(case, rows, folder)
    per_round = [size for _ in asks for size in (*sizes, *opening, *stays)]
    say(f"  {case.name}, {many(rows)} rows: writing tables and commits")
    output_of(script("payoff_data.py", case.name, folder, rows, *(per_round * settings.runs)))
    commits = iter(sorted((folder / "commits").iterdir()))
    for _ in range(settings.runs if rows <= settings.rows else 1):
        _load(it)
    for turn in range(settings.runs):
        for ask in asks:
            if ask == DELTA:
                output_of(it.duckdb("keep"))
            for size in sizes:
                _by_commands(it, ask, size, next(commits), turn)
            _staying(it, ask, opening, stays, commits, turn)
    it.last_disk = _bytes_of(it.state), _bytes_of(it.database)
    it.result_rows = int(output_of(dynq("count", "--state", it.state)))
    shutil.rmtree(folder)
    return it


def _load(it: Measured) -> None:
    """The first load, anew."""
    shutil.rmtree(it.state, ignore_errors=True)
    it.database.unlink(missing_ok=True)
    given = [word for table in it.case.tables for word in ("--load", f"{table}={it.folder}/base/{table}.parquet")]
    mine = run_of(dynq("init", it.folder / "spec.yaml", *given, "--state", it.state))
    theirs = run_of(it.duckdb("load", it.folder))
    it.loads.append((mine.seconds, theirs.seconds))
    it.load_peak = _greatest(it.load_peak, mine, theirs)
    it.parquet = sum(path.stat().st_size for path in (it.folder / "base").iterdir())
    it.loaded_disk = _bytes_of(it.state), _bytes_of(it.database)
    facts = json.loads(output_of(dynq("status", "--json", "--state", it.state)))
    it.allocated = facts["bytes"]["allocated"]
    tables = [*facts["relations"].values(), *facts["queries"].values()]
    it.tables_bytes = sum(part["bytes"] for part in tables) + facts["shared_bytes"] + facts["dictionary_bytes"]
    say(f"    loaded in {mine.seconds:.2f} : {theirs.seconds:.2f} s, {mine.peak_mb:.0f} : {theirs.peak_mb:.0f} MB")


def _by_commands(it: Measured, ask: str, size: int, commit: Path, turn: int) -> None:
    """One commit and one answer, by processes that begin and end."""
    mine_out, their_out = it.folder / "mine.parquet", it.folder / "theirs.parquet"
    apply = dynq("apply", commit, "--atomic", "--quiet", "--state", it.state)
    both = {
        "mine": {
            COUNT: [apply, dynq("count", "--state", it.state)],
            BY_HAND: [apply, dynq("count", "--state", it.state)],
            ROWS: [apply, dynq("enum", "-o", mine_out, "--quiet", "--state", it.state)],
            DELTA: [[*apply, "--diff", str(mine_out)]],
        }[ask],
        "theirs": [it.duckdb("step", ask, commit, their_out)],
    }
    runs = {side: _one_after_another(both[side]) for side in _in_turn(both, turn)}
    mine, theirs = runs["mine"], runs["theirs"]
    if ask in (ROWS, DELTA):
        if turn == 0:
            output_of(script("run_payoff_duckdb.py", "same", mine_out, their_out))
    elif int(mine.output) != int(theirs.output):
        raise BenchmarkError(f"{it.case.name}: dynq counts {mine.output.strip()}, DuckDB {theirs.output.strip()}")
    it.commands[ask, size].append((mine.seconds, theirs.seconds))
    it.commands_peak = _greatest(it.commands_peak, mine, theirs)
    say(f"    {turn + 1} {ask} after {many(size)}, commands: {mine.seconds:.3f} : {theirs.seconds:.3f} s")


def _staying(
    it: Measured, ask: str, opening: Sequence[int], sizes: Sequence[int], commits: Iterator[Path], turn: int
) -> None:
    """Many commits with an answer each, by processes that stay."""
    given = [len(opening), *(next(commits) for _ in (*opening, *sizes))]
    both = {
        "mine": script("run_payoff.py", it.state, ask, *given),
        "theirs": it.duckdb("resident", ask, *given),
    }
    runs = {side: run_of(both[side]) for side in _in_turn(both, turn)}
    numbers = {side: json.loads(run.output.splitlines()[-1]) for side, run in runs.items()}
    if numbers["mine"]["rows"] != numbers["theirs"]["rows"]:
        raise BenchmarkError(f"{it.case.name}: the counts differ: {numbers}")
    for size in dict.fromkeys(sizes):
        pair = [
            statistics.median(s for s, of in zip(numbers[side]["spent"], sizes, strict=True) if of == size)
            for side in ("mine", "theirs")
        ]
        it.staying[ask, size].append((pair[0], pair[1]))
        say(f"    {turn + 1} {ask} after {many(size)}, staying: {pair[0]:.4f} : {pair[1]:.4f} s")
    it.staying_peak = _greatest(it.staying_peak, runs["mine"], runs["theirs"])


def _in_turn(sides: dict[str, list[list[str]]] | dict[str, list[str]], turn: int) -> list[str]:
    """Who begins changes from round to round."""
    return list(sides) if turn % 2 == 0 else list(reversed(sides))


def _one_after_another(commands: Sequence[Sequence[str]]) -> Run:
    """Time of all, the greatest peak, the output of the last."""
    runs = [run_of(command) for command in commands]
    return Run(sum(run.seconds for run in runs), max(run.peak_mb for run in runs), runs[-1].output)


def _greatest(before: Pair, mine: Run, theirs: Run) -> Pair:
    return max(before[0], mine.peak_mb), max(before[1], theirs.peak_mb)


def _bytes_of(path: Path) -> int:
    """Of a directory, or of a file and its write-ahead log."""
    files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.name}*")
    return sum(file.stat().st_size for file in files if file.is_file())


def _section(measured: Sequence[Measured], runs: int) -> Section:
    head = ("", "base rows", "result rows", *(f"commit of {many(size)}" for size in COMMITS))
    commands = Table(_commands_says(runs), head, _times(measured, lambda it: it.commands))
    staying = Table(_staying_says(runs), head, _times(measured, lambda it: it.staying))
    return Section(TITLE, commands.says, head, commands.rows, [staying, _memory(measured), _disk(measured)])


def _commands_says(runs: int) -> str:
    return (
        "A shop's customers, orders, order lines and product reviews. The join with few results: large lines of open\n"
        "orders with their customers. The join with many: lines and reviews of a product, 20 for each line. Groups:\n"
        "sums by city and state of the order; sums of lines by product. Half of the changes of a commit insert and\n"
        "half delete, most of them lines, at random places; a tenth concern orders or reviews.\n\n"
        "**By commands**, as from cron: `dynq apply --atomic DIR`, then `dynq count` or `dynq enum -o FILE.parquet`;\n"
        "for the delta `dynq apply --diff FILE.parquet`. Beside them one Python process opens a DuckDB file with the\n"
        "tables, deletes and inserts the same rows in one transaction, and computes the query: `count(*)`, or the\n"
        "result or the delta as a Parquet file. Process starts are included. The delta of DuckDB is an antijoin of\n"
        "the new result with the one before, which it keeps. *Rewritten by hand*: a sum of products of counts per\n"
        f"product. Median of {runs} rounds: dynq : DuckDB, DuckDB ÷ dynq, in brackets the least and greatest of the\n"
        "rounds. Above 1.00× dynq is quicker. Both find their files in the page cache. DuckDB has all cores, no\n"
        f"indexes, and {MEMORY_LIMIT} of memory; dynq checks keys, DuckDB does not. Of the largest tables only two\n"
        "queries are measured."
    )


def _staying_says(runs: int) -> str:
    return (
        "**In a process that stays**: `view.apply(tables)` and `view.count()`, `view.enum()` or `view.diff()` of the\n"
        "library, beside an open DuckDB connection. Changes are Arrow tables in memory, answers are Arrow tables;\n"
        f"every commit is on disk when the answer is there. Median of {runs} processes of each, in turn, with up to\n"
        f"{REPEATED} commits of a size. {len(OPENING)} commits come before, which bring the data into memory."
    )


def _times(
    measured: Sequence[Measured], which: Callable[[Measured], dict[tuple[str, int], list[Pair]]]
) -> list[tuple[str, ...]]:
    rows = []
    for name, case in CASES.items():
        for ask in case.asks:
            for it in measured:
                if it.case.name == name and any(asked == ask for asked, _ in which(it)):
                    cells = [_compared(which(it).get((ask, size), [])) for size in COMMITS]
                    rows.append((f"{name}: {ask}", many(it.rows), many(it.result_rows), *cells))
    return rows


def _compared(pairs: Sequence[Pair]) -> str:
    """The median of each, the median of the ratios, and between which those are."""
    if not pairs:
        return "–"
    ratios = sorted(theirs / mine for mine, theirs in pairs)
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    between = f" ({_plain(ratios[0])}–{_plain(ratios[-1])})" if len(ratios) > 1 else ""
    return f"{seconds(mine)} : {seconds(theirs)}, {times(statistics.median(ratios), 1)}{between}"


def _plain(ratio: float) -> str:
    return times(ratio, 1).removesuffix("×")


def _memory(measured: Sequence[Measured]) -> Table:
    says = (
        "**First load and memory**: `dynq init --load` from Parquet beside `INSERT … FROM` the same files (where no\n"
        "range is shown, once), then peaks of whole processes, dynq : DuckDB. Tables and views: bytes per base row,\n"
        "as `dynq status` says."
    )
    head = ("", "base rows", "first load", "its peak", "peak, commands", "peak, staying", "tables and views, a row")
    rows = [
        (
            it.case.name,
            many(it.rows),
            _compared(it.loads),
            *(_peaks(pair) for pair in (it.load_peak, it.commands_peak, it.staying_peak)),
            f"{it.tables_bytes / it.rows:.0f} B",
        )
        for it in _by_case(measured)
    ]
    return Table(says, head, rows)


def _disk(measured: Sequence[Measured]) -> Table:
    says = (
        "**Disk**: the base tables as Parquet and in a DuckDB file, and the state of dynq, after the first load; then\n"
        "both after all commits above. Sizes are lengths of files; a snapshot has room to grow in it, which the file\n"
        "system does not allocate until it is used. A state that has changed has two snapshots and the changes\n"
        "between them. DuckDB's file of the joins then has the result that its delta needs, where that is asked for."
    )
    head = ("", "base rows", "Parquet", "DuckDB", "dynq", "allocated, a row", "after all: DuckDB", "dynq")
    rows = [
        (
            it.case.name,
            many(it.rows),
            _megabytes(it.parquet),
            _megabytes(it.loaded_disk[1]),
            _megabytes(it.loaded_disk[0]),
            f"{it.allocated / it.rows:.0f} B",
            _megabytes(it.last_disk[1]),
            _megabytes(it.last_disk[0]),
        )
        for it in _by_case(measured)
    ]
    return Table(says, head, rows)


def _by_case(measured: Sequence[Measured]) -> list[Measured]:
    return [it for name in CASES for it in measured if it.case.name == name]


def _peaks(pair: Pair) -> str:
    return f"{many(pair[0])} : {many(pair[1])} MB"


def _megabytes(size: float) -> str:
    return f"{size / MB:,.1f} MB" if size < 100 * MB else f"{size / MB:,.0f} MB"
