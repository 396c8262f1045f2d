"""The spec: a YAML file as a frozen model, or all that is wrong with it.

Top to bottom; each imports only from those below it:

    load        the file as a whole; `load_spec`, `parse_spec`
    relations   queries   outputs        its three parts
    names       what may be a name, and which names clash
    report      collecting problems; the readers all parts share
    yaml        the tree of the file, every value a string with its place
    cut_texts   syntax                   what people get wrong in YAML, and what they meant
    scalars     where each character of a value stands
    nodes       yaml_events   source     tree, parser, characters
    shown       text from the file made fit for a message
    languages   output_formats           registries: what queries are written in, and results
    model       types                    what a spec says
"""
