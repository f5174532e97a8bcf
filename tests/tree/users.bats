# Who may do what, and as whom a workload runs: root, two members of cloop, one of cloop-admin, and
# somebody outside.

load common

setup_file() {
	need_root
	hub_begin
}

setup() {
	need_root
}

# may WHO ERRNO CALL…: what fsop says when that person makes the call.
may() {
	local who=$1 errno=$2
	shift 2
	equal "$(WHO=$who fsop "$@")" "$errno" || fail "$who: $*"
}

@test "members of cloop start workloads, others do not" {
	may alice EINVAL write "$M/executors/local/start" '{}'
	may bob EINVAL write "$M/executors/local/start" '{}'
	may carol EINVAL write "$M/executors/local/start" '{}'
	may mallory EACCES write "$M/executors/local/start" '{"argv":["/bin/true"]}'
	may erin EACCES open-read "$M/executors/local/start"
	# A refusal by mode is the kernel's, and leaves no sentence.
	equal "$(as mallory cat "$M/error.json")" ''
}

@test "a session's files are its user's and the administrators'" {
	local id file

	id=$(WHO=alice start "$(spec /bin/echo private)")
	ended "$id"
	for file in spec status state exit_code pid handle attempt error log log.tail stdout stderr follow lines wait; do
		may alice 0 read "$M/sessions/$id/$file"
		may carol 0 read "$M/sessions/$id/$file"
		may '' 0 read "$M/sessions/$id/$file"
		may bob EACCES read "$M/sessions/$id/$file"
		may mallory EACCES read "$M/sessions/$id/$file"
	done
	for file in follow lines wait; do
		may bob EACCES read "$M/.live/sessions/$id/$file"
	done
	# That it is there, and whose, everybody may see.
	equal "$(as mallory ls "$M/sessions" | grep -c "^$id$")" 1
	equal "$(as mallory stat -c %U "$M/sessions/$id/log")" alice
	like "$(as mallory cat "$M/status")" 'sessions in flight'
}

@test "a session is signalled by its user and by administrators" {
	local id

	id=$(WHO=alice start "$(script 'trap "" TERM INT; while :; do sleep 0.1; done')")
	may bob EACCES write "$M/sessions/$id/signal" kill
	may mallory EACCES write "$M/sessions/$id/signal" kill
	may alice 0 write "$M/sessions/$id/signal" interrupt
	may carol 0 write "$M/sessions/$id/signal" terminate
	equal "$(now "$id" state)" running
	may carol 0 write "$M/sessions/$id/signal" kill
	equal "$(ended "$id")" 137
	may alice 0 write "$M/sessions/$id/signal" kill
}

@test "a session is forgotten by its user and by root" {
	local id other

	id=$(WHO=alice start "$(spec /bin/true)")
	other=$(WHO=alice start "$(spec /bin/true)")
	ended "$id" "$other"
	may bob EPERM rmdir "$M/sessions/$id"
	may carol EPERM rmdir "$M/sessions/$id"
	may mallory EACCES rmdir "$M/sessions/$id"
	may alice 0 rmdir "$M/sessions/$id"
	may '' 0 rmdir "$M/sessions/$other"
	may '' ENOENT rmdir "$M/sessions/$other"
}

@test "administrators make, configure, cordon and remove executors" {
	may alice EACCES mkdir "$M/executors/pool"
	may mallory EACCES mkdir "$M/executors/pool"
	may carol 0 mkdir "$M/executors/pool"
	may alice EACCES write "$M/executors/pool/config" '{"kind":"localprocess"}'
	may carol 0 write "$M/executors/pool/config" '{"kind":"localprocess"}'
	may alice 0 read "$M/executors/pool/config"
	may alice EACCES write "$M/executors/pool/state" cordon
	may carol 0 write "$M/executors/pool/state" cordon
	WHO=alice refused EBUSY '' put "$M/executors/pool/start" '{"argv":["/bin/true"]}'
	may mallory EACCES write "$M/default_id" pool
	may alice EACCES write "$M/default_id" pool
	may carol 0 write "$M/default_id" pool
	may carol 0 write "$M/default_id" local
	may alice EACCES rmdir "$M/executors/pool"
	may mallory EACCES rmdir "$M/executors/pool"
	may carol 0 rmdir "$M/executors/pool"
	equal "$(ls "$M/executors")" local
}

