"""Extraction with PySpark: change logs from tables as people have them. The only layer that imports pyspark.

check        what is missing on this machine, without importing pyspark
session      a Spark session to work in, and how it has to be set while a job runs
said         what Spark says when something goes wrong
files        files wherever Spark keeps them
types        types of the spec and of Spark
texts        texts to values, by the rules of change logs
columns      the rows of a table in the types of the spec, and why a row cannot be taken
sources      a snapshot of a table, wherever Spark finds it, and its name
difference   two snapshots to changes, and rows that are bad
write        an extraction directory that is there whole or not at all
described    which relation a job extracts
snapshot     the job `dynq extract snapshot`
program      the same for spark-submit
"""
