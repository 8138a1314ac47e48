"""The tables of the server's database. Statements are in the part of SQL that SQLite and PostgreSQL share."""

from __future__ import annotations

VERSION = 1
POSTGRES_TYPES = {" REAL": " DOUBLE PRECISION", " INTEGER": " BIGINT"}

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE projects (name TEXT PRIMARY KEY, dataset TEXT NOT NULL, allowance TEXT NOT NULL, "
    "created REAL NOT NULL)",
    # A token is kept as its hash alone: whoever reads the database cannot sign in with what is there.
    "CREATE TABLE people (name TEXT PRIMARY KEY, role TEXT NOT NULL, project TEXT, token TEXT NOT NULL UNIQUE, "
    "created REAL NOT NULL, revoked REAL)",
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, person TEXT NOT NULL, csrf TEXT NOT NULL, expires REAL NOT NULL)",
    "CREATE TABLE versions (release TEXT NOT NULL, number INTEGER NOT NULL, dataset TEXT NOT NULL, job TEXT, "
    "visible REAL NOT NULL, PRIMARY KEY (release, number))",
    "CREATE TABLE jobs (id TEXT PRIMARY KEY, dataset TEXT NOT NULL, project TEXT NOT NULL, person TEXT NOT NULL, "
    "release TEXT NOT NULL, asked TEXT NOT NULL, plan TEXT NOT NULL, rho TEXT NOT NULL, state TEXT NOT NULL, "
    "created REAL NOT NULL, approved REAL, visible REAL, record TEXT)",
    "CREATE TABLE approvals (job TEXT NOT NULL, person TEXT NOT NULL, decision TEXT NOT NULL, time REAL NOT NULL, "
    "PRIMARY KEY (job, person))",
    "CREATE TABLE log (sequence INTEGER PRIMARY KEY, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, "
    "body TEXT NOT NULL)",
)

LOG_TRIGGERS = {
    "sqlite": (
        "CREATE TRIGGER log_never_changes BEFORE UPDATE ON log "
        "BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
        "CREATE TRIGGER log_never_shrinks BEFORE DELETE ON log "
        "BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
        # INSERT OR REPLACE deletes without firing the delete trigger, so only the next number is accepted.
        "CREATE TRIGGER log_only_follows BEFORE INSERT ON log WHEN NEW.sequence IS NOT "
        "(SELECT coalesce(max(sequence), 0) + 1 FROM log) BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
    ),
    "postgres": (
        "CREATE FUNCTION log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the log is append-only'; END $$",
        "CREATE TRIGGER log_never_changes BEFORE UPDATE OR DELETE ON log FOR EACH ROW "
        "EXECUTE FUNCTION log_is_append_only()",
        "CREATE TRIGGER log_is_never_emptied BEFORE TRUNCATE ON log FOR EACH STATEMENT "
        "EXECUTE FUNCTION log_is_append_only()",
    ),
}
