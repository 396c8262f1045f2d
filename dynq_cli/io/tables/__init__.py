"""Tables of other systems: kept equal to a result, or read as change logs.

mirror         what a mirror promises, and which module keeps which kind
mirror_sql     the statements that change a table by a delta, for PostgreSQL and DuckDB
postgresql, duckdb_file, delta_mirror     the kinds of mirrors
"""
