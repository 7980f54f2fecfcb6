"""Order statistics of values in groups: medians, in linear time.

Source: core/python_api/group_order.c.
"""

from __future__ import annotations

import numpy as np

from mpiprof.interface.analysis_library import call_library
from mpiprof.trace.types import Float, Int


def find_medians(group: Int, values: Float, groups: int) -> Float:
    """Return the median of the values of each group, the lower one of two, 0 for an empty one."""
    count = count_members(group, groups)
    return select_values(group, values, (count - 1) // 2, count)


def find_upper_medians(group: Int, values: Float, groups: int) -> Float:
    """Return the median of the values of each group, the upper one of two, 0 for an empty one."""
    count = count_members(group, groups)
    return select_values(group, values, count // 2, count)


def count_members(group: Int, groups: int) -> Int:
    """Return the number of values of each group; all groups are below `groups`."""
    return np.bincount(group, minlength=groups)


def select_values(group: Int, values: Float, index: Int, count: Int) -> Float:
    """Return a value of each group: the one at an index in ascending order, 0 beyond the group.

    count: as count_members.
    """
    groups = len(count)
    if len(group) != len(values) or len(index) != groups:
        raise ValueError(f"{len(values)} values of {len(group)} rows in {groups} groups")
    end = np.cumsum(count) - count
    selected, room = np.empty(groups), np.empty(len(values))
    arrays = (np.ascontiguousarray(group, np.int64), np.ascontiguousarray(values, np.float64))
    index = np.ascontiguousarray(index, np.int64)
    call_library("group_order_select", len(values), groups, *arrays, index, end, room, selected)
    return selected
