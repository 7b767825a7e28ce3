// Repeated reads of mysql2 from its pool, as text and prepared: `node reads.js [--explain]`. Each way has two keys of its own.
"use strict";

const { ADDRESS, DATA, canonical, emit, mysql } = require("./canonical.js");

const ROUNDS = 50;
const EXPLAIN = process.argv.includes("--explain");
const READS = {
  "primary key": ["SELECT id, name, country FROM author WHERE id = ?", [[3], [7], [4], [9]]],
  "in list": ["SELECT id, title FROM article WHERE id IN (?, ?, ?) ORDER BY id", [[1, 2, 3], [5, 8, 13], [4, 6, 7], [9, 10, 11]]],
  join: [
    "SELECT article.id, article.title, author.name FROM article JOIN author ON author.id = article.author_id " +
      "WHERE author.id = ? ORDER BY article.id",
    [[3], [7], [4], [9]],
  ],
  aggregate: ["SELECT COUNT(*) AS n, SUM(score) AS score FROM article WHERE author_id = ?", [[3], [7], [4], [9]]],
  "text key": ["SELECT id, country FROM author WHERE name = ?", [["author 2"], ["author 1 🐬"], ["author 3"], ["author 4 🐬"]]],
};

const lines = {};

function note(read, key, rows, served) {
  const line = (lines[read] ??= { read, rows: {}, rounds: 0, reasons: {} });
  const text = JSON.stringify(key);
  line.rows[text] ??= canonical(rows);
  if (JSON.stringify(line.rows[text]) !== JSON.stringify(canonical(rows))) throw new Error(`${read} of ${text} has changed`);
  line.rounds += 1;
  if (!EXPLAIN) return;
  line[served.served] = (line[served.served] ?? 0) + 1;
  const reason = `${served.served}: ${served.reason}`;
  if (served.served !== "hit") line.reasons[reason] = (line.reasons[reason] ?? 0) + 1;
}

async function request(pool, number, way) {
  for (const [name, [sql, keys]] of Object.entries(READS)) {
    const key = keys[(number % 2) + (way === "execute" ? 2 : 0)];
    const connection = await pool.getConnection();
    const [rows] = await connection[way](sql, key);
    const served = EXPLAIN ? (await connection.query("EXPLAIN LAST STATEMENT"))[0][0] : null;
    connection.release();
    note(`${name}, ${way === "execute" ? "prepared" : "text"}`, key, rows, served);
  }
}

async function main() {
  const pool = mysql.createPool({ ...ADDRESS, database: DATA, connectionLimit: 4 });
  for (const way of ["query", "execute"]) {
    for (let number = 0; number < ROUNDS; number += 1) await request(pool, number, way);
  }
  await pool.end();
  for (const { reasons, ...line } of Object.values(lines)) emit(EXPLAIN ? { ...line, reasons } : line);
}

main();
