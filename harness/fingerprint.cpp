#include "harness/fingerprint.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

#include "harness/build_info.hpp"

namespace cgconform::harness {
namespace {

namespace fs = std::filesystem;

/// Beginnings of the names of variables that change what CUDA, NCCL, the allocator or the workload
/// do, beside those that are equal to one of these.
constexpr std::array<std::string_view, 14> relevant_prefixes{
    "CUDA_",     "NCCL_", "PYTORCH_", "CUBLAS_",    "NVTE_",      "NVIDIA_TF32", "OMP_",
    "OPENBLAS_", "MKL_",  "GLOO_",    "LD_PRELOAD", "CGCONFORM_", "TORCH_",      "UCX_",
};
/// Of those, what names a rank's own devices and differs between ranks in good order.
constexpr std::array<std::string_view, 2> rank_bound_variables{"CUDA_VISIBLE_DEVICES",
                                                               "CUDA_MPS_PIPE_DIRECTORY"};

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// The value behind the first "NAME : VALUE" line of a /proc file.
std::string proc_value(const fs::path& file, std::string_view name) {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line)) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && begin != std::string::npos) return line.substr(begin);
  }
  return {};
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

void add_nvidia_facts(std::map<std::string, std::string>& facts) {
  const std::string driver = first_line("/proc/driver/nvidia/version");
  if (!driver.empty()) facts["driver"] = driver;
  int number = 0;
  for (const fs::path& gpu : entries_of("/proc/driver/nvidia/gpus")) {
    facts[fmt::format("gpu{}", number++)] =
        fmt::format("{} {} {}", proc_value(gpu / "information", "Model"),
                    proc_value(gpu / "information", "GPU UUID"), gpu.filename().string());
  }
}

bool is_rank_bound(std::string_view name) {
  return std::find(rank_bound_variables.begin(), rank_bound_variables.end(), name) !=
         rank_bound_variables.end();
}

std::map<std::string, std::string> variables_of_interest() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    const bool relevant =
        std::any_of(relevant_prefixes.begin(), relevant_prefixes.end(),
                    [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (relevant) variables.emplace(name, text.substr(equals + 1));
  }
  return variables;
}

}  // namespace

std::string file_hash(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return {};
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<char> chunk(std::size_t{1} << 20);
  while (stream.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) ||
         stream.gcount() > 0) {
    XXH3_64bits_update(state.get(), chunk.data(), static_cast<std::size_t>(stream.gcount()));
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

fs::path program_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

std::string build_identity() {
  const BuildInfo info = build_info();
  return fmt::format("{} {} {} {}", info.version, info.git_commit, info.build_type,
                     info.sanitizers);
}

std::map<std::string, std::string> relevant_variables() {
  std::map<std::string, std::string> variables = variables_of_interest();
  std::erase_if(variables, [](const auto& variable) { return is_rank_bound(variable.first); });
  return variables;
}

std::map<std::string, std::string> environment_facts() {
  std::map<std::string, std::string> facts;
  utsname names{};
  if (::uname(&names) == 0) facts["kernel"] = fmt::format("{} {}", names.release, names.machine);
  facts["processor"] = proc_value("/proc/cpuinfo", "model name");
  facts["cores"] = std::to_string(std::thread::hardware_concurrency());
  struct sysinfo memory {};
  if (::sysinfo(&memory) == 0) {
    facts["memory"] =
        fmt::format("{} MiB", memory.totalram * memory.mem_unit / (std::uint64_t{1} << 20));
  }
  add_nvidia_facts(facts);
  facts.merge(variables_of_interest());
  const BuildInfo info = build_info();
  facts["compiler"] = info.compiler;
  facts["build"] = build_identity();
  if (!info.cuda.empty()) facts["cuda"] = info.cuda;
  return facts;
}

bool sees_nvidia_device() {
  std::error_code error;
  if (fs::exists("/dev/nvidiactl", error)) return true;
  if (!entries_of("/proc/driver/nvidia/gpus").empty()) return true;
  for (const fs::path& entry : entries_of("/dev")) {
    const std::string name = entry.filename().string();
    if (name.starts_with("nvidia") && name.size() > 6 && name[6] >= '0' && name[6] <= '9') {
      return true;
    }
  }
  return false;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace cgconform::harness
