"""MySQL's own functions that neither write, nor lock, nor wait, nor change the session. Any other name before a bracket
may be a stored or loadable function, which can do all of that.
"""

from __future__ import annotations

from planner.text.scan import ServerVersion, words

HARMLESS = words(
    """
    abs acos adddate addtime aes_decrypt aes_encrypt any_value ascii asin atan atan2 avg bin bin_to_uuid bit_and
    bit_count bit_length bit_or bit_xor cast ceil ceiling char char_length character_length charset coalesce
    coercibility collation compress concat concat_ws connection_id conv convert convert_tz cos cot count crc32
    cume_dist curdate current_date current_role current_time current_timestamp current_user curtime database
    date date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear degrees dense_rank
    elt etag exp export_set extract extractvalue field find_in_set first_value floor format format_bytes
    format_pico_time found_rows from_base64 from_days from_unixtime from_vector geomcollection
    geometrycollection get_format greatest group_concat grouping gtid_subset gtid_subtract hex hour icu_version
    if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr interval is_free_lock is_ipv4
    is_ipv4_compat is_ipv4_mapped is_ipv6 is_used_lock is_uuid isnull json_array json_array_append
    json_array_insert json_arrayagg json_contains json_contains_path json_depth json_extract json_insert
    json_keys json_length json_merge json_merge_patch json_merge_preserve json_object json_objectagg
    json_overlaps json_pretty json_quote json_remove json_replace json_schema_valid
    json_schema_validation_report json_search json_set json_storage_free json_storage_size json_type
    json_unquote json_valid json_value lag last_day last_value lcase lead least left length linestring ln
    localtime localtimestamp locate log log10 log2 lower lpad ltrim make_set makedate maketime max mbrcontains
    mbrcoveredby mbrcovers mbrdisjoint mbrequals mbrintersects mbroverlaps mbrtouches mbrwithin md5 microsecond
    mid min minute mod month monthname multilinestring multipoint multipolygon name_const now nth_value ntile
    nullif oct octet_length ord percent_rank period_add period_diff pi point polygon position pow power
    ps_current_thread_id ps_thread_id quarter quote radians rand random_bytes rank regexp_instr regexp_like
    regexp_replace regexp_substr repeat replace reverse right round row_count row_number rpad rtrim schema
    sec_to_time second session_user sha sha1 sha2 sign sin soundex space sqrt st_area st_asbinary st_asgeojson
    st_astext st_aswkb st_aswkt st_buffer st_buffer_strategy st_centroid st_collect st_contains st_convexhull
    st_crosses st_difference st_dimension st_disjoint st_distance st_distance_sphere st_endpoint st_envelope
    st_equals st_exteriorring st_frechetdistance st_geohash st_geomcollfromtext st_geomcollfromtxt
    st_geomcollfromwkb st_geometrycollectionfromtext st_geometrycollectionfromwkb st_geometryfromtext
    st_geometryfromwkb st_geometryn st_geometrytype st_geomfromgeojson st_geomfromtext st_geomfromwkb
    st_hausdorffdistance st_interiorringn st_intersection st_intersects st_isclosed st_isempty st_issimple
    st_isvalid st_latfromgeohash st_latitude st_length st_linefromtext st_linefromwkb st_lineinterpolatepoint
    st_lineinterpolatepoints st_linestringfromtext st_linestringfromwkb st_longfromgeohash st_longitude
    st_makeenvelope st_mlinefromtext st_mlinefromwkb st_mpointfromtext st_mpointfromwkb st_mpolyfromtext
    st_mpolyfromwkb st_multilinestringfromtext st_multilinestringfromwkb st_multipointfromtext
    st_multipointfromwkb st_multipolygonfromtext st_multipolygonfromwkb st_numgeometries st_numinteriorring
    st_numinteriorrings st_numpoints st_overlaps st_pointatdistance st_pointfromgeohash st_pointfromtext
    st_pointfromwkb st_pointn st_polyfromtext st_polyfromwkb st_polygonfromtext st_polygonfromwkb st_simplify
    st_srid st_startpoint st_swapxy st_symdifference st_touches st_transform st_union st_validate st_within st_x
    st_y statement_digest statement_digest_text std stddev stddev_pop stddev_samp str_to_date strcmp
    string_to_vector subdate substr substring substring_index subtime sum sysdate system_user tan time
    time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_days to_seconds to_vector
    trim truncate ucase uncompress uncompressed_length unhex unix_timestamp updatexml upper user utc_date
    utc_time utc_timestamp uuid uuid_short uuid_to_bin validate_password_strength values var_pop var_samp
    variance vector_dim vector_to_string version week weekday weekofyear weight_string year yearweek
    """
)

# From this version on they are in a component that need not be installed, and a stored function may have their names.
# https://dev.mysql.com/doc/refman/9.6/en/legacy-hashing-component.html
MOVED = words("md5 sha sha1")
MOVED_IN: ServerVersion = (9, 6, 0)

# MySQL's own in the newest version that was asked (integration/sessions/test_statement_kinds.py), but not in 8.4.
NEWER = words("etag from_vector string_to_vector to_vector vector_dim vector_to_string")
NEWER_FROM: ServerVersion = (9, 7, 0)

# MySQL reads these as its own only where the bracket follows at once.
NEVER_PARTED = words(
    """
    adddate bit_and bit_or bit_xor cast count curdate curtime date_add date_sub extract group_concat json_arrayagg
    json_objectagg max mid min now position session_user st_collect std stddev stddev_pop stddev_samp subdate substr
    substring sum sysdate system_user trim var_pop var_samp variance
    """
)

# Words of the grammar that stand before a bracket and call nothing; reserved, so that no function is called so.
NO_FUNCTIONS = words(
    """
    all and as between bigint binary blob by case character cross dec decimal default distinct distinctrow div
    double else except exists float for from group having in index inner int integer intersect interval is join
    json_table key lateral like limit lines match mediumint mod not numeric of on or order outer over partition
    precision primary real recursive regexp rlike row select set smallint straight_join table then tinyint union
    unique unsigned use using values varbinary varchar when where window with xor
    """
)
