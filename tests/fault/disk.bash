# What the tests of disks share. $WORK is a directory of the test.
# shellcheck shell=bash disable=SC2011,SC2154

# Room for starts is not what these are about.
hub_prepare() {
	echo '{"disk_floor_bytes": 0}' > "$D/home/etc/hub.json"
}

# running NAME: a workload that counts until it is told to end.
running() {
	start "$(script "i=0; while [ ! -e $WORK/end ]; do i=\$((i + 1)); echo \$i > $WORK/count; sleep 0.02; done
		echo the end; exit 9" "{labels: {\"cloop.session\": \"$1\"}}")"
}

counts_on() {
	local before

	before=$(cat "$WORK/count")
	eventually counted_beyond "${before:-0}"
}

counted_beyond() {
	local now

	now=$(cat "$WORK/count")
	((${now:-0} > $1))
}

# each_change ERRNO: everything that changes something is refused with it, and says where.
each_change() {
	refused "$1" '' mkdir "$M/executors/new" || return
	refused "$1" '' put "$M/executors/local/state" cordon || return
	refused "$1" '' put "$M/executors/local/config" '{"kind":"localprocess","max_concurrent":7}' || return
	refused "$1" '' put "$M/default_id" other || return
	refused "$1" '' rmdir "$M/executors/other" || return
	refused "$1" '' rmdir "$M/sessions/done" || return
	refused "$1" '' start "$(spec /bin/true)" || return
	like "$(jq -r .reason <<< "$refusal")" "$2"
}

# Everything is as it was before each_change.
nothing_changed() {
	equal "$(cat "$M/executors/local/state" "$M/executors/local/max_concurrent" "$M/default_id" | xargs)" \
		'ready 0 local' || return
	equal "$(ls "$M/executors" "$M/sessions" | xargs)" "$1"
}

works_again() {
	mkdir "$M/executors/new" 2> /dev/null && rmdir "$M/executors/new"
}

prepare() {
	mkdir "$M/executors/other"
	echo '{"kind":"localprocess"}' > "$M/executors/other/config"
	equal "$(ended "$(start "$(jq -c '.labels["cloop.session"] = "done"' <<< "$(spec /bin/true)")")")" 0
}
