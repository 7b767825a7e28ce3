"""Random lists, judged by MySQL: `python -m integration.lists.run`."""
