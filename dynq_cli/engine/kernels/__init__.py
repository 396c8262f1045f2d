"""The compiled loops of the engine, one data structure per module.

Every kernel is a plain function over named tuples of arrays (`fields`), decorated with `kernel`, and generic over
arity and tree shape: nothing is compiled per query. Only this package imports numba.

- `cache`: the decorator
- `native`, `library`: calling compiled kernels without numba; the library that has them
- `signatures`, `signatures.txt`: which kernels are built, for which kinds of arguments; `reached`: which should be
- `build`: makes the library; `jit`: compiles what it lacks; `sources`: digests that say whether it is up to date
- `compiling`, `entry`: how numba compiles a kernel with all its parts at once, and the function that Python calls
- `codes`: the two codes that are no values
- `intern`: values in flat bytes to dense ids, and back; `like`: which texts a pattern fits
- `labels`: ids in the order of their values, and the sharing of label gaps among new ones
- `fields`: the numbers by which kernels name the fields of tables and nodes
- `table`, `base`: rows of codes with stable ids; base tables, where batches are resolved
- `groups`: which row of a node belongs to which row above it
- `update`, `release`, `commit`: view trees after a batch; what leaves them; whole commits in one call
- `ranges`, `bounds`: rows that read a range of others; `pending_updates`, `sort_pending`: what changes in it;
  `range_sums`, `range_sums_bulk`: who follows
- `enumeration_pipeline`, `enumerate`: results, block by block
- `positions`: the row at a position, and the position of a row
- `dirty`, `dirty_walk`: the part of a result that has changed, marked and gone through; `multiplicity`: as it was, and
  is
- `order_statistic_blocks`, `order_statistic_tree`, `order_statistic_search`: rows in order with partial sums: blocks,
  changing, reading; `order_statistic_balance`: blocks with few entries; `tree_cursor`, `forward_cursor`: places one
  from the other
- `prefetch`, `group_prefetch`: asking for memory before it is needed
- `int128`: 128-bit counts in two lanes; `int128_signed`: 128-bit sums and products
- `superaccumulator`: sums of doubles without rounding
- `delta_log`: what a commit changes in a tree; `delta_join`, `delta_join_ranges`: in its result; `base_delta_scan`:
  without a tree
- `cycle_edges`: the rows of a cycle's atoms, in lists by their ends; `cycle_join`: the delta of their join
- `cycle_pairs`: sums over triangles by IVM-ε, with the pairs of heavy values
- `aggregates`, `aggregate_rows`: rows taken into groups; what became of the groups' rows
"""
