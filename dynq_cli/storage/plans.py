"""The plans and programs of a state: made from its spec once, then read back.

    read_plans(directory, manifest) = the spec and plans that the state was made for

Parsing and planning a spec takes longer than opening a small state, so `plans.json` keeps what they gave, behind a
line with its checksum. It is trusted only where planning again would give the same: if it is of the same spec and
the same code made it, which a hash of all sources that plans depend on and the versions of the parsers decide.
Otherwise, or where it is missing, the spec is planned again. Where the plans' fingerprints are not those of the
manifest, this version of dynq plans in another way: views are built anew then (`rebuild`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from dynq_cli.engine.installed import version_of
from dynq_cli.errors import SpecDiffersError
from dynq_cli.plan.codec import CodecError, decode, encode
from dynq_cli.plan.plan import AnyPlan
from dynq_cli.plan.program import Program
from dynq_cli.records import record
from dynq_cli.spec.model import Spec
from dynq_cli.storage.layout import PLANS, SPEC, checksum_of, write_new
from dynq_cli.storage.manifest import Manifest, damaged

_PACKAGE = Path(__file__).parent.parent
# What plans depend on: modules of ours, and libraries that read queries.
_SOURCES = ("errors.py", "spec", "query", "plan")
_LIBRARIES = ("duckdb", "lark", "sqlglot")


@record(frozen=True)
class Planned:
    """A frozen spec with its plans and the steps of those that can be kept, and the fingerprints of both."""

    spec: Spec
    plans: Mapping[str, AnyPlan]
    programs: Mapping[str, Program]
    fingerprints: Mapping[str, str]

    @property
    def kept(self) -> dict[str, AnyPlan | Program]:
        """What an engine is made for; it says why a plan without steps cannot be kept."""
        return {**self.plans, **self.programs}


@record(frozen=True)
class _Kept:
    """What `plans.json` holds: who made it, from which spec, and what came out."""

    code: str
    spec: str
    planned: Planned


def plan_spec(text: str, file: str = SPEC) -> Planned:
    """Read and plan a spec; `file` is the name that errors say. SpecError with all that is wrong."""
    from dynq_cli.plan.choose import plan_query
    from dynq_cli.plan.lower import program_of
    from dynq_cli.query.compile import compile_spec
    from dynq_cli.spec.load import parse_spec

    spec = parse_spec(text, file)
    plans = {name: plan_query(query, spec) for name, query in compile_spec(spec).items()}
    programs = {name: program_of(plan.query, spec) for name, plan in plans.items() if not plan.refusal}
    return _with_fingerprints(spec, plans, programs)


def _with_fingerprints(spec: Spec, plans: Mapping[str, AnyPlan], programs: Mapping[str, Program]) -> Planned:
    from dynq_cli.plan.fingerprint import fingerprint

    return Planned(spec, plans, programs, {name: fingerprint(p, programs.get(name)) for name, p in plans.items()})


def write_plans(directory: Path, made: Planned, spec: str) -> None:
    """Keep the plans of a new state with its spec; durable with the next sync of the directory."""
    from dynq_cli.spec.load import parse_spec

    # Read as the state will read it: under its name there, not under that of the file it came from.
    planned = _with_fingerprints(parse_spec(spec, SPEC), made.plans, made.programs)
    kept = _Kept(code_version(), checksum_of(spec.encode()), planned)
    text = json.dumps(encode(_Kept, kept), separators=(",", ":")).encode() + b"\n"
    write_new(directory / PLANS, checksum_of(text).encode() + b"\n" + text)


def read_plans(directory: Path, manifest: Manifest) -> Planned:
    """The state's spec and plans. DamagedError if a file is not what was written, SpecDiffersError if the queries
    are not those the state was made for."""
    try:
        content = (directory / SPEC).read_bytes()
    except FileNotFoundError:
        raise damaged(directory / SPEC, "is missing") from None
    if checksum_of(content) != manifest.spec:
        raise damaged(directory / SPEC, "is not what was written")
    kept = _kept_plans(directory, manifest)
    planned = plan_spec(content.decode()) if kept is None else kept.planned
    if set(planned.plans) != set(manifest.plans):
        raise SpecDiffersError(
            f"{directory} was made for the queries {', '.join(manifest.plans)}, and its spec has "
            f"{', '.join(planned.plans)}\n  hint: make a new state with `dynq init SPEC`"
        )
    return planned


def has_plans(directory: Path, manifest: Manifest) -> bool:
    """Whether opening the state takes plans that are kept. DamagedError if they are not what was written."""
    return _kept_plans(directory, manifest) is not None


def _kept_plans(directory: Path, manifest: Manifest) -> _Kept | None:
    """What is kept of planning the spec; None if this version would have to plan it again."""
    path = directory / PLANS
    try:
        checksum, _, text = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    if checksum != checksum_of(text).encode():
        raise damaged(path, "is not what was written")
    try:
        kept = decode(_Kept, json.loads(text))
    except CodecError:
        # Whole, but of other classes: another version of the code wrote it.
        return None
    return kept if (kept.code, kept.spec) == (code_version(), manifest.spec) else None


@cache
def code_version() -> str:
    """A digest of all that decides which plan a spec gets; two milliseconds."""
    digest = hashlib.sha256(repr([version_of(library) for library in _LIBRARIES]).encode())
    for path in sorted(path for source in _SOURCES for path in _files(os.path.join(_PACKAGE, source))):
        with open(path, "rb") as file:
            source = file.read()
        digest.update(f"{os.path.relpath(path, _PACKAGE)}\0{len(source)}\0".encode())
        digest.update(source)
    return digest.hexdigest()[:24]


def _files(path: str) -> Iterator[str]:
    """A module's file, or those of a package. Plain strings: a path object for each would take longer than reading."""
    if not os.path.isdir(path):
        yield path
        return
    for entry in os.scandir(path):
        if entry.is_dir():
            yield from _files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path
