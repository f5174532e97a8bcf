# Every file of the tree: what it is, whose it is, what it reads as, and that it cannot be written when
# it is not made for that. The list comes from the daemon's own tables (cloop-docs): a file that is
# added without a line in `content` fails here.

load common

CLOOP_DOCS=${CLOOP_DOCS:?the program that prints the tables}

setup_file() {
	hub_begin
	mkdir "$M/executors/second"
	echo '{"kind":"localprocess","labels":{"zone":"b"},"max_concurrent":3,"log_quota_bytes":4096}' \
		> "$M/executors/second/config"
	# A finished session and one that runs; the finished one has output beyond its quota.
	if ((EUID == 0)); then
		WHO=alice
	fi
	mkdir "$M/projects/app"
	echo second > "$M/projects/app/binding"
	echo '{"require_signal":true}' > "$M/projects/app/requirements"
	DONE='done'
	# The two streams are two pipes: what is to stand in the log must be there before it is full.
	put "$M/projects/app/start" "$(script \
		"echo out; echo err >&2; until grep -qs err $M/sessions/done/log; do sleep 0.02; done
		head -c 9000 /dev/zero | tr '\\0' x; exit 3" '{labels: {"cloop.session": "done"}}')"
	echo /srv/app > "$M/projects/app/path"
	RUNS=$(start "$(spec /bin/sleep 1000)" second)
	ended "$DONE"
	eventually grep -q . "$M/executors/second/preflight"
	export DONE RUNS WHO
}

# Lines of "DIRECTORY FILE KIND MODE OWNER".
rows() {
	"$CLOOP_DOCS" markdown | awk -F ' *[|] *' '
		/^## `/ { gsub(/[`# ]/, ""); dir = $0 }
		/^\| `/ {
			gsub(/`/, "", $2)
			mode = $4 == "" ? "-" : $4
			print dir, $2, $3, mode, $5
		}'
}

