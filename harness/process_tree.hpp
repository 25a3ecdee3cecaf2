#pragma once

#include <cstddef>
#include <vector>

#include <sys/types.h>

namespace cgconform::harness {

/// Processes of a session, zombies excepted, found in /proc.
std::vector<pid_t> session_members(pid_t session);

/// Processes whose parent is `parent`, zombies included.
std::vector<pid_t> children_of(pid_t parent);

/// Threads of a process.
std::vector<pid_t> threads_of(pid_t process);

/// KILLs the process group and every process of the session: a process that moved to a group of its
/// own stays in its session. Returns how many were left in the session before.
std::size_t kill_session(pid_t session);

}  // namespace cgconform::harness
