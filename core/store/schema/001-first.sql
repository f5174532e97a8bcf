CREATE TABLE meta (
	key TEXT PRIMARY KEY,
	value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- Times are nanoseconds since 1970, 0 is unset; texts are never NULL, '' is unset.
CREATE TABLE session (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	name TEXT NOT NULL UNIQUE,
	executor TEXT NOT NULL,
	executor_serial INTEGER NOT NULL,
	uid INTEGER NOT NULL,
	gid INTEGER NOT NULL,
	state TEXT NOT NULL
		CHECK (state IN ('pending', 'running', 'exited', 'failed', 'killed', 'unknown')),
	cause TEXT NOT NULL CHECK (cause IN ('', 'exit', 'signal', 'timeout', 'oom', 'start', 'lost')),
	exit_code INTEGER NOT NULL,
	signal INTEGER NOT NULL,
	pid INTEGER NOT NULL,
	boot_id TEXT NOT NULL,
	handle_id TEXT NOT NULL,
	claim_token TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	started_at INTEGER NOT NULL,
	finished_at INTEGER NOT NULL,
	deadline INTEGER NOT NULL,
	log_bytes INTEGER NOT NULL,
	log_dropped_bytes INTEGER NOT NULL,
	log_quota_bytes INTEGER NOT NULL,
	origin_mount INTEGER NOT NULL,
	origin_unique INTEGER NOT NULL,
	project_path TEXT NOT NULL,
	task_id INTEGER NOT NULL,
	error TEXT NOT NULL,
	requirements TEXT NOT NULL,
	spec TEXT NOT NULL,
	groups TEXT NOT NULL
) STRICT;
-- The list of names is read from here, without touching the rows with their specs.
CREATE UNIQUE INDEX session_list ON session (serial, name);
-- One request asks for one session.
CREATE UNIQUE INDEX session_origin ON session (origin_mount, origin_unique) WHERE origin_unique <> 0;
-- A start of the hub looks at these rows, not at a million finished ones. (The condition is looked
-- at again for each row, so its column is there, too.)
CREATE INDEX session_live ON session (executor_serial, serial, state)
	WHERE state IN ('pending', 'running');
CREATE INDEX session_finished ON session (finished_at, serial, name, state)
	WHERE state IN ('exited', 'failed', 'killed');

-- Sessions that are forgotten while their folders are still to be removed.
CREATE TABLE session_doomed (
	serial INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE executor (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	name TEXT NOT NULL UNIQUE,
	kind TEXT NOT NULL,
	config TEXT NOT NULL,
	config_error TEXT NOT NULL,
	source TEXT NOT NULL CHECK (source IN ('mkdir', 'file', 'builtin')),
	health_state TEXT NOT NULL CHECK (
		health_state IN ('', 'ready', 'degraded', 'unreachable', 'cordoned', 'draining')),
	health_reason TEXT NOT NULL,
	consecutive_failures INTEGER NOT NULL,
	last_seen INTEGER NOT NULL,
	last_probe INTEGER NOT NULL,
	state_changed_at INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	changed_at INTEGER NOT NULL
) STRICT;
-- Built-in executors that were created once; one that was removed stays removed.
CREATE TABLE executor_seeded (
	name TEXT PRIMARY KEY,
	seeded_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE handle (
	handle_id TEXT PRIMARY KEY,
	executor_id TEXT NOT NULL,
	driver TEXT NOT NULL,
	external_id TEXT NOT NULL,
	project_path TEXT NOT NULL,
	task_id INTEGER NOT NULL,
	pid INTEGER NOT NULL,
	image TEXT NOT NULL,
	started_at INTEGER NOT NULL,
	deadline INTEGER NOT NULL,
	meta TEXT NOT NULL,
	secrets TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX handle_executor ON handle (executor_id, started_at, handle_id);
CREATE INDEX handle_started ON handle (started_at, handle_id);

-- Line number seq is at byte off of a file that began with line 1 and was cut at the front.
CREATE TABLE event (
	seq INTEGER PRIMARY KEY AUTOINCREMENT,
	off INTEGER NOT NULL,
	line TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_offset ON event (off);

CREATE TABLE journal (
	mount_id INTEGER NOT NULL,
	request INTEGER NOT NULL,
	op INTEGER NOT NULL,
	node INTEGER NOT NULL,
	errno INTEGER NOT NULL,
	answer TEXT NOT NULL,
	PRIMARY KEY (mount_id, request)
) STRICT, WITHOUT ROWID;
