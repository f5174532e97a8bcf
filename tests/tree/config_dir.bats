# Executors from files of executors.d, and hub.json while the hub runs: edited by hand, renamed, broken,
# removed, with sessions running and the hub killed in between.
# shellcheck shell=bash
# shellcheck disable=SC2154

load common

E() {
	echo "$M/executors/$1"
}

F() {
	echo "$C/executors.d/$1"
}

setup() {
	C=$D/home/etc
}

hub_prepare() {
	mkdir "$D/home/etc/executors.d"
	echo '{"kind":"localprocess","labels":{"from":"first"}}' > "$D/home/etc/executors.d/first.json"
}

# What is in the folder is the hub's user's.
own() {
	[[ -z ${HUB_USER-} ]] || chown -R "${UID_OF[$HUB_USER]}" "$C"
}

# file ID JSON: as an editor that writes another file and renames it.
file() {
	printf '%s\n' "$2" > "$C/.new"
	own
	mv "$C/.new" "$(F "$1.json")"
}

shows() {
	[[ -e $(E "$1")/$2 && $(cat "$(E "$1")/$2") == "$3" ]]
}

max_is() {
	shows "$1" max_concurrent "$2"
}

error_has() {
	[[ -e $(E "$1")/config_error && $(cat "$(E "$1")/config_error") == *"$2"* ]]
}

is_gone() {
	[[ ! -e $(E "$1") ]]
}

event_has() {
	tail -n +"$((${seen:-0} + 1))" "$M/events" | grep -q -- "$1"
}

mark() {
	seen=$(wc -l < "$M/events")
}

# Everything that was changed until now has been looked at.
settle() {
	file probe-of-the-test "{\"kind\":\"localprocess\",\"max_concurrent\":$((++SETTLED))}"
	eventually max_is probe-of-the-test "$SETTLED"
}
SETTLED=0

LOCAL='{"kind":"localprocess"}'

@test "what is there at the start is registered before anything is served" {
	equal "$(cat "$(E first)/state")" ready
	equal "$(cat "$(E first)/labels")" '{"from":"first"}'
	equal "$(cat "$(E first)/config_error")" ''
	equal "$(ended "$(start "$(spec true)" first)")" 0
	event_has '"type":"executor.registered".*"executor_id":"first","file":"executors.d/first.json"'
	# The same once more is no change.
	mark
	hub_restart
	run ! event_has 'executors.d'
}

@test "a file appears, changes in place, by sed -i, by a rename: one change each" {
	mark
	echo "$LOCAL" > "$(F edited.json)"
	own
	eventually shows edited state ready
	echo '{"kind":"localprocess","max_concurrent":2}' > "$(F edited.json)"
	eventually max_is edited 2
	sed -i 's/"max_concurrent":2/"max_concurrent": 3/' "$(F edited.json)"
	own
	eventually max_is edited 3
	file edited '{"kind":"localprocess","max_concurrent":4}'
	eventually max_is edited 4
	# Other bytes that mean the same, a touch, and a link to it are nothing.
	file edited '{"max_concurrent": 4, "kind": "localprocess"}'
	touch "$(F edited.json)"
	ln "$(F edited.json)" "$(F linked.json)"
	eventually max_is linked 4
	rm "$(F linked.json)"
	eventually is_gone linked
	equal "$(tail -n +"$((seen + 1))" "$M/events" | grep -c '"executor_id":"edited"')" 5
	equal "$(tail -n +"$((seen + 1))" "$M/events" | grep -c 'config.refused')" 0
}

@test "the tree cannot change it, and names the file" {
	refused EPERM '' put "$(E edited)/config" "$LOCAL"
	like "$(jq -r .reason <<< "$refusal")" 'executors.d/edited.json'
	refused EPERM '' me rmdir "$(E edited)"
	run ! me mkdir "$(E edited)"
	# Its state is the operator's as ever.
	put "$(E edited)/state" 'cordon by hand'
	equal "$(cat "$(E edited)/state")" cordoned
	settle
	equal "$(cat "$(E edited)/state")" cordoned
	put "$(E edited)/state" uncordon
}

