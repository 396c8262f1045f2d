"""Read change logs: find the files of a command line, recognise their formats, and convert their rows to changes.

- `model`: the data types that these modules share: files, chunks of a file, changes
- `discover`: find the files below paths, in groups; each group becomes one version
- `read`: read a file as a stream of changes by relation, with the modules below
- `chunks`: read a file as a stream of chunks, in bounded memory
- `formats`: recognise the format by the columns; convert chunks to changes
- `columns`: convert columns to the types of the spec; `texts`, `wide_years`: parse texts
- `identity`: identify a log, so that it is applied once
"""
