"""The unit of deploy/systemd, as systemd itself reads it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from integration.deploy.tools import run, systemd_analyze
from proxy.settings.config import load_config

SYSTEMD = Path(__file__).resolve().parents[2] / "deploy/systemd"
UNIT = SYSTEMD / "upwell.service"
WORST = 15  # tenths of systemd's exposure level; 1.2 was measured with systemd 252


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root folder in which the unit is installed as docs/installing.md says."""
    for path, mode in (("opt/upwell/bin/upwell", 0o755), ("bin/kill", 0o755), ("etc/upwell/upstream", 0o600)):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode)
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    shutil.copy(UNIT, tmp_path / "etc/systemd/system")
    # What the unit refers to is there in every system.
    for name in ("basic", "sysinit", "shutdown", "network-online", "multi-user"):
        (tmp_path / f"etc/systemd/system/{name}.target").write_text(f"[Unit]\nDescription={name}\n")
    return tmp_path


def analyzed(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return run(*systemd_analyze(), f"--root={root}", *command)


def test_systemd_finds_nothing_wrong_with_it(root: Path) -> None:
    done = analyzed(root, "verify", "upwell.service")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_word_that_systemd_does_not_know_is_found(root: Path) -> None:
    unit = root / "etc/systemd/system/upwell.service"
    unit.write_text(unit.read_text().replace("[Service]\n", "[Service]\nProtectEverything=yes\n"))
    assert "ProtectEverything" in analyzed(root, "verify", "upwell.service").stderr


def test_it_may_do_little(root: Path) -> None:
    done = analyzed(root, "security", "--offline=yes", f"--threshold={WORST}", "upwell.service")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_sample_of_settings_is_understood_with_every_line_in_force(tmp_path: Path) -> None:
    text = (SYSTEMD / "upwell.toml").read_text()
    head, _, settings = text.partition("\n\n")
    assert all(line.startswith("#") for line in head.splitlines())
    file = tmp_path / "upwell.toml"
    file.write_text(settings.replace("# ", ""))
    upstream = tmp_path / "upstream"
    upstream.write_text("mysql://upwell@db.example\n")
    environment = dict(re.findall(r"^Environment=(\w+)=(\S+)$", UNIT.read_text(), re.M))
    assert re.findall(r"^LoadCredential=(\w+):", UNIT.read_text(), re.M) == ["upstream"]
    environment = {
        name: text.replace("%d", str(tmp_path)).replace("%S", "/var/lib") for name, text in environment.items()
    }
    config = load_config({"config": str(file)}, environment, None)
    assert (config.state_dir, len(config.caches), config.auto_cache is None) == (Path("/var/lib/upwell"), 1, False)
