# Everybody is killed at each step of everything that changes something: what was acknowledged has
# happened once, its answer is right, and nothing is left over.
#
# With CLOOP_LONG=1 the keeper is killed together with the hub at every step too, else at some.

load ../tree/common
load ../tree/watch
load matrix

# What every change passes, in this order: read from the kernel; kept for the next hub; on the writer
# thread before, in and behind its transaction; back in the loop; told to watchers; answered.
COMMON=(wire.read wire.kept)
COMMITTED=(change.apply change.applied store.commit store.committed change.committed)
ANSWERED=(change.told wire.reply wire.replied prune.apply)
DOCUMENT=(document.appended document.complete document.answer)
LAUNCH=(launch.inserted store.commit store.committed launch.row launch.asked launch.started
	document.answer wire.reply wire.replied running.apply running.written)
REFUSED=(launch.row launch.asked launch.failed change.apply change.applied store.committed
	change.committed document.answer wire.reply wire.replied prune.apply)
REMOVED=(removal.begin removal.empty removal.unlocked removal.done)
END=(end.told end.apply end.written)
LAUNCHER=(launcher.launch launcher.handed_over launcher.answer launcher.answered)
SHIM=(shim.started shim.after_started shim.claimed shim.log_open shim.clone shim.running shim.ending
	shim.before_sync shim.before_exit shim.exit_record shim.before_exited)
NUDGER=(nudger.order nudger.done)
SIGNAL=(shim.signal_recorded shim.signal_applied signal.done)

setup_file() {
	hub_make
	# shellcheck disable=SC2046
	faults_prepare $(printf '%s\n' "${COMMON[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}" "${DOCUMENT[@]}" \
		"${LAUNCH[@]}" "${REFUSED[@]}" "${REMOVED[@]}" "${END[@]}" "${LAUNCHER[@]}" "${SHIM[@]}" \
		"${SIGNAL[@]}" "${NUDGER[@]}" | sort -u)
	hub_start
}

setup() {
	need_root
	NUMBER=0
}

# each_point CASE VICTIM POINT…: runs CASE POINT kill VICTIM for each.
each_point() {
	local case=$1 victim=$2 point
	shift 2

	for point; do
		NUMBER=$((NUMBER + 1))
		"$case" "$point" kill "$victim" || fail "$case, $victim killed at $point" || return
	done
	nothing_extra
}

# each_point_both CASE POINT…: the same, with the keeper, and the mount; CASE POINT kill-both keeper.
each_point_both() {
	local case=$1 point i=0
	shift

	for point; do
		NUMBER=$((NUMBER + 1))
		((i++ % 6 == 1)) || [[ ${CLOOP_LONG-0} == 1 ]] || continue
		"$case" "$point" kill-both keeper || fail "$case, keeper and hub killed at $point" || return
	done
	nothing_extra
}

need_long() {
	[[ ${CLOOP_LONG-0} == 1 ]] || skip "is one of the long forms: CLOOP_LONG=1"
}

# asked ACTION COMMAND…: whether it was ACKNOWLEDGED. Only together with the mount it may not be.
asked() {
	local action=$1
	shift

	ACKNOWLEDGED=1
	"$@" 2> "$D/refusal" && return
	ACKNOWLEDGED=0
	[[ $action == kill-both ]] || fail "$(cat "$D/refusal")"
}

# The acknowledged session ran once, and nothing of it is missing.
ran_once() {
	local id=$1 i=$2

	equal "$(ended "$id")" $((i % 250)) || return
	equal "$(now "$id" stdout) $(now "$id" stderr)" "out-$i err-$i" || return
	equal "$(now "$id" log | sort | xargs)" "err-$i out-$i" || return
	equal "$(status "$id" '.state + " " + .cause')" 'exited exit' || return
	equal "$(lines_of "$D/work/$id")" 1 || return
	equal "$(events_of session.started session "$id")" 1 || return
	equal "$(events_of session.ended session "$id")" 1
}

