"""The change kinds of log rows; `engine.ingest` turns them into operations on a table.

PREIMAGE and POSTIMAGE are the two halves of an update; UPSERT replaces the row with its key, or inserts; ERASE deletes
the row with its key, if there is one.
"""

INSERT, DELETE, PREIMAGE, POSTIMAGE, UPSERT, ERASE = range(6)

# The words of `_change_type`, whose case does not matter.
WORDS = {
    "insert": INSERT,
    "delete": DELETE,
    "update_preimage": PREIMAGE,
    "update_postimage": POSTIMAGE,
}
