"""The compiled loops of the engine, one data structure per module.

Every kernel is a plain function over arrays, decorated with `cache.kernel`, and generic over arity and
tree shape: nothing is compiled per query. Only this package imports numba.

- `cache`: the `kernel` decorator and the directory where compiled kernels are kept
- `intern`: values in flat bytes to dense ids, and back
- `labels`: order labels of ids: the blocked order, and the sharing of gaps
- `codes`: nothing but bit patterns: floats and wide decimals in an order int64 and bytes understand
"""
