// The common work of mysql2 for Node.js: `node work.js`.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const callbacks = require("mysql2");
const { ADDRESS, DATA, connect, digest, env, mysql, runSteps, session, shown } = require("./canonical.js");

const TLS = { ssl: { rejectUnauthorized: false } };
const EVERY_TYPE = `SELECT * FROM ${DATA}.every_type`;
const SETTINGS = [
  "autocommit", "character_set_client", "character_set_connection", "character_set_results", "collation_connection",
  "default_week_format", "div_precision_increment", "group_concat_max_len", "lc_time_names", "sql_auto_is_null", "sql_mode",
  "sql_safe_updates", "sql_select_limit", "time_zone", "transaction_isolation", "transaction_read_only", "wait_timeout",
];
const ERRORS = [
  "INSERT INTO taken VALUES (1)",
  "SELEC 1",
  "SELECT * FROM missing",
  "SELECT missing FROM taken",
  "SELECT * FROM does_not_exist.taken",
  "SELECT * FROM mysql.user",
  "INSERT INTO taken VALUES ('x')",
  "SELECT 1 FROM taken WHERE id = (SELECT 1 UNION SELECT 2)",
];
const LONG_RUNNING = "SELECT /* long_running */ COUNT(*) FROM number a, number b, number c WHERE a.n + b.n <> c.n";

const columns = (fields) =>
  fields.map((field) => [field.name, field.table, field.orgTable, field.orgName, field.columnType, field.flags, field.columnLength,
    field.decimals, field.characterSet]);

async function rows(connection, sql, values) {
  return (await connection.query({ sql, rowsAsArray: true }, values))[0];
}

