"""`retrograd lsp`: a language server for assembly text, on standard streams."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import sys

from retrograd.cli.exit_codes import OK
from retrograd.cli.options import Parser, fail


def arguments(p: Parser) -> None:
    """`retrograd lsp` has no options. Editors that pass `--stdio` may do so."""
    p.add_argument("--stdio", action="store_true", help="speak on standard streams (the default)")


def execute(options: argparse.Namespace) -> int:
    """Serve one editor. Raises InputError RG0515 without pygls."""
    if importlib.util.find_spec("pygls") is None:
        raise fail("RG0515", "the package pygls is not installed", "`pip install 'retrograd[lsp]'` installs it.")
    from retrograd.observe._language_server import server

    # pygls logs requests that an editor should not have sent, with tracebacks of its own.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    # The server closes its streams when the editor ends the session; those of the command stay open.
    with (
        os.fdopen(os.dup(sys.stdin.fileno()), "rb") as requests,
        os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers,
    ):
        server().start_io(requests, answers)
    return OK
