#!/bin/bash
# From a clone of this repository to a running hub and a first workload. To be run as root on Debian
# bookworm:
#
#	sudo contrib/quickstart.sh
#
# Says what it does, line by line. Run again, it upgrades what is there: sessions go on, and there is
# never a second daemon. contrib/uninstall.sh takes everything back.
set -u

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit
# shellcheck source=contrib/packages.sh
. "$source_dir/contrib/packages.sh"
# shellcheck source=contrib/service.sh
. "$source_dir/contrib/service.sh"

readonly build_dir=$source_dir/build
readonly build_options=(--buildtype=release --prefix="$prefix" -Dtests=false)

step() {
	printf '\n==> %s\n' "$*"
}

say() {
	printf '    %s\n' "$*"
}

die() {
	printf '\nquickstart.sh: %s\n' "$*" >&2
	exit 1
}

# quietly WHAT COMMAND...: its output is shown only when it fails.
quietly() {
	local what=$1 log
	shift
	log=$(mktemp) || exit
	if ! "$@" >"$log" 2>&1 </dev/null; then
		tail -n 40 "$log" >&2
		rm -f "$log"
		die "$what failed"
	fi
	rm -f "$log"
}

# --- preparing ------------------------------------------------------------------------------------

check_machine() {
	((EUID == 0)) || die "run this as root: sudo contrib/quickstart.sh"
	command -v apt-get >/dev/null || die "apt-get is missing: this script is for Debian"
	[[ -c /dev/fuse ]] && return
	modprobe fuse 2>/dev/null
	[[ -c /dev/fuse ]] || die "/dev/fuse is missing: load the kernel's module fuse (a container needs" \
		"the device and the right to mount)"
}

install_packages() {
	step "Packages"
	packages_install "${packages_build[@]}" || {
		packages_explain >&2
		die "packages could not be installed"
	}
	say "what is needed to build and to run is there"
}

# A build directory that does not fit any more (another meson, a moved clone) is made anew.
configure() {
	if [[ -f $build_dir/build.ninja ]]; then
		meson setup --reconfigure "$build_dir" "$source_dir" "${build_options[@]}" && return
		meson setup --wipe "$build_dir" "$source_dir" "${build_options[@]}" && return
	fi
	[[ ! -d $build_dir/meson-private ]] || rm -rf "$build_dir"
	meson setup "$build_dir" "$source_dir" "${build_options[@]}"
}

build() {
	step "Building in $build_dir"
	quietly "configuring" configure
	quietly "building" ninja -C "$build_dir"
	say "$("$build_dir/fs/cloopd" --version)"
}

install_files() {
	step "Installing below $prefix"
	quietly "installing" meson install -C "$build_dir" --no-rebuild --only-changed
	# The clone's owner must be able to build there, too.
	chown -R --reference="$source_dir" "$build_dir"
	say "$cloopd, and man 8 cloopd, man 7 cloop"
}

make_groups() {
	local group
	step "Groups"
	for group in cloop cloop-admin; do
		getent group "$group" >/dev/null || quietly "making group $group" groupadd --system "$group"
	done
	say "members of cloop start work, members of cloop-admin administer"
	[[ -n ${SUDO_USER-} && $SUDO_USER != root ]] && getent passwd "$SUDO_USER" >/dev/null || return 0
	quietly "adding $SUDO_USER to the groups" usermod --append --groups cloop,cloop-admin "$SUDO_USER"
	say "$SUDO_USER is in both; that holds from the next login on (or now, in a shell that"
	say "'newgrp cloop' starts)"
}

# --- the hub --------------------------------------------------------------------------------------

start_hub() {
	mkdir -p "$mountpoint" 2>/dev/null # a dead mount there is cleared by cloopd
	if service_has_systemd; then
		step "Starting the service"
		systemctl daemon-reload || die "systemctl daemon-reload failed"
		systemctl enable --now cloopd.service || die "the service did not start: see journalctl -u cloopd"
	else
		step "Starting the hub (systemd does not run here: as a daemon of its own)"
		"$cloopd" serve "$mountpoint" || die "the hub did not start"
	fi
}