@test "a file that is wrong leaves the version before it, and says what is wrong" {
	mark
	for text in rubbish '' '{"kind":"localprocess"' '{"kind":"elsewhere"}' \
		'{"kind":"localprocess","max_concurrent":-1}' '{"kind":"localprocess","colour":"red"}' \
		"$(printf '{"kind":"localprocess"}\xff')"; do
		file edited "$text"
		eventually error_has edited 'executors.d/edited.json: '
		equal "$(cat "$(E edited)/config")" '{"kind":"localprocess","max_concurrent":4}'
		equal "$(cat "$(E edited)/state")" ready
		file edited '{"kind":"localprocess","max_concurrent":4}'
		eventually shows edited config_error ''
	done
	event_has '"type":"config.refused".*"executor_id":"edited","file":"executors.d/edited.json"'
	file edited '{"kind":"localprocess","max_concurrent":5,"colour":"red"}'
	eventually error_has edited 'executors.d/edited.json: colour: unknown field'
	equal "$(ended "$(start "$(spec true)" edited)")" 0
	# Nobody is told twice.
	mark
	settle
	run ! event_has 'executor_id":"edited"'
	hub_kill
	equal "$(cat "$(E edited)/config")" '{"kind":"localprocess","max_concurrent":4}'
	error_has edited 'colour: unknown field'
	run ! event_has 'executor_id":"edited"'
	file edited '{"kind":"localprocess","max_concurrent":5}'
	eventually max_is edited 5
	equal "$(cat "$(E edited)/config_error")" ''
}

@test "one that never was right is shown unconfigured" {
	file broken '{"kind":7}'
	eventually error_has broken 'executors.d/broken.json: kind: '
	equal "$(cat "$(E broken)/state")" unconfigured
	refused EHOSTUNREACH '' start "$(spec true)" broken
	hub_restart
	equal "$(cat "$(E broken)/state")" unconfigured
	error_has broken kind
	file broken "$LOCAL"
	eventually shows broken state ready
	file broken2 nothing
	eventually error_has broken2 broken2
	rm "$(F broken2.json)"
	eventually is_gone broken2
}

@test "what is no plain file, too large, or somebody else's is refused and hangs nothing" {
	mkfifo "$(F fifo.json)"
	ln -s first.json "$(F link.json)"
	ln -s /nowhere "$(F dangling.json)"
	mkdir "$(F dir.json)"
	truncate -s 4G "$(F huge.json)"
	echo "$LOCAL" > "$(F open.json)"
	chmod o+w "$(F open.json)"
	own
	eventually error_has fifo 'is a fifo, not a plain file'
	eventually error_has link 'is a symbolic link, not a plain file'
	eventually error_has dangling 'is a symbolic link, not a plain file'
	eventually error_has dir 'is a directory, not a plain file'
	eventually error_has huge 'is larger than 65536 bytes'
	eventually error_has open 'is writable for everybody'
	chmod o-w "$(F open.json)"
	eventually shows open state ready
	if ((EUID == 0)); then
		chown "${UID_OF[mallory]}" "$(F open.json)"
		eventually error_has open 'belongs to uid'
		equal "$(cat "$(E open)/state")" ready
	fi
	rm -r "$C"/executors.d/{fifo,link,dangling,dir,huge,open}.json
	for id in fifo link dangling dir huge open; do
		eventually is_gone "$id"
	done
}

@test "other names are nothing, and impossible ones an event" {
	mark
	for name in .hidden.json x.json~ x.json.swp x.json.tmp '#x.json#' .x.json.swp README x.yaml .json; do
		echo "$LOCAL" > "$(F "$name")"
	done
	own
	settle
	equal "$(find "$M/executors" -maxdepth 1 -name '*hidden*' -o -name 'x*' -o -name 'README*' -o -name '*swp*')" ''
	run ! event_has refused
	echo "$LOCAL" > "$(F 'No Name.json')"
	echo "$LOCAL" > "$(F $'bad\nname.json')"
	echo "$LOCAL" > "$(F $'\xff.json')"
	own
	eventually event_has '"type":"config.refused","file":"executors.d/No Name.json"'
	eventually event_has 'executors.d/bad?name.json'
	eventually event_has '"file":"executors.d/?"'
	settle
	equal "$(tail -n +"$((seen + 1))" "$M/events" | grep -c 'config.refused')" 3
	rm "$(F 'No Name.json')" "$(F $'bad\nname.json')" "$(F $'\xff.json')"
}

