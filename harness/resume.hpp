#pragma once

#include <filesystem>

#include "harness/journal.hpp"
#include "harness/run_options.hpp"

namespace cgconform::harness {

/// The options of the run in the folder `typed.resume`, as its journal has them, with what of
/// `typed` decides nothing. Where the folder has no journal yet, `typed` itself, as a new run into
/// that folder, provided that it says what to run. Throws InputError naming the option that was
/// given and differs.
RunOptions resumed_options(const RunOptions& typed);

/// Throws InputError where the options are of a run on another number of ranks.
void require_same_ranks(const RunOptions& options, int ranks);

/// Throws InputError naming what else differs between the run in `folder` and one that would resume
/// it.
void require_same_run(const std::filesystem::path& folder, const JournalHeader& before,
                      const JournalHeader& now);

/// The line that resumes the run in `folder` on as many ranks.
std::string resume_line(const RunOptions& options, int ranks, const std::filesystem::path& folder);

}  // namespace cgconform::harness