async function greeted(special) {
  return session(special, async (connection) => {
    const [[, cipher]] = await rows(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'");
    return { tls: cipher !== "", as: await rows(connection, "SELECT CURRENT_USER(), DATABASE()") };
  });
}

// Until `sql` gives rows, or none: each try is a round trip.
async function until(connection, sql, some) {
  while ((await rows(connection, sql)).length > 0 !== some);
}

const connecting = {
  connect_plain_to_a_server_that_has_not_seen_the_password: () => greeted({}),
  connect_with_tls: () => greeted(TLS),
  connect_with_a_wrong_password: () => shown(connect({ password: "wrong" })),
  connect_to_a_database_that_does_not_exist: () => shown(connect({ database: "does_not_exist" })),
  connect_with_compression: () =>
    session({ compress: true }, (connection) => rows(connection, `SELECT COUNT(*), MAX(label) FROM ${DATA}.number`)),
  settings_of_a_new_session: () =>
    session({}, async (connection) =>
      Object.fromEntries(
        await rows(connection, SETTINGS.map((name) => `SELECT '${name}', CAST(@@${name} AS CHAR)`).join(" UNION ALL ")),
      ),
    ),
  a_pool_of_connections: async () => {
    const pool = mysql.createPool({ ...ADDRESS, database: DATA, connectionLimit: 3 });
    const numbers = Array.from({ length: 12 }, (_, n) => n + 1);
    const found = await Promise.all(numbers.map((n) => pool.execute("SELECT name FROM author WHERE id = ?", [n])));
    await pool.end();
    return found.map(([[row]]) => row.name);
  },
};

const values = {
  every_type_in_text: () =>
    session({}, async (connection) => {
      const [found, fields] = await connection.query({ sql: `${EVERY_TYPE} ORDER BY id`, rowsAsArray: true });
      return { rows: found, columns: columns(fields) };
    }),
  every_type_prepared: () =>
    session({ supportBigNumbers: true, dateStrings: true }, async (connection) => {
      const sql = `${EVERY_TYPE} WHERE id >= ? ORDER BY id`;
      const [found, fields] = await connection.execute({ sql, rowsAsArray: true }, [1]);
      return { rows: found, columns: columns(fields) };
    }),
  parameters_in_text_and_prepared: () =>
    session({ timezone: "Z" }, async (connection) => {
      await connection.query(
        "CREATE TABLE sent (id INT PRIMARY KEY, a DOUBLE, b BIGINT, c DECIMAL(30, 10), d VARCHAR(50) CHARSET utf8mb4, e BLOB, " +
          "f DATETIME(3), g JSON, h BOOL)",
      );
      const moment = new Date("2024-02-29T23:59:59.123Z");
      const sent = [0.1, 9007199254740991, "12345678901234567890.0123456789", "' \" \\ 🐬 ? \0", Buffer.from([0, 255, 39]), moment];
      const insert = "INSERT INTO sent VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
      await connection.query(insert, [1, ...sent, '{"ü": [1, null]}', true]);
      await connection.execute(insert, [2, ...sent, { ü: [1, null] }, false]);
      await connection.execute(insert, [3, null, null, null, null, null, null, null, null]);
      const read = await rows(connection, "SELECT * FROM sent ORDER BY id");
      const [found] = await connection.execute("SELECT id FROM sent WHERE d = ? AND f = ? ORDER BY id", [sent[3], moment]);
      await connection.query("DROP TABLE sent");
      return { read, found };
    }),
  statement_prepared_once_and_executed_often: () =>
    session({ database: DATA }, async (connection) => {
      const statement = await connection.prepare("SELECT name, country FROM author WHERE id = ?");
      const found = [];
      for (const id of [1, 2, 3, 2, 100]) found.push((await statement.execute([id]))[0]);
      await statement.close();
      connection.unprepare("SELECT name, country FROM author WHERE id = ?");
      return found;
    }),
  unicode: () =>
    session({}, async (connection) => {
      await connection.query("CREATE TABLE `größe 🐬` (`имя` VARCHAR(40) PRIMARY KEY)".replace(" 🐬", ""));
      for (const text of ["", "größer", "日本語", "🐬🐬", "👩‍👩‍👧"]) await connection.execute("INSERT INTO `größe` VALUES (?)", [text]);
      const [found, fields] = await connection.query("SELECT `имя`, HEX(`имя`) AS `длина` FROM `größe` ORDER BY `имя`");
      await connection.query("DROP TABLE `größe`");
      return { found, names: fields.map((field) => field.name) };
    }),
};

const writes = {
  transactions: () =>
    session({}, (connection) =>
      session({}, async (other) => {
        await connection.query("CREATE TABLE account (id INT PRIMARY KEY, balance INT)");
        const seen = async () => [
          await rows(connection, "SELECT * FROM account ORDER BY id"),
          await rows(other, "SELECT * FROM account ORDER BY id"),
        ];
        const outcome = {};
        await connection.beginTransaction();
        await connection.execute("INSERT INTO account VALUES (?, ?)", [1, 10]);
        outcome.before_commit = await seen();
        await connection.commit();
        outcome.after_commit = await seen();
        await connection.beginTransaction();
        await connection.query("UPDATE account SET balance = 11");
        await connection.query("SAVEPOINT middle");
        await connection.query("INSERT INTO account VALUES (2, 20)");
        await connection.query("ROLLBACK TO middle");
        outcome.after_savepoint = await seen();
        await connection.rollback();
        outcome.after_rollback = await seen();
        await connection.query("DROP TABLE account");
        return outcome;
      }),
    ),
  ids_and_counts_of_writes: () =>
    session({}, async (connection) => {
      await connection.query("CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(10))");
      const outcome = [];
      for (const sql of [
        "INSERT INTO counted (name) VALUES ('a'), ('b'), ('c')",
        "UPDATE counted SET name = 'b' WHERE id <= 2",
        "INSERT INTO counted VALUES (1, 'x') ON DUPLICATE KEY UPDATE name = 'A'",
        "DELETE FROM counted WHERE id > 2",
      ]) {
        for (const way of ["query", "execute"]) outcome.push((await connection[way](sql))[0]);
      }
      await connection.query("DROP TABLE counted");
      return outcome;
    }),
};

const big = {
  a_hundred_thousand_rows_streamed: () =>
    new Promise((resolve, reject) => {
      const connection = callbacks.createConnection({ ...ADDRESS, database: DATA });
      const outcome = { rows: 0, sum: 0, pauses: 0 };
      const stream = connection.query("SELECT n, label FROM number ORDER BY n").stream({ highWaterMark: 100 });
      stream.on("data", (row) => {
        outcome.rows += 1;
        outcome.sum += row.n;
        if (outcome.rows % 20000 === 0) {
          outcome.pauses += 1;
          stream.pause();
          setImmediate(() => stream.resume());
        }
      });
      stream.on("error", reject);
      stream.on("end", () => {
        connection.destroy();
        resolve(outcome);
      });
    }),
  a_value_of_twenty_megabytes: () =>
    session({}, async (connection) => {
      const value = Buffer.alloc(20 * 1024 * 1024, "0123456789abcdef");
      await connection.query("CREATE TABLE huge (id INT PRIMARY KEY, value LONGBLOB)");
      await connection.execute("INSERT INTO huge VALUES (?, ?)", [1, value]);
      await connection.query("INSERT INTO huge VALUES (?, ?)", [2, value]);
      const [found] = await connection.execute("SELECT id, value, LENGTH(value) AS size FROM huge ORDER BY id");
      await connection.query("DROP TABLE huge");
      return found.map((row) => [row.size, row.value.equals(value), digest(row.value)]);
    }),
  several_statements_at_once: () =>
    session({ multipleStatements: true }, async (connection) => {
      const sql = "SELECT 1 AS a; CREATE TEMPORARY TABLE multi (id INT); INSERT INTO multi VALUES (1), (2); SELECT * FROM multi; SELECT 'ü;'";
      const [results] = await connection.query(sql);
      return { results, error: await shown(connection.query("SELECT 1; SELECT * FROM missing; SELECT 2")) };
    }),
  several_statements_refused_by_default: () =>
    session({}, async (connection) => [await shown(connection.query("SELECT 1; SELECT 2")), await rows(connection, "SELECT 1")]),
  procedures: () =>
    session({ database: DATA }, async (connection) => {
      await connection.query("SET @found = 0, @twice = 21");
      const outcome = [];
      outcome.push((await connection.query("CALL two_results(2, @found, @twice)"))[0]);
      outcome.push((await connection.execute("CALL two_results(?, @found, @twice)", [2]))[0]);
      outcome.push(await rows(connection, "SELECT @found, @twice"));
      outcome.push(await shown(connection.query("CALL fails_midway()")));
      return outcome;
    }),
  a_local_file_loaded: () =>
    session({ infileStreamFactory: (path) => fs.createReadStream(path) }, async (connection) => {
      const path = `${fs.mkdtempSync(`${os.tmpdir()}/client-`)}/lines`;
      fs.writeFileSync(path, Array.from({ length: 5000 }, (_, n) => `${n}\tline ${n} 🐬\n`).join(""));
      await connection.query("CREATE TABLE loaded (id INT PRIMARY KEY, line VARCHAR(40)) CHARSET utf8mb4");
      const [result] = await connection.query(`LOAD DATA LOCAL INFILE '${path}' INTO TABLE loaded CHARACTER SET utf8mb4`);
      fs.rmSync(path.slice(0, -6), { recursive: true });
      const found = await rows(connection, "SELECT COUNT(*), SUM(id), MAX(line) FROM loaded");
      await connection.query("DROP TABLE loaded");
      return { result, found };
    }),
};

const sessions = {
  errors: () =>
    session({}, async (connection) => {
      await connection.query("CREATE TABLE taken (id INT PRIMARY KEY)");
      await connection.query("INSERT INTO taken VALUES (1)");
      const outcome = {};
      for (const sql of ERRORS) outcome[sql] = [await shown(connection.query(sql)), await shown(connection.execute(sql))];
      await connection.query("DROP TABLE taken");
      return { ...outcome, after: await rows(connection, "SELECT 1") };
    }),
  warnings: () =>
    session({}, async (connection) => {
      await connection.query("CREATE TEMPORARY TABLE short (id INT, name VARCHAR(3))");
      await connection.query("SET SESSION sql_mode = ''");
      const [result] = await connection.query("INSERT INTO short VALUES (1, 'too long'), ('x', 'abc')");
      return { result, warnings: await rows(connection, "SHOW WARNINGS") };
    }),
  another_database: () =>
    session({}, async (connection) => {
      await connection.query(`USE ${DATA}`);
      return [await rows(connection, "SELECT DATABASE(), COUNT(*) FROM author"), await shown(connection.query("USE missing"))];
    }),
  ping: () => session({}, (connection) => connection.ping()),
  change_user: () =>
    session({}, async (connection) => {
      await connection.query("SET @mine = 1");
      await connection.changeUser({ user: env.CLIENT_GUEST, password: env.CLIENT_GUEST_PASSWORD, database: DATA });
      const guest = await rows(connection, "SELECT CURRENT_USER(), DATABASE(), @mine");
      const denied = await shown(connection.query(`SELECT * FROM ${ADDRESS.database}.missing`));
      await connection.changeUser(ADDRESS);
      return [guest, denied, await rows(connection, "SELECT CURRENT_USER(), DATABASE()")];
    }),
  reset: () =>
    session({}, async (connection) => {
      await connection.query("SET @mine = 1, SESSION group_concat_max_len = 77");
      await connection.reset();
      return rows(connection, "SELECT @mine, @@group_concat_max_len, DATABASE(), @@autocommit");
    }),
  kill_query: () =>
    session({ database: DATA }, (connection) =>
      session({}, async (killer) => {
        const running = shown(connection.query(LONG_RUNNING));
        const there = `SELECT id FROM performance_schema.processlist WHERE id = ${connection.threadId}`;
        await until(killer, `${there} AND info LIKE '%long_running%'`, true);
        await killer.query(`KILL QUERY ${connection.threadId}`);
        return [await running, await rows(connection, "SELECT 1")];
      }),
    ),
  session_killed_and_connected_again: () =>
    session({}, async (killer) => {
      const pool = mysql.createPool({ ...ADDRESS, connectionLimit: 1 });
      const [[{ id }]] = await pool.query("SELECT CONNECTION_ID() AS id");
      const there = `SELECT id FROM performance_schema.processlist WHERE id = ${id}`;
      await killer.query(`KILL ${id}`);
      await until(killer, there, false);
      // An error or two, or a new connection at once if the pool has heard of it.
      while ((await shown(pool.query("SELECT 1"))) !== "no error");
      const again = await rows(pool, "SELECT DATABASE(), @@autocommit");
      await pool.end();
      return again;
    }),
};

runSteps({ ...connecting, ...values, ...writes, ...big, ...sessions });
