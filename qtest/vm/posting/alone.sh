# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the verbs promise of posting work requests and polling completions, over
# a connection to oneself.

. /usr/lib/rnic/lib.sh

post-self "$(address_of alone)" || fail "post-self"
eventually 30 nothing_left || fail "$(objects_left)"

shows V5.1-3 V6.2.2.2-4 V6.2.2.3-6 V8.2.1-5 R5.4-3
shows_provider V5.3-2 V6.1.1-3 V7.6.3-7 V8.1.1-3 V8.1.1-4 V8.1.2.1-7 V8.1.3.1-1 \
	V8.1.3.1-2 V8.1.3.1-4 V8.1.3.1-6 V8.1.3.2-1 V8.1.3.2-4 V8.1.3.2-5 V8.2.1-1 \
	V8.2.1-2 V8.2.1-3 V8.2.1-4 V8.2.1-7 V8.2.1-8 V8.2.1-9 V8.2.1-10 V8.2.1-11 \
	V8.2.2.2-8 V8.2.4-3 V8.2.4-7 V9.3.1.1-1 V9.3.1.1-2 V9.3.1.1-5 V9.3.1.1-6 \
	V9.3.1.1-7 V9.3.1.1-22 V9.3.1.2-1 V9.3.2.1-2 V9.3.2.1-3 V9.3.2.1-5 \
	V9.3.2.2-6 V9.5.1-2
