"""Building the library of compiled kernels: every signature of the list compiled by numba, and linked by the system.

    python -m dynq_cli.engine.kernels.build [--skip-stale]

does nothing if the library is up to date. Signatures are compiled side by side, one process for each core; what is kept
in the checkout (`jit`) is not compiled again, so that a longer list only costs what is new in it. A signature that does
not fit its kernel any more is an error, or is left out.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from dynq_cli.engine.kernels import library, reached, signatures, sources
from dynq_cli.engine.kernels.native import DATA_AT
from dynq_cli.engine.kernels.signatures import Signature

NO_LINKER = 4
KEPT_FOR = 7 * 86400
SAID_EVERY = 5.0
_log = logging.getLogger("dynq.build")
Failure = tuple[str, str]


class BuildError(Exception):
    """Why the library cannot be built."""


class NoLinkerError(BuildError):
    """There is no program that links."""


def main(arguments: list[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description="Build the library of compiled kernels.")
    parser.add_argument("--skip-stale", action="store_true", help="leave out signatures that fit no kernel any more")
    given = parser.parse_args(arguments)
    # Settings for looking into kernels are none for those that are built.
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        del os.environ[name]
    try:
        build(given.skip_stale)
    except NoLinkerError as error:
        _log.error("%s", error)
        return NO_LINKER
    except BuildError as error:
        _log.error("%s", error)
        return 1
    return 0


def build(skip_stale: bool = False) -> None:
    """Make the library be up to date. BuildError if it cannot be."""
    from dynq_cli.engine.kernels.jit import target

    if is_up_to_date(target()):
        return
    linker()
    begin, lines = time.monotonic(), signatures.read()
    _log.info("compiling %d kernels for %s", len(lines), target())
    with tempfile.TemporaryDirectory(dir=sources.FOLDER, prefix=".build") as place:
        failures = compile_all(lines, Path(place))
        if failures:
            told = "\n".join(f"  {line}\n    {reason}" for line, reason in failures)
            if not skip_stale:
                raise BuildError(f"the list of kernels does not fit them, so run `make kernels`:\n{told}")
            _log.warning("left out what does not fit its kernel any more; `make kernels` drops it:\n%s", told)
        link(Path(place), set(lines) - {line for line, _ in failures}, target())
    _drop_old()
    size = library.FILE.stat().st_size / 2**20
    _log.info("built %s: %.1f MB in %.0f s", library.FILE.name, size, time.monotonic() - begin)


def is_up_to_date(cpu: str) -> bool:
    """Whether the library is what would be built now."""
    try:
        return bool(library.checked(library.FILE).about()["cpu"] == cpu)
    except library.UnusableError:
        return False


def compile_all(lines: Iterable[str], place: Path) -> list[Failure]:
    """Put the object code of every signature into a directory; those that cannot be compiled, with the reasons."""
    # Those with many arguments take longest, so they come first.
    ordered = sorted(lines, key=len, reverse=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(min(cores, len(ordered)) or 1) as pool:
        done = pool.imap_unordered(_compile, [(line, str(place)) for line in ordered])
        return sorted(failure for failure in told(done, len(ordered)) if failure is not None)


def told(done: Iterable[Failure | None], many: int, every: float = SAID_EVERY) -> Iterator[Failure | None]:
    """What comes, with a line about how many have come after each `every` seconds: minutes pass on a slow machine."""
    said = time.monotonic()
    for count, one in enumerate(done, 1):
        if count < many and time.monotonic() - said >= every:
            _log.info("compiled %d of %d kernels", count, many)
            said = time.monotonic()
        yield one


def _compile(task: tuple[str, str]) -> Failure | None:
    from dynq_cli.engine.kernels.jit import KernelError, object_for

    line, place = task
    misfit = signatures.misfit(line)
    if misfit is not None:
        return line, misfit
    signature = Signature.parse(line)
    try:
        code = object_for(signature.function(), signature)
    except KernelError as error:
        return line, str(error)
    (Path(place) / f"{signature.symbol()}.o").write_bytes(code)
    return None


def link(place: Path, lines: set[str], cpu: str) -> None:
    """Link object code in a directory into the library, and look whether it has an entry for every signature."""
    from dynq_cli.engine.kernels.entry import constant_of

    about = {"fingerprint": library.fingerprint(), "data_at": DATA_AT, "cpu": cpu}
    (place / "about.o").write_bytes(constant_of(library.ABOUT, json.dumps(about), cpu))
    made = place / library.FILE.name
    ran = subprocess.run(
        [*linker(), "-o", str(made), *sorted(map(str, place.glob("*.o")))], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise BuildError(f"{linker()[0]} cannot link the kernels: {ran.stderr.strip()}")
    loaded = library.Library(made)
    missing = [line for line in sorted(lines) if loaded.entry(Signature.parse(line).symbol()) is None]
    if missing:
        raise BuildError(f"{linker()[0]} has lost {', '.join(missing)}")
    os.replace(made, library.FILE)


def _drop_old() -> None:
    """Remove kept object code that nobody has used for a week."""
    kept = reached.folder()
    for path in () if kept is None else (kept / "objects").glob("*.o"):
        if path.stat().st_mtime < time.time() - KEPT_FOR:
            path.unlink(missing_ok=True)


def linker() -> list[str]:
    """The command that links a shared library. NoLinkerError if there is none."""
    # Whatever is missing is to be found now and not by users.
    strict = ["-Wl,--no-undefined"] if sys.platform == "linux" else []
    for named in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        command = shlex.split(named)
        if command and shutil.which(command[0]):
            return [*command, "-shared", *strict]
    if sys.platform == "linux" and shutil.which("ld"):
        return ["ld", "-shared"]
    raise NoLinkerError("there is no C linker in PATH (cc, gcc, clang or ld) to link the kernels with")


if __name__ == "__main__":
    sys.exit(main())
