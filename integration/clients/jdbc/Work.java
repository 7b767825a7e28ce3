package clients;

import static clients.Common.*;

import java.io.ByteArrayInputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The common work of a JDBC driver: one line of JSON for each step. */
class Work {
    public static void main(String[] arguments) {
        Map<String, Step> steps = new LinkedHashMap<>();
        connecting(steps);
        values(steps);
        writes(steps);
        big(steps);
        sessions(steps);
        for (Map.Entry<String, Step> step : steps.entrySet()) {
            try {
                System.out.println(json(map("step", step.getKey(), "outcome", step.getValue().run())));
            } catch (Exception error) {
                // A program's top level: what it was is printed, and the test fails.
                System.out.println(json(map("step", step.getKey(), "failed", error + " " + error.getStackTrace()[0])));
            }
        }
    }

    static Object greeted(String... options) throws Exception {
        return session(c -> {
            List<?> cipher = (List<?>) rows(c, "SHOW SESSION STATUS LIKE 'Ssl_cipher'").get(0);
            return map("tls", !cipher.get(1).equals(""), "as", rows(c, "SELECT CURRENT_USER(), DATABASE()"));
        }, options);
    }

    static void connecting(Map<String, Step> steps) {
        steps.put("connect_plain_to_a_server_that_has_not_seen_the_password", () -> greeted());
        steps.put("connect_with_tls", () -> greeted("useSsl=true", "trustServerCertificate=true"));
        steps.put("connect_with_compression", () -> session(c -> rows(c, "SELECT COUNT(*), MAX(label) FROM " + DATA + ".number"),
            "useCompression=true"));
        steps.put("connect_with_a_wrong_password", () -> shown(() -> connect(DATABASE, "password=wrong")));
        steps.put("settings_of_a_new_session", () -> session(c -> {
            String[] names = {"autocommit", "character_set_client", "character_set_connection", "character_set_results",
                "collation_connection", "div_precision_increment", "group_concat_max_len", "lc_time_names", "sql_mode",
                "sql_select_limit", "time_zone", "transaction_isolation", "wait_timeout"};
            Map<String, Object> settings = new LinkedHashMap<>();
            for (String name : names) {
                settings.put(name, ((List<?>) rows(c, "SELECT CAST(@@" + name + " AS CHAR)").get(0)).get(0));
            }
            settings.put("jdbc", Arrays.asList(c.getAutoCommit(), c.getTransactionIsolation(), c.getCatalog(), c.isReadOnly()));
            return settings;
        }));
        steps.put("what_the_driver_tells_of_tables", () -> session(c -> {
            try (ResultSet keys = c.getMetaData().getImportedKeys(DATA, null, "article");
                ResultSet columns = c.getMetaData().getColumns(DATA, null, "author", "%");
                ResultSet tables = c.getMetaData().getTables(DATA, null, "%", null)) {
                return map("keys", rows(keys), "columns", rows(columns), "tables", rows(tables));
            }
        }));
    }

    static void values(Map<String, Step> steps) {
        String sql = "SELECT * FROM " + DATA + ".every_type WHERE id >= 1 ORDER BY id";
        steps.put("every_type_in_text", () -> session(c -> {
            try (Statement statement = c.createStatement(); ResultSet result = statement.executeQuery(sql)) {
                return map("rows", rows(result), "columns", columns(result.getMetaData()));
            }
        }));
        steps.put("every_type_prepared", () -> session(c -> {
            try (PreparedStatement statement = c.prepareStatement(sql.replace(">= 1", ">= ?"))) {
                statement.setInt(1, 1);
                try (ResultSet result = statement.executeQuery()) {
                    return map("rows", rows(result), "columns", columns(result.getMetaData()),
                        "parameters", statement.getParameterMetaData().getParameterCount());
                }
            }
        }, "useServerPrepStmts=true"));
        for (String prepared : new String[] {"false", "true"}) {
            String way = prepared.equals("true") ? "prepared" : "in_text";
            steps.put("parameters_" + way, () -> session(Work::parameters, "useServerPrepStmts=" + prepared));
            steps.put("batches_" + way, () -> session(Work::batches, "useServerPrepStmts=" + prepared));
        }
        steps.put("unicode", () -> session(c -> {
            run(c, "CREATE TABLE `größe` (`имя` VARCHAR(40) PRIMARY KEY)");
            try (PreparedStatement insert = c.prepareStatement("INSERT INTO `größe` VALUES (?)")) {
                for (String text : new String[] {"", "größer", "日本語", "🐬🐬", "👩‍👩‍👧"}) {
                    insert.setString(1, text);
                    insert.executeUpdate();
                }
            }
            List<Object> found = rows(c, "SELECT `имя`, HEX(`имя`) AS `длина` FROM `größe` WHERE `имя` <> ? ORDER BY `имя`", "");
            run(c, "DROP TABLE `größe`");
            return found;
        }));
    }

