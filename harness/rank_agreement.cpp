#include "harness/rank_agreement.hpp"

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/build_info.hpp"
#include "harness/device_selection.hpp"
#include "harness/exit_codes.hpp"
#include "harness/fingerprint.hpp"
#include "harness/gpu_query.hpp"
#include "harness/launcher.hpp"
#include "harness/system_error.hpp"
#include "suites/rank_vote.hpp"

namespace cgconform::harness {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += text.empty() ? line : fmt::format(" {}", line);
  return text;
}

std::string value_of(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? std::string("unset") : fmt::format("'{}'", found->second);
}

}  // namespace

Hello introduce_rank(int world_rank, const RunOptions& options,
                     const std::filesystem::path& worker_program) {
  Hello hello;
  hello.world_rank = world_rank;
  hello.host = host_name();
  hello.pid = ::getpid();
  hello.facts = environment_facts();
  hello.facts[nvidia_device_fact] = sees_nvidia_device() ? "yes" : "no";
  if (hello.facts[nvidia_device_fact] == "yes" && options.device != DeviceChoice::reference &&
      options.mock_plan.empty() && !build_info().cuda.empty()) {
    if (const auto gpu = ask_for_gpu(worker_program, launcher_local_rank().value_or(world_rank))) {
      hello.facts[gpu_id_fact] = gpu->uuid;
      hello.facts[gpu_ordinal_fact] = std::to_string(gpu->ordinal);
    }
  }
  for (const auto& [name, value] : relevant_variables()) {
    hello.must_agree[fmt::format("variable {}", name)] = value;
  }
  hello.must_agree["options"] = joined(deciding_options(options));
  if (!options.resume.empty()) {
    hello.must_agree["options"] += fmt::format(" resume={}", options.resume);
  }
  hello.must_agree["binary"] = file_hash("/proc/self/exe");
  hello.must_agree["worker binary"] = file_hash(worker_program);
  hello.facts["binary"] = hello.must_agree["binary"];
  hello.facts["worker binary"] = hello.must_agree["worker binary"];
  if (!options.startup_error.empty()) {
    hello.trouble = options.startup_error;
    hello.trouble_code = exit_status(ExitCode::unusable_input);
  } else if (::access(worker_program.c_str(), X_OK) != 0) {
    hello.trouble = fmt::format(
        "rank {} on {}: the worker {} cannot be run: {}; cgconform-worker "
        "belongs beside cgconform",
        world_rank, hello.host, worker_program.string(), system_reason(errno));
    hello.trouble_code = exit_status(ExitCode::environment);
  }
  return hello;
}

void require_agreement(std::span<const Hello> ranks) {
  for (const Hello& rank : ranks) {
    if (rank.trouble.empty()) continue;
    if (rank.trouble_code == exit_status(ExitCode::unusable_input)) throw InputError(rank.trouble);
    throw EnvironmentError(rank.trouble);
  }
  std::set<std::string> names;
  for (const Hello& rank : ranks) {
    for (const auto& [name, value] : rank.must_agree) names.insert(name);
  }
  std::vector<std::string> values(ranks.size());
  for (const std::string& name : names) {
    std::transform(ranks.begin(), ranks.end(), values.begin(),
                   [&](const Hello& rank) { return value_of(rank.must_agree, name); });
    const auto odd = suites::find_odd_rank(values);
    if (!odd) continue;
    const Hello& rank = ranks[odd->rank];
    const Hello& other = ranks[odd->other];
    throw EnvironmentError(fmt::format(
        "rank {} on {} differs from rank {} on {} in {}: {} there, {} here; start all ranks alike",
        rank.world_rank, rank.host, other.world_rank, other.host, name, values[odd->rank],
        values[odd->other]));
  }
}

}  // namespace cgconform::harness
