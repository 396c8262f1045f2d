"""Which version a command reads: the one in force, or none."""

from __future__ import annotations

from dynq_cli.errors import RejectedError


def check_version(in_force: int, asked: str | None) -> None:
    """Refuse a version or mark that is not kept: this version of dynq reads the one in force."""
    if asked is None or (asked.isdecimal() and int(asked) == in_force):
        return
    what = f"version {asked}" if asked.isdecimal() else f"a version or mark {asked}"
    raise RejectedError(f"{what} is not kept; the state is at version {in_force}\n  hint: leave --at out to read that")
