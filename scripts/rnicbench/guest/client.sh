# SPDX-License-Identifier: GPL-2.0-or-later
#
# The benchmark's active side: runs the measuring programs, and leaves what they
# print in out/NAME.

. ./steps.inc

limit=60	# seconds for one attempt
too_slow=124	# how timeout(1) says so
server=$(address_of server)

held_or_failed() {
	grep -q connected /tmp/hold || ! kill -0 "$holder" 2>/dev/null
}

# hold N: N idle queue pairs, in the background.
hold() {
	qp-load --idle -q "$1" "$server" >/tmp/hold 2>&1 &
	holder=$!
	if ! eventually 200 held_or_failed; then
		kill "$holder"
		return $too_slow
	fi
	grep -q connected /tmp/hold || { cat /tmp/hold; return 1; }
}

release() {
	kill "$holder"
	end_of "$holder" 60
}

# measure SECONDS WHAT: by the program on the host, which takes that long. The
# guest does nothing meanwhile.
measure() {
	signal "measure.$2.$name.$attempt"
	sleep "$1"
	await "measured.$2.$name.$attempt" 120
}

# memory N: what one more queue pair costs QEMU.
memory() {
	local status=0
	# Both ends have had some, so that what is allocated once is there.
	hold 10 && release || return
	sleep 5
	measure 1 before
	hold "$1" || return
	sleep 5
	measure 1 "after.$1"
	release || status=$?
	cat "host.$name"
	return $status
}

# idle N: the processor time that goes by without, and with N queue pairs.
idle() {
	local status=0
	sleep 5
	measure 12 quiet
	hold "$1" || return
	sleep 5
	measure 12 processor
	release || status=$?
	cat "host.$name"
	return $status
}

# timed COMMAND...: so that the host knows when its figure was taken.
timed() {
	local status=0
	signal "begin.$name.$attempt"
	timeout $limit "$@" || status=$?
	signal "end.$name.$attempt"
	return $status
}

run() {
	case $kind in
	perftest) timed "$1" -R "${@:2}" "$server" ;;
	beside)
		hold "$1" || return
		local status=0
		timed "$2" -R "${@:3}" "$server" || status=$?
		release
		return $status
		;;
	load) timed qp-load "$@" "$server" ;;
	churn) timeout $limit cm-churn -n "$1" "$server" ;;
	register) mr-time "$@" ;;
	memory) memory "$1" ;;
	idle) idle "$1" ;;
	esac
}

step() {
	local attempt answer status
	name=$1
	kind=$2
	shift 2
	for attempt in $(seq $attempts); do
		answer=$(first_signal 0.1 "$name.$attempt.ready" \
			"$name.$attempt.dead")
		[ "${answer##*.}" = ready ] || continue
		status=0
		run "$@" >"/tmp/$name" 2>&1 || status=$?
		if [ $status -eq 0 ]; then
			cp "/tmp/$name" "out/$name"
			signal "$name.$attempt.good"
			return
		fi
		echo "$name: attempt $attempt failed with $status:"
		tail -n 5 "/tmp/$name"
		cp "/tmp/$name" "out/$name.failed.$attempt"
		# Too slow once is too slow again.
		if [ $status -eq $too_slow ]; then
			signal "$name.$attempt.slow"
			return
		fi
		signal "$name.$attempt.bad"
	done
	echo "$name: given up"
}

steps step
