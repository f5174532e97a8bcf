# A suite that runs inside of a sandbox and tries to get out: every line of it must fail.

load common
load container

setup_file() {
	box_begin
	if [[ -n ${D-} ]]; then
		echo 'canary-of-the-host' > "$D/canary"
		chmod 644 "$D/canary"
		mkdir "$D/work/w"
		chown "${UID_OF[alice]}" "$D/work/w"
		sleep 100000 3>&- &
		echo $! > "$D/outside"
	fi
}

setup() {
	need_podman
}

# attempt TEXT [JSON]: runs a script as alice and prints what it wrote to its output.
attempt() {
	local id
	id=$(WHO=alice box "$(script "$1" "${2:-{\}}")") || return
	WHO=alice ended "$id" > /dev/null
	now "$id" stdout
}

@test "nothing can be written but the working directory, /tmp and /dev/shm" {
	out=$(attempt '
		for d in / /bin /etc /usr /workspace/.. /proc /sys /sys/fs/cgroup /dev /run /var /root; do
			[ -d $d ] && echo x > $d/escape 2>/dev/null && echo "WROTE $d"
		done
		for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/hostname \
			/sys/kernel/uevent_helper /proc/sys/net/ipv4/ip_forward /etc/hosts /etc/resolv.conf \
			/etc/hostname /bin/busybox /proc/1/oom_score_adj_x /proc/kmsg /dev/mem /dev/kmsg; do
			{ echo x >> $f; } 2>/dev/null && echo "WROTE $f"
		done
		echo x > /workspace/f && echo x > /tmp/f && echo done' "{\"work_dir\":\"$D/work/w\"}")
	equal "$out" "done"
	equal "$(find "$D/work/w" -type f)" "$D/work/w/f"
}

@test "the host's files cannot be read" {
	out=$(attempt "
		cat $D/canary /proc/1/root$D/canary /workspace/../..$D/canary /proc/self/cwd/../../../../$D/canary \\
			/etc/shadow /etc/passwd-host /run/podman/podman.sock /var/run/docker.sock 2>/dev/null
		ln -s $D/canary /workspace/l; cat /workspace/l 2>/dev/null
		find / -xdev -name canary 2>/dev/null
		ls $D /cloop /home/state 2>/dev/null
		echo done" "{\"work_dir\":\"$D/work/w\"}")
	equal "$out" "done"
	rm -f "$D/work/w/l"
}

@test "no other process is seen or reached" {
	out=$(attempt "
		ps | grep -c 'sleep 10000[0]'
		kill -9 $(cat "$D/outside") 2>/dev/null && echo KILLED
		kill -0 $(keeper) 2>/dev/null && echo SAW
		ls -d /proc/[0-9]* | wc -l")
	equal "$(head -n 1 <<< "$out")" 0
	[[ $out != *KILLED* && $out != *SAW* ]]
	(($(tail -n 1 <<< "$out") < 8))
	kill -0 "$(cat "$D/outside")"
}

@test "there is no network, and no socket of a runtime" {
	out=$(attempt '
		ip addr 2>/dev/null | grep -E "^[0-9]+:" | grep -v " lo:"
		ip route 2>/dev/null
		nc -w 2 1.1.1.1 53 </dev/null 2>/dev/null && echo CONNECTED
		nc -w 2 127.0.0.1 22 </dev/null 2>/dev/null && echo CONNECTED
		ping -c 1 -W 1 1.1.1.1 >/dev/null 2>&1 && echo PINGED
		find / -xdev -type s 2>/dev/null
		cat /proc/net/unix | grep -E "podman|docker|cloop|launcher"
		echo done')
	equal "$out" "done"
}

@test "no right is there, and none can be gained" {
	out=$(attempt '
		grep "^Cap" /proc/self/status | grep -v 0000000000000000
		grep "NoNewPrivs:.1" /proc/self/status >/dev/null || echo NEWPRIVS
		grep "Seccomp:.2" /proc/self/status >/dev/null || echo SECCOMP
		cp /bin/busybox /tmp/su && chmod 4755 /tmp/su && /tmp/su su -c id 2>/dev/null
		su -c id </dev/null 2>/dev/null
		chroot / true 2>/dev/null && echo CHROOTED
		mount -t tmpfs none /tmp 2>/dev/null && echo MOUNTED
		mount -o remount,rw / 2>/dev/null && echo REMOUNTED
		umount /tmp 2>/dev/null && echo UNMOUNTED
		mknod /tmp/sda b 8 0 2>/dev/null && echo MKNOD
		mknod /workspace/null c 1 3 2>/dev/null && echo MKNOD
		unshare -m true 2>/dev/null && echo UNSHARED
		unshare -Urm sh -c "mount -o remount,rw / && echo x > /bin/x" 2>/dev/null && echo REMOUNTED
		unshare -Urm sh -c "mount -o bind,remount,rw /proc/sys && echo x > /proc/sys/kernel/hostname" \
			2>/dev/null && echo PROCSYS
		unshare -Ur sh -c "mknod /tmp/sda b 8 0" 2>/dev/null && echo MKNOD
		nsenter -t 1 -m true 2>/dev/null && echo ENTERED
		hostname escape 2>/dev/null && echo HOSTNAME
		date -s 2000-01-01 >/dev/null 2>&1
		[ $(date +%Y) = 2000 ] && echo DATE
		ulimit -n 1000000 2>/dev/null && echo NOFILE
		nice -n -10 true 2>/dev/null | grep x
		swapoff -a 2>/dev/null && grep -c swap /proc/swaps | grep -v 0
		insmod /tmp/x 2>/dev/null && echo INSMOD
		chown 0 /workspace 2>/dev/null && echo CHOWN
		echo 0 > /proc/1/oom_score_adj_minimum 2>/dev/null && echo OOM
		cat /proc/1/environ >/dev/null 2>&1
		dmesg 2>/dev/null | head -n 1
		echo done')
	equal "$out" "done"
}

@test "a fork bomb stays in its box, and memory too" {
	# The shell itself may find that it cannot fork.
	out=$(attempt 'echo begun; f() { f | f & }; f 2>/dev/null; sleep 1' \
		'{"resource_limits":{"pids":16},"timeout_minutes":20}')
	like "$out" begun
	equal "$(attempt 'echo well')" well
	id=$(WHO=alice box "$(script 'x=a; while :; do x=$x$x; done' '{"resource_limits":{"memory_mb":24}}')")
	WHO=alice ended "$id"
	like "$(status "$id" .cause)" 'oom|exit'
	# /tmp counts, too.
	id=$(WHO=alice box "$(script 'cat /dev/zero > /tmp/fill' '{"resource_limits":{"memory_mb":24}}')")
	WHO=alice ended "$id"
	like "$(status "$id" .cause)" 'oom|exit'
	echo still > "$D/alive"
}

@test "a secret in the environment is in nobody's arguments, labels or image" {
	id=$(WHO=alice box "$(script 'sleep 1000' '{"env":["TOKEN=canary-secret-value","PATH=/bin"]}')")
	# The pattern comes from a file, or grep would find itself.
	echo canary-secret-value > "$D/canary"
	equal "$(grep -laF -f "$D/canary" /proc/[0-9]*/cmdline 2>/dev/null)" ''
	equal "$(box_podman ps --all --format '{{.Labels}} {{.Command}} {{.Names}}' | grep -c canary)" 0
	equal "$(box_podman image inspect localhost/busybox:1 | grep -c canary)" 0
	equal "$(box_podman ps --all --format '{{.Labels}}' | grep -c 'cloop.managed:true')" 1
	equal "$(grep -rlF -f "$D/canary" "$D/home/run" "$D"/said.* 2>/dev/null)" ''
	put "$M/sessions/$id/signal" kill
	ended "$id"
}

@test "the hub stops and leaves nothing" {
	kill "$(cat "$D/outside")"
	box_end
}
