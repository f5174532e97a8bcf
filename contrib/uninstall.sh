#!/bin/bash
# Takes back what contrib/quickstart.sh installed. To be run as root.
#
#	contrib/uninstall.sh [--purge]
#
# Stops the hub, unmounts, removes the installed files. Workloads that run go on, and /var/lib/cloop
# with their logs is kept: another quickstart finds them. With --purge they are ended, and sessions,
# logs, settings and the groups go too. Says what it did; does nothing the second time.
set -u

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit
# shellcheck source=contrib/service.sh
. "$source_dir/contrib/service.sh"

readonly installed_files=(
	"$cloopd"
	"$prefix/libexec/cloop/cloop-launcher"
	"$prefix/share/man/man7/cloop.7"
	"$prefix/share/man/man8/cloopd.8"
	"$prefix/lib/systemd/system/cloopd.service"
)
# Made when they were missing; removed when nothing else is in them.
readonly installed_dirs=(
	"$prefix/libexec/cloop"
	"$prefix/libexec"
	"$prefix/share/man/man7"
	"$prefix/share/man/man8"
	"$prefix/lib/systemd/system"
	"$prefix/lib/systemd"
)

say() {
	printf '%s\n' "$*"
}

die() {
	printf 'uninstall.sh: %s\n' "$*" >&2
	exit 1
}

# --- workloads ------------------------------------------------------------------------------------

# The locks of sessions that run: their shims hold them, with or without a hub.
running_sessions() {
	local locks
	locks=" $(awk '$2 == "OFDLCK" { sub(/.*:/, "", $6); print $6 }' /proc/locks | tr '\n' ' ')"
	find "$state_dir/sessions" -mindepth 3 -maxdepth 3 -name lock -printf '%i %p\n' 2>/dev/null |
		while read -r inode path; do
			[[ $locks != *" $inode "* ]] || printf '%s\n' "$path"
		done
}

no_session_runs() {
	[[ -z $(running_sessions) ]]
}

say_what_runs() {
	local n
	n=$(running_sessions | wc -l)
	((n == 0)) || say "$n workloads run on without a hub"
}

# Only a hub can tell a shim to end its workload.
end_sessions() {
	local session
	no_session_runs && return
	service_keeper >/dev/null && service_answers ||
		die "workloads still run: start the hub ($cloopd serve), so that they can be ended"
	for session in "$mountpoint"/executors/*/sessions/*; do
		[[ -L $session ]] || continue
		echo kill >"$session/signal" && say "ended session ${session##*/}"
	done
	until_ 30 no_session_runs || die "workloads still run: $(running_sessions | tr '\n' ' ')"
}

# --- the hub --------------------------------------------------------------------------------------

no_keeper() {
	! service_keeper >/dev/null
}

stop_hub() {
	if service_has_systemd && systemctl --quiet is-enabled cloopd.service 2>/dev/null; then
		systemctl disable --now cloopd.service || die "the service could not be stopped"
		say "stopped and disabled the service cloopd"
	fi
	local keeper
	keeper=$(service_keeper) || return
	if [[ -x $cloopd ]]; then
		"$cloopd" stop || die "the hub could not be stopped"
	else
		# What its program would do, which is gone.
		kill "$keeper" && until_ 60 no_keeper || die "the hub could not be stopped"
	fi
	say "stopped the hub"
}

# Only a mount of ours: a keeper that was killed leaves a dead one.
unmount() {
	while awk -v at="$mountpoint" '
		$5 == at { type = $0; sub(/.* - /, "", type); last = type }
		END { exit !(last ~ /^fuse\.cloop cloop /) }' /proc/self/mountinfo; do
		umount --lazy "$mountpoint" || die "$mountpoint could not be unmounted"
		say "unmounted $mountpoint"
	done
}

# --- files ----------------------------------------------------------------------------------------

remove_files() {
	local path
	for path in "${installed_files[@]}"; do
		[[ -e $path ]] || continue
		rm -f "$path" || die "$path could not be removed"
		say "removed $path"
	done
	for path in "${installed_dirs[@]}"; do
		rmdir "$path" 2>/dev/null && say "removed $path"
	done
	rmdir "$mountpoint" 2>/dev/null && say "removed $mountpoint"
	! service_has_systemd || systemctl daemon-reload
}

purge() {
	local group path
	for path in "$state_dir" /run/cloop /etc/cloop; do
		[[ -e $path ]] || continue
		rm -rf "$path" || die "$path could not be removed"
		say "removed $path"
	done
	for group in cloop cloop-admin; do
		getent group "$group" >/dev/null || continue
		groupdel "$group" && say "removed the group $group"
	done
}

keep() {
	local kept=()
	[[ -e $state_dir ]] && kept+=("$state_dir (sessions and logs)")
	[[ -e /etc/cloop ]] && kept+=("/etc/cloop (settings)")
	getent group cloop >/dev/null && kept+=("the groups cloop and cloop-admin")
	((${#kept[@]} > 0)) || return 0
	printf 'kept %s\n' "${kept[@]}"
	say "remove them with $0 --purge"
}

main() {
	local purge=false
	case ${1-} in
	'') ;;
	--purge) purge=true ;;
	*) die "usage: contrib/uninstall.sh [--purge]" ;;
	esac
	(($# <= 1)) || die "usage: contrib/uninstall.sh [--purge]"
	((EUID == 0)) || die "run this as root"

	! $purge || end_sessions
	stop_hub
	unmount
	say_what_runs
	remove_files
	if $purge; then
		purge
	else
		keep
	fi
	say "cloop is not installed (the packages that were needed to build it are left alone)"
}

main "$@"
