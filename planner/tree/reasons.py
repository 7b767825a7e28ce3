"""The one list of what is not cached, and why.

Two kinds. Refusals: no cache can be right, so `UnsupportedQuery` is raised with a code of `REFUSED`. Evict reasons:
the query is cached, but its answers are held as they are and emptied by changes; the codes of `EVICT_ONLY` say why
deltas are not computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.text.calls import unknown_call
from planner.text.known_nodes import unread
from planner.text.parse import NOT_READ
from planner.text.precedence import OPERATORS, misplaced
from planner.text.scan import ServerVersion, Token, words
from sqltypes.errors import UnsupportedQuery
from sqltypes.schema import Table

REFUSED: dict[str, str] = {
    "not_a_select": "only a single SELECT can be cached",
    "nondeterministic": "the function gives another value for the same rows",
    "current_date": "MySQL makes a date-time of a TIME by the current date",
    "session_state": "the value belongs to the session that asks",
    "locking_read": "a locking read takes locks in MySQL, a cached answer does not",
    "into": "SELECT ... INTO writes",
    "system_schema": "tables of MySQL's own schemas have no change stream",
    "temporary_table": "temporary tables belong to one session and have no change stream",
    "engine": "only InnoDB tables can be cached: changes of other engines appear even if the transaction rolls back",
    "dotted_name": "the name of the table or of its database has a dot in it: in the change stream two names are one",
    "table_function": NOT_READ,
    "mixed_list": "an IN-list of placeholders or one of constants can be cached, not a mixture",
    "list_outside_in": "?... is the list of an IN (?...)",
    "parameter_type": "no column tells the type of a parameter",
    "unknown_function": "the function is not one of MySQL's own, or is not known to be deterministic",
    "recursive": "in a WITH without RECURSIVE, a name of its own inside of a query, or of one that is defined later",
    "two_tables": "a name is a table of a query around this one in the condition of a join, and another one elsewhere",
    "bit_result": "of a BIT that goes through a function MySQL gives now its bytes, now digits",
    "zerofill_result": "of a ZEROFILL number that IF, CASE, MIN or MAX gives, or a YEAR beside a DECIMAL, MySQL shows"
    " zeros, or not, by its plan",
    "fixed_digits": "what MySQL computes from a FLOAT(m,d) or DOUBLE(m,d), and what that equals, depends on its plan",
    "concat_of_one_row": "GROUP_CONCAT of a LEFT JOIN's missing row is NULL or '' by how its key is written or bound",
    "pinned_as_text": "a condition reads as text what another sets equal to a constant: MySQL may read the constant",
    "put_in_place": "a condition compares what another sets equal to a constant with values of another kind: MySQL may"
    " compare the constant, as it is written",
    "bit_looked_up": "whether a BIT is IN a subquery's rows depends on how MySQL runs it, where one of these is NULL",
    "equal_by_plan": "which values of another kind an ENUM, SET, BIT, YEAR or TIME equals depends on how MySQL looks"
    " them up; so does what equals '' where an ENUM has the member ''",
    "by_index": "by an index MySQL finds other rows than without one, for the column's type is not that of what it is"
    " compared with, or has fewer digits of the fraction",
    "virtual_index": "an index has what the session that wrote the row computed, a row what the session that reads it"
    " computes: which one MySQL finds depends on its plan",
    "any_row": "without ONLY_FULL_GROUP_BY it is MySQL's choice which of several rows is shown, or comes first",
    "sum_by_plan": "MySQL cuts a sum of more than 65 digits where its plan has a table for groups, and only there",
    "padding": "whether 'a' equals 'a ' under a collation of bytes that pads, where a column's own does not, depends on"
    " MySQL's plan",
    "timestamp_as_number": "BIN, OCT and CONV read a TIMESTAMP literal otherwise when MySQL runs a statement again",
    "binary_as_number": "a binary string that a column must equal is another number as 'a' than as x'61'",
    "null_bound": "whether a TIME is between a literal and NULL, MySQL says by the kind of the literal",
    "grouping": "what GROUPING() says of no rows depends on how MySQL finds that there are none",
    "full_text": "relevance and the order by it depend on statistics, so MATCH is cached as a condition of WHERE only",
    "by_lookup": "vtgate may look rows up in a table that is not followed, and the text has no plain place for a hint"
    " against that",
    "unknown_spelling": "vtgate computes the shard from how a value is spelled, and of the column's type or collation"
    " it is not known which spellings MySQL takes for equal",
    "no_table": "the query reads no table, so there is nothing to keep current",
}

EVICT_ONLY: dict[str, str] = {
    "sql_mode": "the query sets the sql_mode under which MySQL computes it",
    "collation": "the query tells the collation of its literals",
    "by_spelling": "vtgate computes the shard from how a value is spelled, and MySQL takes several for equal",
    "values": "rows that are written into the text are in no table",
    "virtual": "the session that reads a VIRTUAL column computes it; the change stream has what the one that wrote the"
    " row computed",
    "partition": "rows are held by their columns, not by their partition",
    "found_rows": "the query counts its rows for FOUND_ROWS(), LIMIT or not",
    "union": "UNION, INTERSECT and EXCEPT have no incremental form yet",
    "join_kind": "inner and left joins are maintained, and a right join that comes first",
    "join_no_equality": "a join without an equality between the tables has no key to look up",
    "join_no_key": "a join that no key parameter restricts would hold whole tables",
    "subquery": "the subquery is no aggregate, EXISTS, IN or unique row of one table, found by equality",
    "window": "window functions have no incremental form",
    "rollup": "GROUP BY ... WITH ROLLUP has no incremental form yet",
    "distinct_aggregate": "COUNT(DISTINCT ...) and its kind need all values of a group",
    "aggregate_function": "the aggregate function has no incremental form yet",
    "approximate_sum": "sums of FLOAT and DOUBLE depend on the order of the rows",
    "long_sum": "MySQL cuts a sum of more than 65 digits where it returns it, not where it computes with it",
    "digits": "with how many digits MySQL computes or shows an AVG or a CASE depends on its plan",
    "group_across_list": "a group may have rows of several keys of an IN-list",
    "list_position": "an IN-list of parameters is a key only as `column IN (?...)`",
    "derived": "the derived table is neither a plain SELECT nor a GROUP BY over one table",
    "large_table": "a query without key parameters would hold the whole table",
    "fan_out": "many rows below an aggregate would be held to give few",
    "first_rows": "LIMIT without an ORDER BY takes the rows that MySQL's plan reads first",
    "no_primary_key": "the first rows of a table without primary key have no total order",
    "limit_parameter": "a LIMIT that is a parameter needs key parameters beside it",
    "expression": "the expression is not reproduced exactly",
    "group_expression": "GROUP BY an expression without key parameters",
    "text": "the parser may not read this text as MySQL does",
}

NONDETERMINISTIC = words(
    """
    rand uuid uuid_short sleep benchmark now sysdate curdate curtime current_date current_time current_timestamp
    localtime localtimestamp utc_date utc_time utc_timestamp random_bytes load_file master_pos_wait
    source_pos_wait wait_for_executed_gtid_set wait_until_sql_thread_after_gtids validate_password_strength
    """
)
_OF_NOW = frozenset({"unix_timestamp"})
"""They are, too, where they have no argument."""
SESSION_STATE = words(
    """
    last_insert_id connection_id current_user user session_user system_user database schema found_rows row_count
    version get_lock release_lock release_all_locks is_free_lock is_used_lock current_role ps_current_thread_id
    ps_thread_id statement_digest icu_version name_const
    """
)
SYSTEM_SCHEMAS = frozenset({"mysql", "information_schema", "performance_schema", "sys"})

# Spelled without brackets too.
_BARE = words(
    """
    current_date current_time current_timestamp localtime localtimestamp utc_date utc_time utc_timestamp
    current_user
    """
)
# Functions that sqlglot has no class for and that give the same value for the same arguments, always. Any other name
# may be a stored
# function, which can read tables that the text does not show.
DETERMINISTIC = words(
    """
    acos adddate addtime aes_decrypt aes_encrypt ascii asin atan atan2 bin bin_to_uuid bit_count bit_length
    bit_and bit_or bit_xor any_value character_length char_length char coercibility collation concat concat_ws
    compress conv convert_tz cos cot crc32 date date_add date_format date_sub datediff day dayname dayofmonth
    dayofweek dayofyear degrees elt exp export_set extract extractvalue field find_in_set floor format from_base64
    from_days get_format greatest group_concat hex hour if ifnull inet_aton inet_ntoa inet6_aton inet6_ntoa insert
    instr interval is_ipv4 is_ipv6 is_uuid isnull json_array json_arrayagg json_contains json_contains_path
    json_depth json_extract json_keys json_length json_merge_patch json_merge_preserve json_object json_objectagg
    json_overlaps json_pretty json_quote json_remove json_replace json_schema_valid json_search json_set
    json_storage_size json_type json_unquote json_valid json_value last_day lcase least left length ln locate log
    log10 log2 lower lpad ltrim make_set makedate maketime md5 microsecond mid minute mod month monthname nullif
    oct octet_length ord period_add period_diff pi pow power quarter quote radians regexp_instr regexp_like
    regexp_replace regexp_substr repeat replace reverse right round rpad rtrim sec_to_time second sha sha1 sha2
    sign sin soundex space sqrt std stddev stddev_pop stddev_samp str_to_date strcmp subdate substr substring
    substring_index subtime sum tan time time_format time_to_sec timediff timestamp timestampadd timestampdiff
    to_base64 to_days to_seconds trim truncate ucase uncompress uncompressed_length unhex unix_timestamp upper
    uuid_to_bin var_pop var_samp variance week weekday weekofyear weight_string year yearweek
    st_astext st_geomfromtext st_x st_y st_distance st_contains st_within st_distance_sphere
    """
)


def refuse(code: str, place: str = "") -> UnsupportedQuery:
    """The refusal with that code."""
    return UnsupportedQuery(code, REFUSED[code], place)


def because(code: str, place: str = "") -> str:
    """The reason of an evict mode, for EXPLAIN: the sentence, and behind it the code."""
    return EVICT_ONLY[code] + (f" ({place})" if place else "") + f" [{code}]"


def check_tokens(tokens: Sequence[Token]) -> None:
    """Raises UnsupportedQuery for functions and variables that depend on more than the rows; by name, as MySQL's
    scanner sees them."""
    for index, token in enumerate(tokens):
        if token.kind == "variable":
            raise refuse("session_state", token.text)
        if token.kind != "word" or (index and tokens[index - 1].text == "."):
            continue
        name = token.text.lower()
        called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if not called and name not in _BARE:
            continue
        of_now = name in _OF_NOW and index + 2 < len(tokens) and tokens[index + 2].text == ")"
        if of_now or name in NONDETERMINISTIC:
            raise refuse("nondeterministic", token.text)
        if name in SESSION_STATE:
            raise refuse("session_state", token.text)
        if name == "grouping":
            raise refuse("grouping", token.text)


def check_calls(tokens: Sequence[Token], version: ServerVersion) -> None:
    """Raises UnsupportedQuery for functions that may be stored ones. `version`: the server's."""
    unknown = unknown_call(tokens, version)
    if unknown is not None:
        raise refuse("unknown_function", unknown.text.strip("`"))


