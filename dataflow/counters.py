"""The counters of the engine's rules: each is there from the start, so that an operator sees which have never acted."""

from __future__ import annotations

ENGINE: dict[str, str] = {
    # The stream
    "transactions": "Transactions of the stream that were processed, whatever they concern",
    "records_applied": "Row changes applied to a held key at the position; the others met holes only",
    "records_in_cut_skipped": "Row changes passed over for a key held ahead of the position: it reflects them already",
    "replayed_ignored": "Events of the stream that came again, and were ignored",
    "ddl": "DDL statements: what was held of their tables was forgotten",
    "rows_not_read": "Transactions whose rows the stream cannot tell: what was held of their tables was forgotten",
    "resets": "Times that everything was forgotten, because history was lost or another server answered",
    "resets_by_stream": "Of those: the stream said so (the binlog was purged, or another server is followed)",
    "resets_by_answer": "Of those: an upquery's answer said so (its server has lost transactions, or is another)",
    "restarts_of_source": "Times that MySQL was started anew: what was held ahead of the position was forgotten",
    # Upqueries
    "upqueries": "Upqueries sent for misses",
    "upquery_keys": "Keys that they asked for",
    "unasked_upqueries": "Upqueries of large fills, for keys that no read asked for",
    "unasked_keys": "Keys that they asked for",
    "exact_fills": "Upqueries of hot keys that were to lock what they read, so that nothing is uncertain",
    "upqueries_failed": "Upqueries that MySQL answered with an error, or not at all",
    "misses_coalesced": "Misses that joined an upquery under way",
    "answers_not_understood": "Answers that do not fit the plan; MySQL answered their reads",
    "faults": "Faults of Upwell's, each logged once: MySQL answered in its place, and what may be wrong was dropped",
    "answers_of_another_server": "Answers of another server than the one whose stream is followed: not inserted",
    "snapshots_too_old": "Reads that were not told an answer, because it was older than the position when they began",
    # Insertion
    "fills_inserted": "Answers inserted at the position",
    "fills_ahead": "Answers inserted ahead of the position, at their cut",
    "fills_waiting_for_position": "Answers that were held back until the position contained L and Q",
    "fills_timed_out": "Answers dropped because the position did not come to contain L and Q",
    "fills_beyond_stream": "Answers whose L has what the stream did not bring: it is asked to log in anew",
    "conflicts": "Keys not inserted or dropped, because a transaction of Q concerns them: it may or may not be in them",
    "ring_too_short": "Answers not inserted, because a transaction after their L has left the ring",
    "rolled_back_cleared": "Answers that need wait no longer: a transaction of Q was rolled back",
    "dropped_below_a_hole": "Entries of an answer dropped at once: the key that they were fetched for stayed a hole",
    # Holes made because a change could not be computed
    "evicted_by_change": "Answers of evict mode that a change concerned",
    "removed_row_not_held": "Keys dropped because a change took away a row that they did not have",
    "two_rows_of_a_key": "Keys dropped because a change added a second row of one unique key",
    "extreme_underflow": "Keys dropped because the row of a MIN or MAX went, and the next is not known",
    "top_k_underflow": "Keys dropped because fewer of the first rows were left than the query shows",
    "spelling_underflow": "Keys dropped because a row went from a group whose rows are spelled otherwise",
    "evaluation_failed": "Arrangements cleared, or answers not inserted, because an expression had no proven value",
    "emptied_by_large_change": "Arrangements emptied because one transaction concerned very many of the keys held",
    # Reads
    "retried": "Reads that were asked for again, because their answer could not be inserted or told",
    "given_up_hot_key": "Reads left to MySQL: the key was written during each of the attempts",
    "given_up_behind": "Reads that wait for freshness: their upquery was older than asked for",
    "given_up_cache_dropped": "Reads left to MySQL: the cache was dropped or rebuilt meanwhile",
    "given_up_cannot_compute": "Reads left to MySQL: a value of the answer is out of range",
    "given_up_unproven_string": "Reads left to MySQL: a string whose collation is not reproduced for it",
    "given_up_source_down": "Reads left to MySQL: another server answers than the one whose stream is followed",
    "given_up_differs": "Reads left to MySQL: a cache's answer differed from MySQL's own, and is not believed any more",
    "given_up_unchecked": "Reads left to MySQL: a new cache's answer could not be compared with MySQL's own",
    "hits_ahead": "Hits told from a key ahead of the position",
}
