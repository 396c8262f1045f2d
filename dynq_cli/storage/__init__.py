"""State on disk: a snapshot, a log of what came after it, and a manifest that says what is in force.

The verbs:

- `state`: create, open, apply, count, enum, diff, mark over a directory; `positions`: rows by position
- `facts`, `integrity`, `prune`: what there is to say, whether all is as it was written, dropping what is not needed

Writing:

- `writer`: the one writer, from changes to a version; `commit`: making a version, or a snapshot, the one in force
- `ledger`, `ledger_index`, `ledger_facts`: which logs became which version; `batches`: whether one is new
- `lock`: one writer at a time

Reading:

- `recover`: from files to an engine: map the snapshot, replay the log; `rebuild`: views of another version of dynq
- `history`, `versions`: which versions before are kept, and going back to one
- `plans`: the plans of the spec, made once and then read back

Files:

- `manifest`, `snapshot`, `wal`: the three kinds that make a state, each checked by checksums
- `layout`: the names of files, and writing them so that they appear whole or not at all

A commit is the replacement of `CURRENT`: before it nothing that readers look at has changed. Files that a
manifest names are never changed within the lengths it gives, so readers need no lock.
"""
