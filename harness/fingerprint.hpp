#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "harness/protocol.hpp"

namespace cgconform::harness {

/// Hash of a file's bytes, 16 hexadecimal digits; empty where it cannot be read.
std::string file_hash(const std::filesystem::path& file);

/// Folder of the running program.
std::filesystem::path program_folder();

/// What this binary introduces itself with: version, commit and build type.
std::string build_identity();

/// Facts about this rank's machine and process, by name: host, kernel, processor, cores, memory,
/// NVIDIA driver and devices, relevant variables. Makes no CUDA call.
std::map<std::string, std::string> environment_facts();

/// Variables that change what a run does; they have to be equal on all ranks.
std::map<std::string, std::string> relevant_variables();

/// True where the machine shows an NVIDIA device to this process, whatever the driver says of it.
bool sees_nvidia_device();

std::string host_name();

}  // namespace cgconform::harness
