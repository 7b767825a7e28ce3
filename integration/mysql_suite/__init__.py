"""MySQL's own regression tests, run through the proxy: `make mysql-suite`.

The tests are the distribution's package of MySQL's suite (`package.py`); nothing of it is kept in this tree. Its
client, `mysqltest`, talks to a tap (`tap.py`, `relay.py`), and the tap to the proxy:

    mysqltest -> tap -> proxy -> MySQL

Whatever the script reads, the tap has the proxy cache, asks MySQL in the same session, and asks the proxy until it is a
hit; it asks again after what the script writes. `judge.py` compares the answers.
"""