# The path of a row, below the mount.
path_of() {
	local path=$1/$2

	path=${path//<id>/$3}
	path=${path//<name>/$3}
	path=${path//<n>/1}
	path=${path#/}
	echo "${path#/}"
}

object_of() {
	case $1 in
	/executors/*) echo second ;;
	/.live/executors/*) echo second ;;
	/projects/*) echo app ;;
	*) echo "$DONE" ;;
	esac
}

# What a file reads as. Every row of the tables has a line here.
content() {
	local row=$1 text=$2

	case $row in
	//README)
		like "$text" 'cloop is administered with cat, echo' &&
			like "$text" '/sessions/<id>' && like "$text" '  log.tail  \(text\)'
		;;
	//version) like "$text" ^[0-9]+\.[0-9]+\.[0-9]+$ ;;
	//status)
		like "$text" "cloop $(cat "$M/version"), serving since 20[0-9T:.-]+Z" &&
			like "$text" $'\n1 sessions in flight\n' &&
			like "$text" $'\n2 executors: 2 ready\n' &&
			like "$text" $'\nEXECUTOR +KIND +STATE +INFLIGHT/MAX +LAST SEEN +REASON\n' &&
			like "$text" $'\nlocal +localprocess +ready +0/- +(-|[0-9]+s)\n' &&
			like "$text" $'\n'"second +localprocess +ready +1/3 +(-|[0-9]+s)"$'\n' &&
			like "$text" $'\n'"$RUNS +second +running +[0-9]+ +[0-9]+ +[0-9]+s"
		;;
	//error) equal "$text" '' ;;
	//error.json) equal "$text" '' ;;
	//events)
		equal "$(jq -s 'map(.seq) == [range(1; length + 1)]' <<< "$text")" true &&
			equal "$(jq -rs 'map(.type) | unique | join(" ")' <<< "$text")" \
				'config.project_added config.project_binding config.project_path config.project_requirements executor.added executor.default executor.registered session.ended session.started' &&
			equal "$(jq -s 'map(has("at") and has("uid")) | all' <<< "$text")" true &&
			equal "$(jq -c "select(.session == \"$DONE\" and .type == \"session.ended\") |
				[.executor_id, .attempt, .state, .cause, .exit_code]" <<< "$text")" \
				'["second",1,"exited","exit",3]'
		;;
	//metrics)
		equal "$(grep -vE '^(# (HELP|TYPE) cloop_[a-z_]+ .+|cloop_[a-z_]+(\{[a-z]+="[^"]*"\})? [0-9.]+)$' <<< "$text")" '' &&
			like "$text" $'\ncloop_sessions\\{state="running"\\} 1\n' &&
			like "$text" $'\ncloop_sessions_ended_total\\{state="exited"\\} 1\n' &&
			like "$text" $'\ncloop_executors\\{state="ready"\\} 2\n' &&
			like "$text" $'\ncloop_executor_inflight\\{executor="second"\\} 1\n'
		;;
	//default) equal "$text" executors/local ;;
	//default_id) equal "$text" local ;;
	# Nobody has written to them yet.
	//start | //place | /check/*) equal "$text" '' ;;
	/policy/host_execution) equal "$text" allowed ;;
	/executors/\<id\>/config)
		equal "$text" '{"kind":"localprocess","labels":{"zone":"b"},"max_concurrent":3,"log_quota_bytes":4096}'
		;;
	/executors/\<id\>/config_error) equal "$text" '' ;;
	/executors/\<id\>/kind) equal "$text" localprocess ;;
	/executors/\<id\>/capabilities)
		equal "$(jq -c '[.isolation, .supports_stream, .supports_signal, .shares_host_filesystem,
			.network_egress, .platform, .max_concurrent]' <<< "$text")" \
			'["none",true,true,true,true,"linux",3]'
		;;
	/executors/\<id\>/labels) equal "$text" '{"zone":"b"}' ;;
	/executors/\<id\>/max_concurrent) equal "$text" 3 ;;
	/executors/\<id\>/state) equal "$text" ready ;;
	/executors/\<id\>/health)
		equal "$(jq -c '[.executor_id, .state, .consecutive_failures, has("reason"),
			has("state_changed_at")]' <<< "$text")" '["second","ready",0,false,true]'
		;;
	/executors/\<id\>/start)
		# The caller's latest answer.
		equal "$(jq -c '[.session, .handle.id, .handle.executor_id]' <<< "$text")" \
			"[\"$RUNS\",\"$RUNS.1\",\"second\"]"
		;;
	/executors/\<id\>/inflight) equal "$text" 1 ;;
	/executors/\<id\>/probe) like "$text" '^ok 20[0-9T:.-]+Z$' ;;
	/executors/\<id\>/preflight) like "$text" '^(ok|warn|fail) [a-z.]+: ' ;;
	/executors/\<id\>/drained) equal "$text" ../../.live/executors/second/drained ;;
	/sessions/\<id\>/spec)
		equal "$(jq -c 'del(.argv[2])' <<< "$text")" \
			'{"work_dir":"","argv":["/bin/sh","-c"],"labels":{"cloop.session":"done"}}'
		;;
	/sessions/\<id\>/status)
		equal "$(jq -c '[.handle_id, .executor_id, .state, has("pid"), .exit_code, .cause, has("signal"),
			has("error"), .started_at < .finished_at, .log_bytes, .log_dropped_bytes > 0]' <<< "$text")" \
			'["done.1","second","exited",false,3,"exit",false,false,true,9008,true]'
		;;
	/sessions/\<id\>/state) equal "$text" exited ;;
	/sessions/\<id\>/exit_code) equal "$text" 3 ;;
	/sessions/\<id\>/pid) equal "$text" 0 && like "$(me cat "$M/sessions/$RUNS/pid")" '^[1-9][0-9]*$' ;;
	/sessions/\<id\>/handle)
		equal "$(jq -c '[.id, .executor_id, (.pid > 1), has("started_at")]' <<< "$text")" \
			'["done.1","second",true,true]'
		;;
	/sessions/\<id\>/attempt) equal "$text" 1 ;;
	/sessions/\<id\>/error) equal "$text" '' ;;
	/sessions/\<id\>/log)
		like "$text" $'\n\\[cloop\\] [^\n]*$' && like "$text" out && like "$text" err
		;;
	/sessions/\<id\>/log.tail) like "$text" ^x+$ ;;
	/sessions/\<id\>/stdout) like "$text" $'^out\nx+' ;;
	/sessions/\<id\>/stderr) equal "$text" err ;;
	/sessions/\<id\>/lines) equal "$text" "../../.live/sessions/$DONE/lines" ;;
	/sessions/\<id\>/follow) equal "$text" "../../.live/sessions/$DONE/follow" ;;
	/sessions/\<id\>/wait) equal "$text" "../../.live/sessions/$DONE/wait" ;;
	/sessions/\<id\>/signal) equal "$text" '' ;;
	/sessions/\<id\>/executor) equal "$text" ../../executors/second ;;
	/sessions/\<id\>/project) equal "$text" ../../projects/app ;;
	/projects/\<name\>/path) equal "$text" /srv/app ;;
	/projects/\<name\>/binding) equal "$text" second ;;
	/projects/\<name\>/requirements) equal "$text" '{"require_signal":true}' ;;
	/projects/\<name\>/executor) equal "$text" ../../executors/second ;;
	/projects/\<name\>/start)
		equal "$(jq -c '[.session, .handle.executor_id]' <<< "$text")" "[\"$DONE\",\"second\"]"
		;;
	/sessions/\<id\>/attempts/\<n\>/executor) equal "$text" second ;;
	/sessions/\<id\>/attempts/\<n\>/status) equal "$text" "$(me cat "$M/sessions/$DONE/status")" ;;
	/sessions/\<id\>/attempts/\<n\>/log) equal "$text" "$(me cat "$M/sessions/$DONE/log")" ;;
	*) fail "no test knows what $row reads as" ;;
	esac
}

# Reads a file, or the target of a link, as whoever may.
read_row() {
	if [[ -L $M/$1 ]]; then
		readlink "$M/$1"
	elif [[ $2 == start ]]; then
		me cat "$M/$1"
	else
		cat "$M/$1"
	fi
}

@test "every file reads as what it is for" {
	local dir name kind mode owner n=0

	while read -r dir name kind mode owner; do
		[[ $kind != directory ]] || continue
		content "$dir/$name" "$(read_row "$(path_of "$dir" "$name" "$(object_of "$dir")")" "$name")" ||
			fail "in $dir/$name"
		n=$((n + 1))
	done < <(rows)
	((n > 30))
}

@test "the tables show every entry of every directory, and no other" {
	local dir wanted

	for dir in / /executors/\<id\> /sessions/\<id\> /projects/\<name\> /check; do
		wanted=$(rows | awk -v dir="$dir" '$1 == dir { print $2 }' | sort)
		equal "$(ls -A "$M/$(path_of "$dir" '' "$(object_of "$dir")")" | sort)" "$wanted"
	done
	equal "$(ls "$M/sessions/$DONE/attempts" "$M/sessions/$DONE/attempts/1" | grep -v : | xargs)" \
		'1 executor log status'
	equal "$(ls "$M/executors" | xargs)" 'local second'
	equal "$(ls "$M/sessions" | xargs)" "$DONE $RUNS"
	equal "$(ls "$M/projects") $(ls "$M/projects/app/sessions")" "app $DONE"
	equal "$(ls "$M/executors/second/sessions")" "$RUNS"
	equal "$(readlink "$M/executors/second/sessions/$RUNS")" "../../../sessions/$RUNS"
	equal "$(ls -A "$M/.live" "$M/.live/sessions" "$M/.live/sessions/$DONE" "$M/.live/executors/local" |
		grep -v :)" ''
}

numbers_of() {
	case $1 in
	root:root) echo 0:0 ;;
	root:cloop) echo 0:64100 ;;
	root:cloop-admin) echo 0:64101 ;;
	user:cloop-admin) echo "${UID_OF[alice]}:64101" ;;
	*) fail "whose is $1?" ;;
	esac
}

kind_of() {
	case $1 in
	directory) echo directory ;;
	link | stream | wait) echo 'symbolic link' ;;
	*) echo 'regular file' ;;
	esac
}

@test "every file has the kind, mode and owner of its row" {
	local dir name kind mode owner path

	need_root
	while read -r dir name kind mode owner; do
		path=$M/$(path_of "$dir" "$name" "$(object_of "$dir")")
		like "$(stat -c %F "$path")" "$(kind_of "$kind")$|^regular empty file$" || fail "$path"
		equal "$(stat -c %u:%g "$path")" "$(numbers_of "$owner")" || fail "$path"
		[[ $mode == - || -L $path ]] || equal "$(stat -c %04a "$path")" "$mode" || fail "$path"
	done < <(rows)
	equal "$(stat -c %a:%u:%g "$M" "$M/executors" "$M/sessions" "$M/executors/local" "$M/sessions/$DONE" |
		xargs)" "755:0:0 2775:0:64101 1775:0:64100 755:0:0 755:${UID_OF[alice]}:64101"
	# Behind the links.
	equal "$(stat -L -c %a:%u:%g "$M/sessions/$DONE/"{follow,lines,wait} "$M/executors/second/drained" |
		xargs)" "440:64001:64101 440:64001:64101 440:64001:64101 444:0:0"
}

@test "the size of every file is the number of bytes it reads as" {
	local dir name kind mode owner path

	while read -r dir name kind mode owner; do
		[[ $kind != directory ]] || continue
		path=$M/$(path_of "$dir" "$name" "$(object_of "$dir")")
		if [[ -L $path ]]; then
			equal "$(stat -c %s "$path")" "$(readlink -n "$path" | wc -c)" || fail "$path"
			# `status` is another one each second.
		elif [[ $name != status || $dir != / ]]; then
			equal "$(me stat -c %s "$path")" "$(read_row "${path#"$M"/}" "$name" | wc -c)" ||
				fail "$path"
		fi
	done < <(rows)
	for path in follow wait; do
		path=$M/sessions/$DONE/$path
		equal "$(stat -L -c %s "$path")" "$(cat "$path" | wc -c)" || fail "$path"
	done
	# A reader sees of an open file what it had when it was opened.
	exec 5< "$M/sessions/$DONE/status"
	equal "$(stat -L -c %s /dev/fd/5)" "$(cat <&5 | wc -c)"
	exec 5<&-
}

# The end of a session is shown before the event of it is committed.
told_end() {
	grep '"type":"session.ended"' "$M/events" | grep -q "\"session\":\"$1\""
}

@test "times are those of what the files show" {
	local dir name kind mode owner path now created times TALKS

	TALKS=$(start "$(script 'while :; do echo talk; sleep 0.1; done')")
	now=$(date +%s)
	while read -r dir name kind mode owner; do
		path=$M/$(path_of "$dir" "$name" "$(object_of "$dir")")
		times=$(stat -c '%Y %Z' "$path")
		for created in $times; do
			((created > now - 3600 && created <= now + 5)) || fail "$path: $times"
		done
	done < <(rows)
	# What can change of a session changed when it ended; what cannot, when it was started.
	equal "$(date -u -d "@$(stat -c %.9Y "$M/sessions/$DONE/status")" +%s%N)" \
		"$(date -u -d "$(status "$DONE" .finished_at)" +%s%N)"
	[[ $M/sessions/$DONE/status -nt $M/sessions/$DONE/spec ]]
	# A directory's time moves when an entry comes or goes.
	times=$(stat -c %y "$M/executors")
	mkdir "$M/executors/third"
	[[ $(stat -c %y "$M/executors") > $times ]]
	times=$(stat -c %y "$M/executors")
	rmdir "$M/executors/third"
	[[ $(stat -c %y "$M/executors") > $times ]]
	# A log's, with the output.
	times=$(stat -c %y "$M/sessions/$TALKS/log")
	eventually is_newer "$M/sessions/$TALKS/log" "$times"
	# The root's, with what each shows.
	times=$(stat -c '%n %y' "$M/default_id" "$M/error")
	ended "$(start "$(spec /bin/true)")"
	equal "$(stat -c '%n %y' "$M/default_id" "$M/error")" "$times"
	echo second > "$M/default_id"
	echo local > "$M/default_id"
	[[ $(stat -c %y "$M/default_id") > $(stat -c %y "$M/error") ]]
	# Nothing that did not change has another time when it is looked at again.
	put "$M/sessions/$TALKS/signal" kill
	ended "$TALKS"
	eventually told_end "$TALKS"
	times=$(stat -c '%n %y' "$M"/* "$M/sessions/$DONE/"* "$M/executors/second/"*)
	sleep 0.02
	equal "$(stat -c '%n %y' "$M"/* "$M/sessions/$DONE/"* "$M/executors/second/"*)" "$times"
}

is_newer() {
	[[ $(stat -c %y "$1") > $2 ]]
}

@test "only what takes writes can be opened for writing, by root as well" {
	local dir name kind mode owner path got

	while read -r dir name kind mode owner; do
		path=$M/$(path_of "$dir" "$name" "$(object_of "$dir")")
		got=$("$FSOP" open-write "$path")
		case $kind in
		control | transaction | document) equal "$got" 0 || fail "$path" ;;
		directory) equal "$got" EISDIR || fail "$path" ;;
		*) [[ -L $path && ($name == default || $name == executor || $name == project) ]] || equal "$got" EACCES || fail "$path" ;;
		esac
	done < <(rows)
}

@test "inode numbers are unique, stay, and are those of the listing" {
	local all

	all=$(find "$M" -printf '%i\n' | wc -l)
	equal "$(find "$M" -printf '%i\n' | sort -u | wc -l)" "$all"
	equal "$(ls -i "$M/executors/second" | awk '$2 == "start" { print $1 }')" \
		"$(stat -c %i "$M/executors/second/start")"
	equal "$(stat -c %i "$M/executors/second/start")" "$(stat -c %i "$M/executors/second/start")"
}

@test "the README and the manuals name every file" {
	local dir name kind mode owner

	while read -r dir name kind mode owner; do
		grep -qF "  $name  ($kind)" "$M/README" || fail "$dir/$name"
	done < <(rows)
	awk 'length($0) > 100 { exit 1 }' "$M/README"
	"$CLOOP_DOCS" manual > "$BATS_TEST_TMPDIR/cloop.7"
	grep -q '^.It Pa log.tail' "$BATS_TEST_TMPDIR/cloop.7"
}

@test "the hub stops and leaves nothing" {
	hub_end
}