@test "a file that takes the id of one that was made changes nothing there" {
	me mkdir "$(E made)"
	put "$(E made)/config" '{"kind":"localprocess","max_concurrent":7}'
	file made '{"kind":"localprocess","max_concurrent":8}'
	eventually error_has made 'executors.d/made.json: there is an executor made already'
	equal "$(cat "$(E made)/max_concurrent")" 7
	put "$(E made)/config" '{"kind":"localprocess","max_concurrent":6}'
	equal "$(cat "$(E made)/max_concurrent")" 6
	file local '{"kind":"localprocess","max_concurrent":8}'
	eventually error_has local 'executors.d/local.json'
	rm "$(F local.json)"
	eventually shows local config_error ''
	# When that one goes, the file is taken.
	me rmdir "$(E made)"
	eventually max_is made 8
	refused EPERM '' me rmdir "$(E made)"
	rm "$(F made.json)"
	eventually is_gone made
}

@test "a removed file: cordoned, and unregistered when nothing is in flight" {
	file leaver "$LOCAL"
	eventually shows leaver state ready
	one=$(start "$(spec sleep 1000)" leaver)
	mark
	rm "$(F leaver.json)"
	eventually shows leaver state cordoned
	like "$(jq -r .reason "$(E leaver)/health")" 'executors.d/leaver.json was removed'
	refused EBUSY '' start "$(spec true)" leaver
	equal "$(now "$one" state)" running
	# Nobody talks it into working again.
	put "$(E leaver)/state" uncordon
	refused EBUSY '' start "$(spec true)" leaver
	hub_kill
	equal "$(now "$one" state)" running
	refused EBUSY '' start "$(spec true)" leaver
	put "$M/sessions/$one/signal" kill
	eventually is_gone leaver
	equal "$(ended "$one")" 137
	event_has '"type":"executor.removed".*"executor_id":"leaver","file":"executors.d/leaver.json"'
	hub_restart
	is_gone leaver
}

@test "a file that comes back in time: as if nothing had happened" {
	file leaver "$LOCAL"
	eventually shows leaver state ready
	one=$(start "$(spec sleep 1000)" leaver)
	inode=$(stat -c %i "$(E leaver)")
	rm "$(F leaver.json)"
	eventually shows leaver state cordoned
	hub_stop
	file leaver '{"kind":"localprocess","max_concurrent":9}'
	hub_start
	equal "$(cat "$(E leaver)/state")" ready
	max_is leaver 9
	equal "$(stat -c %i "$(E leaver)")" "$inode"
	equal "$(now "$one" state)" running
	equal "$(ended "$(start "$(spec true)" leaver)")" 0
	# One that was cordoned by hand before stays so.
	put "$(E leaver)/state" 'cordon by hand'
	rm "$(F leaver.json)"
	settle
	file leaver '{"kind":"localprocess","max_concurrent":9}'
	settle
	equal "$(cat "$(E leaver)/state")" cordoned
	like "$(jq -r .reason "$(E leaver)/health")" 'by hand'
	put "$M/sessions/$one/signal" kill
	ended "$one"
	settle
	equal "$(cat "$(E leaver)/state")" cordoned
	rm "$(F leaver.json)"
	eventually is_gone leaver
}

@test "removed while the hub is away" {
	file away "$LOCAL"
	file idle "$LOCAL"
	eventually shows away state ready
	eventually shows idle state ready
	one=$(start "$(spec sleep 1000)" away)
	hub_stop
	rm "$(F away.json)" "$(F idle.json)"
	hub_start
	is_gone idle
	equal "$(cat "$(E away)/state")" cordoned
	put "$M/sessions/$one/signal" kill
	eventually is_gone away
}

