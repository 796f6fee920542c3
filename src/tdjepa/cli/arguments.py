"""The parser of the command line, built from the verbs that are declared."""

import argparse
import difflib
import re
from pathlib import Path

from tdjepa import __version__
from tdjepa.cli.tools import VERBS
from tdjepa.steps.registry import options

TYPES = {"path": Path, "int": int, "float": float}


class Parser(argparse.ArgumentParser):
    """argparse, but a misspelt verb or option comes with what was probably meant."""

    def error(self, message: str):
        known = [*VERBS, *{f"--{option.name}" for verb in VERBS.values() for option in options(verb)}]
        wrong = re.search(r"invalid choice: '([^']*)'|unrecognized arguments: (--?[\w-]+)", message)
        near = difflib.get_close_matches(next(filter(None, wrong.groups()), ""), known, 1) if wrong else []
        super().error(message + (f"; did you mean {near[0]}?" if near else ""))


def argument_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="tdjepa", description="Temporal-Distance-JEPA, reproduced, step by step.")
    parser.add_argument("--version", action="version", version=f"tdjepa {__version__}")
    subparsers = parser.add_subparsers(title="verbs", metavar="VERB")
    for verb in VERBS.values():
        sub = subparsers.add_parser(verb.name, help=verb.help, description=verb.help)
        sub.set_defaults(verb=verb)
        for option in options(verb):
            more = {"help": option.help, **option.more}
            if "type" in more:
                more["type"] = TYPES[more["type"]]
            sub.add_argument(option.name if more.pop("positional", False) else f"--{option.name}", **more)
    return parser
