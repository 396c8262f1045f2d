"""Importing this before Arrow makes the process as small as that of a `dynq` command."""

from __future__ import annotations

from dynq_cli.cli.process import begin_small

begin_small([])
