# What the tree does not do: each call has a fixed errno on each kind of file, and changes nothing.

load common

# No probe changes anything while a test looks.
hub_prepare() {
	echo '{"supervisor":{"interval":"1d","backoff_base":"1d","backoff_max":"1d"}}' > "$D/home/etc/hub.json"
}

setup_file() {
	hub_begin
	eventually test -s "$M/executors/local/probe"
	DONE=$(start "$(spec /bin/true)")
	ended "$DONE"
	export DONE
	mkdir "$D/outside"
	touch "$D/outside/file"
}

# One of each kind: text, control, transaction, document, log, stream, wait, link; then directories.
files() {
	printf '%s\n' version status default_id executors/local/state "sessions/$DONE/signal" \
		executors/local/start executors/local/config events "sessions/$DONE/log" \
		"sessions/$DONE/stdout" ".live/sessions/$DONE/follow" ".live/sessions/$DONE/wait"
}

links() {
	printf '%s\n' default executors/local/drained "sessions/$DONE/follow" "sessions/$DONE/executor"
}

directories() {
	printf '%s\n' executors sessions .live executors/local executors/local/sessions "sessions/$DONE" \
		.live/sessions ".live/sessions/$DONE"
}

# each LIST ERRNO CALL: the call says so on everything in the list.
each() {
	local path

	for path in $("$1"); do
		equal "$(fsop "$3" "$M/$path")" "$2" || fail "$3 $path" || return
	done
}

picture() {
	find "$M" -printf '%p %i %m %U %G %s %n %t %l\n' | grep -v '/error'
}

setup() {
	[[ $BATS_TEST_DESCRIPTION == 'the hub stops'* ]] || picture > "$BATS_TEST_TMPDIR/before"
}

teardown() {
	[[ $BATS_TEST_DESCRIPTION == 'the hub stops'* ]] || diff "$BATS_TEST_TMPDIR/before" <(picture)
}

@test "unlink and rmdir of what is fixed" {
	each files EPERM unlink
	each links EPERM unlink
	each directories EISDIR unlink
	each files ENOTDIR rmdir
	each links ENOTDIR rmdir
	for path in executors sessions .live executors/local/sessions .live/sessions ".live/sessions/$DONE"; do
		equal "$(fsop rmdir "$M/$path")" EPERM || fail "$path"
	done
	equal "$(fsop rmdir "$M")" EBUSY
}

@test "rm -r does not remove an object" {
	run -1 rm -rf "$M/sessions/$DONE"
	like "$output" 'cannot remove .*Operation not permitted'
	equal "$(jq -r .remedy "$M/error.json")" "remove the object's directory with rmdir"
	run -1 rm -r "$M/executors/local"
}

@test "chmod, chown and times" {
	for call in chmod chown utime touch; do
		each files EPERM "$call"
		each directories EPERM "$call"
	done
	each links EPERM chown
	each links EPERM utime
	run -1 chmod u+x "$M/version"
	run -1 chown 1 "$M/version"
	run -1 touch "$M/default_id"
}

@test "truncate means nothing where writes are taken, and is refused elsewhere" {
	for path in $(files); do
		case $path in
		*_id | */state | */signal | */start | */config) equal "$(fsop truncate "$M/$path")" 0 || fail "$path" ;;
		*) equal "$(fsop truncate "$M/$path")" EPERM || fail "$path" ;;
		esac
	done
	each directories EISDIR truncate
	: > "$M/default_id"
	: > "$M/executors/local/config"
	: > "$M/executors/local/start"
	truncate -s 0 "$M/executors/local/state"
	equal "$(cat "$M/default_id")" local
}

@test "extended attributes and access lists" {
	for call in getxattr listxattr setxattr removexattr; do
		each files EOPNOTSUPP "$call"
		each directories EOPNOTSUPP "$call"
	done
	each links EOPNOTSUPP listxattr
}

@test "new files, links, pipes and directories" {
	for call in create mkfifo mknod mkdir; do
		for path in . sessions .live executors/local executors/local/sessions "sessions/$DONE" \
			".live/sessions/$DONE"; do
			equal "$(fsop "$call" "$M/$path/new")" EPERM || fail "$call $path"
		done
		each files EEXIST "$call"
		each directories EEXIST "$call"
	done
	for path in $(directories); do
		equal "$(fsop symlink target "$M/$path/new")" EPERM || fail "$path"
		equal "$(fsop link "$M/version" "$M/$path/new")" EPERM || fail "$path"
	done
	equal "$(fsop create "$M/executors/new") $(fsop mkfifo "$M/executors/new")" 'EPERM EPERM'
	equal "$(fsop link "$M/version" "$D/outside/link") $(fsop link "$D/outside/file" "$M/new")" 'EXDEV EXDEV'
	run -1 cp "$D/outside/file" "$M/executors/local/"
	run -1 mv "$D/outside/file" "$M/sessions/"
	run -1 mktemp -p "$M"
	run -1 touch "$M/new"
	run -1 sed -i s/a/b/ "$M/executors/local/config" || run -4 sed -i s/a/b/ "$M/executors/local/config"
}

@test "rename" {
	for path in $(files) $(links) $(directories); do
		equal "$(fsop rename "$M/$path" "$M/$path.new")" EPERM || fail "$path"
		equal "$(fsop rename "$M/$path" "$D/outside/new")" EXDEV || fail "$path"
	done
	equal "$(fsop rename "$M/executors/local" "$M/executors/other")" EPERM
	equal "$(fsop rename "$M/sessions/$DONE" "$M/executors/other")" EPERM
	equal "$(fsop rename "$D/outside/file" "$M/sessions/file")" EXDEV
	run -1 mv "$M/executors/local" "$M/executors/other"
}

@test "fallocate, and what only devices or other file systems know" {
	for path in default_id executors/local/start executors/local/config executors/local/state; do
		equal "$(fsop fallocate "$M/$path")" EOPNOTSUPP || fail "$path"
	done
	run ! chattr +i "$M/version"
	# Acknowledged is durable already.
	each files 0 fsync
	flock "$M/version" true
	flock -s "$M/sessions/$DONE/log" true
}

@test "nothing in the tree can be executed" {
	run -126 "$M/version"
	run ! "$M/executors/local/start"
}

@test "names that are too long or not names" {
	equal "$(fsop mkdir "$M/executors/$(printf '%0256d' 0)")" ENAMETOOLONG
	equal "$(fsop stat "$M/sessions/$(printf '%0256d' 0)")" ENAMETOOLONG
	equal "$(fsop stat "$M/sessions/$(printf '%0255d' 0)")" ENOENT
	equal "$(fsop stat "$M/sessions/"$'\xff\n')" ENOENT
	equal "$(fsop stat "$M/.live/sessions/..")" 0
	equal "$(fsop stat "$M/version/x")" ENOTDIR
	equal "$(fsop listdir "$M/version")" ENOTDIR
	equal "$(fsop stat "$M/sessions/$DONE/log/")" ENOTDIR
}

@test "the hub stops and leaves nothing" {
	hub_end
}
