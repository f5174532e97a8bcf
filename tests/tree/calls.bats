# Every call on every kind of file and directory, by root, who owns it, and who does not: each has one
# errno (calls.table), and none changes anything. The files come from the daemon's own tables: one that
# is added is called here by itself, and fails when it is unlike those of its kind.

load common

CLOOP_DOCS=${CLOOP_DOCS:?the program that prints the tables}

# No probe changes anything while a test looks.
hub_prepare() {
	echo '{"supervisor":{"interval":"1d","backoff_base":"1d","backoff_max":"1d"}}' > "$D/home/etc/hub.json"
}

# Everything is in use, so that nothing can be removed.
setup_file() {
	need_root
	hub_begin
	eventually test -s "$M/executors/local/probe"
	mkdir "$M/projects/app"
	echo local > "$M/projects/app/binding"
	WHO=alice put "$M/projects/app/start" \
		"$(jq -c '.labels = {"cloop.session": "runs"}' <<< "$(spec /bin/sleep 1000)")"
	eventually is_state runs running
	mkdir -m 777 "$D/outside"
	# Nothing takes this, wherever it is copied to.
	printf '}\1\n' > "$D/outside/file"
	chmod 666 "$D/outside/file"
}

# Lines of "KIND PATH": a file of every row, links that lead to blocking files with where they lead, and
# every directory.
paths() {
	local dir name kind path

	printf 'mount %s\n' "$M"
	"$CLOOP_DOCS" markdown | awk -F ' *[|] *' '
		/^## `/ { gsub(/[`# ]/, ""); dir = $0; print dir, ".", "directory" }
		/^\| `/ { gsub(/`/, "", $2); print dir, $2, $3 }' |
		sed 's,^\(/.live\)\?/executors/<id>,\1/executors/local,; s,<id>,runs,; s,<name>,app,; s,<n>,1,' |
		while read -r dir name kind; do
			path=$M${dir%/}/$name
			path=${path%/.}
			case $kind in
			directory)
				case ${path#"$M"} in
				'') continue ;;
				/executors | /projects | /sessions) kind=collection ;;
				/executors/local | /projects/app | /sessions/runs) kind=object ;;
				esac
				printf '%s %s\n' "$kind" "$path"
				;;
			stream | wait) printf 'link %s\n%s %s\n' "$path" "$kind" "$(realpath "$path")" ;;
			*) printf '%s %s\n' "$kind" "$path" ;;
			esac
		done | sort -u
}

picture() {
	# A transaction is as long as the caller's latest refusal.
	find "$M" \( -perm 660 -printf '%p' -o -printf '%p %s' \) -printf ' %i %m %U %G %n %t %l\n' |
		grep -v '/error\|/status\|/metrics'
	cat "$M/executors/local/config" "$M/executors/local/state" "$M/projects/app/"{path,binding,requirements} \
		"$M/default_id" "$M/policy/host_execution" "$M/sessions/runs/state" "$M/events"
	ls -l "$D/outside"
	cat "$D/outside/file"
}

@test "each call has one answer on each kind of file, and changes nothing" {
	local who

	paths > "$D/paths"
	(($(wc -l < "$D/paths") > 70))
	picture > "$BATS_TEST_TMPDIR/before"
	for who in '' alice carol mallory; do
		WHO=$who me timeout -k 5 "$PATIENCE_S" "$HERE/calls" "$D/outside/file" "$M" < "$D/paths" \
			>> "$BATS_TEST_TMPDIR/lines"
	done
	"$HERE/calls" --table < "$BATS_TEST_TMPDIR/lines" | column -t > "$BATS_TEST_TMPDIR/table"
	run ! grep -q " $M/" /proc/self/mountinfo
	diff "$BATS_TEST_TMPDIR/before" <(picture)
	diff "$HERE/calls.table" "$BATS_TEST_TMPDIR/table"
}

@test "the hub stops and leaves nothing" {
	hub_end
}
