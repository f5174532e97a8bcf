#!/usr/bin/env bats
# The written word: spelling, manual pages, and documents that are made from the tables of the tree.

load static

@test "codespell finds nothing" {
	cd "$ROOT"
	files | grep -vE '^(LICENSE|tests/conformance/|tests/fuzz/)' |
		xargs codespell --ignore-words tests/static/spelling
}

@test "mandoc is content with the manual pages" {
	cd "$ROOT"
	# The pages name each other, and mandoc looks for them where pages are installed.
	files 'docs/*.[1-9]' >"$BATS_TEST_TMPDIR/pages"
	grep -q . "$BATS_TEST_TMPDIR/pages"
	while read -r page; do
		mandoc -T lint -W style "$page"
	done <"$BATS_TEST_TMPDIR/pages" | grep -v 'STYLE: referenced manual not found: Xr cloop' | nothing
}

@test "every manual page that is named exists" {
	cd "$ROOT"
	grep -hoE '^\.Xr cloop[a-z-]* [0-9]' docs/*.[1-9] | sort -u | while read -r _ name section; do
		[ -f "docs/$name.$section" ] || echo "docs/$name.$section is missing"
	done | nothing
}

@test "docs/tree.md is what the tables say" {
	"$BUILD/fs/cloop-docs" markdown | diff "$ROOT/docs/tree.md" -
}

@test "docs/cloop.7 is what the tables say" {
	"$BUILD/fs/cloop-docs" manual | diff "$ROOT/docs/cloop.7" -
}

@test "links in the documents lead somewhere" {
	cd "$ROOT"
	files '*.md' | while read -r file; do
		grep -oE '\]\([^)#]+' "$file" | cut -c 3- | grep -v '^https\?:' | while read -r link; do
			[ -e "$(dirname "$file")/$link" ] || echo "$file: $link is not there"
		done
	done | nothing
}

@test "files that the documents name exist" {
	cd "$ROOT"
	grep -noE '`(core|drivers|fs|tests|contrib|docs)/[A-Za-z0-9_./-]+`' README.md docs/*.md | grep -v '^docs/tree.md' |
		while IFS=: read -r file line name; do
			name=${name//\`/}
			[ -e "$name" ] || echo "$file:$line: $name is not there"
		done | nothing
}

@test "the manual shows commands as they are typed" {
	mandoc -T utf8 -O width=200 "$ROOT/docs/cloop.7" | col -b >"$BATS_TEST_TMPDIR/page"
	"$BUILD/fs/cloop-docs" readme | grep -A 1 '^  # ' | grep -v -e '^  # ' -e '^--$' | sed 's/^ *//' \
		>"$BATS_TEST_TMPDIR/commands"
	grep -q . "$BATS_TEST_TMPDIR/commands"
	while read -r command; do
		grep -qF -- "$command" "$BATS_TEST_TMPDIR/page" || echo "$command"
	done <"$BATS_TEST_TMPDIR/commands" | nothing
}

@test "the tests that docs/reliability.md names exist" {
	cd "$ROOT"
	grep -oE '`tests/[^`]+` "[^"]+"' docs/reliability.md >"$BATS_TEST_TMPDIR/named"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/named")" -ge 30 ]
	while IFS='`' read -r _ file name; do
		name=${name# \"}
		grep -qF -- "${name%\"}" "$file" || echo "$file: $name"
	done <"$BATS_TEST_TMPDIR/named" | nothing
}
