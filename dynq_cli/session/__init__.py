"""The library behind the commands: a Python function for each.

- `explain`: the class, plan and cost of each query of a spec
- `estimate`: estimate the sizes after an apply; `sample`, `table_counts`: sample the rows, and count from them
- `alter`: make a state follow a changed spec, as one version
- `apply_logs`: apply change logs to a state, each as a version; `replace`: replace whole relations
- `batch_order`: the order in which logs are applied
- `commits`, `sourced_changes`: group the rows of logs into commits; `row_counts`: count their effects by file
- `run`: apply new logs in a folder, then write the outputs; `marks`: the versions at which their diffs start
- `mirrors`: keep tables of other systems equal to results
- `extract_table`: write what happened to a table of a lake as a change log
- `quarantine`: set refused logs aside; `metrics`, `lineage`: what a run did, for monitoring and for OpenLineage
- `changes`: write differences of a result as files that another state can apply
- `why`: the base rows that make a row of a result, or what keeps one out
- `report`, `report_style`: a state as one page of HTML
- `verify`, `recompute`: compare the results with a recomputation by DuckDB
"""
