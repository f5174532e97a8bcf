#include "fs/docs.h"

#include <string.h>

#include "core/owner.h"
#include "fs/node.h"
#include "fs/tables.h"

/* The directories in the order in which one reads about them. */
static const struct node_dir *const order[] = {
	&root_dir, &executors_dir, &executor_dir, &sessions_dir, &session_dir,
	&attempts_dir, &attempt_dir, &projects_dir, &project_dir, &check_dir, &policy_dir, &live_dir,
};

static const char intro[] =
	"cloop is administered with cat, echo, mkdir, rmdir and tail. Writing a spec starts a workload,\n"
	"writing a word changes state, reading a file shows what is. A command that is refused fails;\n"
	"`cat error` in the root says why, in one sentence.\n";

static const struct {
	const char *command, *what;
} examples[] = {
	{"echo '{\"argv\":[\"/bin/date\"]}' > executors/local/start", "start a workload on this host"},
	{"exec 3<>executors/local/start; echo \"$spec\" >&3; cat <&3", "start one and get its id"},
	{"echo '{\"spec\":{\"argv\":[\"/bin/date\"]},\"requirements\":{\"labels\":{\"zone\":\"a\"}}}' > start",
	 "start one where it fits best"},
	{"cat sessions/ID/follow", "watch what it prints until it ends"},
	{"cat sessions/ID/wait", "wait for its end, and its exit code"},
	{"echo terminate > sessions/ID/signal", "stop it"},
	{"rmdir sessions/ID", "forget it and its log"},
	{"echo cordon maintenance > executors/local/state", "take no new work"},
	{"timeout 600 cat executors/local/drained", "wait until nothing runs"},
};

static const char *type_word(const struct node_file *file)
{
	static const char *const words[] = {
		[FILE_TEXT] = "text",
		[FILE_CONTROL] = "control",
		[FILE_TRANSACTION] = "transaction",
		[FILE_DOCUMENT] = "document",
		[FILE_LOG] = "log",
		[FILE_STREAM] = "stream",
		[FILE_WAIT] = "wait",
		[FILE_LINK] = "link",
		[FILE_DIR] = "directory",
	};

	return words[file->type];
}

static const char *owner_words(enum node_owner owner)
{
	static const char *const words[] = {
		[OWNER_ROOT] = "root:root",
		[OWNER_CLOOP] = "root:cloop",
		[OWNER_ADMIN] = "root:cloop-admin",
		[OWNER_SESSION] = "user:cloop-admin",
	};

	return words[owner];
}

/* Words of a sentence, wrapped and indented. */
static void wrap(struct buf *out, const char *indent, const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column > 0 && column + 1 + n > 96) {
			buf_puts(out, "\n");
			column = 0;
		}
		if (column == 0) {
			buf_puts(out, indent);
			column = strlen(indent);
		} else {
			buf_puts(out, " ");
			column++;
		}
		buf_append(out, text, n);
		column += n;
		text += n;
		text += strspn(text, " ");
	}
	buf_puts(out, "\n");
}

void docs_readme(struct buf *out)
{
	buf_puts(out, intro);
	buf_puts(out, "\n");
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++)
		buf_printf(out, "  # %s\n  %s\n", examples[i].what, examples[i].command);
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		const struct node_dir *dir = order[i];

		buf_printf(out, "\n%s\n", dir->path);
		wrap(out, "  ", dir->doc);
		for (size_t k = 0; k < dir->n_files; k++) {
			buf_printf(out, "  %s  (%s)\n", dir->files[k].name, type_word(&dir->files[k]));
			wrap(out, "      ", dir->files[k].doc);
		}
	}
}

/* --- Markdown ------------------------------------------------------------------------------- */

/* In a table cell a bar would end the cell. */
static void cell(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			buf_puts(out, "\\");
		buf_append(out, text, 1);
	}
}

static void markdown_dir(struct buf *out, const struct node_dir *dir)
{
	buf_printf(out, "\n## `%s`\n\n%s\n\nMode %04o, %s.\n", dir->path, dir->doc, dir->mode,
		   owner_words(dir->owner));
	if (dir->n_files == 0)
		return;
	buf_puts(out, "\n| name | kind | mode | owner | what it is |\n| --- | --- | --- | --- | --- |\n");
	for (size_t i = 0; i < dir->n_files; i++) {
		const struct node_file *f = &dir->files[i];

		buf_printf(out, "| `%s` | %s | ", f->name, type_word(f));
		if (f->type == FILE_DIR || f->type == FILE_LINK)
			buf_puts(out, "| ");
		else
			buf_printf(out, "%04o | ", f->mode);
		buf_printf(out, "%s | ", f->type == FILE_DIR ? owner_words(node_dir(f->child)->owner)
							     : owner_words(f->owner));
		cell(out, f->doc);
		buf_puts(out, " |\n");
	}
}

