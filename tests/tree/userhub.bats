# A hub that an ordinary user runs, mounted through fusermount3: everything belongs to that user, and
# nobody else enters.

load common

setup_file() {
	need fusermount3
	if ((EUID == 0)); then
		export HUB_USER=erin WHO=erin
	fi
	hub_begin
}

setup() {
	need fusermount3
}

mine() {
	me stat -c %u "$D/home"
}

@test "everything belongs to the user" {
	local id

	id=$(start "$(spec /bin/true)")
	ended "$id"
	equal "$(me find "$M" -printf '%U\n' | sort -u)" "$(mine)"
	equal "$(me stat -L -c %u "$M/sessions/$id/"{wait,follow,lines} | sort -u)" "$(mine)"
	equal "$(me cat "$M/sessions/$id/wait")" 0
}

@test "nobody else enters, not even root" {
	need_root
	equal "$("$FSOP" stat "$M/status")" EACCES
	equal "$(WHO=mallory fsop stat "$M/status")" EACCES
	like "$(grep " $M " /proc/self/mountinfo)" 'nosuid,nodev,noexec.* - fuse.cloop cloop .*user_id=64005'
}

@test "workloads are the user's, with the hub's environment" {
	local id

	id=$(start "$(script 'id -u; id -g; id -G; env')")
	me cat "$M/sessions/$id/wait"
	like "$(me cat "$M/sessions/$id/log")" "^$(mine)"$'\n'"$(me id -g)"
	like "$(me cat "$M/sessions/$id/log")" 'HUB_VARIABLE=inherited'
	[[ $(me cat "$M/sessions/$id/log") != *CLOOP_* ]]
}

@test "the user starts, signals, waits, administers and forgets" {
	local id

	id=$(start "$(script 'echo begun; exec sleep 1000')")
	like "$(me timeout -k 5 60 head -n 1 "$M/sessions/$id/follow")" begun
	me sh -c "echo terminate > $M/sessions/$id/signal"
	equal "$(me cat "$M/sessions/$id/wait")" 143
	me mkdir "$M/executors/other"
	put "$M/executors/other/config" '{"kind":"localprocess"}'
	put "$M/default_id" other
	put "$M/executors/other/state" 'cordon for now'
	equal "$(me readlink "$M/default")" executors/other
	refused EBUSY '' put "$M/default/start" '{"argv":["/bin/true"]}'
	me rmdir "$M/executors/other" "$M/sessions/$id"
	equal "$(me cat "$M/default_id")" local
	equal "$(me jq -r .type "$M/events" | tail -n 1)" session.removed
}

@test "what no one may open is refused without the kernel's help" {
	local id

	id=$(start "$(spec /bin/true)")
	equal "$(fsop open-write "$M/sessions/$id/log")" EACCES
	equal "$(fsop open-write "$M/status")" EACCES
	equal "$(fsop open-both "$M/sessions/$id/spec")" EACCES
	equal "$(fsop unlink "$M/version")" EPERM
	equal "$(fsop mkdir "$M/sessions/mine")" EPERM
	equal "$(fsop chmod "$M/sessions/$id/log")" EPERM
}

# Nothing asks for attributes when a file is opened here: a size that the kernel remembers is old.
@test "busybox reads values as they are now" {
	local id path

	need busybox
	id=$(start "$(script 'sleep 0.3; exit 123')")
	path=$M/sessions/$id
	for file in state exit_code status log; do
		me busybox cat "$path/$file" > /dev/null
	done
	equal "$(me busybox cat "$path/wait")" 123
	equal "$(me busybox cat "$path/exit_code")" 123
	equal "$(me busybox cat "$path/state")" exited
	equal "$(me busybox cat "$path/status" | jq -r .cause)" exit
	put "$M/executors/local/state" 'cordon'
	equal "$(me busybox cat "$M/executors/local/state")" cordoned
	put "$M/executors/local/state" 'uncordon'
	equal "$(me busybox cat "$M/executors/local/state")" ready
}

@test "a killed hub is another one, and nothing is lost" {
	local id

	id=$(start "$(script 'sleep 0.5; echo after; exit 5')")
	me cat "$M/sessions/$id/follow" > "$D/followed" &
	hub_kill
	wait $!
	equal "$(cat "$D/followed")" after
	equal "$(me cat "$M/sessions/$id/wait")" 5
}

@test "the hub stops and leaves nothing" {
	hub_end
}
