"""Base tables and view trees in flat arrays: every value is an int64 code, every loop a kernel.

Values to codes and back:

- `lossless`: Arrow columns of related types to the one type of the spec, exactly or not at all
- `codes`: every type of the language to int64 and back
- `dictionary`: values without a fixed width (strings, binary, wide decimals) to dense ids
- `labels`: int64 labels of those ids that stand in the order of their values

The views over them:

- `supported`: which plans the engine keeps
- `layout`: plans to tables, nodes and records; `arena`: the memory that holds them, which `memory` gives
- `image`: the arena and dictionaries as named arrays, and back
- `engine`: batches of changes in codes in, results in codes out
- `ingest`: Arrow rows to such batches; `live`: the queries of a spec, Arrow in and Arrow out
- `check`: every invariant, asserted
- `installed`: versions of libraries, without importing them
- `kernels`: the compiled loops, one data structure per module
"""
