package clients;

import static clients.Common.*;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Repeated reads of the JDBC driver, in text and prepared by the server: `Reads [--explain]`. Each way has two keys of
 * its own.
 */
class Reads {
    static final int ROUNDS = 50;
    static final Object[][] IDS = {{3}, {7}, {4}, {9}};

    public static void main(String[] arguments) throws Exception {
        boolean explain = Arrays.asList(arguments).contains("--explain");
        Map<String, Object[]> reads = new LinkedHashMap<>();
        reads.put("primary key", new Object[] {"SELECT id, name, country FROM author WHERE id = ?", IDS});
        reads.put("in list", new Object[] {"SELECT id, title FROM article WHERE id IN (?, ?, ?) ORDER BY id",
            new Object[][] {{1, 2, 3}, {5, 8, 13}, {4, 6, 7}, {9, 10, 11}}});
        reads.put("join", new Object[] {"SELECT article.id, article.title, author.name FROM article JOIN author"
            + " ON author.id = article.author_id WHERE author.id = ? ORDER BY article.id", IDS});
        reads.put("aggregate", new Object[] {"SELECT COUNT(*), SUM(score) FROM article WHERE author_id = ?", IDS});
        reads.put("text key", new Object[] {"SELECT id, country FROM author WHERE name = ?",
            new Object[][] {{"author 2"}, {"author 1 🐬"}, {"author 3"}, {"author 4 🐬"}}});
        Map<String, Map<String, Object>> lines = new LinkedHashMap<>();
        for (String prepared : new String[] {"false", "true"}) {
            try (Connection c = connect(DATA, "useServerPrepStmts=" + prepared)) {
                for (int number = 0; number < ROUNDS; number++) {
                    for (Map.Entry<String, Object[]> read : reads.entrySet()) {
                        Object[] key = ((Object[][]) read.getValue()[1])[number % 2 + (prepared.equals("true") ? 2 : 0)];
                        List<Object> rows = rows(c, (String) read.getValue()[0], key);
                        String name = read.getKey() + (prepared.equals("true") ? ", prepared" : ", text");
                        note(lines.computeIfAbsent(name, each -> map("read", each, "rows", map(), "rounds", 0)), key, rows,
                            explain ? served(c) : null);
                    }
                }
            }
        }
        for (Map<String, Object> line : lines.values()) {
            System.out.println(json(line));
        }
    }

    static String[] served(Connection c) throws SQLException {
        try (Statement statement = c.createStatement(); ResultSet result = statement.executeQuery("EXPLAIN LAST STATEMENT")) {
            result.next();
            return new String[] {result.getString("served"), result.getString("reason")};
        }
    }

    @SuppressWarnings("unchecked")
    static void note(Map<String, Object> line, Object[] key, List<Object> rows, String[] served) {
        Object known = ((Map<String, Object>) line.get("rows")).putIfAbsent(Arrays.toString(key), rows);
        if (known != null && !json(known).equals(json(rows))) {
            throw new IllegalStateException(line.get("read") + " has changed: " + json(known) + " " + json(rows));
        }
        line.merge("rounds", 1, (a, b) -> (int) a + (int) b);
        if (served != null) {
            line.merge(served[0], 1, (a, b) -> (int) a + (int) b);
            Map<String, Object> reasons = (Map<String, Object>) line.computeIfAbsent("reasons", each -> map());
            if (!served[0].equals("hit")) {
                reasons.merge(served[0] + ": " + served[1], 1, (a, b) -> (int) a + (int) b);
            }
        }
    }
}
