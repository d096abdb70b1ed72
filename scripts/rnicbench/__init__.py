# SPDX-License-Identifier: GPL-2.0-or-later
#
# The parts of bench, one concept each. bench itself says what happens in which
# order.