@test "events are the administrators'" {
	may carol 0 read "$M/events"
	may '' 0 read "$M/events"
	may alice EACCES read "$M/events"
	may mallory EACCES read "$M/events"
	# They name the user.
	ended "$(WHO=bob start "$(spec /bin/true)")"
	equal "$(tail -n 1 "$M/events" | jq .uid)" "${UID_OF[bob]}"
}

@test "a workload has its user's ids and groups, and no new privileges" {
	local id told=/proc/self/status

	id=$(WHO=alice start "$(script "grep -E '^(Uid|Gid|Groups|NoNewPrivs|CapEff|CapPrm|CapInh|CapAmb):' $told")")
	ended "$id"
	equal "$(now "$id" log | tr -s ' \t' '  ' | sed 's/ $//')" 'Uid: 64001 64001 64001 64001
Gid: 64001 64001 64001 64001
Groups: 64100 64200
CapInh: 0000000000000000
CapPrm: 0000000000000000
CapEff: 0000000000000000
CapAmb: 0000000000000000
NoNewPrivs: 1'
	id=$(start "$(script "grep -E '^(Uid|Gid|NoNewPrivs):' $told")")
	ended "$id"
	equal "$(now "$id" log | tr -s ' \t' '  ')" $'Uid: 0 0 0 0\nGid: 0 0 0 0\nNoNewPrivs: 1'
	# A program with the set-user-id bit stays its caller's.
	cp /usr/bin/id "$D/work/id"
	chmod u+s "$D/work/id"
	id=$(WHO=alice start "$(spec "$D/work/id" -u)")
	ended "$id"
	equal "$(now "$id" log)" 64001
}

