"""The command `upwell`.

A command's module is loaded when it is used, or its options are to be completed. Those of the application's packages
(`serve`, `doctor`, `rank`) lie beside this one in a checkout, and under `upwell/app/` in an installed one, where they
collide with nobody's; they need the server's dependencies. The others need grpcio, protobuf, click and rich only.

Exit status: 0 done, 1 found what it was asked to look for, 2 wrong usage, 3 the proxy or the source cannot be reached.
An error is one line on stderr.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence

import click

from upwell.extras import app_module
from upwell.printable import one_line

# By name: the module, what it calls the command, and how its help begins.
COMMANDS = {
    "audit": ("upwell.audit_command", "audit", "Compare all that is held with MySQL."),
    "bench": ("upwell.bench", "bench", "Measure how many reads a second a running proxy answers."),
    "cache": ("upwell.cache_command", "cache", "Make, drop, empty, list and explain caches."),
    "doctor": (
        "proxy.cli",
        "doctor",
        "Check whether MySQL or Vitess can be cached.",
    ),
    "fill": ("upwell.fill_command", "fill", "Fill the cache CACHE before anybody asks for it."),
    "rank": ("bulk.rank_command", "rank", "Rank what was read."),
    "serve": ("proxy.cli", "serve", "Run the proxy until SIGTERM or Ctrl-C."),
    "set": ("upwell.settings_command", "set_setting", "Set NAME to VALUE, until the proxy ends."),
    "settings": ("upwell.settings_command", "settings", "Show the settings of the running proxy."),
    "top": ("upwell.top.command", "top", "Show a running proxy as it goes on."),
}


class Commands(click.Group):
    """All of `upwell`. What lists the commands sees names and sentences alone."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return click.Command(name, help=COMMANDS[name][2]) if name in COMMANDS else None

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(context, arguments)
        if command is not None and name is not None:
            module, attribute, _ = COMMANDS[name]
            try:
                ours = module.startswith("upwell.")
                command = getattr(importlib.import_module(module) if ours else app_module(name, module), attribute)
            except click.ClickException:
                if not context.resilient_parsing:  # else the shell asks, which has no use for a sentence
                    raise
        return name, command, rest


def show_version(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        import upwell
        from upwell.form import form

        click.echo(f"upwell {upwell.__version__} ({form()})")
        context.exit()


def commands() -> click.Group:
    version = click.Option(
        ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=show_version,
        help="Show the version, and whether modules run compiled.",
    )  # fmt: skip
    return Commands("upwell", help="A caching proxy beside MySQL.", params=[version])


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; its exit status."""
    # gRPC's core writes lines of its own to stderr; what matters of them comes as an error here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from upwell.errors import DeadlinePassed, Unavailable, UpwellError

    try:
        status = commands().main(arguments, prog_name="upwell", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "upwell"
        return complain(f"{where}: {error.format_message()} (see {where} --help)", 2)
    except click.ClickException as error:
        return complain(f"upwell: {error.format_message()}", error.exit_code)
    except click.exceptions.Abort:
        return complain("upwell: interrupted", 130)
    except (Unavailable, DeadlinePassed) as error:
        return complain(f"upwell: {error}", 3)
    except UpwellError as error:
        return complain(f"upwell: {error} ({error.reason})", 2)
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to be written goes nowhere
        return complain(f"upwell: standard output: {error.strerror}", 1)


def complain(line: str, status: int) -> int:
    click.echo(one_line(line), err=True)
    return status


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
