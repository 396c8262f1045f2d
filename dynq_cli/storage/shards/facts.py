"""Facts about a state of shards, for `status`, `check` and `prune`: those of all shards together."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from dynq_cli.engine.size_facts import QuerySize, RelationSize, TableSizes
from dynq_cli.errors import DamagedError
from dynq_cli.storage.facts import Sizes, StateFacts, facts_of, writer_of
from dynq_cli.storage.history import needed_since
from dynq_cli.storage.integrity import Finding, check
from dynq_cli.storage.layout import SHARDS, SPEC, checksum_of
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import Counts
from dynq_cli.storage.prune import Pruned, prune
from dynq_cli.storage.shards.manifest import MEMBERS, ShardsManifest, member_directory, read_shards
from dynq_cli.storage.shards.members import recover, settled
from dynq_cli.storage.shards.routing import Member, Router
from dynq_cli.storage.shards.state import ShardedState


def facts_of_shards(directory: Path, *, recent: int = 5) -> StateFacts:
    """Return the facts of the version in force. Bytes are those of all shards, rows of relations count once."""
    top, members = settled(directory)
    found = {member: facts_of(member_directory(directory, *member), recent=recent) for member in members}
    first = found[top.members[0]]
    own = [entry for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False)]
    here = sum(entry.stat().st_size for entry in own)
    sizes = {name: sum(getattr(facts.sizes, name) for facts in found.values()) for name in vars(first.sizes)}
    blocks = sum(512 * entry.stat().st_blocks for entry in own)
    sizes |= {
        "manifest": sizes["manifest"] + here,
        "total": sizes["total"] + here,
        "allocated": sizes["allocated"] + blocks,
    }
    return replace(
        first,
        counts={name: _counts(top, name, found) for name in top.queries},
        tables=_tables(directory, top, found),
        waiting=sum(facts.waiting for facts in found.values()),
        sizes=Sizes(**sizes),
        outputs_at=None if top.written < 0 else top.written,
        marks=top.marks,
        made=top.made,
        before=top.before,
        needed_since=needed_since(replace(members[top.members[0]], marks=top.marks, before=top.before)),
        writer=writer_of(directory),
    )


def _counts(top: ShardsManifest, query: str, found: dict[Member, StateFacts]) -> Counts | None:
    group, placed = top.plan.group_of(query)
    several = [found[group.name, i].counts[query] for i in range(group.size)]
    kept = [counts for counts in several if counts is not None]
    if placed.merge not in ("none", "whole") or len(kept) < len(several):
        return None
    return Counts(sum(c.rows for c in kept), sum(c.distinct for c in kept))


def _tables(directory: Path, top: ShardsManifest, found: dict[Member, StateFacts]) -> TableSizes | None:
    several = {member: facts.tables for member, facts in found.items()}
    tables = {member: each for member, each in several.items() if each is not None}
    if len(tables) < len(several):
        return None
    router = Router(ShardedState(directory).spec, top.plan)
    relations: dict[str, RelationSize] = {}
    queries: dict[str, QuerySize] = {}
    for member, each in tables.items():
        for name, size in each.relations.items():
            had = relations.get(name, RelationSize(0, 0, 0))
            times = 1 if router.counts(name, member) else 0
            relations[name] = RelationSize(
                had.rows + times * size.rows, had.copies + times * size.copies, had.length + size.length
            )
        for name, query in each.queries.items():
            before = queries.get(name, QuerySize(0, 0))
            queries[name] = QuerySize(before.length + query.length, before.stored + query.stored)
    return TableSizes(
        relations,
        {name: queries[name] for name in top.queries if name in queries},
        sum(each.shared for each in tables.values()),
        sum(each.dictionaries for each in tables.values()),
    )


def check_shards(directory: Path, *, read_data: bool = False) -> list[Finding]:
    """Check every file of every shard. DamagedError names every damaged file, and so its shard."""
    top = read_shards(directory)
    found = [Finding(SHARDS, "ok", f"version {top.version}, {len(top.members)} shards")]
    damage = []
    spec = directory / SPEC
    if not spec.exists():
        damage.append(f"{spec} is missing: the state is damaged")
    elif checksum_of(spec.read_bytes()) != top.spec:
        damage.append(f"{spec} is not what was written: the state is damaged")
    else:
        found.append(Finding(SPEC, "ok", "is what was written"))
    for group, number in top.members:
        name = f"{MEMBERS}/{group}-{number}"
        try:
            findings = check(member_directory(directory, group, number), read_data=read_data)
        except DamagedError as error:
            damage += [line for line in str(error).split("\n") if not line.startswith("  hint")]
            continue
        found += [replace(each, file=f"{name}/{each.file}") for each in findings]
    if not damage:
        settled(directory)
        return found
    told = "\n".join(damage)
    raise DamagedError(f"{told}\n  hint: put the directory back from a copy of it")


def prune_shards(directory: Path) -> Pruned:
    """Remove from every shard what no mark, nor the next diff, needs. LockedError if another process is writing."""
    with writing_to(directory):
        top = recover(directory)
        found = {member: prune(member_directory(directory, *member)) for member in top.members}
    removed = tuple(f"{MEMBERS}/{g}-{i}/{name}" for (g, i), each in found.items() for name in each.removed)
    several = list(found.values())
    given_up = max((each.given_up for each in several), key=len)
    return Pruned(removed, sum(each.length for each in several), max(each.kept_since for each in several), given_up)
