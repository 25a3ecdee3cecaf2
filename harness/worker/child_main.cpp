#include "harness/worker/child_main.hpp"

#include <csignal>
#include <exception>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "harness/device_selection.hpp"
#include "harness/fingerprint.hpp"
#include "harness/gpu_sharing.hpp"
#include "harness/switch_names.hpp"
#include "harness/worker/file_store.hpp"
#include "matrix/error.hpp"
#include "suites/checks/child_programs.hpp"
#include "workloads/device/cuda/cuda_device.hpp"

namespace cgconform::harness {
namespace {

constexpr std::string_view child_option = "--child";
constexpr std::size_t fixed_arguments = 7;  // file, option, program, device, rank, ranks, directory
/// Between ranks; on the reference device a peer that is missing shows after this time.
constexpr std::chrono::milliseconds communicator_timeout{1000};
/// For the slowest of them to reach its driver.
constexpr std::chrono::milliseconds start_timeout{30000};

/// Children are a job of their own: whether they share GPUs is decided among them.
void settle_gpu_sharing(const ChildArguments& arguments, int ordinal,
                        workloads::RendezvousStore& store) {
  const auto key = [](int rank) { return fmt::format("gpu-{}", rank); };
  store.set(key(arguments.rank), workloads::cuda_device_uuid(ordinal));
  std::vector<RankGpu> gpus;
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    gpus.push_back({host_name(), store.get(key(rank), start_timeout)});
  }
  apply_gpu_sharing(decide_gpu_sharing(gpus), arguments.rank);
}

std::unique_ptr<workloads::Device> make_device(const ChildArguments& arguments,
                                               workloads::RendezvousStore& store) {
  if (arguments.device != cuda_device_name) return workloads::create_reference_device({});
  workloads::CudaDeviceOptions options;
  const int count = workloads::cuda_device_count();
  options.ordinal = count > 0 ? arguments.rank % count : 0;
  settle_gpu_sharing(arguments, options.ordinal, store);
  return workloads::create_cuda_device(options);
}

void write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void run(const ChildArguments& arguments) {
  const suites::checks::ChildProgram* program =
      suites::checks::find_child_program(arguments.program);
  if (program == nullptr) {
    throw InputError(fmt::format("there is no child program '{}'", arguments.program));
  }
  const workloads::FaultSwitches faults = fault_switches(arguments.faults);
  const auto store = std::make_shared<FileStore>(arguments.store_directory);
  const auto device = make_device(arguments, *store);
  workloads::CommunicatorOptions options;
  options.name = "children";
  options.rank = arguments.rank;
  options.size = arguments.ranks;
  options.timeout = communicator_timeout;
  options.store = store;
  suites::checks::ChildContext context{*device, device->create_communicator(options),
                                       [] { write_out(child_announcement); }, &faults};
  program->run(context);
}

}  // namespace

std::vector<std::string> child_command_line(const ChildArguments& arguments) {
  std::vector<std::string> line{std::string(child_option),
                                arguments.program,
                                arguments.device,
                                std::to_string(arguments.rank),
                                std::to_string(arguments.ranks),
                                arguments.store_directory};
  line.insert(line.end(), arguments.faults.begin(), arguments.faults.end());
  return line;
}

std::optional<ChildArguments> child_arguments(std::span<char* const> command_line) {
  if (command_line.size() < 2 || command_line[1] != child_option) return std::nullopt;
  if (command_line.size() < fixed_arguments) throw InputError("--child: arguments are missing");
  ChildArguments arguments;
  arguments.program = command_line[2];
  arguments.device = command_line[3];
  arguments.rank = std::stoi(command_line[4]);
  arguments.ranks = std::stoi(command_line[5]);
  arguments.store_directory = command_line[6];
  arguments.faults.assign(command_line.begin() + fixed_arguments, command_line.end());
  return arguments;
}

int run_child_program(const ChildArguments& arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    run(arguments);
    return 0;
  } catch (const std::exception& error) {
    write_out(fmt::format("rank {}: {}\n", arguments.rank, error.what()));
    return 1;
  }
}

}  // namespace cgconform::harness