# The file that a process executes is the installed one.
runs_installed() {
	[[ $(stat -L -c %d:%i "/proc/$1/exe" 2>/dev/null) == $(stat -c %d:%i "$cloopd") ]]
}

hub_is_new() {
	local hub
	hub=$(service_hub "$keeper") && runs_installed "$hub" && service_answers
}

restart_hub() {
	say "this build cannot take over the mount as it is: starting again; sessions run on meanwhile"
	if service_is_systemds; then
		systemctl restart cloopd.service || die "the service did not start: see journalctl -u cloopd"
	else
		"$cloopd" stop || die "the running hub did not stop"
		start_hub
	fi
}

# A hub runs already: it executes what was installed, and nobody who uses the tree notices.
upgrade_hub() {
	step "A hub runs already"
	if service_has_systemd; then
		systemctl daemon-reload && systemctl enable cloopd.service ||
			die "the service could not be enabled"
	fi
	if hub_is_new; then
		say "it is the installed one, already running: nothing to do"
		return
	fi
	kill -USR2 "$keeper" 2>/dev/null
	if until_ 20 hub_is_new; then
		say "upgraded in place: the mount, open files and sessions stay (its keeper and launcher"
		say "follow with the next stop and start)"
	else
		restart_hub
	fi
}

serve() {
	if keeper=$(service_keeper); then
		upgrade_hub
	else
		start_hub
	fi
	until_ 30 service_answers ||
		die "$mountpoint does not answer: see $state_dir/cloopd.log, or journalctl -u cloopd"
	say "$mountpoint is served: $(head -n 1 "$mountpoint/status")"
}

# --- a first workload -----------------------------------------------------------------------------

# show COMMAND: what one would type, then what it does.
show() {
	printf '    # %s\n' "$1"
	eval "$1" > >(sed 's/^/    /')
	local status=$?
	wait $!
	return "$status"
}

first_workload() {
	local state start=$mountpoint/executors/local/start
	step "A first workload"
	state=$(cat "$mountpoint/executors/local/state" 2>/dev/null)
	if [[ $state != ready ]]; then
		say "skipped: the executor local is ${state:-not there}"
		return
	fi
	say "Start it: write a spec, read the answer on the same descriptor."
	show "exec 3<>$start" || refused
	show "echo '{\"argv\":[\"/bin/sh\",\"-c\",\"for i in 1 2 3; do echo step \$i; sleep 1; done\"]}' >&3" ||
		refused
	local answer
	answer=$(cat <&3)
	printf '    # cat <&3\n    %s\n' "$answer"
	exec 3>&-
	local session=$mountpoint/sessions/${answer#*'"session":"'}
	session=${session%%'"'*}
	say "Follow what it prints until it ends, then its exit code, and all that is known of it."
	show "cat $session/follow" && show "cat $session/wait" && show "cat $session/status" ||
		die "the first workload could not be watched"
}

refused() {
	cat "$mountpoint/error" >&2
	die "the first workload was refused"
}

# --------------------------------------------------------------------------------------------------

say_how_to_go_on() {
	local stop="cloopd stop" start="cloopd serve"
	if service_is_systemds; then
		stop="systemctl stop cloopd" start="systemctl start cloopd"
	fi
	step "Done"
	printf '    %-12s %-28s %s\n' \
		"Look around" "cat $mountpoint/README" "then cat $mountpoint/status, and man 7 cloop" \
		"Why not?" "cat $mountpoint/error" "says why the latest change was refused" \
		"Stop" "$stop" "ends no workload" \
		"Start" "$start" "finds what runs" \
		"Remove" "contrib/uninstall.sh" "with --purge also sessions, logs and settings"
}

check_machine
install_packages
build
install_files
make_groups
serve
first_workload
say_how_to_go_on
