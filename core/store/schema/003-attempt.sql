-- A session's dispatches, from 1: each row is what the session's own row said of that one last.
CREATE TABLE attempt (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	session INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	executor TEXT NOT NULL,
	executor_serial INTEGER NOT NULL,
	state TEXT NOT NULL
		CHECK (state IN ('pending', 'running', 'exited', 'failed', 'killed', 'unknown')),
	cause TEXT NOT NULL CHECK (cause IN ('', 'exit', 'signal', 'timeout', 'oom', 'start', 'lost')),
	exit_code INTEGER NOT NULL,
	signal INTEGER NOT NULL,
	pid INTEGER NOT NULL,
	handle_id TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	started_at INTEGER NOT NULL,
	finished_at INTEGER NOT NULL,
	deadline INTEGER NOT NULL,
	log_bytes INTEGER NOT NULL,
	log_dropped_bytes INTEGER NOT NULL,
	-- When its executor was given up under it; 0: never.
	moved_at INTEGER NOT NULL,
	-- An operator let the session go on: this one counts neither for the cap nor for quarantine.
	forgiven INTEGER NOT NULL,
	error TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX attempt_session ON attempt (session, attempt);
-- What may still run although its session has been moved.
CREATE INDEX attempt_open ON attempt (session, attempt) WHERE moved_at <> 0 AND finished_at = 0;

INSERT INTO attempt (session, attempt, executor, executor_serial, state, cause, exit_code, signal,
	pid, handle_id, created_at, started_at, finished_at, deadline, log_bytes, log_dropped_bytes,
	moved_at, forgiven, error)
SELECT serial, attempt, executor, executor_serial, state, cause, exit_code, signal,
	pid, handle_id, created_at, started_at, finished_at, deadline, log_bytes, log_dropped_bytes,
	0, 0, error
FROM session;
