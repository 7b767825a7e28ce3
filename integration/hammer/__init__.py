"""A real MySQL and a real proxy under everything at once: writers, readers, DDL, kills, restarts, evictions.

Rows carry versions, so each answer is judged when it comes; at rest everything held is compared with MySQL.

| file | what it is |
| --- | --- |
| `judge.py` | which version each transaction wrote, under which GTID; what an answer may show |
| `tables.py` | the versioned tables, and the caches over them with how their answers are read |
| `writers.py` | transactions that write one version in many places; pages of the sample |
| `readers.py` | reads of every cache, each handed to the judge |
| `sessions.py` | reads over MySQL's protocol, in autocommit and in transactions |
| `session_writers.py`, `own.py` | sessions that write in every manner and read it at once; one whose rights change |
| `session_judge.py` | what a session may be shown, one answer after the other |
| `disturb.py` | what happens to MySQL, its connections and its tables meanwhile |
| `rest.py` | the comparison with MySQL when nobody writes |
| `run.py` | `make hammer`: puts it together, reports |
"""
