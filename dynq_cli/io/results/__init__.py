"""Results out, by the same rules by which change logs are read in.

- `forms`: which form a file's name asks for; the stream that it is written to
- `texts`: values as the texts that CSV and JSON hold
- `lines`: record batches as lines of CSV or JSON
- `multiplicity`: rows repeated `_count` times, and at most so many of them
- `write`: a stream of record batches into a file of one form, while the next ones are made
- `csv`, `jsonl`, `arrow`, `parquet_groups`: a format each; `spec.output_formats` lists them
- `parquet_groups`: row groups of a Parquet file, encoded side by side; `io.thrift`: its footer
- `background_writer`: one thread makes blocks while another writes them
- `table`: the first rows as a text table for a terminal
- `counts`: counts as text, without Arrow
- `row`: a row that a user wrote as JSON
"""
