-- What a session runs, as its driver resolved it: an image with its digest. Empty where there is none.
ALTER TABLE session ADD COLUMN image TEXT NOT NULL DEFAULT '';