    static Object parameters(Connection c) throws Exception {
        run(c, "CREATE TABLE sent (id INT PRIMARY KEY, a DOUBLE, b BIGINT, c DECIMAL(30, 10), d VARCHAR(50) CHARSET utf8mb4, "
            + "e LONGBLOB, f DATETIME(6), g BOOL, h FLOAT, i SMALLINT)");
        byte[] long_data = "0123456789abcdef".repeat(10000).getBytes(StandardCharsets.US_ASCII);
        try (PreparedStatement insert = c.prepareStatement("INSERT INTO sent VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
            for (int id = 1; id <= 3; id++) {
                insert.setInt(1, id);
                insert.setDouble(2, 0.1);
                insert.setLong(3, Long.MIN_VALUE);
                insert.setBigDecimal(4, new BigDecimal("12345678901234567890.0123456789"));
                insert.setString(5, "' \" \\ ? \0 🐬");
                if (id == 1) {
                    insert.setBytes(6, new byte[] {0, -1, 39});
                } else {
                    insert.setBinaryStream(6, new ByteArrayInputStream(long_data), long_data.length); // as long data
                }
                insert.setTimestamp(7, Timestamp.valueOf("2024-02-29 23:59:59.123456"));
                insert.setBoolean(8, true);
                insert.setFloat(9, 1.5f);
                insert.setShort(10, (short) -7);
                if (id == 3) {
                    for (int n = 2; n <= 10; n++) {
                        insert.setNull(n, Types.VARCHAR);
                    }
                }
                insert.executeUpdate();
            }
        }
        List<Object> read = rows(c, "SELECT * FROM sent ORDER BY id");
        List<Object> found = rows(c, "SELECT id FROM sent WHERE d = ? AND b = ? ORDER BY id", "' \" \\ ? \0 🐬", Long.MIN_VALUE);
        run(c, "DROP TABLE sent");
        return map("read", read, "found", found);
    }

    static Object batches(Connection c) throws Exception {
        run(c, "CREATE TABLE batched (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20) UNIQUE)");
        List<Object> outcome = new ArrayList<>();
        try (PreparedStatement insert = c.prepareStatement("INSERT INTO batched (name) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
            for (int n = 0; n < 100; n++) {
                insert.setString(1, "name " + n);
                insert.addBatch();
            }
            outcome.add(insert.executeBatch().length);
            outcome.add(rows(insert.getGeneratedKeys()).size());
            insert.setString(1, "one more");
            outcome.add(insert.executeUpdate());
            outcome.add(rows(insert.getGeneratedKeys()));
            insert.setString(1, "one more");
            outcome.add(shown(() -> insert.executeUpdate()));
        }
        outcome.add(rows(c, "SELECT COUNT(*), MIN(name), MAX(name) FROM batched"));
        run(c, "DROP TABLE batched");
        return outcome;
    }

    static void writes(Map<String, Step> steps) {
        steps.put("transactions", () -> session(c -> session(other -> {
            run(c, "CREATE TABLE account (id INT PRIMARY KEY, balance INT)");
            String all = "SELECT * FROM account ORDER BY id";
            List<Object> outcome = new ArrayList<>();
            c.setAutoCommit(false);
            run(c, "INSERT INTO account VALUES (1, 10)");
            outcome.add(Arrays.asList(rows(c, all), rows(other, all)));
            c.commit();
            outcome.add(Arrays.asList(rows(c, all), rows(other, all)));
            run(c, "UPDATE account SET balance = 11");
            Savepoint middle = c.setSavepoint("middle");
            run(c, "INSERT INTO account VALUES (2, 20)");
            c.rollback(middle);
            outcome.add(Arrays.asList(rows(c, all), rows(other, all)));
            c.rollback();
            c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            outcome.add(Arrays.asList(rows(c, all), rows(c, "SELECT @@transaction_isolation, @@autocommit")));
            c.setReadOnly(true);
            outcome.add(shown(() -> {
                run(c, "INSERT INTO account VALUES (3, 30)");
                return null;
            }));
            c.rollback();
            c.setReadOnly(false);
            c.setAutoCommit(true);
            run(c, "DROP TABLE account");
            return outcome;
        })));
        steps.put("a_procedure", () -> session(c -> {
            c.setCatalog(DATA);
            List<Object> outcome = new ArrayList<>();
            try (CallableStatement call = c.prepareCall("{call two_results(?, ?, ?)}")) {
                call.setInt(1, 2);
                call.registerOutParameter(2, Types.INTEGER);
                call.setInt(3, 21);
                call.registerOutParameter(3, Types.INTEGER);
                boolean more = call.execute();
                while (more) {
                    outcome.add(rows(call.getResultSet()));
                    more = call.getMoreResults();
                }
                outcome.add(Arrays.asList(call.getInt(2), call.getInt(3)));
            }
            outcome.add(shown(() -> rows(c, "CALL fails_midway()")));
            return outcome;
        }));
    }

    static void big(Map<String, Step> steps) {
        steps.put("a_hundred_thousand_rows_streamed", () -> session(c -> {
            try (Statement statement = c.createStatement()) {
                statement.setFetchSize(100);
                long count = 0;
                long sum = 0;
                try (ResultSet result = statement.executeQuery("SELECT n, label FROM " + DATA + ".number ORDER BY n")) {
                    while (result.next()) {
                        count += 1;
                        sum += result.getInt(1);
                    }
                }
                return map("rows", count, "sum", sum);
            }
        }));
        steps.put("a_value_of_twenty_megabytes", () -> session(c -> {
            byte[] value = new byte[20 * 1024 * 1024];
            for (int n = 0; n < value.length; n++) {
                value[n] = (byte) (n * 31);
            }
            run(c, "CREATE TABLE huge (id INT PRIMARY KEY, value LONGBLOB)");
            try (PreparedStatement insert = c.prepareStatement("INSERT INTO huge VALUES (1, ?)")) {
                insert.setBytes(1, value);
                insert.executeUpdate();
            }
            List<Object> found = rows(c, "SELECT value, LENGTH(value) FROM huge WHERE id = ?", 1);
            run(c, "DROP TABLE huge");
            return found;
        }, "useServerPrepStmts=true"));
        steps.put("several_statements_at_once", () -> session(c -> {
            List<Object> outcome = new ArrayList<>();
            try (Statement statement = c.createStatement()) {
                boolean some = statement.execute("SELECT 1; CREATE TEMPORARY TABLE multi (id INT); INSERT INTO multi VALUES (1), (2);"
                    + "SELECT * FROM multi");
                while (some || statement.getUpdateCount() >= 0) {
                    outcome.add(some ? rows(statement.getResultSet()) : statement.getUpdateCount());
                    some = statement.getMoreResults();
                }
            }
            return outcome;
        }, "allowMultiQueries=true"));
        steps.put("a_local_file_loaded", () -> session(c -> {
            Path file = Files.createTempFile("client", "lines");
            StringBuilder lines = new StringBuilder();
            for (int n = 0; n < 5000; n++) {
                lines.append(n).append("\tline ").append(n).append(" 🐬\n");
            }
            Files.write(file, lines.toString().getBytes(StandardCharsets.UTF_8));
            run(c, "CREATE TABLE loaded (id INT PRIMARY KEY, line VARCHAR(40)) CHARSET utf8mb4",
                "LOAD DATA LOCAL INFILE '" + file + "' INTO TABLE loaded CHARACTER SET utf8mb4");
            Files.delete(file);
            List<Object> found = rows(c, "SELECT COUNT(*), SUM(id), MAX(line) FROM loaded");
            run(c, "DROP TABLE loaded");
            return found;
        }, "allowLocalInfile=true"));
    }

    static void sessions(Map<String, Step> steps) {
        steps.put("errors", () -> session(c -> {
            run(c, "CREATE TABLE taken (id INT PRIMARY KEY)", "INSERT INTO taken VALUES (1)");
            Map<String, Object> outcome = new LinkedHashMap<>();
            for (String sql : new String[] {"INSERT INTO taken VALUES (1)", "SELEC 1", "SELECT * FROM missing",
                "SELECT missing FROM taken", "SELECT * FROM does_not_exist.taken", "SELECT * FROM mysql.user",
                "INSERT INTO taken VALUES ('x')"}) {
                outcome.put(sql, Arrays.asList(shown(() -> {
                    run(c, sql);
                    return null;
                }), shown(() -> c.prepareStatement(sql).execute())));
            }
            run(c, "DROP TABLE taken");
            outcome.put("after them", rows(c, "SELECT 1"));
            return outcome;
        }, "useServerPrepStmts=true"));
        steps.put("warnings", () -> session(c -> {
            run(c, "CREATE TEMPORARY TABLE short (id INT, name VARCHAR(3))", "SET SESSION sql_mode = ''");
            List<Object> outcome = new ArrayList<>();
            try (Statement statement = c.createStatement()) {
                outcome.add(statement.executeUpdate("INSERT INTO short VALUES (1, 'too long'), ('x', 'abc')"));
                for (SQLWarning warning = statement.getWarnings(); warning != null; warning = warning.getNextWarning()) {
                    outcome.add(Arrays.asList(warning.getErrorCode(), warning.getSQLState(), warning.getMessage()));
                }
            }
            return outcome;
        }));
        steps.put("another_database", () -> session(c -> {
            c.setCatalog(DATA);
            return Arrays.asList(rows(c, "SELECT DATABASE(), COUNT(*) FROM author"), c.getCatalog(), shown(() -> {
                c.setCatalog("missing");
                return null;
            }));
        }));
        steps.put("ping", () -> session(c -> c.isValid(10)));
        steps.put("kill_query", () -> session(c -> session(killer -> {
            c.setCatalog(DATA);
            Object id = ((List<?>) rows(c, "SELECT CONNECTION_ID()").get(0)).get(0);
            String running = "SELECT /* long_running */ COUNT(*) FROM number a, number b, number c WHERE a.n + b.n <> c.n";
            Object[] outcome = new Object[1];
            Thread thread = new Thread(() -> {
                try {
                    outcome[0] = shown(() -> rows(c, running));
                } catch (Exception error) {
                    outcome[0] = error.toString();
                }
            });
            thread.start();
            String there = "SELECT id FROM performance_schema.processlist WHERE id = " + id;
            while (rows(killer, there + " AND info LIKE '%long_running%'").isEmpty()) {
                // each try is a round trip
            }
            run(killer, "KILL QUERY " + id);
            thread.join();
            return Arrays.asList(outcome[0], rows(c, "SELECT 1"));
        })));
        steps.put("session_killed_and_connected_again", () -> session(killer -> {
            Connection c = connect(DATABASE);
            Object id = ((List<?>) rows(c, "SELECT CONNECTION_ID()").get(0)).get(0);
            run(killer, "KILL " + id);
            while (!rows(killer, "SELECT id FROM performance_schema.processlist WHERE id = " + id).isEmpty()) {
                // each try is a round trip
            }
            boolean lost = !shown(() -> rows(c, "SELECT 1")).equals("no error");
            c.close();
            return Arrays.asList(lost, c.isValid(1), session(again -> rows(again, "SELECT DATABASE(), @@autocommit")));
        }));
    }
}
