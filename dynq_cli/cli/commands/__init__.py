"""One module per command, named after it; each calls one library verb."""
