# What the tests of containers share: a podman of their own, an image, and an executor `box`.
# shellcheck shell=bash

CONTAINER_SH=$HERE/../../contrib/container.sh

need_podman() {
	need_root
	need podman runc conmon busybox jq
}

# With a storage in $D/podman, which goes with it.
box_begin() {
	if ((EUID != 0)) || ! command -v podman runc conmon busybox > /dev/null; then
		return 0 # every test says why it is skipped
	fi
	hub_begin
	chmod 755 "$D"
	"$CONTAINER_SH" storage "$D/podman" > "$D/box.json"
	"$CONTAINER_SH" image "$D/podman"
	mkdir "$M/executors/box"
	cat "$D/box.json" > "$M/executors/box/config"
}

# The daemon's podman.
box_podman() {
	CONTAINERS_CONF=$D/podman/containers.conf CONTAINERS_STORAGE_CONF=$D/podman/storage.conf \
		CONTAINERS_REGISTRIES_CONF=$D/podman/registries.conf podman "$@"
}

# box SPEC: starts it in a container; prints the session.
box() {
	start "$1" box
}

# box_config FILTER: changes the executor's config.
box_config() {
	jq -c "$1" "$D/box.json" > "$D/box.new"
	cat "$D/box.new" > "$M/executors/box/config"
}

containers() {
	box_podman ps --all --quiet
}

no_container_is_left() {
	[[ -z $(containers) ]]
}

# Nothing of the runtime runs for this file's daemon either.
box_end() {
	eventually no_container_is_left || fail "left: $(box_podman ps --all)" || return
	hub_end || return
	equal "$(find /sys/fs/cgroup -maxdepth 5 -type d -path "*/cloop/$(hub_instance)*" -name 'libpod-*')" ''
}

teardown_file() {
	if [[ -n ${D-} && -d $D/podman ]]; then
		box_podman rm --all --force --time 0 > /dev/null 2>&1 || true
		umount -l "$D/podman/storage/overlay" 2> /dev/null || true
	fi
	hub_clean
}

# The shim that handles the only session there is.
shim_of() {
	local fd pid

	for fd in /proc/[0-9]*/fd/*; do
		[[ $(readlink "$fd" 2> /dev/null) == "$D/home/state/sessions/"*/lock ]] || continue
		pid=${fd#/proc/}
		pid=${pid%%/*}
		[[ $(cat "/proc/$pid/comm" 2> /dev/null) != cloop-shim ]] || { echo "$pid" && return; }
	done
	return 1
}

# children PID: what it started and has not reaped.
children() {
	cat "/proc/$1/task/$1/children" 2> /dev/null
}
