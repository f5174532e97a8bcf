#!/usr/bin/env bats
# From a clone to a running hub and back. To be run by private_root; the tests go on from each other.

bats_require_minimum_version 1.5.0
BATS_TEST_TIMEOUT=600

CLONE=/home/carol/cloop

setup_file() {
	installed_files >"$BATS_FILE_TMPDIR/before"
	mkdir "$CLONE"
	git -c safe.directory="$SOURCE" -C "$SOURCE" ls-files -z |
		tar -C "$SOURCE" --null --files-from - -c | tar -C "$CLONE" --no-same-owner -x
	chown -R carol:carol "$CLONE"
	cd "$CLONE"
	SUDO_USER=carol contrib/quickstart.sh >"$BATS_FILE_TMPDIR/first" 2>&1 || {
		cat "$BATS_FILE_TMPDIR/first"
		return 1
	}
}

teardown_file() {
	cloopd stop 2>/dev/null || true
}

setup() {
	cd "$CLONE"
	# shellcheck source=contrib/service.sh
	. contrib/service.sh
}

quickstart() {
	SUDO_USER=carol run -0 contrib/quickstart.sh
	echo "$output"
}

as() {
	local who=$1
	shift
	setpriv --reuid "$who" --regid "$who" --init-groups -- "$@"
}

