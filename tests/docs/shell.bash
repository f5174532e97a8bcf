# What one person types, example after example, in one shell: variables and descriptors stay. Reads
# names of examples from stdin; writes what each printed to NAME.got and, when it is done, what went
# wrong to NAME.verdict. $1 is the directory where the person may write that.
# shellcheck shell=bash

results=$1
cd ~ || exit

on_error() {
	local line=$1 status=$2 text
	# The example as a whole fails with its last command, which was told already.
	[[ ${BASH_SOURCE[1]} == "$example" ]] || return
	# In a function or a loop of several lines, the line of the command itself.
	text=$(sed -n "${line}p" "$example")
	if [[ $text == *'# refused' ]]; then
		refused+=("$line")
	else
		problems+=("line $line: status $status: $text")
	fi
}

while read -r -u 9 example; do
	name=${example##*/}
	name=${name%.sh}
	problems=() refused=()
	trap 'on_error $LINENO $?' ERR
	# shellcheck source=/dev/null
	. "$example" >"$results/$name.got" 2>&1 </dev/null
	trap - ERR
	while IFS=: read -r line _; do
		[[ " ${refused[*]} " == *" $line "* ]] || problems+=("line $line was not refused")
	done < <(grep -n '# refused$' "$example")
	printf '%s\n' "${problems[@]}" >"$results/$name.verdict.new"
	mv "$results/$name.verdict.new" "$results/$name.verdict"
done 9<&0