@test "many at once, and changed in the middle of it" {
	for i in $(seq 100); do
		echo "$LOCAL" > "$(F "many-$i.json")"
	done
	own
	eventually shows many-100 state ready
	for i in $(seq 100); do
		echo '{"kind":"localprocess","max_concurrent":1}' > "$(F "many-$i.json")"
		((i != 50)) || hub_kill
	done
	for i in $(seq 100); do
		eventually max_is "many-$i" 1
	done
	rm "$C"/executors.d/many-*.json
	for i in $(seq 100); do
		eventually is_gone "many-$i"
	done
}

@test "a folder that cannot be read says nothing; one that is gone holds nothing" {
	file stays "$LOCAL"
	eventually shows stays state ready
	mark
	chmod o+w "$C/executors.d"
	eventually event_has '"type":"config.refused","file":"executors.d"'
	equal "$(cat "$(E stays)/state")" ready
	chmod o-w "$C/executors.d"
	settle
	mv "$C/executors.d" "$C/elsewhere"
	eventually is_gone stays
	mv "$C/elsewhere" "$C/executors.d"
	eventually shows stays state ready
	# The whole directory goes and comes; another one with that name is looked at.
	mv "$C" "$D/home/other"
	eventually is_gone stays
	cp -a "$D/home/other" "$D/home/etc"
	eventually shows stays state ready
	file stays '{"kind":"localprocess","max_concurrent":2}'
	eventually max_is stays 2
	rm -r "$D/home/other"
}

quota_of() {
	local id

	id=$(start "$(script 'head -c 9000 /dev/zero')")
	ended "$id" > /dev/null
	now "$id" log | wc -c
}

quota_is_small() {
	(($(quota_of) < 9000))
}

quota_is_large() {
	(($(quota_of) == 9000))
}

hub_json() {
	printf '%s\n' "$1" > "$C/.hub"
	own
	mv "$C/.hub" "$C/hub.json"
}

@test "hub.json: taken when it changes, kept when it is wrong, the defaults when it goes" {
	mark
	hub_json '{"log_quota_bytes":4096}'
	eventually quota_is_small
	event_has '"type":"config.accepted","file":"hub.json"'
	mark
	hub_json '{"log_quota_bytes":4095}'
	eventually event_has '"type":"config.refused","file":"hub.json","reason":"hub.json: log_quota_bytes: '
	grep -q 'warning: hub.json: log_quota_bytes: ' "$M/status"
	quota_is_small
	# A hub that takes over goes on with what was in force; a new daemon would refuse.
	hub_kill
	quota_is_small
	hub_kill
	quota_is_small
	grep -q 'warning: hub.json' "$M/status"
	sed -i 's/4095/4097/' "$C/hub.json"
	own
	eventually quota_is_small
	eventually [ "$(grep -c warning "$M/status")" -le 1 ]
	rm "$C/hub.json"
	eventually quota_is_large
	hub_kill
	quota_is_large
}

@test "hub.json: what tightens holds at once, what would loosen waits for a restart" {
	mark
	hub_json '{"executors":{"allow_host_process":false}}'
	eventually event_has '"type":"config.accepted","file":"hub.json"'
	equal "$(cat "$M/policy/host_execution")" denied
	refused EACCES '' start "$(spec true)"
	file denied "$LOCAL"
	eventually error_has denied 'does not isolate workloads'
	equal "$(cat "$(E denied)/state")" unconfigured
	mark
	hub_json '{"executors":{"allow_host_process":true}}'
	eventually event_has '"file":"hub.json","reason":"executors.allow_host_process waits for a restart"'
	equal "$(cat "$M/policy/host_execution")" denied
	grep -q 'waits for a restart' "$M/status"
	hub_kill
	equal "$(cat "$M/policy/host_execution")" denied
	hub_restart
	equal "$(cat "$M/policy/host_execution")" allowed
	equal "$(cat "$(E denied)/state")" ready
	rm "$(F denied.json)" "$C/hub.json"
	eventually is_gone denied
}

@test "the hub stops, and nothing is left" {
	hub_end
}
