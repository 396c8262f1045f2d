"""The spec: parse a YAML file to a frozen model, or report all problems.

Each module imports only from those below it:

    load        the file as a whole; `load_spec`, `parse_spec`
    relations   queries   outputs        its three parts
    names       what may be a name, and which names clash
    report      collecting problems; the readers all parts share
    yaml        the tree of the file, every value a string with its place
    cut_texts   syntax                   explain common mistakes in YAML
    scalars     the place of each character of a value
    nodes       yaml_events   source     tree, parser, characters
    shown       format text from a file for messages
    languages   output_formats           registries of query languages and output formats
    model       types                    the frozen model
"""
