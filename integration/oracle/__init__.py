"""An oracle over the whole language: the same texts and parameters asked of MySQL and through the proxy.

`run.py` is what `make oracle` starts. `kinds.py` has the column types with their values in every spelling, `world.py`
tables of them, `grammar.py` and `expressions.py` make the queries, `round.py` asks them before and after changes,
`shrink.py` makes what differs small, `script.py` writes it down and plays it again, `mutants.py` plants faults.
"""
