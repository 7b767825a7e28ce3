"""`upwell serve` and `upwell doctor`: options in, exit status out. The launcher loads this module by name.

Every option of `serve` is made from `proxy/settings/config.py`. Exit status: 0 stopped as asked, 1 the doctor found
what keeps the source from being cached, 2 a wrong option or file, 3 the source cannot be reached.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TextIO

import click
import structlog
import uvloop

import upwell
from external_upquery.address import parse_upstream
from proxy.loop.log_lines import LogLines, Rate
from proxy.loop.service_manager import ServiceManager
from proxy.settings.config import BY_NAME, SETTINGS, Config, Setting, from_process, upstream_from_process
from proxy.settings.machine import raise_open_files, too_few_files
from sqltypes.errors import ConfigError, UpwellError
from upwell.command import json_option, print_json
from upwell.failed import Failed
from upwell.form import form

if TYPE_CHECKING:
    from proxy.app import App
    from sqltypes.source_checks import Finding

log = structlog.get_logger("upwell")

LOGGED_CALLS = 20  # of a traceback
PATHS = ("FILE", "DIR")  # what a setting may name
FEW_CLIENTS = 1_000  # fewer than an application may bring: that is worth a word


def setting_option(setting: Setting) -> click.Option:
    """The command-line option of a setting; its text is judged with those of the other sources."""
    shown = f" [default: {setting.default}]" if setting.default and not setting.is_flag else ""
    help = f"{setting.help}{shown} [env: {setting.variable}]"
    declaration = [f"--{setting.name}", setting.name.replace("-", "_")]
    if setting.is_flag:
        return click.Option(declaration, is_flag=True, flag_value="true", default=None, help=help)
    type_ = click.Path() if setting.metavar in PATHS else None  # what a shell completes: no path is looked at here
    words = setting.metavar.split("|") if "|" in setting.metavar else []

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in words if word.islower() and word.startswith(incomplete)]

    return click.Option(
        declaration, metavar=setting.metavar, help=help, type=type_, shell_complete=complete if words else None
    )


def by_name(options: dict[str, str | None]) -> dict[str, str | None]:
    return {name.replace("_", "-"): text for name, text in options.items()}


def reporting_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that are the caller's or the source's become one line and an exit status."""

    def wrapped(**options: Any) -> None:
        try:
            command(**options)
        except ConfigError as error:
            raise Failed(error.message, exit_code=2) from None
        except UpwellError as error:
            raise Failed(error.message or error.reason, exit_code=3) from None

    return wrapped


@reporting_errors
def run_serve(**options: str | None) -> None:
    config = from_process(by_name(options))
    lines = configure_logging(config)
    try:
        uvloop.run(until_stopped(config, lambda: from_process(by_name(options))))
    finally:
        lines.close()


serve = click.Command(
    "serve",
    callback=run_serve,
    params=list(map(setting_option, SETTINGS)),
    help="Run the proxy until SIGTERM or Ctrl-C.",
    epilog="Each option may also stand in the environment or, without the dashes, in the file of --config.",
)


async def until_stopped(config: Config, read: Callable[[], Config]) -> None:
    """Serves until SIGTERM or SIGINT; a second one ends the process at once. SIGHUP has the configuration read anew by
    `read`."""
    loop = asyncio.get_running_loop()
    started = asyncio.Event()
    stop = asyncio.Event()
    reloading = asyncio.Event()
    signals = [signal.SIGTERM, signal.SIGINT]
    manager = ServiceManager(os.environ, os.getpid())
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
        loop.add_signal_handler(signal.SIGHUP, reloading.set)

    # Here, and not above: the doctor and --help have no use for the whole engine and planner.
    from proxy.app import running

    # Imports leave no cyclic garbage, and modules live as long as the process: the collections while it starts need not
    # pass over their hundred thousand objects.
    gc.freeze()

    async def session() -> None:
        files, mysql = raise_open_files(), config.mysql
        wanted = mysql.connections if mysql.connections_given else min(mysql.connections, FEW_CLIENTS)
        complaints = {"few_open_files": too_few_files(files, wanted), "stale_modules": form().stale}
        async with running(config) as app:
            started.set()
            for event, why in complaints.items():  # of one that starts: what does not has one line to say
                if why:
                    log.warning(event, why=why)

            told = loop.create_task(manager.keep_told(lambda: status_line(app)))
            await serve_until(stop, app, reloading, read, manager)
        told.cancel()

    serving = loop.create_task(session())

    def on_signal() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        stop.set()
        if not started.is_set():
            serving.cancel()

    for number in signals:
        loop.add_signal_handler(number, on_signal)
    await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()


