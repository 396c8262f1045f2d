"""Base tables and view trees in flat arrays: every value is an int64 code, every loop a kernel.

Values to codes and back:

- `lossless`: Arrow columns of related types to the one type of the spec, exactly or not at all; `rounded_down`: where
  values between those of a type would stand
- `codes`: every type of the language to int64 and back
- `dictionary`: values without a fixed width (strings, binary, wide decimals) to dense ids
- `labels`: int64 labels of those ids that stand in the order of their values

The views over them:

- `layout`: plans to tables, nodes and records; `arena`: the memory that holds them, which `memory` gives
- `image`: the arena and dictionaries as named arrays, and back
- `engine`: batches of changes in codes in; `reading`: results in codes out; `positions`: rows by their position
- `kinds`: what rows of a change log say; `ingest`, `arrow_changes`: Arrow rows to batches of changes
- `evaluated`: what leaves compute and filter by; `remembered`, `by_codes`, `like`: much of it without DuckDB
- `live`: the queries of a spec, Arrow in and Arrow out; `ranked`, `base_rows`: rows by position, and base tables
- `refused`: why a batch was refused, in words
- `net`: what changes amount to, and taking them back
- `difference`, `versions`: what came and went between an engine and one that went back
- `counted_tree`: the rows of a group in order, with partial sums
- `grouped`: the groups of an aggregate query; `group_layout`: their tables; `measured`: what a row adds to a sum
- `pairs`: wide decimals as two codes, to count with and to order by
- `check`: every invariant, asserted
- `installed`: versions of libraries, without importing them
- `kernels`: the compiled loops, one data structure per module
"""
