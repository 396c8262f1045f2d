"""`dynq serve`: a process that keeps the engine in memory and answers over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options, output


def serve(
    state: options.State = ".dynq",
    inbox: Annotated[
        str | None, typer.Option("--inbox", metavar="DIR", help="Apply change logs that arrive in DIR, write outputs.")
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="The address; port 0 takes a free one.")
    ] = "127.0.0.1:8080",
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="Answer only requests with the token in FILE.")
    ] = None,
    quarantine: Annotated[
        str | None, typer.Option("--quarantine", metavar="DIR", help="Set refused logs of the inbox aside into DIR.")
    ] = None,
) -> None:
    """Stay, with the engine in memory: apply what arrives in a folder and over HTTP, and answer questions.

    A log that is posted is durable when the answer comes. Outputs are written as dynq run does. /queries lists what
    can be asked, / is a page about the state, /metrics is for Prometheus. Without a token only loopback addresses are
    served. SIGTERM ends the process cleanly; killing it is like killing dynq apply. docs/serve.md has the requests.
    """
    from dynq_cli.serve.process import serve as serve_state

    serve_state(state, listen, inbox, quarantine, token_file, lambda url: output.note(f"serving {state} on {url}"))
