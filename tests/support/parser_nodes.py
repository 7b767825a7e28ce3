"""All of the parser's node classes with their arguments, as a text that is kept in the tree.

`python -m tests.support.parser_nodes --write` (`make goldens`) writes it anew for another version of the parser; the
difference is read line by line, and what the planner must read or refuse goes into `planner/text/known_nodes.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sqlglot import exp

LISTED = Path(__file__).parents[1] / "fixtures" / "parser_nodes.txt"


def node_classes() -> list[type[exp.Expr]]:
    """Every class of nodes, by name."""
    found: set[type[exp.Expr]] = set()
    left: list[type[exp.Expr]] = [exp.Expr]
    while left:
        below = left.pop().__subclasses__()
        left += [class_ for class_ in below if class_ not in found]
        found.update(below)
    return sorted(
        (class_ for class_ in found if class_.__module__.startswith("sqlglot.")), key=lambda one: one.__name__
    )


def listing() -> str:
    """One line a class: its name, whether it is a function, its arguments."""
    lines = []
    for class_ in node_classes():
        kind = " (function)" if issubclass(class_, exp.Func) else ""
        lines.append(f"{class_.__name__}{kind}: {' '.join(sorted(class_.arg_types))}".rstrip())
    return "\n".join(lines) + "\n"


def main() -> None:
    if "--write" in sys.argv:
        LISTED.write_text(listing())
    else:
        print(listing(), end="")


if __name__ == "__main__":
    main()