void docs_markdown(struct buf *out)
{
	buf_puts(out, "# The tree\n\n<!-- Written by cloop-docs out of the tables of fs/. -->\n\n");
	buf_puts(out, intro);
	buf_puts(out,
		 "\nKinds of file: *text* reads as one value or one JSON object, rendered when it is opened;\n"
		 "*control* reads as its value and takes one command a write; *transaction* takes a JSON\n"
		 "document and then reads, on the same descriptor, as the answer; *document* reads as the last\n"
		 "accepted document and takes a new one; *log* is a growing file; *stream* blocks for more and\n"
		 "*wait* until its condition holds (both are links into `/.live`, so that recursive tools pass\n"
		 "by).\n");
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		markdown_dir(out, order[i]);
}

/* --- mdoc ----------------------------------------------------------------------------------- */

/* Longer lines of input are frowned upon. */
#define MDOC_LINE_MAX 78

/*
 * Characters of a manual: a backslash is an escape, a quote would join the words of a macro's line.
 * *open: a word in backquotes has begun and not ended.
 */
static void mdoc_escape(struct buf *out, const char *text, size_t n, bool *open)
{
	for (size_t i = 0; i < n; i++)
		switch (text[i]) {
		case '\\':
			buf_puts(out, "\\e");
			break;
		case '-':
			buf_puts(out, "\\-");
			break;
		case '"':
			buf_puts(out, "\\(dq");
			break;
		case '\'':
			buf_puts(out, "\\(aq");
			break;
		case '`':
			*open = !*open;
			buf_puts(out, *open ? "\\(oq" : "\\(cq");
			break;
		default:
			buf_append(out, &text[i], 1);
		}
}

/* Sentences, each of which begins a line. */
static void mdoc_text(struct buf *out, const char *text)
{
	size_t column = 0;
	bool open = false;

	while (*text) {
		AUTO_BUF struct buf word = BUF_INIT(4096);
		size_t n = strcspn(text, " ");
		bool ends = n > 0 && text[n - 1] == '.';

		/* At the beginning of a line a dot would be a macro. */
		if (*text == '.')
			buf_puts(&word, "\\&");
		mdoc_escape(&word, text, n, &open);
		if (word.failed) {
			out->failed = word.failed;
			return;
		}
		if (column > 0)
			buf_puts(out, column + 1 + word.len > MDOC_LINE_MAX ? "\n" : " ");
		column = column > 0 && column + 1 + word.len <= MDOC_LINE_MAX ? column + 1 + word.len
									     : word.len;
		buf_append(out, word.data, word.len);
		text += n;
		text += strspn(text, " ");
		if (ends && *text) {
			buf_puts(out, "\n");
			column = 0;
		}
	}
	buf_puts(out, "\n");
}

/* A line that is typed. */
static void mdoc_command(struct buf *out, const char *text)
{
	bool open = false;

	buf_puts(out, ".Dl ");
	mdoc_escape(out, text, strlen(text), &open);
	buf_puts(out, "\n");
}

void docs_manual(struct buf *out)
{
	buf_puts(out, ".\\\" Written by cloop-docs out of the tables of fs/.\n"
		      ".Dd November 29, 2026\n.Dt CLOOP 7\n.Os\n.Sh NAME\n.Nm cloop\n"
		      ".Nd the tree of a control plane\n.Sh DESCRIPTION\n");
	for (const char *p = intro; *p;) {
		AUTO_BUF struct buf line = BUF_INIT(4096);
		size_t n = strcspn(p, "\n");

		buf_append(&line, p, n);
		mdoc_text(out, line.data);
		p += n + 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		const struct node_dir *dir = order[i];

		buf_printf(out, ".Ss %s\n", dir->path);
		mdoc_text(out, dir->doc);
		if (dir->n_files == 0)
			continue;
		buf_puts(out, ".Bl -tag -width Ds\n");
		for (size_t k = 0; k < dir->n_files; k++) {
			buf_printf(out, ".It Pa %s%s Pq %s\n", dir->files[k].name[0] == '.' ? "\\&" : "",
				   dir->files[k].name, type_word(&dir->files[k]));
			mdoc_text(out, dir->files[k].doc);
		}
		buf_puts(out, ".El\n");
	}
	buf_puts(out, ".Sh EXAMPLES\n");
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		if (i > 0)
			buf_puts(out, ".Pp\n");
		mdoc_text(out, examples[i].what);
		mdoc_command(out, examples[i].command);
	}
	buf_puts(out, ".Sh SEE ALSO\n.Xr cloopd 8\n");
}
