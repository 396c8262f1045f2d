"""Change logs in: which files a command line means, how each is read, and what its rows say.

- `model`: what the modules hand to each other: files, chunks as they stand in a file, changes
- `discover`: paths → groups of files, each of which becomes one version
- `read`: a file as a stream of changes, by relation: what the modules below do together
- `chunks`: a file as a stream of chunks, in bounded memory
- `formats`: the formats that change logs come in, told apart by their columns: chunks → changes
- `columns`: values as a file holds them → values of the spec's types; `texts`, `wide_years`: those that are texts
- `identity`: what a log is known by, so that it is applied once
"""
