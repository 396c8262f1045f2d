"""Bad rows: report them with examples, or convert them to lines for `--reject-to`.

Bad rows are frames with `snapshot`, `reason`, `row` (JSON, or a line that could not be read) and `copies`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from dynq_cli.errors import RejectedError

_EXAMPLES = 5
_LONGEST_EXAMPLE = 200


def rejection(relation: str, bad: DataFrame, many: int, places: Mapping[str, str]) -> RejectedError:
    """Return the error of a job with bad rows, with examples; `places` has the place of each snapshot."""
    rows = bad.orderBy("snapshot", "reason", "row").limit(_EXAMPLES).collect()
    lines = [f"{places[row['snapshot']]}: {row['reason']}: {_cut(row['row'])}" for row in rows]
    more = [f"and {many - len(lines):,} more"] if many > len(lines) else []
    number = f"{many:,} row{'' if many == 1 else 's'}"
    return RejectedError(
        "\n  ".join([f"{number} of {relation} cannot be taken; nothing was written", *lines, *more])
        + "\n  hint: mend them, or set them aside with --reject-to DIR"
    )


def as_lines(bad: DataFrame) -> DataFrame:
    """Convert to JSON lines with `snapshot`, `reason`, `copies`, and the row as it was read."""
    about = f.to_json(f.struct("snapshot", "reason", "copies"))
    is_object = f.col("row").startswith("{") & f.try_parse_json("row").isNotNull()
    row = f.when(is_object, f.col("row")).otherwise(f.to_json(f.struct("row")))
    line = f.concat(f.expr("substring(about, 1, length(about) - 1)"), f.lit(',"row":'), f.col("line"), f.lit("}"))
    return bad.select(about.alias("about"), row.alias("line")).select(line.alias("value")).orderBy("value")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_EXAMPLE else f"{text[: _LONGEST_EXAMPLE - 3]}..."
