"""Plans and programs of a state: plan the spec once, then read the plans back.

    read_plans(directory, manifest) = the spec of the state, and its plans

Parsing and planning a spec takes longer than opening a small state. So `plans.json` caches the plans, after a line with
a checksum. The cache is valid for one spec and one version of the code: a hash over all sources that plans depend on,
and the versions of the parsers. If it is missing or not valid, the spec is planned again. If the fingerprints of the
plans differ from the manifest's, this version of dynq plans differently, and `rebuild` builds the views anew.
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
from dynq_cli.storage.layout import SPEC, checksum_of, plans_name, spec_name, write_new
from dynq_cli.storage.manifest import Manifest, damaged

_PACKAGE = Path(__file__).parent.parent
# Plans depend on these modules, and on these libraries, which parse queries.
_SOURCES = ("errors.py", "spec", "query", "plan")
_LIBRARIES = ("duckdb", "lark", "sqlglot")


@record(frozen=True)
class Planned:
    """A spec with the plan of each query, the program of each query that dynq can keep, and their fingerprints.

    `checksum` is that of the spec's text.
    """

    spec: Spec
    plans: Mapping[str, AnyPlan]
    programs: Mapping[str, Program]
    fingerprints: Mapping[str, str]
    checksum: str

    @property
    def kept(self) -> dict[str, AnyPlan | Program]:
        """The programs, and the plan of each query without one: the argument of `Views`, which reports the refusal."""
        return {**self.plans, **self.programs}


@record(frozen=True)
class _Kept:
    """The contents of `plans.json`: the version of the code, the checksum of the spec, and the plans."""

    code: str
    spec: str
    planned: Planned


def plan_spec(text: str, file: str = SPEC) -> Planned:
    """Read and plan a spec; errors name it as `file`. SpecError lists all problems."""
    from dynq_cli.plan.choose import plan_query
    from dynq_cli.plan.lower import program_of
    from dynq_cli.query.compile import compile_spec
    from dynq_cli.spec.load import parse_spec

    spec = parse_spec(text, file)
    plans = {name: plan_query(query, spec) for name, query in compile_spec(spec).items()}
    programs = {name: program_of(plan.query, spec) for name, plan in plans.items() if not plan.refusal}
    return _with_fingerprints(spec, plans, programs, text)


def plan_new_spec(text: str, file: str) -> Planned:
    """As `plan_spec`, for a spec that no state has yet: RejectedError if a plan promises less than is required."""
    from dynq_cli.plan.require import check_required

    planned = plan_spec(text, file)
    check_required(planned.plans.values(), planned.spec)
    return planned


def _with_fingerprints(spec: Spec, plans: Mapping[str, AnyPlan], programs: Mapping[str, Program], text: str) -> Planned:
    from dynq_cli.plan.fingerprint import fingerprint

    fingerprints = {name: fingerprint(p, programs.get(name)) for name, p in plans.items()}
    return Planned(spec, plans, programs, fingerprints, checksum_of(text.encode()))


def write_plans(directory: Path, made: Planned, spec: str, since: int = 0) -> None:
    """Write the plans of a spec that holds since a version; durable after the next sync of the directory."""
    from dynq_cli.spec.load import parse_spec

    # Parse the spec under the name that it has in the state: plans contain places in the file.
    planned = _with_fingerprints(parse_spec(spec, spec_name(since)), made.plans, made.programs, spec)
    kept = _Kept(code_version(), checksum_of(spec.encode()), planned)
    text = json.dumps(encode(_Kept, kept), separators=(",", ":")).encode() + b"\n"
    write_new(directory / plans_name(since), checksum_of(text).encode() + b"\n" + text)


def plans_for(directory: Path, manifest: Manifest, planned: Planned) -> Planned:
    """Return these plans if they are of the spec of the manifest, else those of that spec. DamagedError as below."""
    return planned if planned.checksum == manifest.spec else read_plans(directory, manifest)


def read_plans(directory: Path, manifest: Manifest) -> Planned:
    """Read the spec and the plans of a state.

    DamagedError if a file is damaged, SpecDiffersError if the spec has other queries than the state.
    """
    path = directory / manifest.spec_file
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise damaged(path, "is missing") from None
    if checksum_of(content) != manifest.spec:
        raise damaged(path, "is not what was written")
    kept = _kept_plans(directory, manifest)
    planned = plan_spec(content.decode(), manifest.spec_file) if kept is None else kept.planned
    if set(planned.plans) != set(manifest.plans):
        raise SpecDiffersError(
            f"{directory} was made for the queries {', '.join(manifest.plans)}, and its spec has "
            f"{', '.join(planned.plans)}\n  hint: make a new state with `dynq init SPEC`"
        )
    return planned


def has_plans(directory: Path, manifest: Manifest) -> bool:
    """Whether `plans.json` is valid for this version of dynq. DamagedError if its checksum does not match."""
    return _kept_plans(directory, manifest) is not None


def _kept_plans(directory: Path, manifest: Manifest) -> _Kept | None:
    """Read `plans.json`; None if it is missing or not valid for this spec and this version of the code."""
    path = directory / manifest.plans_file
    try:
        checksum, _, text = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    if checksum != checksum_of(text).encode():
        raise damaged(path, "is not what was written")
    try:
        kept = decode(_Kept, json.loads(text))
    except CodecError:
        # The checksum matches, but another version of the code wrote it, with other classes.
        return None
    return kept if (kept.code, kept.spec) == (code_version(), manifest.spec) else None


@cache
def code_version() -> str:
    """Return a digest of the sources and parser versions that plans depend on. Takes about 2 ms."""
    digest = hashlib.sha256(repr([version_of(library) for library in _LIBRARIES]).encode())
    for path in sorted(path for source in _SOURCES for path in _files(os.path.join(_PACKAGE, source))):
        with open(path, "rb") as file:
            source = file.read()
        digest.update(f"{os.path.relpath(path, _PACKAGE)}\0{len(source)}\0".encode())
        digest.update(source)
    return digest.hexdigest()[:24]


def _files(path: str) -> Iterator[str]:
    """Yield the files of a module or package, as strings: making path objects takes longer than reading the files."""
    if not os.path.isdir(path):
        yield path
        return
    for entry in os.scandir(path):
        if entry.is_dir():
            yield from _files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path