# started_once POINT ACTION VICTIM
started_once() {
	local i=$NUMBER id=${1//./-}-$2 spec answer

	spec=$(script "echo ran >> $D/work/$id; echo out-$i; echo err-$i >&2; exit $((i % 250))" \
		"{labels: {\"cloop.session\": \"$id\"}}")
	arm "$1" "$2"
	if answer=$(start "$spec" 2> "$D/refusal"); then
		equal "$answer" "$id" || return
	else
		[[ $2 == kill-both ]] || fail "not started: $(cat "$D/refusal")" || return
	fi
	fired "$@" || return
	if [[ $2 == kill-both ]]; then
		# Nobody was answered: it ran, or it never did. Asking again tells, and does no harm.
		equal "$(start "$spec")" "$id" || return
	fi
	ran_once "$id" "$i"
}

@test "a launch, the hub killed at each step" {
	each_point started_once hub "${COMMON[@]}" "${DOCUMENT[@]:0:2}" "${LAUNCH[@]}"
}

@test "a launch, keeper and hub killed" {
	each_point_both started_once "${COMMON[@]}" "${DOCUMENT[@]:0:2}" "${LAUNCH[@]}"
}

@test "a launch, the launcher killed at each step" {
	each_point started_once launcher "${LAUNCHER[@]}"
}

# lost POINT ACTION VICTIM: its shim died. The session says so, what it ran is ended, and no trial
# starts it again.
lost() {
	local id=${1//./-}-lost spec

	spec=$(script "echo ran >> $D/work/$id; sleep 0.2; exit 0" "{labels: {\"cloop.session\": \"$id\"}}")
	arm "$1" "$2"
	equal "$(start "$spec")" "$id" || return
	fired "$@" || return
	if [[ $1 == shim.before_exited ]]; then
		# All that there is to know was written.
		equal "$(ended "$id") $(now "$id" state)" '0 exited' || return
	else
		equal "$(ended "$id")" 255 || return
		equal "$(status "$id" '.state + " " + .cause + " " + (.error | tostring)')" \
			'failed lost its supervisor was killed; what it ran was ended' || return
	fi
	(($(lines_of "$D/work/$id") <= 1)) || return
	equal "$(start "$spec")" "$id" || return
	equal "$(now "$id" attempt)" 1 || return
	equal "$(events_of session.ended session "$id")" 1
}

@test "a launch and its end, the shim killed at each step" {
	each_point lost shim "${SHIM[@]}"
}

# not_started_once POINT ACTION VICTIM: what cannot be executed leaves nothing but its refusal.
not_started_once() {
	local id=${1//./-}-$2-refused spec

	spec="{\"argv\":[\"/nonexistent/$id\"],\"labels\":{\"cloop.session\":\"$id\"}}"
	arm "$1" "$2"
	if start "$spec" 2> "$D/refusal"; then
		fail "started: $id" || return
	fi
	fired "$@" || return
	if [[ $2 == kill ]]; then
		equal "$(jq -r '.errno + " " + .field' <<< "$(grep "^{" "$D/refusal")")" 'ENOENT argv[0]' || return
		equal "$(jq -r '.errno + " " + .field' "$M/error.json")" 'ENOENT argv[0]' || return
	elif [[ -e $M/sessions/$id ]]; then
		# Nobody waited for the refusal any more.
		equal "$(ended "$id") $(status "$id" .state)" '255 failed' || return
		rmdir "$M/sessions/$id" || return
	fi
	equal "$(fsop stat "$M/sessions/$id")" ENOENT || return
	equal "$(events_of session.started session "$id")" 0
}

@test "a start that is refused, the hub killed at each step" {
	each_point not_started_once hub "${COMMON[@]}" "${DOCUMENT[@]:0:2}" "${REFUSED[@]}" removal.begin removal.done
}

@test "a start that is refused, keeper and hub killed" {
	need_long
	each_point_both not_started_once "${COMMON[@]}" "${DOCUMENT[@]:0:2}" "${REFUSED[@]}" removal.begin removal.done
}

@test "a start that is refused, the launcher killed at each step" {
	# They come after growing delays.
	hub_restart
	each_point not_started_once launcher "${LAUNCHER[@]}"
}

# cordoned_once POINT ACTION VICTIM
cordoned_once() {
	local reason="because-$1-$2"

	arm "$1" "$2"
	asked "$2" put "$M/executors/local/state" "cordon $reason" || return
	fired "$@" || return
	if ((ACKNOWLEDGED)); then
		equal "$(cat "$M/executors/local/state")" cordoned || return
		equal "$(events_of executor.state_change reason "$reason")" 1 || return
	else
		(($(events_of executor.state_change reason "$reason") <= 1)) || return
	fi
	echo uncordon > "$M/executors/local/state"
	equal "$(cat "$M/executors/local/state")" ready
}

@test "a command, the hub killed at each step" {
	each_point cordoned_once hub "${COMMON[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}"
}

@test "a command, keeper and hub killed" {
	each_point_both cordoned_once "${COMMON[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}"
}

# made_once POINT ACTION VICTIM
made_once() {
	local name=${1//./-}-$2

	arm "$1" "$2"
	asked "$2" mkdir "$M/executors/$name" || return
	fired "$@" || return
	((ACKNOWLEDGED)) || [[ -d $M/executors/$name ]] || mkdir "$M/executors/$name" || return
	equal "$(cat "$M/executors/$name/state")" unconfigured || return
	equal "$(events_of executor.added executor_id "$name")" 1 || return
	equal "$(ls "$M/executors" | grep -c "^$name$")" 1
}

@test "a mkdir, the hub killed at each step" {
	each_point made_once hub "${COMMON[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}"
}

@test "a mkdir, keeper and hub killed" {
	need_long
	each_point_both made_once "${COMMON[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}"
}

# configured_once POINT ACTION VICTIM: the document comes in two parts, with the death in the second.
configured_once() {
	local name=wire-kept-kill config labels

	labels="{\"point\":\"$1\",\"action\":\"$2\"}"
	config="{\"kind\":\"localprocess\",\"labels\":$labels}"
	exec 7<> "$M/executors/$name/config"
	printf '%s' "${config:0:10}" >&7
	arm "$1" "$2"
	asked "$2" printf '%s' "${config:10}" >&7 || return
	[[ $2 == kill-both ]] || equal "$(jq -cS .labels <&7)" "$(jq -cS <<< "$labels")" || return
	exec 7>&-
	fired "$@" || return
	if ! ((ACKNOWLEDGED)); then
		# As a whole, or not at all.
		[[ $(cat "$M/executors/$name/labels") == "$before" ]] ||
			equal "$(jq -cS . "$M/executors/$name/labels")" "$(jq -cS <<< "$labels")" || return
		echo "$config" > "$M/executors/$name/config"
	fi
	equal "$(jq -cS . "$M/executors/$name/labels")" "$(jq -cS <<< "$labels")" || return
	before=$(cat "$M/executors/$name/labels")
}

@test "a document in two parts, the hub killed at each step" {
	each_point configured_once hub "${COMMON[@]}" "${DOCUMENT[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}"
}

@test "a document in two parts, keeper and hub killed" {
	need_long
	local before

	before=$(cat "$M/executors/wire-kept-kill/labels")
	each_point_both configured_once "${COMMON[@]}" "${DOCUMENT[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}"
}

# unmade_once POINT ACTION VICTIM: what made_once left.
unmade_once() {
	local name=${1//./-}-$2

	[[ -d $M/executors/$name ]] || mkdir "$M/executors/$name" || return
	arm "$1" "$2"
	asked "$2" rmdir "$M/executors/$name" || return
	fired "$@" || return
	((ACKNOWLEDGED)) || [[ ! -d $M/executors/$name ]] || rmdir "$M/executors/$name" || return
	equal "$(fsop stat "$M/executors/$name")" ENOENT || return
	equal "$(events_of executor.removed executor_id "$name")" 1
}

@test "an rmdir of an executor, the hub killed at each step" {
	each_point unmade_once hub "${COMMON[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}"
}

@test "an rmdir of an executor, keeper and hub killed" {
	need_long
	each_point_both unmade_once "${COMMON[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}"
}

has_asked() {
	[[ $(now counter stdout | grep -c asked) == "$1" ]]
}

# signalled_once POINT ACTION VICTIM
signalled_once() {
	local count

	count=$(now counter stdout | grep -c asked || true)
	arm "$1" "$2"
	asked "$2" put "$M/sessions/counter/signal" terminate || return
	fired "$@" || return
	((ACKNOWLEDGED == 0)) || eventually has_asked $((count + 1)) || return
	# Another one would have come by now.
	sleep 0.2
	(($(now counter stdout | grep -c asked) <= count + 1))
}

counter() {
	spec /usr/bin/python3 -uIS -c '
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("up")
while True:
    signal.sigwait([signal.SIGTERM])
    print("asked")' | jq -c '. + {labels: {"cloop.session": "counter"}}'
}

@test "a signal, the hub killed at each step" {
	start "$(counter)"
	timeout 60 head -n 1 "$M/sessions/counter/follow"
	each_point signalled_once hub "${COMMON[@]}" signal.done "${COMMITTED[@]}" "${ANSWERED[@]}"
}

@test "a signal, keeper and hub killed" {
	each_point_both signalled_once "${COMMON[@]}" signal.done "${COMMITTED[@]}" "${ANSWERED[@]}"
	echo kill > "$M/sessions/counter/signal"
	equal "$(ended counter)" 137
}

@test "a signal, the shim killed before and after it" {
	local point

	for point in shim.signal_recorded shim.signal_applied; do
		start "$(jq -c ".labels[\"cloop.session\"] = \"$point\"" <<< "$(counter)")"
		timeout 60 head -n 1 "$M/sessions/$point/follow"
		arm "$point" kill
		echo terminate > "$M/sessions/$point/signal"
		fired "$point" kill shim
		equal "$(ended "$point") $(status "$point" .cause)" '255 lost' || fail "$point"
	done
}

# ended_once POINT ACTION VICTIM
ended_once() {
	local i=$NUMBER id=${1//./-}-$2-ends

	start "$(script "echo ran >> $D/work/$id; echo out-$i; echo err-$i >&2
		while [ ! -e $D/work/go-$id ]; do sleep 0.02; done; exit $((i % 250))" \
		"{labels: {\"cloop.session\": \"$id\"}}")"
	timeout 60 cat "$M/sessions/$id/wait" > "$D/wait" 2> /dev/null 3>&- &
	local waiter=$!
	eventually is_state "$id" running
	arm "$1" "$2"
	touch "$D/work/go-$id"
	fired "$@" || return
	if [[ $2 == kill ]]; then
		wait "$waiter"
		equal "$(cat "$D/wait")" $((i % 250)) || return
	else
		wait "$waiter" || true
	fi
	ran_once "$id" "$i"
}

@test "the end of a session, the hub killed at each step" {
	each_point ended_once hub "${END[@]}"
}

@test "the end of a session, keeper and hub killed" {
	CLOOP_LONG=1 each_point_both ended_once "${END[@]}"
}

# forgotten_once POINT ACTION VICTIM
forgotten_once() {
	local id=${1//./-}-$2-gone

	start "$(script 'echo text' "{labels: {\"cloop.session\": \"$id\"}}")"
	equal "$(ended "$id")" 0 || return
	arm "$1" "$2"
	asked "$2" rmdir "$M/sessions/$id" || return
	fired "$@" || return
	((ACKNOWLEDGED)) || [[ ! -d $M/sessions/$id ]] || rmdir "$M/sessions/$id" || return
	equal "$(fsop stat "$M/sessions/$id")" ENOENT || return
	equal "$(events_of session.removed session "$id")" 1
}

@test "a session is forgotten, the hub killed at each step" {
	each_point forgotten_once hub "${COMMON[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}" "${REMOVED[@]}"
}

@test "a session is forgotten, keeper and hub killed" {
	need_long
	each_point_both forgotten_once "${COMMON[@]}" "${COMMITTED[@]}" "${ANSWERED[@]}" "${REMOVED[@]}"
}

# announced_once POINT ACTION VICTIM
announced_once() {
	local id=${1//./-}-$2-announced

	arm "$1" "$2"
	start "$(jq -c ".labels[\"cloop.session\"] = \"$id\"" <<< "$(spec /bin/true)")" || return
	fired "$@" || return
	eventually saw names "sessions/$id CREATE,ISDIR" || return
	equal "$(ended "$id") $(now "$id" attempt)" '0 1' || return
	# What it was about to say may be said again, and is never made up.
	equal "$(fsop stat "$M/sessions/$id")" 0
}

@test "a session is announced, the nudger killed at each step" {
	need python3
	hub_restart
	watch names "$M/sessions"
	known 1
	each_point announced_once nudger "${NUDGER[@]}"
	background_ends
}

# The rows of what was answered while a hub died are removed with the next mount, if not before.
@test "the journal is empty after another mount" {
	hub_restart
	equal "$(python3 -c '
import sqlite3, sys
print(sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True)
      .execute("SELECT count(*) FROM journal").fetchone()[0])' "$D/home/state/cloop.db")" 0
}

@test "the hub stops and leaves nothing" {
	hub_end
}
