# The fleet at a glance: what a person reads in /status.

load common

setup_file() {
	hub_begin
	mkdir "$M/executors/a" "$M/executors/with-a-rather-long-name-0123456789-0123456789-0123456789" "$M/executors/raw"
	put "$M/executors/a/config" '{"kind":"localprocess","max_concurrent":3}'
	put "$M/executors/with-a-rather-long-name-0123456789-0123456789-0123456789/config" '{"kind":"localprocess","max_concurrent":1000000}'
}

# table HEADER: the lines of a table, without its header.
table() {
	sed -n "/^$1 /,/^$/p" "$M/status" | sed '1d; /^$/d'
}

# The column at which a word of the header begins.
column() {
	grep -m 1 "^$1 " "$M/status" | awk -v word="$2" '{ print index($0, word) }'
}

@test "each executor has a row, in order, with aligned columns" {
	local line

	equal "$(table EXECUTOR | awk '{ print $1 }' | xargs)" "$(ls "$M/executors" | sort | xargs)"
	equal "$(grep -c '^EXECUTOR ' "$M/status") $(grep -c '^SESSION ' "$M/status")" '1 1'
	# States begin where the header says, loads and ages end there.
	while IFS= read -r line; do
		like "${line:$(($(column EXECUTOR STATE) - 1)):12}" '^(ready|unconfigured) *$'
		like "${line:0:$(($(column EXECUTOR 'LAST SEEN') + 8))}" '[0-9]+/([0-9]+|-) +(-|[0-9]+[smhd])$'
		like "$line" '[^ ]$'
	done < <(table EXECUTOR)
	equal "$(table EXECUTOR | awk '$1 == "a" { print $2, $3, $4 }')" 'localprocess ready 0/3'
	equal "$(table EXECUTOR | awk '$1 == "raw" { print $2, $3, $4, $5 }')" '- unconfigured 0/- -'
	like "$(cat "$M/status")" $'\n4 executors: 3 ready, 1 unconfigured\n0 sessions in flight\n'
}

@test "states with their reasons, cut to one line" {
	put "$M/executors/a/state" "cordon a new disk"
	like "$(table EXECUTOR)" $'a +localprocess +cordoned +0/3 +(-|[0-9]+s)  a new disk\n'
	like "$(cat "$M/status")" $'\n4 executors: 2 ready, 1 cordoned, 1 unconfigured\n'
	put "$M/executors/a/state" "drain $(printf 'é%.0s' $(seq 90))"
	like "$(table EXECUTOR)" "draining +0/3 +(-|[0-9]+s)  é{30,40}…"
	equal "$(iconv -f UTF-8 -t UTF-8 "$M/status" | wc -c)" "$(cat "$M/status" | wc -c)"
	put "$M/executors/a/state" $'cordon x\ty'
	equal "$(table EXECUTOR | grep -c '^a ')" 1
	put "$M/executors/a/state" uncordon
	like "$(table EXECUTOR)" $'a +localprocess +ready +0/3 +(-|[0-9]+s)\n'
}

@test "what is in flight, and no more of it than a person reads" {
	local ids=() i

	equal "$(table SESSION)" ''
	ids+=("$(start '{"argv":["sleep","1000"],"labels":{"cloop.session":"one-with-a-name-of-forty-characters-00000"}}' a)")
	ids+=("$(start '{"argv":["sleep","1000"]}' a)")
	equal "$(table SESSION | awk '{ print $1, $2, $3, $4 }')" \
		"$(printf '%s a running %s\n' "${ids[0]}" "$EUID" "${ids[1]}" "$EUID")"
	equal "$(table SESSION | awk '{ print $5 }' | xargs)" "$(now "${ids[0]}" pid) $(now "${ids[1]}" pid)"
	like "$(table SESSION | head -n 1)" ' [0-9]+s$'
	equal "$(table SESSION | awk '{ print length }' | sort -u | wc -l)" 1
	like "$(cat "$M/status")" $'\n2 sessions in flight\n'
	equal "$(table EXECUTOR | awk '$1 == "a" { print $4 }')" 2/3
	for i in "${ids[@]}"; do
		put "$M/sessions/$i/signal" kill
		ended "$i"
	done
	equal "$(table SESSION)" ''
}

@test "of many executors those that are not ready are shown, and no more than a person reads" {
	local i

	for ((i = 0; i < 230; i++)); do
		printf -v i %03d "$((10#$i))"
		mkdir "$M/executors/many-$i"
		put "$M/executors/many-$i/config" '{"kind":"localprocess"}'
		i=$((10#$i))
	done
	put "$M/executors/many-229/state" 'cordon the last of them'
	like "$(cat "$M/status")" $'\n234 executors: 23[0-9] ready, .*1 cordoned'
	equal "$(table EXECUTOR | grep -cv '^…')" 200
	equal "$(table EXECUTOR | tail -n 1)" '… and 34 more, all of them ready'
	grep -qE '^many-229 .* cordoned .* the last of them$' "$M/status"
	grep -qE '^raw .* unconfigured ' "$M/status"
	equal "$(table EXECUTOR | grep -v '^…' | awk '{ print $1 }' | sort -c && echo sorted)" sorted
	for i in {000..229}; do
		put "$M/executors/many-$i/state" cordon
	done
	equal "$(table EXECUTOR | tail -n 1)" '… and 34 more'
	rmdir "$M"/executors/many-*
}

@test "a fleet of nobody" {
	local id

	for id in "$M"/executors/*; do
		rmdir "$id"
	done
	like "$(cat "$M/status")" $'\n0 executors\n'
	equal "$(table EXECUTOR)" ''
}

@test "the hub stops, and nothing is left" {
	hub_end
}
