"""State on disk: a snapshot, the write-ahead log that follows it, and a manifest that names both.

Operations:

- `state`: create, open, apply, count, enum, diff and mark a state directory; `positions`: rows by position
- `facts`: sizes, counts and history for `status`; `integrity`: check files; `prune`: remove unneeded files
- `backup`: copy a state, checked

Writing:

- `writer`: turn changes into a version; `commit`: put a version or a snapshot in force
- `checkpoint`: bring the manifest and the ledger up to the tail of the log
- `alter`: put a changed spec in force; `eras`: what was there before, which older versions are read with
- `ledger`, `ledger_index`, `ledger_facts`: which logs became which version; `batches`: is a batch new?
- `lock`: allow one writer at a time

Reading:

- `recover`: open an engine: map the snapshot, replay the log; `rebuild`: build the views anew after an upgrade of dynq
- `history`, `versions`: which earlier versions are kept; open one of them
- `held_deltas`: the deltas that were read as versions were made
- `plans`: plan the spec once, then read the plans back

Files:

- `manifest`, `snapshot`, `wal`: the three kinds of file in a state, each with checksums
- `manifest_facts`: what a manifest says; `log_tail`: the versions that are in force and not in the manifest yet
- `layout`: file names, and atomic writes

A commit record at the end of the log, or a new `CURRENT`, is the commit: until then, readers see no change. The bytes
that a manifest or a commit record refers to never change, so readers need no lock.
"""
