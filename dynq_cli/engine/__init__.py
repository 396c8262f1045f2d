"""Base tables and view trees in flat arrays: every value is an int64 code, every loop a kernel.

- `codes`: every type of the language to int64 and back, through Arrow arrays
- `dictionary`: values without a fixed width (strings, binary, wide decimals) to dense ids
- `labels`: int64 labels of those ids that stand in the order of their values
- `kernels`: the compiled loops, one data structure per module
"""
