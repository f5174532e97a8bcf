/*
 * What the database must be before it is used: ours, of a known version, sound, and with exactly
 * the tables that this build expects.
 */
#include "core/store/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"

/* One row a migration. Made by the engine, so that the first migration is recorded like any. */
static const char migration_table[] =
	"CREATE TABLE migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL, "
	"build TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT";

/* A failure while looking at the file: what was EIO for a running store is a damaged file here. */
static int look_fault(struct store *s, int r, struct error *err)
{
	if (!atomic_load(&s->suspect))
		return r;
	r = error_set(err, EUCLEAN, "the database %s is damaged: %s", s->path,
		      sqlite3_errmsg(s->writer.db));
	error_remedy(err, "it was left alone; put a backup in its place");
	return r;
}

static int look_int(struct store *s, const char *sql, int64_t *ret, struct error *err)
{
	int r = store_get_int(&s->writer, sql, "be read", ret, err);

	return r < 0 ? look_fault(s, r, err) : 0;
}

int store_identify(struct store *s, struct error *err)
{
	int64_t application = 0, version = 0, objects = 0;
	int r = look_int(s, "PRAGMA application_id", &application, err);

	if (r == 0)
		r = look_int(s, "PRAGMA user_version", &version, err);
	if (r == 0)
		r = look_int(s, "SELECT count(*) FROM sqlite_schema", &objects, err);
	if (r < 0)
		return r;
	bool empty = application == 0 && version == 0 && objects == 0;
	if (!empty && application != STORE_APPLICATION_ID) {
		r = error_set(err, EINVAL, "the database %s belongs to another program", s->path);
		error_remedy(err, "it was left alone; choose another state directory");
		return r;
	}
	if (version < 0 || version > (int64_t)s->schema->n) {
		r = error_set(err, EOPNOTSUPP,
			      "the database %s has schema version %" PRId64
			      ", but this build (%s) knows versions up to %zu",
			      s->path, version, CLOOP_VERSION, s->schema->n);
		error_remedy(err, "it was left alone; run the newer cloopd, or restore a backup");
		return r;
	}
	return 0;
}

int store_check(struct store *s, struct error *err)
{
	AUTO_STMT sqlite3_stmt *stmt = NULL;
	int r = 0;
	int rc = sqlite3_prepare_v2(s->writer.db, "PRAGMA quick_check(1)", -1, &stmt, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	const char *verdict = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
	if (rc != SQLITE_ROW) {
		r = look_fault(s, store_fault(&s->writer, rc, "be checked", err), err);
	} else if (!verdict || strstr(verdict, "error code=7")) {
		/* A page for which there was no memory (SQLITE_NOMEM) is not damaged. */
		r = error_oom(err);
	} else if (strcmp(verdict, "ok") != 0) {
		store_files_mark_suspect(s);
		r = error_set(err, EUCLEAN, "the database %s is damaged: %s", s->path, verdict);
		error_remedy(err, "it was left alone; put a backup in its place");
	}
	return r;
}

static int record_migration(struct store_tx *tx, const struct store_migration *m, const char *doing,
			    struct error *err)
{
	AUTO_STMT sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(tx->db, "INSERT INTO migration VALUES (?, ?, ?, ?)", -1, &stmt,
				    NULL);

	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_int(stmt, 1, m->version);
		(void)sqlite3_bind_text(stmt, 2, m->name, -1, SQLITE_STATIC);
		(void)sqlite3_bind_text(stmt, 3, CLOOP_VERSION, -1, SQLITE_STATIC);
		(void)sqlite3_bind_int64(stmt, 4, clock_now_ns());
		rc = sqlite3_step(stmt);
	}
	return rc == SQLITE_DONE ? 0 : store_fault(tx, rc, doing, err);
}

