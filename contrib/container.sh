#!/bin/bash
# Containers for an executor of kind `container`, on a machine where podman has not been set up: a
# storage of its own in one directory, and a small image that is made without a network.
#
#	contrib/container.sh storage DIR        makes DIR, and prints a config for an executor
#	contrib/container.sh image DIR [NAME]   puts busybox into an image (localhost/busybox:1)
#	contrib/container.sh remove DIR         removes containers, images and DIR
#
# So, as root:
#
#	contrib/container.sh storage /var/lib/cloop-podman > box.json
#	contrib/container.sh image /var/lib/cloop-podman
#	mkdir /cloop/executors/box && cat box.json > /cloop/executors/box/config
#
# Nothing outside of DIR is changed. The packages podman, runc, conmon and netavark are needed, and
# busybox-static for the image.
set -eu

die() {
	printf 'container.sh: %s\n' "$*" >&2
	exit 1
}

usage() {
	die "usage: container.sh storage DIR | image DIR [NAME] | remove DIR"
}

# Limits that a daemon without CAP_SYS_RESOURCE could not raise, and runc, which knows every
# arrangement of control groups.
storage() {
	mkdir -p "$dir/run" "$dir/networks"
	chmod 700 "$dir"
	cat > "$dir/containers.conf" <<-CONF
		[containers]
		default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
		log_driver = "k8s-file"
		[engine]
		runtime = "runc"
		cgroup_manager = "cgroupfs"
		events_logger = "file"
		lock_type = "file"
		tmp_dir = "$dir/run/libpod"
		[network]
		network_backend = "netavark"
		network_config_dir = "$dir/networks"
	CONF
	cat > "$dir/storage.conf" <<-CONF
		[storage]
		driver = "overlay"
		graphroot = "$dir/storage"
		runroot = "$dir/run/storage"
		rootless_storage_path = "$dir/storage"
	CONF
	: > "$dir/registries.conf"
	cat <<-JSON
		{
		  "kind": "container",
		  "runtime": "podman",
		  "oci_runtime": "runc",
		  "image": "localhost/busybox:1",
		  "runtime_env": {
		    "CONTAINERS_CONF": "$dir/containers.conf",
		    "CONTAINERS_STORAGE_CONF": "$dir/storage.conf",
		    "CONTAINERS_REGISTRIES_CONF": "$dir/registries.conf"
		  }
		}
	JSON
}

use_storage() {
	[[ -f $dir/storage.conf ]] || die "$dir is no storage: make it first"
	export CONTAINERS_CONF=$dir/containers.conf CONTAINERS_STORAGE_CONF=$dir/storage.conf
	export CONTAINERS_REGISTRIES_CONF=$dir/registries.conf TMPDIR=$dir/run
}

# /tmp has its mode from the image: a runtime that mounts something there keeps it.
image() {
	local name=${1:-localhost/busybox:1} root applet busybox
	busybox=$(command -v busybox) || die "busybox is not installed"
	use_storage
	root=$(mktemp -d "$dir/run/image.XXXXXX")
	mkdir -p "$root"/{bin,dev,etc,proc,sys,tmp,usr,workspace}
	chmod 755 "$root"
	chmod 1777 "$root/tmp"
	cp "$busybox" "$root/bin/busybox"
	for applet in $("$busybox" --list); do
		[[ -e $root/bin/$applet ]] || ln -s busybox "$root/bin/$applet"
	done
	tar -C "$root" -c . | podman import --quiet --change 'ENV PATH=/bin' - "$name" > /dev/null
	rm -rf "$root"
}

remove() {
	use_storage
	podman rm --all --force --time 0 > /dev/null || true
	podman rmi --all --force > /dev/null || true
	# What podman mounts for itself, and leaves.
	umount "$dir/storage/overlay" 2> /dev/null || true
	rm -rf --one-file-system "$dir"
}

(($# >= 2)) || usage
command=$1
dir=$(realpath -m -- "$2")
shift 2
case $dir in
/ | *[!A-Za-z0-9/._-]*) die "not a directory for this: $dir" ;;
esac
case $command in
storage) storage ;;
image) image "$@" ;;
remove) remove ;;
*) usage ;;
esac
