#pragma once

#include <filesystem>

namespace cgconform::harness {

/// Makes the folder for a run's report and returns it. A folder that holds something is left alone
/// and `.1`, `.2`, ... is added to the name; with `force` its report files are removed and it is
/// used. Throws InputError naming the folder and the system's reason, or where a run writes to it.
std::filesystem::path prepare_report_folder(const std::filesystem::path& wanted, bool force);

/// Removes what is written anew, from the journal, when the run in `folder` is resumed.
void clear_resumed_reports(const std::filesystem::path& folder);

}  // namespace cgconform::harness
