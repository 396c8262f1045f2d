"""Check the requirements of extraction on this machine, without importing pyspark or starting a Spark session."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from dynq_cli.errors import DynqError

OLDEST_JAVA = 17
_OLDEST_SPARK = (4, 1)
_INSTALL = "pip install 'dynq-cli[spark]'"
_JAVA = f"install Java {OLDEST_JAVA} or newer (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"
_DRIVER = re.compile(r"(?i)postgresql|mysql-connector|mariadb-java-client|ojdbc|mssql-jdbc|sqlite-jdbc|db2jcc")


class MissingError(DynqError):
    """A requirement of extraction is not installed."""

    code = "missing"


@dataclass(frozen=True)
class Found:
    """The installed versions, or None; `drivers` are the names of JDBC drivers that every session has."""

    pyspark: str | None
    java: str | None
    drivers: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """The missing requirements, each with the next step."""
        steps = []
        if self.pyspark is None:
            steps.append(f"pyspark: {_INSTALL}")
        elif _numbers(self.pyspark)[:2] < _OLDEST_SPARK:
            oldest = ".".join(map(str, _OLDEST_SPARK))
            steps.append(f"pyspark {oldest} or newer, this is {self.pyspark}: {_INSTALL}")
        if self.java is None:
            steps.append(f"Java: {_JAVA}")
        elif _numbers(self.java.removeprefix("1."))[0] < OLDEST_JAVA:
            steps.append(f"Java {OLDEST_JAVA} or newer, this is {self.java}: {_JAVA}")
        return steps

    def line(self) -> str:
        """Describe the result in one line.

        >>> Found("4.3.0", "17.0.15").line()
        'Spark is ready: pyspark 4.3.0, Java 17.0.15, no JDBC driver (name one with --conf spark.jars=DRIVER.jar)'
        >>> Found("4.3.0", None).line().partition(":")[0]
        'missing for extraction'
        """
        missing = self.missing()
        if missing:
            return f"missing for extraction: {'; '.join(missing)}"
        drivers = f"JDBC {', '.join(self.drivers)}" if self.drivers else "no JDBC driver"
        hint = "" if self.drivers else " (name one with --conf spark.jars=DRIVER.jar)"
        return f"Spark is ready: pyspark {self.pyspark}, Java {self.java}, {drivers}{hint}"


def look() -> Found:
    """Find pyspark, Java and drivers. Starts only `java -version`."""
    return Found(_pyspark(), _java(), tuple(_drivers()))


def require() -> None:
    """Raise MissingError with what to install, if extraction cannot run."""
    found = look()
    if found.missing():
        raise MissingError(found.line())


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version; Java 8 calls itself 1.8.

    >>> _numbers("17.0.15"), _numbers("4.1.0.dev2"), _numbers("?")
    ((17, 0, 15), (4, 1, 0, 2), (0,))
    """
    return tuple(int(n) for n in re.findall(r"\d+", text)) or (0,)


def _pyspark() -> str | None:
    if find_spec("pyspark") is None:
        return None
    for package in ("pyspark", "pyspark-client"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    # Spark's own Python directory, as spark-submit puts it on the path.
    from pyspark.version import __version__

    return __version__


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', said.stderr + said.stdout)
    return found[1] if found and said.returncode == 0 else None


def _drivers() -> list[str]:
    """The JDBC drivers among the jars that come with Spark."""
    spec = find_spec("pyspark")
    homes = [os.environ.get("SPARK_HOME"), *(spec.submodule_search_locations or () if spec else ())]
    jars = (jar.name for home in homes if home for jar in (Path(home) / "jars").glob("*.jar"))
    return sorted({jar for jar in jars if _DRIVER.match(jar)})
