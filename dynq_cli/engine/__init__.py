"""Base tables and view trees in flat arrays: every value is an int64 code, every loop a kernel.

Codes:

- `codes`: encode values of every type as int64, and decode them
- `dictionary`: dense ids for values without a fixed width (strings, binary, wide decimals)
- `labels`: int64 labels of ids, in the order of their values
- `floor_to_type`: round a value down to a narrower type

Views:

- `layout`: plans to tables, nodes and records; `arena`: the block of memory for them, allocated by `memory`
- `arena_snapshot`: the arena and dictionaries as named arrays, and back
- `forecast`: the sizes that tables would have, from how many rows each would have
- `engine`: batches of changes in codes in; `result_reader`: results in codes out; `positions`: rows by their position
- `ingest`, `arrow_changes`: Arrow rows to batches of changes
- `expressions`: evaluate expressions and filters of leaves with DuckDB; `expression_cache`, `predicates`: without it
- `views`: the queries of a spec, Arrow in and Arrow out; `ranked`, `base_rows`: rows by position, and base tables
- `rejection_messages`: describe why a batch was refused
- `net_delta`: the net change of base rows, and its reversal
- `difference`, `versions`: the difference of a result between two versions
- `order_statistic_tree`: the rows of a group in order, with partial sums
- `grouped`: the groups of an aggregate query; `group_layout`: their tables; `float_terms`: a row's term in a float sum
- `cycle_sums`: sums over triangles by IVM-ε; `check_pairs`: their pairs, against the rows of their edges
- `cycles`: the deltas of cyclic joins; `cycle_layout`: the tables of their edges; `check_cycles`: against base rows
- `pairs`: wide decimals as two codes, for arithmetic and order
- `check`: assert every invariant
- `installed`: versions of libraries, without importing them
- `kernels`: the compiled loops, one data structure per module
"""
