"""What drivers and frameworks set as they log in, with where that comes from.

`collation`: the number that stands in the driver's login packet, by which MySQL sets the session's character sets:
8 latin1_swedish_ci, 33 utf8mb3_general_ci, 45 utf8mb4_general_ci, 63 binary, 224 utf8mb4_unicode_ci, 255
utf8mb4_0900_ai_ci. `statements`: what it sends before the application's first statement, as far as it changes the
session.
"""

from __future__ import annotations

from dataclasses import dataclass

LATIN1, UTF8MB3, UTF8MB4_GENERAL, BINARY, UTF8MB4_UNICODE, UTF8MB4 = 8, 33, 45, 63, 224, 255
STRICT = (
    "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION"
)


@dataclass(frozen=True, slots=True)
class Login:
    """One way to log in."""

    name: str
    origin: str
    statements: tuple[str, ...] = ()
    collation: int = UTF8MB4


LOGINS = (
    # Drivers.
    Login("Python: PyMySQL, mysqlclient", "charset utf8mb4 in the login, autocommit off", ("SET AUTOCOMMIT = 0",), 45),
    Login(
        "Python: mysql-connector-python",
        "MySQLConnectionAbstract._post_connection",
        ("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_0900_ai_ci'", "SET @@session.autocommit = OFF"),
    ),
    Login("PHP: mysqlnd, PDO with charset=utf8mb4", "the login alone", (), UTF8MB4_GENERAL),
    Login("PHP: mysqlnd without a charset, before 8", "latin1 in the login", (), LATIN1),
    Login("PHP: mysqli_set_charset('utf8')", "mysqlnd_auth set_charset", ("SET NAMES utf8",)),
    Login("Perl: DBD::mysql", "latin1 in the login", (), LATIN1),
    Login("Perl: DBD::mysql with mysql_enable_utf8", "dbdimp.c: SET NAMES utf8", ("SET NAMES utf8",), LATIN1),
    Login("Perl: DBD::mysql with mysql_enable_utf8mb4", "dbdimp.c", ("SET NAMES utf8mb4",), LATIN1),
    Login("Ruby: mysql2 0.5", "utf8mb4 in the login", (), UTF8MB4_GENERAL),
    Login("Ruby: mysql2 with encoding utf8", "utf8 in the login", (), UTF8MB3),
    Login("Node: mysql", "UTF8_GENERAL_CI in the login", (), UTF8MB3),
    Login("Node: mysql2", "UTF8MB4_UNICODE_CI in the login", (), UTF8MB4_UNICODE),
    Login(
        "Java: Connector/J 8 and 9",
        "NativeProtocol, NativeSession.configureClientCharacterSet, jdbcCompliantTruncation",
        ("SET character_set_results = NULL", "SET autocommit=1", f"SET sql_mode='{STRICT}'"),
    ),
    Login(
        "Java: MariaDB Connector/J 3",
        "StandardClient.postConnectionQueries",
        ("set autocommit=1, sql_mode = concat(@@sql_mode,',STRICT_TRANS_TABLES')",),
        UTF8MB4_UNICODE,
    ),
    Login(".NET: MySqlConnector", "utf8mb4 in the login", (), UTF8MB4_GENERAL),
    Login(".NET: Connector/NET", "NativeDriver, Driver.ConfigureAsync", ("SET character_set_results=NULL",), UTF8MB4),
    Login("Go: go-sql-driver/mysql", "utf8mb4_general_ci in the login", (), UTF8MB4_GENERAL),
    Login("Go: go-sql-driver/mysql with charset=utf8", "SET NAMES utf8", ("SET NAMES utf8",)),
    Login("C: libmysqlclient with SET NAMES latin1", "default-character-set=latin1", ("SET NAMES latin1",)),
    # Frameworks and applications.
    Login(
        "WordPress",
        "wpdb::set_charset, wpdb::set_sql_mode, which takes out incompatible_modes",
        (
            "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_520_ci",
            "SET SESSION sql_mode='NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
        ),
        UTF8MB4_GENERAL,
    ),
    Login(
        "Drupal 10",
        "Drupal\\mysql Connection::open, init_commands",
        (
            "SET NAMES utf8mb4",
            "SET SESSION sql_mode = 'ANSI,TRADITIONAL'",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ),
        UTF8MB4_GENERAL,
    ),
    Login(
        "Laravel, strict",
        "MySqlConnector::configureConnection, strictMode",
        ("set names 'utf8mb4' collate 'utf8mb4_unicode_ci'", f"set session sql_mode='{STRICT}'"),
        UTF8MB4_GENERAL,
    ),
    Login(
        "Laravel, strict => false",
        "MySqlConnector::setModes",
        ("set names 'utf8mb4' collate 'utf8mb4_unicode_ci'", "set session sql_mode='NO_ENGINE_SUBSTITUTION'"),
        UTF8MB4_GENERAL,
    ),
    Login(
        "Django",
        "mysql/base.py init_connection_state, isolation_level",
        ("SET SQL_AUTO_IS_NULL = 0; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",),
        UTF8MB4_GENERAL,
    ),
    Login(
        "Rails: Active Record",
        "AbstractMysqlAdapter#configure_connection",
        (
            "SET NAMES utf8mb4, @@SESSION.sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'),"
            " @@SESSION.sql_auto_is_null = 0, @@SESSION.wait_timeout = 2147483",
        ),
        UTF8MB4_GENERAL,
    ),
    Login(
        "Rails: Active Record with strict: false",
        "AbstractMysqlAdapter#configure_connection",
        (
            "SET @@SESSION.sql_mode = REPLACE(REPLACE(REPLACE(@@sql_mode, 'STRICT_TRANS_TABLES', ''),"
            " 'STRICT_ALL_TABLES', ''), 'TRADITIONAL', ''), @@SESSION.sql_auto_is_null = 0",
        ),
        UTF8MB4_GENERAL,
    ),
    Login(
        "MediaWiki",
        "DatabaseMySQL::open: $wgSQLMode '', DBConnectOptions, binary tables",
        ("SET NAMES binary", "SET sql_mode = ''"),
        UTF8MB4_GENERAL,
    ),
    Login(
        "Joomla 5",
        "MysqliDriver::connect",
        (
            "SET NAMES 'utf8mb4'",
            "SET @@SESSION.sql_mode = 'ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,STRICT_TRANS_TABLES'",
        ),
        UTF8MB4_GENERAL,
    ),
    Login("Magento 2", "Pdo\\Mysql::_connect", ("SET NAMES utf8", "SET SQL_MODE=''", "SET time_zone = '+00:00'")),
    Login("Moodle", "mysqli_native_moodle_database", ("SET SESSION sql_mode = 'STRICT_ALL_TABLES'",), UTF8MB4_UNICODE),
    Login(
        "Nextcloud",
        "OC\\DB\\MySqlTools, SetTransactionIsolationLevel",
        ("SET SESSION AUTOCOMMIT=1", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
        UTF8MB4_GENERAL,
    ),
    Login("TYPO3", "Connection::connect, initCommands", ("SET NAMES utf8mb4", "SET sql_mode = 'STRICT_TRANS_TABLES'")),
    Login(
        "phpMyAdmin",
        "DatabaseInterface::postConnect",
        ("SET lc_messages = 'en_US'", "SET collation_connection = 'utf8mb4_unicode_ci'"),
        UTF8MB4_GENERAL,
    ),
    Login("Sequelize", "mysql/connection-manager.js", ("SET time_zone = '+00:00'",), UTF8MB4_UNICODE),
    Login("Prisma", "quaint mysql: no statement", (), UTF8MB4_GENERAL),
    Login("Hibernate and other pools", "HikariCP: isolation, read only", ("SET SESSION TRANSACTION READ WRITE",)),
    Login("SQLAlchemy", "AUTOCOMMIT off by the driver", ("SET AUTOCOMMIT = 0",), UTF8MB4_GENERAL),
    Login("MySQL Workbench, --safe-updates", "limits of rows", ("SET SQL_SELECT_LIMIT=1000",)),
)
