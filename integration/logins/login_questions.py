"""What drivers and frameworks ask MySQL about the session and the server as they log in, with where that comes from.

`answered`: without MySQL, once it has answered the same text in a session that is alike. The others name something that
may change without anybody telling (`why_not`).
"""

from __future__ import annotations

from dataclasses import dataclass

INIT_CONNECT = "SET GLOBAL init_connect tells nobody"
ZONES = "whether MySQL has time zones is not known of a session"
OF_DATABASE = "no tracker tells of ALTER DATABASE in a procedure"


@dataclass(frozen=True, slots=True)
class Asked:
    """One text."""

    origin: str
    text: str
    why_not: str = ""

    @property
    def answered(self) -> bool:
        return not self.why_not


QUESTIONS = (
    Asked(
        "Java: Connector/J 9.4, NativeSession.loadServerVariables",
        "/* mysql-connector-j-9.4.0 (Revision: d680767849154c8e136dfc3d8a0ae4d9fefd1fb7) */SELECT "
        " @@session.auto_increment_increment AS auto_increment_increment, @@character_set_client AS"
        " character_set_client, @@character_set_connection AS character_set_connection, @@character_set_results AS"
        " character_set_results, @@character_set_server AS character_set_server, @@collation_server AS"
        " collation_server, @@collation_connection AS collation_connection, @@init_connect AS init_connect,"
        " @@interactive_timeout AS interactive_timeout, @@license AS license, @@lower_case_table_names AS"
        " lower_case_table_names, @@max_allowed_packet AS max_allowed_packet, @@net_write_timeout AS"
        " net_write_timeout, @@performance_schema AS performance_schema, @@sql_mode AS sql_mode,"
        " @@system_time_zone AS system_time_zone, @@time_zone AS time_zone, @@transaction_isolation AS"
        " transaction_isolation, @@wait_timeout AS wait_timeout",
        INIT_CONNECT,
    ),
    Asked("Java: Connector/J, getTransactionIsolation", "SELECT @@session.transaction_isolation"),
    Asked("Java: Connector/J, isReadOnly", "SELECT @@session.transaction_read_only"),
    Asked("Java: Hibernate's dialect", "SELECT @@character_set_database, @@sql_mode", OF_DATABASE),
    Asked(
        "Java, C++: MariaDB's connectors",
        "SELECT @@max_allowed_packet,@@system_time_zone,@@time_zone,@@auto_increment_increment",
    ),
    Asked(
        ".NET: Connector/NET, MySqlConnection's Driver.LoadServerProperties",
        "SELECT @@max_allowed_packet, @@character_set_client, \n        @@character_set_connection, @@license,"
        " @@sql_mode, @@lower_case_table_names, @@autocommit;",
    ),
    Asked("Go: go-sql-driver/mysql, maxAllowedPacket=0", "SELECT @@max_allowed_packet"),
    Asked("Rust: mysql, mysql_async", "SELECT @@max_allowed_packet,@@wait_timeout,@@socket"),
    Asked("Rust: the same without prefer_socket", "SELECT @@max_allowed_packet,@@wait_timeout"),
    Asked("C: the mysql command", "select @@version_comment limit 1"),
    Asked("C: the mysql command, behind USE", "SELECT DATABASE()"),
    Asked("Python: SQLAlchemy", "SELECT @@transaction_isolation"),
    Asked("Python: SQLAlchemy", "SELECT @@sql_mode"),
    Asked("Python: SQLAlchemy", "SELECT @@lower_case_table_names"),
    Asked(
        "Python: Django, DatabaseWrapper.mysql_server_data",
        "\n                SELECT VERSION(),\n                       @@sql_mode,\n                      "
        " @@default_storage_engine,\n                       @@sql_auto_is_null,\n                      "
        " @@lower_case_table_names,\n                       CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'UTC') IS NOT"
        " NULL\n            ",
        ZONES,
    ),
    Asked("PHP: WordPress, wpdb::set_sql_mode", "SELECT @@SESSION.sql_mode"),
    Asked("PHP: Doctrine", "SELECT DATABASE()"),
    Asked("PHP: phpMyAdmin", "SELECT @@version, @@version_comment"),
    Asked("PHP: phpMyAdmin", "SELECT CURRENT_USER();"),
    Asked("PHP: phpMyAdmin, Joomla", "SHOW VARIABLES LIKE 'sql_mode'"),
    Asked("PHP: phpMyAdmin", "SHOW SESSION VARIABLES LIKE 'FOREIGN_KEY_CHECKS';"),
    Asked("Node: Sequelize", "SELECT VERSION() as `version`"),
    Asked("Node: TypeORM", "SELECT DATABASE() AS `db_name`"),
    Asked("Prisma", "SELECT VERSION()"),
    Asked("pools: DBCP, c3p0, HikariCP", "SELECT 1"),
    Asked("Perl: DBIx::Class, of each connection", "SELECT @@lower_case_table_names"),
)