static int apply_migration(struct store_tx *tx, const struct store_migration *m, struct error *err)
{
	char doing[96], version[64];

	(void)snprintf(doing, sizeof(doing), "be migrated to schema version %d (%s)", m->version,
		       m->name);
	(void)snprintf(version, sizeof(version), "PRAGMA user_version = %d", m->version);
	int r = store_exec(tx, "BEGIN IMMEDIATE", doing, err);
	if (r < 0)
		return r;
	if (m->version == 1) {
		char application[64];

		(void)snprintf(application, sizeof(application), "PRAGMA application_id = %d",
			       STORE_APPLICATION_ID);
		r = store_exec(tx, application, doing, err);
		if (r == 0)
			r = store_exec(tx, migration_table, doing, err);
	}
	if (r == 0)
		r = store_exec(tx, m->sql, doing, err);
	if (r == 0)
		r = record_migration(tx, m, doing, err);
	if (r == 0)
		r = store_exec(tx, version, doing, err);
	if (r == 0)
		r = store_exec(tx, "COMMIT", doing, err);
	if (r < 0 && !sqlite3_get_autocommit(tx->db))
		(void)sqlite3_exec(tx->db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

static int migrate(struct store_tx *tx, const struct store_schema *schema, struct error *err)
{
	int64_t version;
	int r = store_get_int(tx, "PRAGMA user_version", "be read", &version, err);

	for (size_t i = r == 0 ? (size_t)version : schema->n; r == 0 && i < schema->n; i++)
		r = apply_migration(tx, &schema->migrations[i], err);
	return r;
}

int store_migrate(struct store *s, struct error *err)
{
	return migrate(&s->writer, s->schema, err);
}

/* Whether the object with this type and name is in the database with the same definition. */
static int same_object(struct store *s, sqlite3_stmt *find, const char *type, const char *name,
		       const char *sql, struct error *err)
{
	/* Text of a row that is there is missing only when there was no memory for it. */
	if (!type || !name || !sql)
		return error_oom(err);
	(void)sqlite3_bind_text(find, 1, type, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(find, 2, name, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(find, 3, sql, -1, SQLITE_STATIC);
	int rc = sqlite3_step(find), r = 0;

	if (rc == SQLITE_DONE) {
		r = error_set(err, EUCLEAN, "the database %s is damaged: the %s %s is %s", s->path,
			      type, name, "missing or not as this build made it");
		error_remedy(err, "it was left alone; put a backup in its place");
	} else if (rc != SQLITE_ROW) {
		r = store_fault(&s->writer, rc, "be read", err);
	}
	(void)sqlite3_reset(find);
	return r;
}

int store_compare_schema(struct store *s, struct error *err)
{
	CLEANUP(store_disconnect) struct store_tx model = {.store = s};
	AUTO_STMT sqlite3_stmt *want = NULL;
	AUTO_STMT sqlite3_stmt *find = NULL;
	int rc = sqlite3_open_v2(":memory:", &model.db,
				 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
					 SQLITE_OPEN_EXRESCODE,
				 NULL);

	int r = rc == SQLITE_OK ? migrate(&model, s->schema, err)
				: store_fault(&model, rc, "be compared", err);
	if (r < 0)
		return r;
	rc = sqlite3_prepare_v2(model.db,
				"SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL",
				-1, &want, NULL);
	if (rc != SQLITE_OK)
		return store_fault(&model, rc, "be compared", err);
	rc = sqlite3_prepare_v2(
		s->writer.db, "SELECT 1 FROM sqlite_schema WHERE type = ? AND name = ? AND sql = ?",
		-1, &find, NULL);
	if (rc != SQLITE_OK)
		return store_fault(&s->writer, rc, "be compared", err);
	while (r == 0 && (rc = sqlite3_step(want)) == SQLITE_ROW)
		r = same_object(s, find, (const char *)sqlite3_column_text(want, 0),
				(const char *)sqlite3_column_text(want, 1),
				(const char *)sqlite3_column_text(want, 2), err);
	return r < 0 || rc == SQLITE_DONE ? r : store_fault(&model, rc, "be compared", err);
}
