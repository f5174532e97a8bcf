# What quickstart.sh and uninstall.sh know of the installed service. To be sourced.
# shellcheck shell=bash
# shellcheck disable=SC2034 # used by those who source this

prefix=/usr/local
cloopd=$prefix/sbin/cloopd
mountpoint=/cloop
state_dir=/var/lib/cloop

# Whether systemd runs this machine: not merely whether it is installed.
service_has_systemd() {
	[[ -d /run/systemd/system && $(cat /proc/1/comm 2>/dev/null) == systemd ]]
}

# Whether systemd started the hub that runs.
service_is_systemds() {
	service_has_systemd && systemctl --quiet is-active cloopd.service 2>/dev/null
}

# The pid of the keeper: whoever holds the lock of the state directory. Nothing when none runs.
service_keeper() {
	local inode pid
	inode=$(stat -c %i "$state_dir/lock" 2>/dev/null) || return 1
	# A number that a file of another file system may have as well.
	while read -r pid; do
		[[ $(cat "/proc/$pid/comm" 2>/dev/null) == cloopd ]] && printf '%s\n' "$pid" && return
	done < <(awk -v end=":$inode" '
		$2 == "POSIX" && substr($6, length($6) - length(end) + 1) == end { print $5 }' /proc/locks)
	return 1
}

# The pid of the hub of that keeper.
service_hub() {
	local pid children
	read -r -a children 2>/dev/null <"/proc/$1/task/$1/children"
	for pid in "${children[@]}"; do
		[[ $(cat "/proc/$pid/comm" 2>/dev/null) == cloopd-hub ]] && printf '%s\n' "$pid" && return
	done
	return 1
}

# Whether the tree answers. A hub that hangs does not hang its caller.
service_answers() {
	timeout -k 1 5 cat "$mountpoint/version" >/dev/null 2>&1
}

# until_ SECONDS COMMAND...: tries until it succeeds.
until_() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.2
	done
}
