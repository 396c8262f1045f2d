"""Tables of other systems: kept equal to a result, or read as change logs.

mirror         what a mirror promises, and which module keeps which kind
mirror_sql     the statements that change a table by a delta, for PostgreSQL and DuckDB
feed           what happened to a table of a lake; delta_feed, iceberg_feed: of Delta Lake and Iceberg
delta_library  the library for Delta tables
postgresql, duckdb_file, delta_mirror     the kinds of mirrors
"""
