"""A real MySQL and a real proxy under everything at once: writers, readers, DDL, kills, restarts, evictions.

Rows carry versions, so each answer is judged when it comes; at rest everything held is compared with MySQL.

| file | what it is |
| --- | --- |
| `judge.py` | which version each transaction wrote, under which GTID; what an answer may show |
| `tables.py` | the versioned tables, and the caches over them with how their answers are read |
| `writers.py` | transactions that write one version in many places; pages of the sample |
| `readers.py` | reads of every cache, each handed to the judge |
| `disturb.py` | what happens to MySQL, its connections and its tables meanwhile |
| `rest.py` | the comparison with MySQL when nobody writes |
| `run.py` | `make hammer`: puts it together, reports |
"""
