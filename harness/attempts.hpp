#pragma once

#include "harness/gang_scheduler.hpp"
#include "suites/result_record.hpp"

namespace cgconform::harness {

/// The result of one attempt at a cell, merged over its ranks. Whatever its checks say, a cell
/// without captures, replays or comparisons (a baseline: without comparisons) on some rank does not
/// pass: FAIL_COVERAGE by SUI-02.
suites::CellResult judge_attempt(const FinishedAttempt& attempt);

/// The final result where a cell was run again: the same outcome stands, different ones are
/// FLAKY. Both attempts are kept.
suites::CellResult merge_attempts(const suites::CellResult& first,
                                  const suites::CellResult& second);

/// True where a KILL ended a worker of the cell's gang. It comes from outside: the user, the kernel
/// that ran out of memory, the scheduler of the cluster.
bool was_killed(const suites::CellResult& result);

/// True where running the cell again can tell whether its workers' past was to blame. A KILL comes
/// from outside, so the end it gave a cell is final.
bool deserves_second_attempt(const suites::CellResult& result, bool fresh);

}  // namespace cgconform::harness
