"""A database that Spark reads by JDBC: its connection, and the quoting of names in its SQL.

Passwords come from the environment, a file, or the driver itself (`~/.pgpass`). No message and no output file has them:
`hidden` removes them from a driver's messages, and `address` is the URL without its parameters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.spark.errors import SECRET, USER_INFO, hidden

PASSWORD = "DYNQ_JDBC_PASSWORD"
# Spark finds a driver in an added jar only by its class.
_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
}
_JAVA_OPTIONS, _IN_UTC = "spark.executor.extraJavaOptions", r"-Duser\.timezone=(UTC|GMT|Etc/UTC)\b"


@dataclass(frozen=True)
class Database:
    """A database, and how to log in to it."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.match(r"jdbc:\w+:", self.url):
            raise UsageError(f"{hidden(self.url)} is no JDBC URL: write jdbc:postgresql://HOST/DATABASE, or the like")

    @property
    def address(self) -> str:
        """The URL without anything that may be secret."""
        return USER_INFO.sub("//", re.split(r"[?;]", self.url)[0])

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """Open a table, or `(SELECT …) name`; no rows are read yet. Stay in `java_in_utc` until they are."""
        options = {"dbtable": table} | with_defaults({"url": self.url, **self.options})
        frame = spark.read.format("jdbc").options(**options).load()
        check_zone(spark, table, frame)
        return frame

    def quoted(self, spark: SparkSession, name: str) -> str:
        """Quote the name of a column for the database's SQL."""
        jvm: Any = spark.sparkContext._jvm
        return str(jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self.url).quoteIdentifier(name))

    @contextmanager
    def without_secrets(self) -> Iterator[None]:
        """Remove passwords from errors in the block."""
        try:
            yield
        except DynqError as error:
            raise type(error)(hidden(str(error), *self._secrets())) from None

    def _secrets(self) -> list[str]:
        given = with_defaults({"url": self.url, **self.options})
        found = [value for name, value in given.items() if re.search("(?i)password|secret|token", name)]
        return [*found, *(unquote(match[2]) for match in SECRET.finditer(self.url))]


def with_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Add default options of Spark's reader.

    Timestamps without a zone are read as they are, not as times in Java's zone.
    """
    url = options.get("url", "")
    found = {"preferTimestampNTZ": "true"}
    password = os.environ.get(PASSWORD)
    if password and "password" not in {name.lower() for name in options}:
        found["password"] = password
    driver = _DRIVERS.get(url.removeprefix("jdbc:").partition(":")[0])
    if driver:
        found["driver"] = driver
    return found | dict(options)


@contextmanager
def java_in_utc(spark: SparkSession) -> Iterator[None]:
    """Run Java in UTC: Spark converts timestamps without a zone through Java's zone, which may lack such a time."""
    zones: Any = spark.sparkContext._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("UTC"))
    try:
        yield
    finally:
        # Java may have exited; then there is nothing to restore.
        with suppress(Exception):
            zones.setDefault(before)


def check_zone(spark: SparkSession, place: str, frame: DataFrame) -> None:
    """UsageError if timestamps without a zone would be read in the zone of another machine."""
    context = spark.sparkContext
    is_here = (context.master or "").startswith("local")
    is_utc = re.search(_IN_UTC, context.getConf().get(_JAVA_OPTIONS, "") or "")
    local = [field.name for field in frame.schema.fields if isinstance(field.dataType, t.TimestampNTZType)]
    if local and not is_here and not is_utc:
        raise UsageError(
            f"{place}: column {local[0]} is a timestamp without a zone, which executors read in the zone they are in\n"
            f"  hint: let them run in UTC with --conf {_JAVA_OPTIONS}=-Duser.timezone=UTC"
        )


def password_in(path: str) -> str:
    """Read the password in the first line of a file."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--password-file {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not lines or not lines[0]:
        raise UsageError(f"--password-file {path}: its first line is empty")
    return lines[0]
