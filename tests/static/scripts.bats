#!/usr/bin/env bats
# The scripts of the project.

load static

# Files that a shell executes or sources: by name, or by their first line.
shell_files() {
	files '*.sh' '*.bash'
	files .ci contrib tests | grep -vE '\.(sh|bash|bats|c|h|py)$' | while read -r file; do
		head -n 1 "$ROOT/$file" | grep -qE '^#!.*\b(ba)?sh\b' && printf '%s\n' "$file"
	done
}

@test "shellcheck is content with every script" {
	cd "$ROOT"
	shell_files | sort -u >"$BATS_TEST_TMPDIR/files"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/files")" -ge 5 ]
	# What bats files load is bash without a first line that says so, and sets what they use.
	xargs shellcheck --shell=bash --exclude=SC2034 <"$BATS_TEST_TMPDIR/files"
}

@test "shellcheck is content with every bats file" {
	cd "$ROOT"
	# A test is a function that runs in a subshell: its variables are its own (SC2030, SC2031), a command
	# that fails ends it (SC2164), and a negated last one is its verdict (SC2314, SC2315). What is loaded
	# is looked at by itself (SC1091), and says what its variables are (SC2154, SC2034). That ls and cat
	# work is what is tested (SC2002, SC2010, SC2011, SC2012).
	files '*.bats' | xargs shellcheck --shell=bats \
		--exclude=SC2030,SC2031,SC2164,SC2314,SC2315,SC1091,SC2154,SC2034,SC2002,SC2010,SC2011,SC2012
}

# The shell goes on after a negated command, whatever becomes of it: only as the last one it decides.
@test "a negated command in a test can fail it" {
	cd "$ROOT"
	files '*.bats' | xargs awk '
		FNR > 1 && negated ~ /^[ \t]+! / && negated !~ /\|\||&& *$|\\$/ && $0 !~ /^[ \t]*}/ {
			print FILENAME ":" FNR - 1 ":" negated ": say run !"
			n++
		}
		{ negated = $0 }
		END { exit n > 0 }'
}

@test "python finds no mistake in the python files" {
	cd "$ROOT"
	export PYTHONPYCACHEPREFIX=$BATS_TEST_TMPDIR
	files '*.py' | xargs -r python3 -W error -m py_compile
}

@test "what is executable says what executes it" {
	cd "$ROOT"
	git -c safe.directory="$ROOT" ls-files -s | awk '$1 == "100755" { print $4 }' | while read -r file; do
		head -c 2 "$file" | grep -q '#!' || echo "$file: no interpreter"
	done | nothing
}

@test "a script that is given nonsense says how it is used" {
	for script in test uninstall; do
		run "$ROOT/contrib/$script.sh" --nonsense
		echo "$output"
		[ "$status" -ne 0 ]
		[[ $output == *usage:* ]]
	done
}
