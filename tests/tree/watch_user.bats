# Watching on a hub that an ordinary user runs.

load common
load watch

setup_file() {
	need fusermount3 python3
	if ((EUID == 0)); then
		export HUB_USER=erin WHO=erin
	fi
	hub_begin
}

setup() {
	known 0
}

teardown() {
	background_ends
}

# What the daemon says, as its user reads it.
announced() {
	me sed -n 's/.* files watched, \([0-9]*\) changes announced$/\1/p' "$M/status"
}

watched() {
	me sed -n 's/^\([^ ]*\) files watched, .*/\1/p' "$M/status"
}

@test "files, names and output" {
	local id

	watch names "$M/sessions" "$M/executors/local/sessions"
	known 2
	id=$(start "$(gate user)")
	eventually saw names "sessions/$id CREATE,ISDIR"
	eventually saw names "executors/local/sessions/$id CREATE"
	watch state "$M/sessions/$id/state"
	watch log "$M/sessions/$id/log"
	tell user out text
	eventually saw log "sessions/$id/log MODIFY"
	tell user end 0
	eventually saw state "sessions/$id/state MODIFY"
	eventually saw names "executors/local/sessions/$id DELETE"
	me rmdir "$M/sessions/$id"
	eventually saw names "sessions/$id DELETE,ISDIR"
	eventually saw state "sessions/$id/state DELETE_SELF"
	equal "$(seen names | sort | uniq -d)" ''
}

@test "nothing of the user's own is taken for the nudger's" {
	me mkdir "$M/executors/own"
	equal "$(me ls "$M/executors")" $'local\nown'
	equal "$(fsop write "$M/default_id" own)" ENOENT
	like "$(me fallocate -n -l 1 "$M/default_id" 2>&1)" supported
	me rmdir "$M/executors/own"
	equal "$(me ls "$M/executors")" local
	equal "$(fsop symlink x "$M/executors/own")" EPERM
	equal "$(fsop open-write "$M/status")" EACCES
}

@test "the hub and the nudger are killed" {
	local id pid

	id=$(start "$(gate killed)")
	eventually is_state "$id" running
	watch log "$M/sessions/$id/log"
	watch names "$M/sessions"
	known 2
	WHO='' hub_kill
	tell killed out one
	eventually saw log "sessions/$id/log MODIFY"
	pid=$(nudger_pid)
	kill -9 "$pid"
	eventually nudger_is_other "$pid"
	tell killed end 0
	ended "$id"
	eventually saw log "sessions/$id/log MODIFY" 1
	id=$(start "$(spec /bin/true)")
	eventually saw names "sessions/$id CREATE,ISDIR"
}

nudger_is_other() {
	local pid

	pid=$(nudger_pid) && [[ $pid != "$1" ]]
}

@test "the hub ends without a trace" {
	hub_end
}
