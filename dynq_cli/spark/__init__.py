"""Extraction with PySpark: make change logs from tables. The only layer that imports pyspark.

check        find out what is missing on this machine, without importing pyspark
session      a Spark session, and its settings during a job
errors       Spark's errors as errors of dynq
files        files on any file system that Spark supports
types        map types between the spec and Spark
texts        parse texts by the rules of change logs
columns      convert rows of a table to the types of the spec; give the reason for bad rows
database     a JDBC database, and its secrets, which must not be shown
sources      a snapshot of a table that Spark can read, and its name
snapshot_diff_checked   the difference of two snapshots, with handling of bad rows
snapshot_diff_shuffle   the same in one Spark job, if no row is bad and no key is repeated
plain_parquet  local Parquet files that Arrow reads exactly like Spark
slice_task   the task that compares a slice of the keys of two such tables
snapshot_diff_local     the difference of two such tables, by these tasks
upserts      convert current rows to changes that may be applied again
rejects      report bad rows, or write them to a directory
watermark    the value up to which a table was read, and the overlap
progress     the watermark on disk, advanced together with an output
write        write an extraction directory atomically
described    the relations that a job extracts
snapshot     the job `dynq extract snapshot`
program      the same for spark-submit
jdbc         the job `dynq extract jdbc`
debezium     the job `dynq extract debezium`
changes      the job `dynq extract changes`
microbatches apply the batches of a stream to a state, each exactly once
stream       the job `dynq extract stream`
"""
