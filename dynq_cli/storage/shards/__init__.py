"""A state of shards: states below one directory, and one manifest that commits a version of all or of none.

    manifest    SHARDS: the version in force, the plan, the marks; replacing it is the commit
    routing     which shards a row goes to
    members     the shards as ordinary states; taking back those that are ahead of the manifest
    lanes       work on all shards at once, on the machine's cores
    writer      changes to all shards, committed as one version
    results     what reading merges: rows in order, copies, parts of groups
    positions   rows by position: the j-th, pages, ranks
    state       the handle, with the verbs of every state
    create      make one

A shard is a state like any other, at the version of all. Its manifest before a commit stays beside it (`BEFORE`) until
the manifest of all is replaced; a shard that a killed commit left ahead is taken back with it, by whoever comes next.
"""
