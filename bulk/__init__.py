"""Programs that run beside the proxy, each in a process of its own.

They are large fills by Spark, the change stream as a source of Spark's, the writers of the access log's and the hot
keys' files, and `upwell rank`.
"""