async def serve_until(
    stop: asyncio.Event,
    app: App,
    reloading: asyncio.Event,
    read: Callable[[], Config],
    manager: ServiceManager,
) -> None:
    """Returns when `stop` is set and balancers have had `shutdown_delay` to notice, or when another process has taken
    over and what was under way is over. Reads the configuration anew each
    time that `reloading` is set."""

    async def read_again() -> None:
        manager.reloading()
        if app.running is not None:
            await app.running.reload(read)
        manager.tell("READY=1")

    manager.tell("READY=1")
    assert app.handover is not None
    loop = asyncio.get_running_loop()
    again = loop.create_task(whenever(reloading, read_again))
    ends = [loop.create_task(event.wait()) for event in (stop, app.handover.giving.handed_over)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in (again, *ends):
        end.cancel()
    if not stop.is_set():
        await app.handover.drain(stop)
        return
    log.info("stopping")
    app.router.stopping = True
    manager.tell("STOPPING=1")
    await asyncio.sleep(app.config.shutdown_delay)


def status_line(app: App) -> str:
    """How the proxy is, for the service manager."""
    why = app.router.not_ready()
    listen = app.config.mysql.listen.host
    return f"not ready: {why}" if why else f"serves MySQL's protocol on {listen}:{app.mysql_port}"


async def whenever(asked: asyncio.Event, work: Callable[[], Awaitable[None]]) -> None:
    """Does the work each time that it is asked for; several times at once are one."""
    while await asked.wait():
        asked.clear()
        await work()


@reporting_errors
def run_doctor(as_json: bool, **options: str | None) -> None:
    # Here, and not above: `serve` starts sooner without it.
    from external_upquery.mysql.doctor import check
    from sqltypes.source_checks import Finding, Severity

    url, connections = upstream_from_process(by_name(options))
    upstream = parse_upstream(url)
    with quiet():  # what is logged on the way is told by the findings
        if upstream.kind == "vitess":
            from proxy.source import vitess_doctor

            findings = vitess_doctor.check(upstream)
        else:
            from proxy.source import second_opinion

            findings = check(upstream, connections=connections)
            if not any(finding.severity is Severity.ERROR for finding in findings):
                findings.append(second_opinion.check(upstream))
    running_form = form()
    severity = Severity.WARNING if running_form.stale else Severity.OK
    seen = f"{upwell.__version__}, {running_form.plain}"
    findings.insert(0, Finding("upwell", severity, seen, needed=running_form.stale))
    if as_json:
        print_json([asdict(finding) | {"severity": finding.severity.value} for finding in findings])
    else:
        for finding in findings:
            click.echo(finding_text(finding))
    failed = [finding.name for finding in findings if finding.severity is Severity.ERROR]
    if failed:
        raise Failed(f"this source cannot be cached yet: {', '.join(failed)}", exit_code=1)


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing is logged meanwhile."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def finding_text(finding: Finding) -> str:
    """A finding and what mends it, as lines."""
    lines = [f"{finding.severity.value:8} {finding.name}: {finding.seen}"]
    if finding.needed:
        lines.append(f"{'':9}needed: {finding.needed}")
    lines += [f"{'':9}mend:   {statement};" for statement in (text.rstrip(";") for text in finding.mend)]
    return "\n".join(lines)


doctor = click.Command(
    "doctor",
    callback=run_doctor,
    params=[setting_option(BY_NAME[name]) for name in ("upstream", "upstream-file", "config", "upquery-connections")],
    help="Check whether MySQL or Vitess can be cached: version, GTIDs, stream, privileges. Findings name their cure.",
)
doctor = json_option(doctor)


def short_traceback(exc_info: structlog.typing.ExcInfo) -> str:
    """Its innermost calls: a RecursionError would fill the log with a thousand lines."""
    return "".join(traceback.format_exception(*exc_info, limit=-LOGGED_CALLS)).rstrip()


def configure_logging(config: Config) -> LogLines:
    """Lines on stderr: readable, or JSON; the standard library's loggers (gRPC's) from warnings up. To be closed."""
    shared: list[structlog.typing.Processor] = [
        Rate(),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if config.log_json:
        exceptions = structlog.processors.ExceptionRenderer(short_traceback)
        shared += [exceptions, structlog.processors.JSONRenderer(default=str)]
    else:

        def plain(file: TextIO, error: structlog.typing.ExcInfo) -> None:
            file.write("\n" + short_traceback(error))

        shared.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain))

    def dropped(count: int) -> str:
        event: Any = {"event": "log_lines_dropped", "count": count, "why": "nobody reads them as fast as they come"}
        for processor in shared[1:]:
            event = processor(None, "warning", event)
        return f"{event}\n"

    lines = LogLines(sys.stderr.fileno(), dropped)
    structlog.configure(
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(config.log_level),
        logger_factory=structlog.WriteLoggerFactory(lines),  # type: ignore[arg-type]  # of a file it asks no more
    )
    logging.basicConfig(level=logging.WARNING, stream=lines, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    return lines
