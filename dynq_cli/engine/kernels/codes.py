"""The two codes that are no values."""

NULL = -(2**63)
"""NULL in every type: smaller than every value's code, and refused where it comes as a value."""

UNKNOWN = -1
"""A looked-up value that no dictionary holds: equal to no id, and not NULL."""
