package clients;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** What the programs for the JDBC driver share: connections, rows, and lines of JSON, the same for the same outcome. */
class Common {
    static final Map<String, String> ENV = System.getenv();
    static final String DATA = ENV.get("CLIENT_DATA");
    static final String DATABASE = ENV.get("CLIENT_DATABASE");

    interface Step {
        Object run() throws Exception;
    }

    interface OnConnection {
        Object with(Connection connection) throws Exception;
    }

    // -- the driver ---------------------------------------------------------------------------------------------------

    static Connection connect(String database, String... options) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", ENV.get("CLIENT_USER"));
        properties.put("password", ENV.get("CLIENT_PASSWORD"));
        properties.put("allowPublicKeyRetrieval", "true"); // for a full login without TLS
        for (String option : options) {
            String[] parts = option.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        String url = "jdbc:mariadb://" + ENV.get("CLIENT_HOST") + ":" + ENV.get("CLIENT_PORT") + "/" + database;
        return DriverManager.getConnection(url, properties);
    }

    static Object session(OnConnection work, String... options) throws Exception {
        try (Connection connection = connect(DATABASE, options)) {
            return work.with(connection);
        }
    }

    static void run(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String sql : statements) {
                statement.execute(sql);
            }
        }
    }

    static List<Object> rows(Connection connection, String sql, Object... parameters) throws SQLException {
        if (parameters.length == 0) {
            try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(sql)) {
                return rows(result);
            }
        }
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int n = 0; n < parameters.length; n++) {
                statement.setObject(n + 1, parameters[n]);
            }
            try (ResultSet result = statement.executeQuery()) {
                return rows(result);
            }
        }
    }

    static List<Object> rows(ResultSet result) throws SQLException {
        List<Object> rows = new ArrayList<>();
        int columns = result.getMetaData().getColumnCount();
        while (result.next()) {
            List<Object> row = new ArrayList<>();
            for (int n = 1; n <= columns; n++) {
                // As text where an object would depend on the machine's time zone.
                int type = result.getMetaData().getColumnType(n);
                boolean time = type == Types.TIME || type == Types.TIMESTAMP || type == Types.DATE;
                row.add(time ? result.getString(n) : result.getObject(n));
            }
            rows.add(row);
        }
        return rows;
    }

    static List<Object> columns(ResultSetMetaData data) throws SQLException {
        List<Object> columns = new ArrayList<>();
        for (int n = 1; n <= data.getColumnCount(); n++) {
            columns.add(Arrays.asList(data.getColumnLabel(n), data.getColumnName(n), data.getTableName(n), data.getCatalogName(n),
                data.getColumnTypeName(n), data.getColumnType(n), data.getPrecision(n), data.getScale(n), data.isNullable(n),
                data.isAutoIncrement(n), data.isSigned(n), data.getColumnDisplaySize(n)));
        }
        return columns;
    }

    static Object shown(Step action) throws Exception {
        try {
            action.run();
        } catch (SQLException error) {
            // The driver puts "(conn=17) " before MySQL's words.
            String text = String.valueOf(error.getMessage()).replaceAll("\\(conn=\\d+\\) ", "").replaceAll("(?s)\nQuery is.*", "")
                .replaceAll("\\(port=\\d+\\)", "");
            return map("class", error.getClass().getSimpleName(), "number", error.getErrorCode(), "sqlstate", error.getSQLState(),
                "text", text);
        }
        return "no error";
    }

    // -- JSON ---------------------------------------------------------------------------------------------------------

    static Map<String, Object> map(Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int n = 0; n < pairs.length; n += 2) {
            map.put((String) pairs[n], pairs[n + 1]);
        }
        return map;
    }

    static String json(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            return String.valueOf(value);
        }
        StringBuilder text = new StringBuilder();
        if (value instanceof Map<?, ?> map) {
            map.forEach((name, member) -> text.append(text.length() == 0 ? "" : ", ").append(json(name)).append(": ").append(json(member)));
            return "{" + text + "}";
        }
        if (value instanceof Iterable<?> list) {
            list.forEach(member -> text.append(text.length() == 0 ? "" : ", ").append(json(member)));
            return "[" + text + "]";
        }
        if (value instanceof byte[] bytes) {
            return json(map("bytes", bytes.length, "digest", digest(bytes)));
        }
        if (!(value instanceof String)) {
            return json(map(value.getClass().getSimpleName(), value.toString()));
        }
        for (char each : ((String) value).toCharArray()) {
            text.append(each < ' ' || each > '~' || each == '"' || each == '\\' ? String.format("\\u%04x", (int) each) : each);
        }
        return "\"" + text + "\"";
    }

    static String digest(byte[] whole) {
        try {
            StringBuilder text = new StringBuilder();
            for (byte each : Arrays.copyOf(MessageDigest.getInstance("SHA-256").digest(whole), 8)) {
                text.append(String.format("%02x", each));
            }
            return text.toString();
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }
}
