# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the verbs promise of posting work requests and polling completions, over
# a connection to oneself.

. /usr/lib/rnic/lib.sh

post-self "$(address_of alone)" || fail "post-self"
eventually 30 nothing_left || fail "$(objects_left)"

shows_provider V8.1.1-3 V8.1.1-4 V8.1.3.1-1 V8.1.3.1-2 \
	V8.2.1-2 V8.2.1-3 V8.2.1-4 V8.2.1-7 V8.2.1-10 V8.2.2.2-8
