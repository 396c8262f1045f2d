"""A process that stays: the engine in memory, change logs from a folder and over HTTP, answers from memory.

- `service`: the state behind one thread; applies logs, answers questions, tells subscribers of every version
- `app`: the HTTP interface; `answers`: rows as JSON, CSV or Arrow, errors as JSON
- `process`: sockets, signals, the watched inbox, systemd

The process commits as `dynq apply` does: killing it at any moment is like killing `apply`. Other processes may read the
state, and apply to it between two commits.
"""
