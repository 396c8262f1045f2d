"""Base tables and view trees in flat arrays: every value is an int64 code, every loop a kernel.

Values to codes and back:

- `floor_to_type`: where values between those of a type would stand
- `codes`: every type of the language to int64 and back
- `dictionary`: values without a fixed width (strings, binary, wide decimals) to dense ids
- `labels`: int64 labels of those ids that stand in the order of their values

The views over them:

- `layout`: plans to tables, nodes and records; `arena`: the memory that holds them, which `memory` gives
- `arena_snapshot`: the arena and dictionaries as named arrays, and back
- `forecast`: the sizes that tables would have, from how many rows each would have
- `engine`: batches of changes in codes in; `result_reader`: results in codes out; `positions`: rows by their position
- `ingest`, `arrow_changes`: Arrow rows to batches of changes
- `expressions`: what leaves compute and filter by; `expression_cache`, `predicates`: much of it
  without DuckDB
- `views`: the queries of a spec, Arrow in and Arrow out; `ranked`, `base_rows`: rows by position, and base tables
- `rejection_messages`: why a batch was refused, in words
- `net_delta`: what changes amount to, and taking them back
- `difference`, `versions`: what came and went between an engine and one that went back
- `order_statistic_tree`: the rows of a group in order, with partial sums
- `grouped`: the groups of an aggregate query; `group_layout`: their tables; `float_terms`: what a row adds to a sum
- `pairs`: wide decimals as two codes, to count with and to order by
- `check`: every invariant, asserted
- `installed`: versions of libraries, without importing them
- `kernels`: the compiled loops, one data structure per module
"""
