"""Which kernels a checkout's processes reach, each with the kinds of its arguments, for the list of those to build.

A process notes what it calls and the library has not; while `make kernels` runs, all that it calls. Notes are files
under `build/kernels/reached`, one for each signature. Nothing is noted where dynq is installed outside a checkout.

    python -m dynq_cli.engine.kernels.reached [--all]

adds the notes to the list and drops what fits no kernel any more; with --all the notes are the list.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from dynq_cli.engine.kernels import signatures
from dynq_cli.engine.kernels.library import checkout
from dynq_cli.engine.kernels.signatures import Signature


def folder() -> Path | None:
    """Where this checkout keeps what it makes of kernels; None outside one."""
    root = checkout()
    return None if root is None else root / "build" / "kernels"


@functools.cache
def is_recording() -> bool:
    """Whether all kernels that are called are noted."""
    kept = folder()
    return kept is not None and (kept / "recording").exists()


def note(signature: Signature) -> None:
    """Note that a kernel is called with arguments of these kinds."""
    kept = folder()
    if kept is not None:
        with suppress(OSError):
            write_whole(kept / "reached" / signature.symbol(), signature.text().encode())


def noted() -> set[str]:
    """The lines of all signatures that are noted."""
    kept = folder()
    if kept is None or not (kept / "reached").is_dir():
        return set()
    return {path.read_text("utf-8") for path in (kept / "reached").iterdir() if not path.name.endswith("~")}


def unlisted() -> set[str]:
    """The lines that are noted and stand not in the list."""
    found = noted()
    return found - set(signatures.read()) if found else found


def forget() -> None:
    """Drop all notes."""
    kept = folder()
    if kept is not None:
        shutil.rmtree(kept / "reached", ignore_errors=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all. OSError if it cannot be."""
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix="~", delete=False) as file:
        try:
            file.write(content)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def main(arguments: list[str] | None = None) -> int:
    """Bring the list up to date with the notes, and say what has changed."""
    import argparse
    import logging

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log = logging.getLogger("dynq.build")
    parser = argparse.ArgumentParser(description="Write the list of kernels to build.")
    parser.add_argument("--all", action="store_true", help="the notes are complete: drop all lines that were not noted")
    given = parser.parse_args(arguments)
    before, found = set(signatures.read()), noted()
    stale = {line for line in before - found if given.all or signatures.misfit(line) is not None}
    signatures.write((before - stale) | found)
    for sign, lines in (("+", found - before), ("-", stale)):
        for line in sorted(lines):
            log.info("%s %s", sign, line)
    log.info("%s has %d lines", signatures.FILE.name, len(signatures.read()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
