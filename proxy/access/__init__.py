"""The access log: each read as a row of Parquet."""
