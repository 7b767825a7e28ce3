"""The example of README.md runs as it is printed, beside the sample."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from examples.lobsters.data import SETS
from examples.lobsters.load import load
from examples.lobsters.proxy_process import ProxyProcess
from integration.private_mysql import Server

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def test_example_prints_what_it_says(mysql: Server, database: str, tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    load(mysql, SETS["tiny"], database=database)
    with ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy.wait_ready().close()
        script = example.replace('"127.0.0.1:50051"', repr(proxy.target)).replace('"lobsters"', repr(database))
        script += "        break  # the example would go on for ever\n"
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(script, "README.md", "exec"), {})
    votes, titles, passed, event = printed.getvalue().splitlines()
    ((expected,),) = mysql.execute(f"SELECT COUNT(*) FROM `{database}`.votes WHERE story_id = 1")
    assert int(votes) == expected
    assert len(re.findall(r"'[^']+'", titles)) == 3
    assert passed.startswith(f"{SETS['tiny'].users} passed ")
    assert event.startswith("- [] + [") and f"votes={expected}" in event
