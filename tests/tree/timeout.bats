# The end of a session's time, in a build in which a minute of it is short.

load common

setup_file() {
	hub_begin
}

@test "a timeout is 137, with its cause" {
	local id

	id=$(start "$(script 'trap "" TERM INT; while :; do sleep 1; done' '{timeout_minutes: 1}')")
	equal "$(ended "$id")" 137
	equal "$(status "$id" '[.state, .cause, .exit_code] | map(tostring) | join(" ")')" 'killed timeout -1'
	like "$(now "$id" error)" 'timeout'
	id=$(start "$(script 'exit 2' '{timeout_minutes: 1}')")
	equal "$(ended "$id") $(status "$id" .cause)" '2 exit'
}
