"""Values of the spec's types in Arrow, and change kinds: shared by logs, the engine and results.

- `convert`: convert Arrow columns of related types to the type of the spec, exactly
- `change_kinds`: the kinds of changes in a log: insert, delete, old and new image, upsert
"""
