#include "workloads/device/cuda/nvml.hpp"

#include <array>
#include <span>

#include <dlfcn.h>
#include <unistd.h>

namespace cgconform::workloads::cuda {

namespace {

// The part of NVML's interface used here. Its header comes with the toolkit's extras, which a
// machine that builds this need not have; the library's interface is stable.
using Status = int;
using DeviceHandle = void*;
using EventSet = void*;
constexpr Status success = 0;
constexpr unsigned clock_sm = 1;
constexpr unsigned clock_memory = 2;
constexpr unsigned temperature_of_gpu = 0;
constexpr unsigned long long event_critical_xid = 0x8;

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
constexpr unsigned long long not_available = ~0ULL;
/// More than ever share a GPU.
constexpr unsigned most_processes = 256;

struct EventData {
  DeviceHandle device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};

}  // namespace

struct NvmlDevice::Library {
  void* handle = nullptr;
  DeviceHandle device = nullptr;
  EventSet events = nullptr;

  Status (*initialise)() = nullptr;
  Status (*shut_down)() = nullptr;
  Status (*device_by_uuid)(const char*, DeviceHandle*) = nullptr;
  Status (*memory_info)(DeviceHandle, Memory*) = nullptr;
  Status (*clock_info)(DeviceHandle, unsigned, unsigned*) = nullptr;
  Status (*temperature)(DeviceHandle, unsigned, unsigned*) = nullptr;
  Status (*processes)(DeviceHandle, unsigned*, ProcessInfo*) = nullptr;  ///< may be absent
  Status (*create_events)(EventSet*) = nullptr;
  Status (*register_events)(DeviceHandle, unsigned long long, EventSet) = nullptr;
  Status (*wait_event)(EventSet, EventData*, unsigned) = nullptr;
  Status (*free_events)(EventSet) = nullptr;

  template <typename Function>
  bool look_up(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    return function != nullptr;
  }

  bool look_up_all() {
    look_up("nvmlDeviceGetComputeRunningProcesses_v3", processes);
    return look_up("nvmlInit_v2", initialise) && look_up("nvmlShutdown", shut_down) &&
           look_up("nvmlDeviceGetHandleByUUID", device_by_uuid) &&
           look_up("nvmlDeviceGetMemoryInfo", memory_info) &&
           look_up("nvmlDeviceGetClockInfo", clock_info) &&
           look_up("nvmlDeviceGetTemperature", temperature) &&
           look_up("nvmlEventSetCreate", create_events) &&
           look_up("nvmlDeviceRegisterEvents", register_events) &&
           look_up("nvmlEventSetWait_v2", wait_event) && look_up("nvmlEventSetFree", free_events);
  }
};

NvmlDevice::NvmlDevice(const std::string& uuid) {
  auto library = std::make_unique<Library>();
  library->handle = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) return;
  const bool ready = library->look_up_all() && library->initialise() == success;
  if (!ready) {
    ::dlclose(library->handle);
    return;
  }
  library_ = std::move(library);
  if (library_->device_by_uuid(uuid.c_str(), &library_->device) != success) {
    library_->device = nullptr;
    return;
  }
  if (library_->create_events(&library_->events) != success) {
    library_->events = nullptr;
  } else if (library_->register_events(library_->device, event_critical_xid, library_->events) !=
             success) {
    library_->free_events(library_->events);
    library_->events = nullptr;
  }
}

NvmlDevice::~NvmlDevice() {
  if (!library_) return;
  if (library_->events != nullptr) library_->free_events(library_->events);
  library_->shut_down();
  ::dlclose(library_->handle);
}

bool NvmlDevice::available() const {
  return library_ && library_->device != nullptr;
}

GpuState NvmlDevice::state() const {
  GpuState state;
  if (!available()) return state;
  Memory memory = {};
  if (library_->memory_info(library_->device, &memory) == success) {
    state.used_bytes = static_cast<std::int64_t>(memory.used);
  }
  const auto read = [&](Status (*query)(DeviceHandle, unsigned, unsigned*), unsigned what,
                        double& target) {
    unsigned value = 0;
    if (query(library_->device, what, &value) == success) target = value;
  };
  read(library_->clock_info, clock_sm, state.sm_megahertz);
  read(library_->clock_info, clock_memory, state.memory_megahertz);
  read(library_->temperature, temperature_of_gpu, state.temperature_celsius);
  return state;
}

std::int64_t NvmlDevice::bytes_of_this_process() const {
  if (!available() || library_->processes == nullptr) return -1;
  std::array<ProcessInfo, most_processes> processes{};
  unsigned count = most_processes;
  if (library_->processes(library_->device, &count, processes.data()) != success) return -1;
  const auto self = static_cast<unsigned>(::getpid());
  for (const ProcessInfo& process : std::span(processes).first(count)) {
    if (process.pid == self && process.used_bytes != not_available) {
      return static_cast<std::int64_t>(process.used_bytes);
    }
  }
  return -1;
}

std::vector<std::uint64_t> NvmlDevice::take_xids() {
  std::vector<std::uint64_t> numbers;
  if (!available() || library_->events == nullptr) return numbers;
  constexpr std::size_t most = 16;
  EventData event = {};
  while (numbers.size() < most && library_->wait_event(library_->events, &event, 0) == success) {
    numbers.push_back(event.data);
  }
  return numbers;
}

}  // namespace cgconform::workloads::cuda
