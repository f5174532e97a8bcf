# The kernel makes the disk under the state directory read-only, as it does after an error.

load ../tree/common
load disk

setup_file() {
	need mkfs.ext4 losetup e2fsck
	need_root
	hub_make
	mkdir "$D/home/state"
	truncate -s 40m "$D/disk"
	mkfs.ext4 -q "$D/disk"
	losetup -f > /dev/null 2>&1 || skip "needs a loop device"
	disk_mount
	hub_start
}

teardown_file() {
	if [[ -n ${D-} ]]; then
		touch "$D"/work/*/end
		# shellcheck disable=SC2046
		kill -9 $(hub_shims) 2> /dev/null || true
		umount -l "$D/home/state" 2> /dev/null || true
	fi
	hub_clean
}

setup() {
	WORK=$D/work/$BATS_TEST_NUMBER
	mkdir -p "$WORK"
}

disk_mount() {
	mount -o loop,errors=remount-ro "$D/disk" "$D/home/state"
}

@test "a disk that becomes read-only: EROFS, and what runs goes on" {
	local before device

	prepare
	running readonly
	before=$(ls "$M/executors" "$M/sessions" | xargs)
	device=$(findmnt -no SOURCE "$D/home/state")
	[[ -w /sys/fs/ext4/${device##*/}/trigger_fs_error ]] || skip "the kernel cannot be told to"
	echo "asked for by a test" > "/sys/fs/ext4/${device##*/}/trigger_fs_error"
	each_change EROFS 'cloop.db'
	nothing_changed "$before"
	counts_on
	touch "$WORK/end"
	equal "$(ended readonly)" 9
	equal "$(ended "done") $(now "done" state)" '0 exited'
}

@test "a hub that cannot write at its start does not serve, and says why" {
	local pid

	pid=$(hub_pid)
	kill -9 "$pid"
	echo "$pid" >> "$D/killed"
	eventually answers_eio
	like "$(cat "$D"/said.*)" 'cloop.db.*Read-only file system'
}

answers_eio() {
	[[ $(cat "$M/status" 2>&1) == *'Input/output error' ]]
}

@test "after it was repaired, everything is there that was acknowledged" {
	hub_stop
	# It would go on trying to write down the end of what it ran.
	# shellcheck disable=SC2046
	kill -9 $(hub_shims)
	eventually umount "$D/home/state"
	e2fsck -fy "$D/disk" > "$BATS_TEST_TMPDIR/fsck" 2>&1 || (($? < 4))
	disk_mount
	hub_start
	equal "$(ended "done") $(now "done" state)" '0 exited'
	# Its end could be told, and not kept.
	equal "$(ended readonly) $(status readonly .cause)" '255 lost'
	equal "$(cat "$M/executors/other/state")" ready
	equal "$(ended "$(start "$(spec /bin/sh -c 'exit 3')")")" 3
}

@test "the hub stops and leaves nothing" {
	hub_end
}
