"""Extraction with PySpark: change logs from tables as people have them. The only layer that imports pyspark.

check        what is missing on this machine, without importing pyspark
session      a Spark session to work in, and how it has to be set while a job runs
said         what Spark says when something goes wrong
files        files wherever Spark keeps them
types        types of the spec and of Spark
texts        texts to values, by the rules of change logs
columns      the rows of a table in the types of the spec, and why a row cannot be taken
database     a database that Spark reaches by JDBC, and what must not be shown of it
sources      a snapshot of a table, wherever Spark finds it, and its name
snapshot_diff_checked   two snapshots to changes, and rows that are bad
snapshot_diff_shuffle      the same in one job, if no row is bad and no key stands twice
plain_parquet  Parquet on this machine that Arrow reads as Spark does
slice_task   what a task finds that compares some keys of two such tables
snapshot_diff_local       the difference of two such tables, by such tasks
upserts      rows as they are now to changes that may be applied again
rejects      bad rows, told or set aside
watermark    how far a table was read: values and their overlap
progress     the same on disk, moved on together with an output
write        an extraction directory that is there whole or not at all
described    which relations a job extracts
snapshot     the job `dynq extract snapshot`
program      the same for spark-submit
jdbc         the job `dynq extract jdbc`
debezium     the job `dynq extract debezium`
changes      the job `dynq extract changes`
microbatches the batches of a stream into a state, each once
stream       the job `dynq extract stream`
"""
