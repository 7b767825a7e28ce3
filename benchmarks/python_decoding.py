"""What `go_decoding/main.go` does, by python-mysql-replication: reads a range of the binlog, decoding every row.

Takes the same JSON on standard input, and prints the same.
"""

from __future__ import annotations

import json
import sys
import time

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import RowsEvent, UpdateRowsEvent


def main() -> None:
    asked = json.load(sys.stdin)
    began = time.process_time()
    reader = BinLogStreamReader(
        connection_settings={
            "host": asked["Host"], "port": asked["Port"], "user": asked["User"], "passwd": asked["Password"],
        },
        server_id=asked["Server"],
        auto_position=asked["After"],
        blocking=False,  # nothing is written meanwhile: the range ends where the binlog does
    )  # fmt: skip
    rows = 0
    for event in reader:
        if isinstance(event, RowsEvent):
            rows += len(event.rows) * (2 if isinstance(event, UpdateRowsEvent) else 1)
    print(json.dumps({"seconds": time.process_time() - began, "rows": rows}))
    reader.close()


if __name__ == "__main__":
    main()
