"""The library behind the commands: a Python function for each.

- `explain`: what each query of a spec costs to keep, and why
- `estimate`: how large things become by an apply; `sample`, `table_counts`: what that is counted from
- `apply_logs`: change logs into a state, each a version
- `batch_order`: the order in which logs are applied; `commits`, `sourced_changes`: their rows on the way to the engine
- `run`: apply what is new in a folder, then write the outputs; `marks`: where their diffs begin
- `changes`: what came and went, as files that another state can apply
- `verify`, `recompute`: results by DuckDB beside those that are kept
"""
