"""Data files in, Arrow record batches out, in bounded memory.

Guarantees of the layer: a file is streamed, never loaded whole; a CSV field that is empty and
unquoted is NULL while `""` is the empty string; whatever is wrong with a file is a `DynqError`
that names it.
"""
