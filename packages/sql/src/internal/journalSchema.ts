import * as SqlClient from "@effect/sql/SqlClient"
import { runKinds } from "@switchyard/core/Journal"
import * as Effect from "effect/Effect"

/** What the fence says, so that its failure is told from others. */
export const fenceMessage = "switchyard: the append does not follow the last entry"

/** Where the versions of the schema are recorded. */
export const migrationsTable = "switchyard_migrations"

const columns = [
  "session",
  "seq",
  "activation",
  "generation",
  "kind",
  "run",
  "\"into\"",
  "mode",
  "authority",
  "at",
  "payload"
]

// The unique index finds `accepted` rows; leaving them out of the other one saves a page write per message.
const otherRunKinds = runKinds.filter((kind) => kind !== "accepted").map((kind) => `'${kind}'`).join(", ")

const openedId = "json_extract(NEW.payload, '$.sessionId')"

// These agree with `summarise` of the port.
const waitingChange = `CASE
        WHEN NEW.kind = 'accepted' AND NEW.mode IS NOT 'command' THEN 1
        WHEN NEW.kind IN ('consumed', 'cancelled') THEN -1
        ELSE 0
      END`

const initial = [
  // A table with row ids: without, each index entry carries the session key, and it measured a fifth slower.
  `CREATE TABLE journal (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    activation TEXT NOT NULL,
    generation INTEGER NOT NULL,
    kind TEXT NOT NULL,
    run TEXT,
    "into" TEXT,
    mode TEXT,
    authority TEXT,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (session, seq)
  )`,
  `CREATE UNIQUE INDEX journal_accepted ON journal (run) WHERE kind = 'accepted'`,
  `CREATE INDEX journal_run ON journal (run) WHERE kind IN (${otherRunKinds})`,
  `CREATE TABLE sessions (
    session TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    active_run TEXT
  ) WITHOUT ROWID`,
  `CREATE INDEX sessions_open ON sessions (session) WHERE waiting > 0 OR active_run IS NOT NULL`,
  `CREATE TABLE session_ids (
    session_id TEXT NOT NULL PRIMARY KEY,
    session TEXT NOT NULL
  ) WITHOUT ROWID`,
  `CREATE TRIGGER journal_fence BEFORE INSERT ON journal
  WHEN NEW.seq <> coalesce((SELECT last FROM sessions WHERE session = NEW.session), 0) + 1
  BEGIN
    SELECT RAISE(ABORT, '${fenceMessage}');
  END`,
  `CREATE TRIGGER journal_summary AFTER INSERT ON journal
  BEGIN
    INSERT INTO sessions (session, session_id, created_at, updated_at, last, waiting, active_run)
    VALUES (
      NEW.session,
      CASE WHEN NEW.kind = 'opened' THEN ${openedId} ELSE '' END,
      NEW.at,
      NEW.at,
      NEW.seq,
      ${waitingChange},
      CASE WHEN NEW.kind = 'started' THEN NEW.run END
    )
    ON CONFLICT (session) DO UPDATE SET
      session_id = CASE WHEN NEW.kind = 'opened' THEN excluded.session_id ELSE session_id END,
      updated_at = NEW.at,
      last = NEW.seq,
      waiting = waiting + excluded.waiting,
      active_run = CASE
        WHEN NEW.kind = 'started' THEN NEW.run
        WHEN NEW.kind = 'settled' AND NEW.run IS active_run THEN NULL
        ELSE active_run
      END;
  END`,
  `CREATE TRIGGER journal_opened AFTER INSERT ON journal WHEN NEW.kind = 'opened'
  BEGIN
    INSERT INTO session_ids (session_id, session) VALUES (${openedId}, NEW.session)
    ON CONFLICT (session_id) DO UPDATE SET session = excluded.session;
  END`
]

const migration = (statements: ReadonlyArray<string>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })
  )

/** Each step of the schema. A step that was released is never changed: add the next one. */
export const migrations: Record<string, Effect.Effect<void, unknown, SqlClient.SqlClient>> = {
  "1_journal": migration(initial)
}

/** The version that this program reads and writes. */
export const version = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))

/** Rows as a JSON array of arrays in the order of the columns: one text for any number of rows, prepared once. */
export const insertRows = `INSERT INTO journal (${columns.join(", ")})
SELECT ${columns.map((_, index) => `value ->> ${index}`).join(", ")} FROM jsonb_each(?)`

export const readRows = `SELECT ${columns.join(", ")} FROM journal WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?`

export const runRows = `SELECT ${columns.join(", ")} FROM journal WHERE run = ? AND kind = 'accepted'
UNION ALL
SELECT ${columns.join(", ")} FROM journal WHERE run = ? AND kind IN (${otherRunKinds})
ORDER BY session, seq`

export const takenRuns = `SELECT run FROM journal WHERE kind = 'accepted' AND run IN (SELECT value FROM json_each(?))`

export const openSessions = `SELECT session FROM sessions WHERE waiting > 0 OR active_run IS NOT NULL`

const summaryColumns =
  `session, session_id AS sessionId, created_at AS createdAt, updated_at AS updatedAt, last, waiting,
  active_run AS activeRun`

export const sessionPage = `SELECT ${summaryColumns} FROM sessions WHERE session > ? ORDER BY session LIMIT ?`

export const oneSession = `SELECT ${summaryColumns} FROM sessions WHERE session = ?`

export const sessionOfId = `SELECT session FROM session_ids WHERE session_id = ?`