# begin SPEC: starts a session and prints its id.
begin() {
	local answer
	exec 8<>/cloop/executors/local/start
	echo "$1" >&8
	answer=$(cat <&8)
	exec 8>&-
	answer=${answer#*'"session":"'}
	echo "${answer%%'"'*}"
}

# One session and one blocked reader that are to outlive what the tests do.
begin_long() {
	begin '{"argv":["/bin/sleep","1000000"]}' >"$BATS_FILE_TMPDIR/long"
}

long_runs() {
	[ "$(cat "/cloop/sessions/$(cat "$BATS_FILE_TMPDIR/long")/state")" = running ]
}

watch_long() {
	cat "/cloop/sessions/$(cat "$BATS_FILE_TMPDIR/long")/wait" >"$BATS_TEST_TMPDIR/waited" 2>&1 3>&- &
	watcher=$!
}

still_watches() {
	kill -0 "$watcher" && [ ! -s "$BATS_TEST_TMPDIR/waited" ]
	kill "$watcher"
}

installed_files() {
	find /usr/local /cloop /etc/cloop 2>/dev/null | sort
}

new_files() {
	installed_files | comm -13 "$BATS_FILE_TMPDIR/before" -
}

daemons() {
	pgrep -fc '^(/usr/local/sbin/)?cloopd serve'
}

@test "the first run says what it does, and shows a first workload" {
	text=$(cat "$BATS_FILE_TMPDIR/first")
	for part in Packages Building Installing Groups Starting 'A first workload' 'step 1' 'step 3' \
		'"state":"exited"' 'Stop' 'cloopd stop' 'contrib/uninstall.sh' 'carol is in both'; do
		[[ $text == *"$part"* ]]
	done
	[[ $text != *systemctl* ]]
}

@test "the hub is left running, once, and what was installed can be used" {
	[ "$(cat /cloop/version)" = "$(cloopd --version | cut -d ' ' -f 2)" ]
	[ "$(daemons)" = 1 ]
	man_dir=/usr/local/share/man
	[ -s "$man_dir/man7/cloop.7" ]
	[ -s "$man_dir/man8/cloopd.8" ]
	[ "$(stat -c %U "$CLONE/build/build.ninja")" = carol ]
}

@test "who called sudo may start work and administer, others may not" {
	as carol sh -c 'echo "{\"argv\":[\"true\"]}" >/cloop/executors/local/start'
	as carol sh -c 'echo uncordon >/cloop/executors/local/state'
	run ! as mallory sh -c 'echo "{\"argv\":[\"true\"]}" >/cloop/executors/local/start'
}

@test "a second run finds it running, and disturbs nobody" {
	begin_long
	watch_long
	keeper=$(service_keeper)
	quickstart
	[[ $output == *"already running: nothing to do"* ]]
	[ "$(service_keeper)" = "$keeper" ]
	[ "$(daemons)" = 1 ]
	long_runs
	still_watches
}

@test "a new version takes over in place" {
	watch_long
	keeper=$(service_keeper)
	sed -i "s/^  version: .*/  version: '99.1',/" meson.build
	quickstart
	[[ $output == *"upgraded in place"* ]]
	[ "$(cat /cloop/version)" = 99.1 ]
	[ "$(service_keeper)" = "$keeper" ]
	long_runs
	still_watches
	quickstart
	[[ $output == *"already running: nothing to do"* ]]
}

@test "a version that cannot take over is started again, and finds the sessions" {
	keeper=$(service_keeper)
	sed -i 's/^#define AREA_LAYOUT .*/#define AREA_LAYOUT 9999/' fs/area.h
	quickstart
	[[ $output == *"starting again"* ]]
	[ "$(service_keeper)" != "$keeper" ]
	[ "$(daemons)" = 1 ]
	long_runs
}

@test "a hub that was stopped is started, and finds the sessions" {
	cloopd stop
	quickstart
	[ "$(daemons)" = 1 ]
	long_runs
}

@test "a dead mount is cleared, and the sessions are found" {
	kill -9 "$(service_keeper)"
	until_ 30 not_served
	run ! ls /cloop
	quickstart
	[ "$(daemons)" = 1 ]
	long_runs
}

not_served() {
	! service_keeper >/dev/null && ! service_answers
}

@test "a killed hub is no obstacle" {
	kill -9 "$(service_hub "$(service_keeper)")"
	quickstart
	long_runs
}

@test "an executor that takes no work is left as it is" {
	echo cordon for repair >/cloop/executors/local/state
	quickstart
	[[ $output == *"the executor local is cordoned"* ]]
	[ "$(cat /cloop/executors/local/state)" = cordoned ]
	echo uncordon >/cloop/executors/local/state
}

@test "a build directory that does not fit is made anew" {
	echo broken >build/build.ninja
	rm -rf build/meson-private/coredata.dat
	quickstart
	long_runs
}

@test "only root can run it" {
	run ! as mallory contrib/quickstart.sh
	[[ $output == *"run this as root"* ]]
	run ! as mallory contrib/uninstall.sh
	[[ $output == *"run this as root"* ]]
}

@test "a list of packages that is too old is fetched again" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	# A mirror that has what is asked for only after an update.
	cat >"$BATS_TEST_TMPDIR/bin/apt-get" <<-'END'
		#!/bin/sh
		echo "$*" >>"$APT_LOG"
		case $* in
		*update) touch "$APT_LOG.updated" ;;
		*) test -e "$APT_LOG.updated" || { echo "E: 404 Not Found"; exit 100; } ;;
		esac
	END
	chmod +x "$BATS_TEST_TMPDIR/bin/apt-get"
	export APT_LOG=$BATS_TEST_TMPDIR/apt PATH=$BATS_TEST_TMPDIR/bin:$PATH
	# shellcheck source=contrib/packages.sh
	. contrib/packages.sh
	packages_install bash cloop-no-such-package
	cat "$APT_LOG"
	[ "$(wc -l <"$APT_LOG")" = 3 ]
	grep -q 'install cloop-no-such-package$' "$APT_LOG"
	# What is there is not asked for.
	packages_install bash
	[ "$(wc -l <"$APT_LOG")" = 3 ]
}

@test "packages that cannot be had are said" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	printf '#!/bin/sh\necho "E: no network"\nexit 100\n' >"$BATS_TEST_TMPDIR/bin/apt-get"
	chmod +x "$BATS_TEST_TMPDIR/bin/apt-get"
	sed -i 's/^packages_build=(/&cloop-no-such-package/' contrib/packages.sh
	PATH=$BATS_TEST_TMPDIR/bin:$PATH run -1 contrib/quickstart.sh
	sed -i 's/cloop-no-such-package//' contrib/packages.sh
	echo "$output"
	[[ $output == *"installing cloop-no-such-package"*"E: no network"*"could not be installed"* ]]
	long_runs
}

