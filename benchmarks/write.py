"""Group `write`: rows to a Parquet file, by dynq's writer, by pyarrow's and by DuckDB's COPY."""

from __future__ import annotations

from processes import interleaved, same_result, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "Writing Parquet"
WRITERS = {"dynq": "dynq", "pyarrow": "pyarrow", "tuned": "pyarrow, dynq's options", "duckdb": "DuckDB"}
KINDS = {"numbers": "three columns of integers", "mixed": "and a decimal, a date, a text"}
TIMES = 10


def measure(settings: Settings) -> Section:
    wanted = TIMES * settings.rows
    rows = []
    for kind, what in KINDS.items():
        jobs = {name: script("run_writer.py", name, kind, wanted, settings.data) for name in WRITERS}
        measured = interleaved(jobs, settings.runs)
        same_result("write", measured)
        for name, shown in WRITERS.items():
            one, mine = measured[name], measured["dynq"]
            size, peak = f"{one['bytes'] / wanted:.1f}", f"{one['peak'] / (1 << 20):.0f}"
            rows.append(
                (
                    f"{what}: {shown}",
                    seconds(one["seconds"]),
                    times(one["seconds"], mine["seconds"]),
                    seconds(one["cpu"]),
                    size,
                    peak,
                )
            )
    says = (
        f"{many(wanted)} rows as a stream of Arrow batches in memory, to a file with fsync. Row groups of 262,144\n"
        f"rows, LZ4. dynq encodes two row groups side by side, and gives columns a dictionary where it pays.\n"
        f"pyarrow is one `ParquetWriter`, DuckDB is `COPY … TO` with all cores. A second encoder needs a free core:\n"
        f"where all are busy, one writer with the same options takes less. Median of {settings.runs}."
    )
    return Section(TITLE, says, ("", "time", "÷ dynq", "processor time", "bytes a row", "peak, MiB"), rows)
