"""Debezium's events to change logs: the job `dynq extract debezium`.

positions   where an event stands in the log of its database, whichever database that is
events      lines of JSON to events: which table, which operation, which position
images      events of one relation, in order, to changes in the types of the spec
job         all of it, to an extraction directory

What reads JSON runs in Python on Spark's executors, by the code that `dynq apply` reads such events with.
"""
