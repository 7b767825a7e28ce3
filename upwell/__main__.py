"""The command `upwell`.

The clients' commands (`cache`, `settings`, `set`, `fill`, `audit`, `bench`) need grpcio, protobuf, click and rich
only. `serve`, `doctor` and `rank` are loaded by name from the application's packages when they are used. Those packages
lie beside this one in a checkout, and under `upwell/app/` in an installed one, where they collide with nobody's.

Exit status: 0 done, 1 found what it was asked to look for, 2 wrong usage, 3 the proxy or the source cannot be reached.
An error is one line on stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from upwell.extras import app_module


def forwarded(name: str, help: str, module_name: str = "proxy.cli") -> click.Command:
    """A command that hands all of its arguments, --help too, to the one of that name in an application's module."""

    def forward(arguments: tuple[str, ...]) -> None:
        command: click.Command = getattr(app_module(name, module_name), name)
        command.main(list(arguments), prog_name=f"upwell {name}", standalone_mode=False)

    return click.Command(
        name,
        callback=forward,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        help=help,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )


def commands() -> click.Group:
    """All of `upwell`."""
    import upwell
    from upwell.audit_command import audit
    from upwell.bench import bench
    from upwell.command import cache
    from upwell.fill_command import fill
    from upwell.form import form
    from upwell.settings_command import set_setting, settings
    from upwell.top.command import top

    def show_version(context: click.Context, option: click.Parameter, asked: bool) -> None:
        if asked:
            click.echo(f"upwell {upwell.__version__} ({form()})")
            context.exit()

    version = click.Option(
        ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=show_version,
        help="Show the version, and whether modules run compiled.",
    )  # fmt: skip
    group = click.Group("upwell", help="A caching proxy beside MySQL.", params=[version])
    group.add_command(forwarded("serve", "Run the proxy."))
    group.add_command(
        forwarded("doctor", "Check whether the database can be cached, and print what mends each finding.")
    )
    group.add_command(cache)
    group.add_command(settings)
    group.add_command(set_setting)
    group.add_command(fill)
    group.add_command(audit)
    group.add_command(forwarded("rank", "Rank what was read: what to warm, cache and drop.", "bulk.rank_command"))
    group.add_command(bench)
    group.add_command(top)
    return group


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


def complain(line: str, status: int) -> int:
    click.echo(" ".join(line.split()), err=True)
    return status


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
