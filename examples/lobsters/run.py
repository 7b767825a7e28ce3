"""`make run` and `make demo`: looks at what is needed, then hands over to `demo.py`.

This file must parse on an older Python, and must not import anything that may be missing before it has looked.
"""

import importlib.util
import sys

NEEDED = ("click", "google.protobuf", "grpc", "pymysql", "rich", "sqlalchemy", "sqlglot", "structlog", "uvloop")


def lacking() -> str:
    """What is missing here, as one line; "" if nothing is."""
    if sys.version_info < (3, 11):  # noqa: UP036 - somebody may start this with the system's older Python
        return f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}"
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return f"missing: {', '.join(missing)}. `make run` installs everything into .venv"
    return ""


if __name__ == "__main__":
    reason = lacking()
    if reason:
        sys.exit(reason)
    from examples.lobsters.demo import main
    from examples.lobsters.terminal import in_the_foreground

    with in_the_foreground():
        status = main()
    sys.exit(status)
