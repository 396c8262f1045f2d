"""A real PostgreSQL for the tests: a server of its own in a directory of its own, on a free port, ended afterwards."""

from __future__ import annotations

import csv
import io
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pwd import getpwnam

PASSWORD = "q1 w2&e3"  # a URL, a shell and a regular expression would all read it otherwise
_ACCOUNTS = ("postgres", "nobody")
_SETTINGS = {"fsync": "off", "listen_addresses": "127.0.0.1", "timezone": "America/St_Johns", "max_connections": "20"}


def server() -> Path | None:
    """The directory with PostgreSQL's programs, if it is installed."""
    said = os.environ.get("DYNQ_TEST_POSTGRES")
    found = [Path(said)] if said else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    initdb = shutil.which("initdb")
    found += [Path(initdb).resolve().parent] if initdb else []
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "psql").exists()), None)


def driver() -> Path | None:
    """The jar of PostgreSQL's JDBC driver, if it is installed."""
    jar = Path(os.environ.get("DYNQ_TEST_POSTGRES_JDBC", "/usr/share/java/postgresql.jar"))
    return jar if jar.exists() else None


def missing() -> str:
    """What is not installed and how it would be; empty where nothing is missing."""
    lacking = [name for name, found in (("postgresql", server()), ("libpostgresql-jdbc-java", driver())) if not found]
    return f"not installed: apt-get install {' '.join(lacking)} (make test does it as root)" if lacking else ""


@dataclass(frozen=True)
class Postgres:
    """A server that runs."""

    programs: Path
    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def run(self, sql: str) -> list[list[str]]:
        """Run SQL in the server; the rows of the last statement, as texts."""
        command = [str(self.programs / "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        done = subprocess.run(
            [*command, "-X", "-q", "-v", "ON_ERROR_STOP=1", "--csv", "-t", "-f", "-"],
            input=sql,
            capture_output=True,
            text=True,
            env={**os.environ, "PGPASSWORD": PASSWORD, "PGTZ": "UTC"},
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return list(csv.reader(io.StringIO(done.stdout)))


@contextmanager
def started() -> Iterator[Postgres]:
    """A server of a new, empty database."""
    programs = server()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="dynq-postgres-", dir="/tmp"))
    somebody = _as_somebody(folder)
    control = [str(programs / "pg_ctl"), "-D", str(folder / "data"), "-w", "-t", "60"]
    try:
        (folder / "password").write_text(PASSWORD, "utf-8")
        login = ["-U", "postgres", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}"]
        _run([str(programs / "initdb"), "-D", str(folder / "data"), "-E", "UTF8", "--no-sync", *login], somebody)
        port = _free_port()
        options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        _run([*control, "-l", str(folder / "log"), "-o", f"-p {port} -k {folder} {options}", "start"], somebody)
        try:
            yield Postgres(programs, port)
        finally:
            _run([*control, "-m", "immediate", "stop"], somebody)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_somebody(folder: Path) -> list[str]:
    """How to run the server, which refuses to run as root: as an account that owns its directory.

    By a program, because a process that changes its account itself is a copy of this one first, for which there may be
    too little memory.
    """
    if os.geteuid() != 0:
        return []
    for name in _ACCOUNTS:
        try:
            account = getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, account.pw_uid, account.pw_gid)
        return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    raise AssertionError(f"none of the accounts {', '.join(_ACCOUNTS)} is there to run PostgreSQL")


def _run(command: list[str], somebody: list[str]) -> None:
    # Not a pipe: the server keeps it open and would be waited for.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run([*somebody, *command], stdout=said, stderr=said, cwd="/", check=False, timeout=120)
        said.seek(0)
        assert done.returncode == 0, said.read().decode(errors="replace")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