@test "a workload has all of many groups, as they were at the open" {
	local groups id

	groups=64100,$(seq -s, 70000 70200)
	# shellcheck disable=SC2016
	id=$(setpriv --reuid 64002 --regid 64002 --groups "$groups" -- bash -c '
		exec 9<> "$0"; echo "$1" >&9; cat <&9' "$M/executors/local/start" \
		"$(script 'grep ^Groups: /proc/self/status')" | jq -r .session)
	ended "$id"
	equal "$(now "$id" log | cut -f 2 | xargs | tr ' ' ,)" "$groups"
}

@test "the environment of another user's workload is the minimal one, and nothing of the hub's" {
	local id

	id=$(WHO=alice start "$(spec /usr/bin/env)")
	ended "$id"
	equal "$(now "$id" log | sort)" 'HOME=/home/alice
LANG=C.UTF-8
LOGNAME=alice
PATH=/usr/local/bin:/usr/bin:/bin
USER=alice'
	# Somebody without an account.
	# shellcheck disable=SC2016
	id=$(setpriv --reuid 65111 --regid 65111 --groups 64100 -- bash -c '
		exec 9<> "$0"; echo "$1" >&9; cat <&9' "$M/executors/local/start" "$(spec /usr/bin/env)" |
		jq -r .session)
	ended "$id"
	equal "$(now "$id" log | sort | xargs)" 'HOME=/ LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin'
}

@test "only the hub's own user inherits the hub's environment, without CLOOP_*" {
	local id

	id=$(start "$(spec /usr/bin/env)")
	ended "$id"
	like "$(now "$id" log)" 'HUB_VARIABLE=inherited'
	[[ $(now "$id" log) != *CLOOP_* ]]
}

@test "env is the whole environment: nothing is added to it" {
	local id env

	for env in '[]' '["A=1"]' '["A=1","B=","C=a b=c"]'; do
		id=$(WHO=alice start "{\"argv\":[\"/usr/bin/env\"],\"env\":$env}")
		ended "$id"
		equal "$(now "$id" log)" "$(jq -r '.[]' <<< "$env")"
	done
	# Empty is not the same as none, and is shown.
	equal "$(now "$(WHO=alice start '{"argv":["/bin/true"],"env":[]}')" spec)" \
		'{"work_dir":"","argv":["/bin/true"],"env":[]}'
	equal "$(now "$(WHO=alice start '{"argv":["/bin/true"],"env":null}')" spec)" \
		'{"work_dir":"","argv":["/bin/true"]}'
}

@test "a workload starts clean: directory, umask, descriptors, signals, terminal, session" {
	local id

	id=$(WHO=alice start "$(script 'pwd; umask; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l
		grep -E "^Sig(Blk|Ign):" /proc/self/status; cat /proc/self/oom_score_adj
		cut -d " " -f 7 /proc/self/stat; test "$(cut -d " " -f 6 /proc/$$/stat)" = $$ && echo leader')")
	ended "$id"
	equal "$(now "$id" log | tr '\t' ' ')" "/
0022
/dev/null
4
SigBlk: 0000000000000000
SigIgn: 0000000000000000
$(cat /proc/self/oom_score_adj)
0
leader"
}

# handed OPENER WRITER FLAGS FILE TEXT: one user opens, another one writes to the descriptor.
handed() {
	/usr/bin/python3 -IS - "$@" <<-'PROGRAM'
		import errno, os, sys
		opener, writer, path, text = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
		os.setgroups([64100])
		os.seteuid(opener)
		fd = os.open(path, os.O_RDWR)
		os.seteuid(0)
		os.seteuid(writer)
		try:
		    os.write(fd, text.encode())
		    print(0)
		except OSError as e:
		    print(errno.errorcode[e.errno])
	PROGRAM
}

@test "a descriptor that was handed to another user writes nothing" {
	local id

	equal "$(handed 64001 0 "$M/executors/local/start" '{"argv":["/bin/true"]}')" EPERM
	equal "$(jq -r '.errno + " " + .reason' "$M/error.json")" \
		'EPERM the descriptor was opened by another user'
	equal "$(handed 0 64001 "$M/executors/local/start" '{"argv":["/bin/true"]}')" EPERM
	equal "$(handed 64001 64002 "$M/executors/local/start" '{"argv":["/bin/true"]}')" EPERM
	id=$(WHO=alice start "$(spec /bin/sleep 1000)")
	equal "$(handed 64001 0 "$M/sessions/$id/signal" kill)" EPERM
	equal "$(handed 0 64002 "$M/sessions/$id/signal" kill)" EPERM
	equal "$(now "$id" state)" running
	equal "$(handed 64001 64001 "$M/sessions/$id/signal" kill)" 0
	equal "$(ended "$id")" 137
}

@test "half a document from one user and half from another start nothing" {
	local before

	before=$(ls "$M/sessions")
	# shellcheck disable=SC2016
	run -1 bash -c 'exec 9<> "$0"
		printf "{\"argv\":[\"/bin/touch\",\"$1\"" >&9
		setpriv --reuid 64001 --regid 64001 --groups 64100 -- sh -c "printf \"]}\" >&9"' \
		"$M/executors/local/start" "$D/work/touched"
	equal "$(ls "$M/sessions")" "$before"
	[[ ! -e $D/work/touched ]]
}

# Those whom the hub cannot tell for sure. They read, as anybody.
@test "a caller in another pid or user namespace gets no control" {
	local id

	id=$(WHO=alice start "$(spec /bin/sleep 1000)")
	equal "$(unshare --pid --fork --kill-child "$FSOP" write "$M/executors/local/start" '{"argv":["/bin/true"]}')" EPERM
	like "$(jq -r '.errno + " " + .reason' "$M/error.json")" 'EPERM .*another pid or user namespace'
	equal "$(unshare --pid --fork --kill-child "$FSOP" write "$M/sessions/$id/signal" kill)" EPERM
	equal "$(unshare --pid --fork --kill-child "$FSOP" mkdir "$M/executors/inside")" EPERM
	equal "$(unshare --pid --fork --kill-child "$FSOP" rmdir "$M/executors/local")" EPERM
	equal "$(unshare --pid --fork --kill-child "$FSOP" write "$M/executors/local/state" cordon)" EPERM
	equal "$(unshare --pid --fork --kill-child "$FSOP" read "$M/sessions/$id/state")" 0

	equal "$(as alice unshare --user "$FSOP" write "$M/executors/local/start" '{"argv":["/bin/true"]}')" EPERM
	equal "$(as alice unshare --user --map-root-user "$FSOP" write "$M/sessions/$id/signal" kill)" EPERM
	equal "$(as carol unshare --user --map-root-user "$FSOP" mkdir "$M/executors/inside")" EPERM
	equal "$(as alice unshare --user --map-root-user "$FSOP" read "$M/sessions/$id/state")" 0
	# To be root in there opens no other door.
	equal "$(as bob unshare --user --map-root-user "$FSOP" read "$M/sessions/$id/state")" EACCES
	equal "$(now "$id" state) $(cat "$M/executors/local/state")" 'running ready'
	put "$M/sessions/$id/signal" kill
	ended "$id"
	# Other namespaces do not matter.
	equal "$(unshare --net --uts --ipc "$FSOP" write "$M/executors/local/state" uncordon)" 0
}

@test "who is outside of the daemon's own pid namespace gets no control" {
	local said inside

	hub_stop
	said=$(mktemp "$D/said.XXXXXX")
	# Its /proc is that of the outer namespace, in which the search for leaks does not find its threads.
	ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" unshare --pid --fork --kill-child "$CLOOPD" serve --foreground --state-dir "$D/home/state" \
		--runtime-dir "$D/home/run" --config-dir "$D/home/etc" "$M" > /dev/null 2> "$said" 3>&- < /dev/null &
	echo $! > "$D/keeper"
	eventually hub_is_ready "$said"
	equal "$(fsop write "$M/executors/local/start" '{"argv":["/bin/true"]}')" EPERM
	equal "$(fsop write "$M/executors/local/state" cordon)" EPERM
	equal "$(fsop mkdir "$M/executors/outside")" EPERM
	equal "$(fsop rmdir "$M/executors/local")" EPERM
	equal "$(WHO=carol fsop write "$M/executors/local/state" cordon)" EPERM
	equal "$(cat "$M/executors/local/state")" ready
	inside=$(cat "/proc/$(keeper)/task/$(keeper)/children")
	kill -TERM "${inside% }"
	eventually keeper_is_gone
	hub_start
}

@test "paths of the host are mounted for administrators only" {
	local spec='{"argv":["/bin/true"],"host_mounts":[{"name":"a","source":"/etc","target":"/b"}]}'

	WHO=alice refused EPERM host_mounts put "$M/executors/local/start" "$spec"
	WHO=carol refused EOPNOTSUPP host_mounts put "$M/executors/local/start" "$spec"
}

@test "another user's session name is refused" {
	local named

	named=$(spec /bin/true | jq -c '.labels = {"cloop.session": "alices"}')
	WHO=alice start "$named"
	WHO=bob refused EPERM labels.cloop.session put "$M/executors/local/start" "$named"
	refused EPERM labels.cloop.session put "$M/executors/local/start" "$named"
	equal "$(WHO=alice start "$named")" alices
}

@test "a program that only root may execute is not executed for others" {
	cp /bin/true "$D/work/roots"
	chmod 700 "$D/work/roots"
	WHO=alice refused EACCES 'argv[0]' put "$M/executors/local/start" "$(spec "$D/work/roots")"
	mkdir -m 700 "$D/work/closed"
	WHO=alice refused EACCES work_dir put "$M/executors/local/start" \
		"{\"argv\":[\"/bin/true\"],\"work_dir\":\"$D/work/closed\"}"
	equal "$(ended "$(start "$(spec "$D/work/roots")")")" 0
}

@test "the answer on start is each user's own" {
	local hers his

	hers=$(WHO=alice start "$(spec /bin/true)")
	his=$(WHO=bob start "$(spec /bin/true)")
	equal "$(as alice jq -r .session "$M/executors/local/start")" "$hers"
	equal "$(as bob jq -r .session "$M/executors/local/start")" "$his"
}

@test "the hub stops and leaves nothing" {
	hub_end
}
