#!/usr/bin/env bats
# Where things are, and what may use what.

load static

@test "the top level is what the design says" {
	files | cut -d / -f 1 | sort -u >"$BATS_TEST_TMPDIR/top"
	grep -vxE '\.[a-z-]+|core|drivers|fs|tests|contrib|docs|meson\.build|meson_options\.txt|README\.md|LICENSE' \
		"$BATS_TEST_TMPDIR/top" | nothing
	for name in core drivers fs tests contrib docs .ci README.md; do
		grep -qxF "$name" "$BATS_TEST_TMPDIR/top"
	done
}

@test "core includes neither drivers nor fs" {
	cd "$ROOT"
	grep -rnE '#include "(drivers|fs)/' core | nothing
}

@test "drivers do not include fs" {
	cd "$ROOT"
	grep -rn '#include "fs/' drivers | nothing
}

@test "text is read and written as JSON in one place, which survives a lack of memory" {
	cd "$ROOT"
	grep -rnE 'json_(load|dump)[a-z_]*\(' core drivers fs --include='*.c' | grep -v '^core/json_text\.c:' | nothing
}

@test "the parts that are linked statically use libc alone" {
	cd "$ROOT"
	grep -nE '#include <(uv|jansson|sqlite3|git2|openssl|fuse)' drivers/shim/{launcher,launcher_run,launcher_shims,reaper,runner,workload}.c \
		drivers/shim/shim*.[ch] drivers/shim/log_{format,ring,writer}*.[ch] | nothing
}

@test "every header is guarded by its own name" {
	cd "$ROOT"
	for header in $(files '*.h'); do
		guard=CLOOP_$(tr 'a-z/.-' 'A-Z___' <<<"$header")
		grep -q "^#ifndef $guard$" "$header" || echo "$header: wants $guard"
	done | nothing
}

@test "no file is longer than 800 lines" {
	cd "$ROOT"
	files '*.[ch]' '*.sh' '*.bash' '*.bats' '*.py' '*.md' '*.build' | grep -v '^docs/tree.md$' |
		xargs wc -l | awk '$2 != "total" && $1 > 800' | nothing
}

@test "nothing is left for later" {
	cd "$ROOT"
	files '*.[ch]' '*.sh' '*.bash' '*.bats' '*.py' '*.md' '*.build' | grep -v '^tests/static/' |
		xargs grep -nwE 'TODO|FIXME|XXX|HACK' | nothing
}

@test "lines end without white space, files with a newline" {
	cd "$ROOT"
	files | grep -vE '^(LICENSE|tests/conformance/|tests/fuzz/)' >"$BATS_TEST_TMPDIR/files"
	xargs grep -nIE '[[:blank:]]+$' <"$BATS_TEST_TMPDIR/files" | nothing
	while read -r file; do
		grep -Iq . "$file" || continue
		[ -z "$(tail -c 1 "$file")" ] || echo "$file: no newline at its end"
	done <"$BATS_TEST_TMPDIR/files" | nothing
}

@test "a node kind of the tree keeps its number" {
	cd "$ROOT"
	# The numbers are in the database's journal and in node ids that the kernel holds.
	sed -n '/^enum node_kind {/,/^};/p' fs/node.h | grep -oE 'NODE_[A-Z_]+' | grep -v '^NODE_KINDS$' |
		head -n "$(wc -l <tests/static/node_kinds)" | diff tests/static/node_kinds -
}
