"""The change stream of a MySQL server: its binlog, decoded into whole transactions."""
