"""`make release`: checks that a version can be published, builds it, tries it, and tags it.

The version is the one that pyproject.toml names. Nothing is sent anywhere: the wheel and the sdist lie in `dist/`, the
images in this machine's Docker, and the tag in this clone. The last lines say how to publish them.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from integration.packaging import wheel_check
from integration.servers.docker_mysql import ANSWER_TIMEOUT, docker
from integration.servers.mysql_server import CannotStart

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_HEADLINES = 10
IMAGES = {"upwell": "upwell:{version}", "spark": "upwell:{version}-spark"}  # target of the Dockerfile -> tag
BUILD_TIMEOUT = 3600.0  # seconds; PySpark alone takes minutes


class Refused(Exception):
    """Why this version cannot be released, in a sentence that says what to do."""


def git(root: Path, *arguments: str) -> str:
    """What git printed. Raises `Refused` with its last line."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"git {arguments[0]}: {(done.stderr.strip() or 'it failed').splitlines()[-1]}")
    return done.stdout


def version_of(root: Path) -> str:
    """The version in pyproject.toml. Raises `Refused` where `upwell/__init__.py` has another."""
    version = str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])
    said = re.search(r'__version__ = "(.*)"', (root / "upwell/__init__.py").read_text())
    if said is None or said[1] != version:
        raise Refused(
            f"pyproject.toml has version {version}, upwell/__init__.py has {said and said[1]}: make them equal"
        )
    return version


def check_tree(root: Path) -> None:
    """Raises `Refused` where something is not committed."""
    changed = git(root, "status", "--porcelain").splitlines()
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise Refused(f"the tree is dirty ({changed[0][3:]}{more}): commit it, or take it back")


def check_new(root: Path, version: str) -> None:
    """Raises `Refused` where the version has a tag already."""
    if git(root, "tag", "--list", f"v{version}").strip():
        commit = git(root, "rev-parse", "--short", f"v{version}^{{commit}}").strip()
        raise Refused(
            f"version {version} exists (tag v{version}, commit {commit}): "
            "raise it in pyproject.toml and upwell/__init__.py"
        )


def headlines(changelog: str, version: str) -> list[str]:
    """The version's headlines. Raises `Refused` where its section is missing, has no date, or is too long."""
    section = re.search(rf"^## \[{re.escape(version)}\](.*)\n((?:(?!## ).*\n?)*)", changelog, re.M)
    if section is None:
        today = datetime.date.today().isoformat()
        raise Refused(f"CHANGELOG.md lacks version {version}: put its headlines under `## [{version}] - {today}`")
    try:
        datetime.date.fromisoformat(section[1].removeprefix(" - "))
    except ValueError:
        raise Refused(f"CHANGELOG.md has no date for version {version}: `## [{version}] - YYYY-MM-DD`") from None
    found = re.findall(r"^- .*", section[2], re.M)
    if not 0 < len(found) <= MOST_HEADLINES:
        raise Refused(
            f"CHANGELOG.md has {len(found)} headlines for version {version}: one to {MOST_HEADLINES} are accepted; "
            f"the other changes belong into docs/changes/{version}.md"
        )
    return found


def build(root: Path, version: str) -> list[Path]:
    """The sdist and the wheel, in `dist/`. Raises `WheelIsWrong` where the sdist gives another wheel than the tree."""
    dist = root / "dist"
    dist.mkdir(exist_ok=True)
    for old in dist.glob(f"upwell-{version}*"):
        old.unlink()
    wheel_check.run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", dist, cwd=root)
    sdist, wheel = dist / f"upwell-{version}.tar.gz", dist / f"upwell-{version}-py3-none-any.whl"
    with tempfile.TemporaryDirectory(prefix="upwell-sdist-") as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        unpacked = Path(folder) / f"upwell-{version}"
        wheel_check.run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=unpacked)
        if digest(Path(folder) / wheel.name) != digest(wheel):
            raise wheel_check.WheelIsWrong(f"{sdist.name} builds another wheel than the tree")
    return [sdist, wheel]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_images(root: Path, version: str) -> list[str]:
    """The tags of the images; none where no Docker daemon answers. Raises `CannotStart` where one cannot be built."""
    if shutil.which("docker") is None:
        print("no image: there is no docker command")
        return []
    try:
        docker("version", "--format", "{{.Server.Version}}", timeout=ANSWER_TIMEOUT)
    except CannotStart as error:
        print(f"no image: {error}")
        return []
    tags = []
    for target, tag in IMAGES.items():
        tags.append(tag.format(version=version))
        print(f"building the image {tags[-1]}", flush=True)
        docker("build", "--quiet", "--target", target, "--tag", tags[-1], str(root), timeout=BUILD_TIMEOUT)
    return tags


def release(root: Path, asked: str = "") -> list[str]:
    """All of it; lines that say what was made. Raises `Refused`, `WheelIsWrong`, `CannotStart`."""
    version = version_of(root)
    if asked and asked != version:
        raise Refused(f"VERSION={asked}, but pyproject.toml has {version}: change it there and in upwell/__init__.py")
    check_tree(root)
    check_new(root, version)
    told = headlines((root / "CHANGELOG.md").read_text(), version)
    print(f"upwell {version}: building, and trying it in a fresh environment", flush=True)
    files = build(root, version)
    wheel_check.check_contents(files[1])
    with tempfile.TemporaryDirectory(prefix="upwell-wheel-") as folder:
        wheel_check.check_installed(files[1], Path(folder))
    tags = build_images(root, version)
    git(root, "tag", f"v{version}")
    return [
        f"upwell {version} (headlines: {len(told)}), tag v{version}:",
        *(f"  {path.relative_to(root)}  sha256 {digest(path)}" for path in files),
        *(f"  image {tag}" for tag in tags),
        f"To publish: git push origin v{version}; upload dist/upwell-{version}*"
        + (f"; docker push {' and '.join(tags)}" if tags else ""),
    ]


def main(arguments: Sequence[str]) -> int:
    try:
        lines = release(ROOT, *arguments[:1])
    except (Refused, wheel_check.WheelIsWrong, CannotStart) as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
