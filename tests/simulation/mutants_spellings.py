"""The rules of values that are equal and spelled otherwise (`sqltypes/spellings.py`) switched off, one at a time.

The others are tried by `tests/dataflow/graph/test_spellings.py`: without them the engine mostly chooses as SQLite does.
"""

from __future__ import annotations

import dataflow.graph.build
import dataflow.readers.derivation
from tests.simulation.mutant import Mutant, attribute, edit

SPELLINGS = (
    Mutant(
        "spellings",
        "a group's column is shown where all rows spell it alike",
        attribute(dataflow.graph.build, "with_one_spelling", lambda plan: plan),
    ),
    Mutant(
        "spellings",
        "rows of one DISTINCT are spelled alike",
        edit(
            dataflow.readers.derivation,
            "keep_distinct",
            ("if shown is not row and not identical(shown, row):", "if False:"),
        ),
    ),
)
