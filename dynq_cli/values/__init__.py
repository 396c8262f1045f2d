"""Values of the spec's types in Arrow, and the kinds of changes: what logs, the engine and results have in common.

- `convert`: Arrow columns of related types to the one type of the spec, exactly or not at all
- `change_kinds`: what a row of a change log does to its relation
"""
