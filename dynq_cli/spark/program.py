"""`extract snapshot` as a separate program, which spark-submit runs on a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.spark.described import relation_of
from dynq_cli.spark.session import get_session
from dynq_cli.spark.snapshot import Extracted, SnapshotJob, extract_snapshot


def run(args: Sequence[str] | None = None) -> None:
    """Run the job of a command line; exit with the exit code of `dynq extract snapshot`."""
    parser = _parser()
    given = parser.parse_args(args)
    try:
        job = SnapshotJob(
            after=given.after,
            out=given.output,
            relation=relation_of(given.relation, given.spec, given.state),
            before=given.before,
            key=tuple(given.key) if given.key else None,
            ignored=tuple(given.ignore),
            form=given.format,
            before_form=given.before_format,
            options=pairs("--option", given.option),
            reject_to=given.reject_to,
            source=given.source,
            before_name=given.before_name,
            after_name=given.after_name,
        )
        done = extract_snapshot(get_session(quiet=False), job)
    except DynqError as error:
        parser.exit(error.exit_code, f"dynq: {error}\n")
    parser.exit(0, f"dynq: {told(done)}\n")


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """Parse `KEY=VALUE` texts to a mapping."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"{option} {text}: write {option} KEY=VALUE")
        found[name] = value
    return found


def told(done: Extracted) -> str:
    """Describe the result of a job in one line."""
    batch = done.batch
    if batch.start == batch.stop:
        return f"{batch.relation}: both snapshots are the same one; there is nothing to extract"
    if not done.written:
        return f"{done.out}: extracted before, nothing was done"
    aside = f", {_number(done.bad, 'bad row')} set aside" if done.bad else ""
    changes = f"{done.inserted:,} inserted, {done.replaced:,} replaced, {done.deleted:,} deleted"
    return f"{done.out}: {batch.relation}, {changes}{aside}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dynq_cli.spark.snapshot",
        description="The difference of two snapshots of a table, as a change log; see dynq extract snapshot --help.",
        allow_abbrev=False,
    )
    parser.add_argument("--before", metavar="A")
    parser.add_argument("--after", metavar="B", required=True)
    parser.add_argument("--relation", metavar="NAME", required=True)
    parser.add_argument("--output", "-o", metavar="OUT", required=True)
    parser.add_argument("--spec", metavar="SPEC")
    parser.add_argument("--state", "-s", metavar="DIR")
    for name, metavar in (("--key", "COLUMN"), ("--ignore", "COLUMN"), ("--option", "KEY=VALUE")):
        parser.add_argument(name, metavar=metavar, action="append", default=[])
    for name in ("--format", "--before-format", "--reject-to", "--source", "--before-name", "--after-name"):
        parser.add_argument(name)
    return parser
