"""The ``neuronal`` command: parse, call one function, print. Torch is imported only by commands that compute."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

import typer

from neuronal.cli import certify, data
from neuronal.cli.audit import audit
from neuronal.cli.compare import compare, report
from neuronal.cli.convert import convert
from neuronal.cli.doctor import doctor
from neuronal.cli.errors import one_line_errors
from neuronal.cli.interrupts import Terminated, interruptions
from neuronal.cli.lists import models, neurons
from neuronal.cli.sweep import sweep
from neuronal.cli.train import train
from neuronal.names import printable, unknown

__all__ = ["app", "main"]

app = typer.Typer(
    name="neuronal",
    help="Change the neuron, keep the network.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
# In the order of the help.
app.command()(compare)
app.command()(train)
app.command()(sweep)
app.command()(report)
app.command()(convert)
app.command()(audit)
app.command()(neurons)
app.command()(models)
app.command()(doctor)
app.add_typer(certify.app)
app.add_typer(data.app)
for point in entry_points(group="neuronal.commands"):
    # Other packages add commands, as neuronal_papers does.
    point.load()(app)


def main(words: list[str] | None = None) -> int:
    """Runs the command with ``words`` (those of the process if None) and returns its exit code."""
    words = (sys.argv[1:] if words is None else words) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        # A terminal without UTF-8 shows a question mark for what it cannot; it is no reason to stop.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    with interruptions(), warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            return _run(words)
        finally:
            _leave_group()


def _leave_group() -> None:
    """Ends the process group of a launcher: threads of gloo that outlive the interpreter abort the process."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning is one line too; where in the code it was raised is no matter of the user's."""
    print(f"neuronal: {printable(str(message))}", file=sys.stderr)


def _run(words: list[str]) -> int:
    # The class of typer's own complaints about the command line has no public name.
    complaint: Any = typer.BadParameter.__mro__[2]
    try:
        with one_line_errors():
            return app(words, prog_name="neuronal", standalone_mode=False) or 0
    except typer.Exit as done:
        # typer raises its own in the place of an interrupt.
        return 143 if isinstance(done.__cause__, Terminated) else done.exit_code
    except (KeyboardInterrupt, typer.Abort) as stop:
        return 143 if isinstance(stop, Terminated) else 130
    except BrokenPipeError:
        # Somebody downstream (head, say) has seen enough; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except complaint as wrong:
        print(f"neuronal: {_usage(wrong, words)}", file=sys.stderr)
        return 2


def _usage(wrong: Any, words: Sequence[str]) -> str:
    """One line for a wrong word on the command line: what was given, the closest, what exists."""
    context: Any = wrong.ctx
    command: Any = getattr(context, "command", None)
    option = getattr(wrong, "option_name", None)
    if option and type(wrong).__name__ == "NoSuchOption":
        options = [word for parameter in command.params for word in parameter.opts if word.startswith("--")]
        return unknown(f"option of {context.command_path}", option, [*options, "--help"])
    if hasattr(command, "list_commands"):
        # Of a group, the word after the ones that led to it.
        given = words[len(context.command_path.split()) - 1 :]
        existing = command.list_commands(context)
        return (
            unknown("command", given[0], existing) if given else f"Missing command. There are: {', '.join(existing)}."
        )
    message = " ".join(wrong.format_message().split()).rstrip(".")
    return f"{message}. See: {getattr(context, 'command_path', 'neuronal')} --help"
