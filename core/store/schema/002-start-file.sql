-- The file that a session was asked for through, as the number that the tree gives it; 0: not noted.
ALTER TABLE session ADD COLUMN start_file INTEGER NOT NULL DEFAULT 0;
