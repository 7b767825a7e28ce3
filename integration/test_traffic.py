"""The sample beside a MySQL and an Upwell that run already, as compose.yaml starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from examples.lobsters.proxy_process import ProxyProcess
from integration.private_mysql import Server

ROOT = Path(__file__).resolve().parent.parent


def test_sample_loads_creates_its_caches_and_ends_on_sigterm(own_mysql: Callable[..., Server], tmp_path: Path) -> None:
    server = own_mysql()
    server.execute("CREATE DATABASE lobsters")  # empty, as the image makes it
    with ProxyProcess(server.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy.wait_ready().close()
        environment = os.environ | {"UPSTREAM": server.url, "UPWELL_GRPC": proxy.target, "SCALE": "tiny"}
        command = [sys.executable, "-m", "examples.lobsters.traffic"]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as sample:
            assert sample.stdout is not None
            loaded, caches = sample.stdout.readline(), sample.stdout.readline()
            sample.terminate()
            assert sample.wait(60) == 0
    assert loaded.startswith("loaded set tiny: ")
    assert int(caches.split()[0]) >= 50