@test "uninstall takes the files, and keeps the workloads and their logs" {
	pid=$(cat "/cloop/sessions/$(cat "$BATS_FILE_TMPDIR/long")/pid")
	run -0 contrib/uninstall.sh
	echo "$output"
	[[ $output == *"stopped the hub"* ]]
	[[ $output == *"1 workloads run on without a hub"* ]]
	[[ $output == *"kept /var/lib/cloop"* ]]
	kill -0 "$pid"
	run ! grep -q ' /cloop ' /proc/self/mountinfo
	[ "$(daemons)" = 0 ]
	[ -z "$(new_files)" ]
}

@test "a second uninstall finds nothing to do" {
	run -0 contrib/uninstall.sh
	echo "$output"
	[[ $output != *removed* ]]
}

@test "uninstall stops a hub whose program is gone already" {
	quickstart
	rm /usr/local/sbin/cloopd
	run -0 contrib/uninstall.sh
	echo "$output"
	[[ $output == *"stopped the hub"* ]]
	[ "$(daemons)" = 0 ]
}

@test "what was kept is found by another quickstart" {
	quickstart
	long_runs
}

@test "uninstall clears a dead mount" {
	kill -9 "$(service_keeper)"
	until_ 30 not_served
	run -0 contrib/uninstall.sh
	echo "$output"
	[[ $output == *"unmounted /cloop"* ]]
	! grep -q ' /cloop ' /proc/self/mountinfo
}

@test "a purge does not leave workloads behind that nobody knows" {
	run ! contrib/uninstall.sh --purge
	echo "$output"
	[[ $output == *"workloads still run"* ]]
	[ -e /var/lib/cloop/cloop.db ]
}

@test "a purge ends workloads and removes everything" {
	quickstart
	pid=$(cat "/cloop/sessions/$(cat "$BATS_FILE_TMPDIR/long")/pid")
	run -0 contrib/uninstall.sh --purge
	echo "$output"
	run ! kill -0 "$pid" 2>/dev/null
	[ -z "$(new_files)" ]
	[ ! -e /var/lib/cloop ]
	[ ! -e /run/cloop ]
	run ! getent group cloop cloop-admin
	run ! pgrep -f cloop-launcher
	run -0 contrib/uninstall.sh --purge
	[[ $output != *removed* ]]
}

@test "where systemd runs, the service is its" {
	mkdir -p /run/systemd/system "$BATS_TEST_TMPDIR/bin"
	echo systemd >"$BATS_TEST_TMPDIR/comm"
	mount --bind "$BATS_TEST_TMPDIR/comm" /proc/1/comm
	# What systemctl does that these scripts rely on.
	cat >"$BATS_TEST_TMPDIR/bin/systemctl" <<-'END'
		#!/bin/sh
		echo "$*" >>"$SYSTEMCTL_LOG"
		case $* in
		'enable --now cloopd.service')
			: >"$SYSTEMCTL_LOG.enabled"
			pgrep -f '^/usr/local/sbin/cloopd serve' >/dev/null || /usr/local/sbin/cloopd serve 3>&- ;;
		'disable --now cloopd.service')
			rm "$SYSTEMCTL_LOG.enabled"
			/usr/local/sbin/cloopd stop ;;
		*is-active*) pgrep -f '^/usr/local/sbin/cloopd serve' >/dev/null ;;
		*is-enabled*) test -e "$SYSTEMCTL_LOG.enabled" ;;
		esac
	END
	chmod +x "$BATS_TEST_TMPDIR/bin/systemctl"
	export SYSTEMCTL_LOG=$BATS_TEST_TMPDIR/log PATH=$BATS_TEST_TMPDIR/bin:$PATH
	quickstart
	[[ $output == *"systemctl stop cloopd"* ]]
	grep -x daemon-reload "$SYSTEMCTL_LOG"
	grep -x 'enable --now cloopd.service' "$SYSTEMCTL_LOG"
	[ -s /usr/local/lib/systemd/system/cloopd.service ]
	quickstart
	[[ $output == *"already running"* ]]
	[ "$(daemons)" = 1 ]
	run -0 contrib/uninstall.sh --purge
	echo "$output"
	[[ $output == *"stopped and disabled the service"* ]]
	[ "$(tail -n 1 "$SYSTEMCTL_LOG")" = daemon-reload ]
	umount /proc/1/comm
	rm -r /run/systemd
}
