"""Base tables and view trees in flat arrays: every value is an int64 code, every loop a kernel.

Values to codes and back:

- `lossless`: Arrow columns of related types to the one type of the spec, exactly or not at all
- `codes`: every type of the language to int64 and back
- `dictionary`: values without a fixed width (strings, binary, wide decimals) to dense ids
- `labels`: int64 labels of those ids that stand in the order of their values

Codes in, codes out:

- `supported`: which plans the engine runs
- `layout`, `arena`: where everything of a plan stands in a few flat arrays
- `engine`, `live`: batches of changes in, results out
- `ingest`: Arrow tables to batches of changes
- `check`: every invariant, asserted
- `kernels`: the compiled loops, one data structure per module
"""
