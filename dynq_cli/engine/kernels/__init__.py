"""The compiled loops of the engine, one data structure per module.

Every kernel is a plain function over arrays, decorated with `cache.kernel` or `cache.bare`, and generic over
arity and tree shape: nothing is compiled per query. Only this package imports numba.

- `cache`: the decorators and the directory where compiled kernels are kept
- `native`, `entry`: their machine code, called without numba, and how it is made from what numba compiled
- `codes`: the two codes that are no values
- `intern`: values in flat bytes to dense ids, and back
- `labels`: ids in the order of their values, and the sharing of label gaps among new ones
- `fields`: the numbers by which kernels name the fields of tables and nodes
- `table`, `base`: rows of codes with stable ids; base tables, where batches are resolved
- `groups`: which row of a node belongs to which row above it
- `update`, `commit`: view trees after a batch; whole commits in one call
- `enumerate`: results, block by block
- `prefetch`: asking for memory before it is needed
- `wide`: 128-bit counts in two lanes
"""
