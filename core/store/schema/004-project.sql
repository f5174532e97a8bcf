CREATE TABLE project (
	serial INTEGER PRIMARY KEY AUTOINCREMENT,
	name TEXT NOT NULL UNIQUE,
	path TEXT NOT NULL,
	binding TEXT NOT NULL,
	requirements TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	changed_at INTEGER NOT NULL
) STRICT;
-- A binding is one of a path: two projects on the same one would contradict each other.
CREATE UNIQUE INDEX project_path ON project (path) WHERE path <> '';

-- The project that a session was started in; 0: none.
ALTER TABLE session ADD COLUMN project_serial INTEGER NOT NULL DEFAULT 0;
CREATE INDEX session_project ON session (project_serial, serial, name) WHERE project_serial <> 0;
