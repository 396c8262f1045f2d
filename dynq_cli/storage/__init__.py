"""State on disk: a snapshot, a log of what came after it, and a manifest that says what is in force.

- `state`: the verbs create, open, apply, count, enum over a directory
- `commit`: making a version, or a snapshot, the one in force
- `recover`: from files to an engine: map the snapshot, replay the log
- `plans`: the plans of the spec, made once and then read back
- `manifest`, `snapshot`, `wal`: the three kinds of files, each checked by checksums
- `layout`: the names of files, and writing them so that they appear whole or not at all
- `lock`: one writer at a time

A commit is the replacement of `CURRENT`: before it nothing that readers look at has changed. Files that a
manifest names are never changed within the lengths it gives, so readers need no lock.
"""