def check_tree(tree: exp.Query, text: str) -> None:
    """Raises UnsupportedQuery for what no cache can answer rightly."""
    _check_bounds(tree)
    for node in tree.walk():
        if isinstance(node, exp.Lock):
            raise refuse("locking_read", "FOR UPDATE" if node.args.get("update") else "FOR SHARE")
        if isinstance(node, exp.Into):
            raise refuse("into", "INTO")
        if isinstance(node, exp.Command):
            raise refuse("not_a_select", text[:60])
        if isinstance(node, exp.JSONTable):
            raise refuse("table_function", "JSON_TABLE")
        if isinstance(node, exp.Table):
            _check_table_node(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() not in DETERMINISTIC:
            raise refuse("unknown_function", node.name)
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            raise refuse("unknown_function", node.expression.name)
        if isinstance(node, exp.With):
            _check_order(node)
        if isinstance(node, exp.MatchAgainst) and not _only_filters(node):
            raise refuse("full_text", node.sql("mysql")[:60])
        if isinstance(node, exp.Select) and _counts_found(node):
            raise refuse("session_state", "SQL_CALC_FOUND_ROWS")


def _check_bounds(tree: exp.Query) -> None:
    for node in tree.find_all(exp.Between):
        if any(isinstance(node.args[at], exp.Null) for at in ("low", "high")):
            raise refuse("null_bound", node.sql("mysql")[:60])


_READ_DIGITS = frozenset({"bin", "oct", "conv"})


def check_timestamps(trees: Sequence[exp.Query]) -> None:
    """Raises UnsupportedQuery for a TIMESTAMP literal that may be read as a number. `trees`: the query and its views,
    which MySQL merges."""
    nodes = [node for tree in trees for node in tree.walk()]
    if any([isinstance(node, exp.Anonymous) and node.name.lower() in _READ_DIGITS for node in nodes]):
        for node in nodes:
            if isinstance(node, exp.Cast) and node.to.this is exp.DType.TIMESTAMPTZ:
                raise refuse("timestamp_as_number", str(node.this))


def _only_filters(node: exp.MatchAgainst) -> bool:
    """Whether nothing but the row itself decides what MATCH does: it is true or false of the row in WHERE, and does not
    order the rows.

    MySQL sorts by relevance where there is no ORDER BY, but for IN BOOLEAN MODE. Relevance is computed from the table's
    estimated number of rows, which changes by itself; an expanded query from the most relevant rows.
    """
    mode = str(node.args.get("modifier") or "").upper()
    parent = node.parent
    while isinstance(parent, exp.And | exp.Or | exp.Not | exp.Paren):
        parent = parent.parent
    if not isinstance(parent, exp.Where) or "EXPANSION" in mode:
        return False
    return "BOOLEAN" in mode or bool(parent.parent and parent.parent.args.get("order"))


def _check_order(node: exp.With) -> None:
    """A common table expression may name those written before it; a later one's name means a table of the database."""
    later = [cte.alias for cte in node.expressions]
    for cte in node.expressions:
        if node.args.get("recursive"):  # it may name itself
            later.remove(cte.alias)
        for table in cte.this.find_all(exp.Table):
            if table.name in later and not table.db:
                raise refuse("recursive", table.name)
        if not node.args.get("recursive"):
            later.remove(cte.alias)


def _counts_found(node: exp.Select) -> bool:
    modifiers = node.args.get("operation_modifiers") or ()
    return "SQL_CALC_FOUND_ROWS" in [str(modifier).upper() for modifier in modifiers]


def _check_table_node(node: exp.Table) -> None:
    if isinstance(node.parent, exp.Into):
        raise refuse("into", "INTO")
    if not isinstance(node.this, exp.Identifier):
        raise refuse("table_function", str(node.this)[:60])
    if node.db.lower() in SYSTEM_SCHEMAS:
        raise refuse("system_schema", f"{node.db}.{node.name}")


def check_table(table: Table) -> None:
    """Raises UnsupportedQuery for a table whose changes cannot be followed."""
    if table.schema.lower() in SYSTEM_SCHEMAS:
        raise refuse("system_schema", table.qualified)
    if table.temporary:
        raise refuse("temporary_table", table.qualified)
    if table.engine.lower() != "innodb":
        raise refuse("engine", f"{table.qualified} is {table.engine}")
    if "." in table.schema or "." in table.name:
        raise refuse("dotted_name", table.qualified)


# What sqlglot is known to read otherwise than MySQL: such text is never taken apart, only held whole.
_UNTRUSTED = ("!", "\\N", ":=")


def misread(tree: exp.Query, tokens: Sequence[Token]) -> str:
    """What of the text the tree may not mean as MySQL does, "" where it can be relied on."""
    if untrusted := [token.text for token in tokens if token.text in _UNTRUSTED]:
        return untrusted[0]
    for node in tree.walk():
        if found := unread(node) or (type(node) in OPERATORS and misplaced(node)):
            return found
    return ""


def misread_node(node: exp.Expr) -> str:
    """What the node, those below it apart, may not mean as MySQL does, "" where it can be relied on."""
    return unread(node) or (misplaced(node) if type(node) in OPERATORS else "")
