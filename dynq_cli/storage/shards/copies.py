"""Copy a state of shards: every shard, whole and checked, at the version of all."""

from __future__ import annotations

from pathlib import Path

from dynq_cli.storage.backup import Copied, OutrunError, backup
from dynq_cli.storage.layout import LOCK, SHARDS, SPEC, write_new
from dynq_cli.storage.shards.manifest import MEMBERS, member_directory
from dynq_cli.storage.shards.members import settled


def copy_shards(source: Path, made: Path) -> Copied:
    """Copy every shard into an empty directory. OutrunError if a writer commits meanwhile."""
    top, _ = settled(source)
    content = (source / SHARDS).read_bytes()
    (made / MEMBERS).mkdir()
    copies = [backup(member_directory(source, *m), member_directory(made, *m)) for m in top.members]
    if any(copy.version != top.version for copy in copies):
        raise OutrunError
    spec = (source / SPEC).read_bytes()
    for name, data in ((SPEC, spec), (LOCK, b""), (SHARDS, content)):
        write_new(made / name, data)
    files, length = (sum(found) for found in zip(*((c.files, c.length) for c in copies), strict=True))
    return Copied(top.version, files + 2, length + len(spec) + len(content))
