# SPDX-License-Identifier: GPL-2.0-or-later
#
# The benchmark's passive side. For every attempt of every step it starts what
# the client connects to.

. ./steps.inc

pids=()

# serve PORT COMMAND...: fails when it has ended, or does not listen in time.
serve() {
	local port=$1 end=$((SECONDS + 60)) pid
	shift
	"$@" >"/tmp/$name.$port" 2>&1 &
	pid=$!
	pids+=("$pid")
	until serving $pid "$port"; do
		if ! kill -0 $pid 2>/dev/null || [ $SECONDS -ge $end ]; then
			tail -n 5 "/tmp/$name.$port"
			return 1
		fi
		sleep 0.1
	done
}

start() {
	case $kind in
	perftest) serve 18515 "$1" -R "${@:2}" ;;
	beside) serve 7471 qp-load --server && serve 18515 "$2" -R "${@:3}" ;;
	load | idle) serve 7471 qp-load --server ;;
	memory) serve 7471 qp-load --server --rounds 2 ;;
	churn) serve 7471 cm-churn --server ;;
	register) ;;
	esac
}

# The good end of a server is its own; that of an attempt that failed is not.
stop() {
	local pid
	for pid in "${pids[@]}"; do
		end_of "$pid" "$1"
	done
	pids=()
}

step() {
	local attempt answer interval=0.1
	name=$1
	kind=$2
	shift 2
	[ "$kind" != idle ] || interval=30
	for attempt in $(seq $attempts); do
		if start "$@"; then
			signal "$name.$attempt.ready"
		else
			echo "$name: the server does not listen"
			signal "$name.$attempt.dead"
			stop 0
			continue
		fi
		answer=$(first_signal $interval "$name.$attempt.good" \
			"$name.$attempt.slow" "$name.$attempt.bad")
		case $answer in
		*.good) stop 20; return ;;
		*.slow) stop 0; return ;;
		*.bad) stop 0 ;;
		esac
	done
	echo "$name: given up"
}

steps step
