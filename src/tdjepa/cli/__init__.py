"""The command line: thin. Each verb takes files and one slice of the parameters and gives files.

At a shell, `--scale desk` is enough: parameters come from params.yaml and paths from the usual folders. The workflow gives
both explicitly, `--slice` (canonical JSON) and the files. Verbs are declared in steps/registry.py and tools.py.
"""

import os
import signal
import sys
import threading

from tdjepa.base.errors import Stopped, UserError
from tdjepa.cli import verbs
from tdjepa.cli.arguments import argument_parser
from tdjepa.cli.call import Call
from tdjepa.tools import time_spent

AGAIN = 75  # EX_TEMPFAIL: the workflow starts the job again


class Terminated(KeyboardInterrupt):
    """SIGTERM: a cluster wants the machine back. Whatever cleans up after Ctrl-C does so after this."""


def terminate(*_):
    raise Terminated


def main(argv: list[str] | None = None) -> int:
    parser = argument_parser()
    args = parser.parse_args(argv)
    if not hasattr(args, "verb"):
        parser.print_help()
        return 0
    is_job = getattr(args, "slice", None) is not None  # of the workflow
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes with a thread each beat one process with two
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminate)  # as Ctrl-C: nothing half-written is left
    try:
        status = Call(args).run(verbs) or 0
        if is_job:
            print(time_spent.own())  # its log says what it took
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `tdjepa status | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python's own last flush must not fail either
        return 128 + signal.SIGPIPE
    except UserError as error:
        print("\n".join(f"tdjepa: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 2
    except Stopped as stopped:
        print(f"tdjepa: {stopped}", file=sys.stderr)
        return AGAIN
    except KeyboardInterrupt as told:
        what_next = "the same command starts again, or goes on where it was"
        print(f"tdjepa: stopped; nothing half-written is left, {what_next}", file=sys.stderr)
        return AGAIN if args.verb.name == "train" and isinstance(told, Terminated) else 130
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # who called this from Python has plans of their own
