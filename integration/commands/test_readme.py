"""The example of README.md runs as it is printed, beside the sample."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from examples.lobsters.data import SETS
from examples.lobsters.load import load
from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.private_mysql import Server

README = (Path(__file__).resolve().parent.parent.parent / "README.md").read_text()


def test_examples_print_what_they_say(mysql: Server, database: str, tmp_path: Path) -> None:
    first, second = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    load(mysql, SETS["tiny"], database=database)
    with ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy.wait_ready().close()
        beside = {
            '"127.0.0.1:50051"': repr(proxy.target),
            "port=3307": f"port={proxy.mysql_port}",
            '"lobsters"': repr(database),
        }
        # The example would go on until Ctrl-C.
        first = first.replace("event.added)\n", "event.added)\n            raise KeyboardInterrupt\n")
        votes, titles, passed, event = run(first, beside)
        (with_that_vote,) = run(second, beside)
    ((expected,),) = mysql.execute(f"SELECT COUNT(*) FROM `{database}`.votes WHERE story_id = 1")
    assert int(votes) == expected - 1 and int(with_that_vote) == expected
    assert len(re.findall(r"'[^']+'", titles)) == 3
    assert passed.startswith(f"{SETS['tiny'].users} passed ")
    assert event.startswith("- [] + [") and f"votes={expected - 1}" in event


def run(script: str, replaced: dict[str, str]) -> list[str]:
    """The lines that it prints."""
    for old, new in replaced.items():
        script = script.replace(old, new)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(script, "README.md", "exec"), {})
    return printed.getvalue().splitlines()
