#include "workloads/device/cuda/nccl_communicator.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "workloads/device/collective_sizes.hpp"
#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/device/cuda/cuda_stream.hpp"

namespace cgconform::workloads::cuda {

namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return ncclFloat32;
    case DType::fp64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::fp16:
      return ncclFloat16;
    case DType::int32:
      return ncclInt32;
    case DType::int64:
      return ncclInt64;
    case DType::uint64:
      return ncclUint64;
    case DType::uint8:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
  }
  return ncclSum;
}

std::size_t count(const TensorView& tensor) {
  return static_cast<std::size_t>(tensor.elements());
}

}  // namespace

/// Destroyed by the last owner: the communicator, or a graph that captured one of its calls.
class NcclCommunicator::Handle final : public CommunicatorLink {
 public:
  Handle(std::string name, std::chrono::milliseconds timeout)
      : name_(std::move(name)), timeout_(timeout) {}
  ~Handle() override {
    if (comm == nullptr || aborted_) return;
    const bool healthy = async_error() == ErrorCategory::success;
    static_cast<void>(healthy ? ncclCommDestroy(comm) : ncclCommAbort(comm));
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const std::string& name() const override { return name_; }
  std::chrono::milliseconds timeout() const override { return timeout_; }
  ErrorCategory async_error() const override {
    if (aborted_) return ErrorCategory::communicator_error;
    ncclResult_t asynchronous = ncclSuccess;
    const ncclResult_t status = ncclCommGetAsyncError(comm, &asynchronous);
    return status == ncclSuccess ? category_of(asynchronous) : category_of(status);
  }
  void abort() override {
    if (aborted_.exchange(true)) return;
    // NCCL tells its kernels to end at once, and then waits for every graph that uses the
    // communicator, without an end of its own. The wait is left to a thread that nobody joins: a
    // worker whose communicator was aborted is replaced.
    std::thread([handle = comm] { static_cast<void>(ncclCommAbort(handle)); }).detach();
  }
  bool closed() const override { return closed_ || aborted_; }
  void set_closed() { closed_ = true; }
  /// Holders that are no graphs: communicators, and the one that keeps this for later ones.
  void add_owner() { ++owners_; }
  void remove_owner() { --owners_; }
  int owners() const { return owners_; }
  /// Leaves it to the caller to end the communicator.
  ncclComm_t take() {
    aborted_ = true;
    return comm;
  }

  ncclComm_t comm = nullptr;

 private:
  std::string name_;
  std::chrono::milliseconds timeout_;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> closed_{false};
  std::atomic<int> owners_{0};
};

NcclCommunicator::NcclCommunicator(std::shared_ptr<CudaState> state, CommunicatorOptions options)
    : state_(std::move(state)),
      options_(std::move(options)),
      handle_(std::make_shared<Handle>(options_.name, options_.timeout)) {
  handle_->add_owner();
  ncclUniqueId id = {};
  const std::string key = "nccl/" + options_.name + "/id";
  if (options_.rank == 0) {
    CGCONFORM_CUDA_TRY(ncclGetUniqueId(&id));
    if (options_.store) options_.store->set(key, std::string(id.internal, sizeof(id.internal)));
  } else {
    const std::string value = options_.store->get(key, options_.timeout);
    if (value.size() != sizeof(id.internal)) {
      throw DeviceError(ErrorCategory::communicator_error, "ncclCommInitRank",
                        fmt::format("communicator {}: rank 0 published {} bytes as NCCL's id, {} "
                                    "were expected",
                                    options_.name, value.size(), sizeof(id.internal)));
    }
    std::memcpy(id.internal, value.data(), sizeof(id.internal));
  }
  CGCONFORM_CUDA_TRY(ncclCommInitRank(&handle_->comm, options_.size, id, options_.rank));
  if (options_.size > 1) state_->watch(handle_);
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<CudaState> state, CommunicatorOptions options,
                                   std::shared_ptr<Handle> handle)
    : state_(std::move(state)), options_(std::move(options)), handle_(std::move(handle)) {
  handle_->add_owner();
}

NcclCommunicator::~NcclCommunicator() {
  handle_->remove_owner();
}

template <typename Call>
void NcclCommunicator::enqueue(std::string_view name, int peer, std::vector<Operand> operands,
                               Stream& stream, const std::string& label, Call&& call) {
  auto& cuda_stream = static_cast<CudaStream&>(stream);
  state_->observed(name, label, [&] {
    const CaptureInfo capture = capture_info(cuda_stream.handle());
    if (capture.status == cudaStreamCaptureStatusActive) {
      state_->capture_record(capture)->communicators.insert(handle_);
    }
    if (handle_->closed()) {
      throw DeviceError(ErrorCategory::communicator_invalid_usage, std::string(name),
                        fmt::format("the communicator {} was closed", options_.name));
    }
    cuda_stream.recorded(
        [&] {
          return CapturedCall{NodeKind::communication, label,         name, std::move(operands),
                              options_.name,           options_.rank, peer};
        },
        [&] { call(cuda_stream.handle()); });
  });
}

void NcclCommunicator::send(const TensorView& tensor, int peer, Stream& stream, std::string label) {
  enqueue("send", peer, {{"source", Access::read, tensor}}, stream, label,
          [&](cudaStream_t handle) {
            CGCONFORM_CUDA_TRY(ncclSend(tensor.data, count(tensor), nccl_type(tensor.dtype), peer,
                                        handle_->comm, handle));
          });
}

void NcclCommunicator::receive(const TensorView& tensor, int peer, Stream& stream,
                               std::string label) {
  enqueue("receive", peer, {{"destination", Access::write, tensor}}, stream, label,
          [&](cudaStream_t handle) {
            CGCONFORM_CUDA_TRY(ncclRecv(tensor.data, count(tensor), nccl_type(tensor.dtype), peer,
                                        handle_->comm, handle));
          });
}

void NcclCommunicator::all_reduce(const TensorView& destination, const TensorView& source,
                                  ReduceOp op, Stream& stream, std::string label) {
  require_sizes(destination, source, 1, 1, label);
  enqueue("all_reduce", -1,
          {{"destination", Access::write, destination}, {"source", Access::read, source}}, stream,
          label, [&](cudaStream_t handle) {
            CGCONFORM_CUDA_TRY(ncclAllReduce(source.data, destination.data, count(source),
                                             nccl_type(source.dtype), nccl_op(op), handle_->comm,
                                             handle));
          });
}

void NcclCommunicator::broadcast(const TensorView& tensor, int root, Stream& stream,
                                 std::string label) {
  const Access access = root == options_.rank ? Access::read : Access::write;
  enqueue("broadcast", -1, {{"tensor", access, tensor}}, stream, label, [&](cudaStream_t handle) {
    CGCONFORM_CUDA_TRY(ncclBroadcast(tensor.data, tensor.data, count(tensor),
                                     nccl_type(tensor.dtype), root, handle_->comm, handle));
  });
}

void NcclCommunicator::all_gather(const TensorView& destination, const TensorView& source,
                                  Stream& stream, std::string label) {
  require_sizes(destination, source, 1, options_.size, label);
  enqueue("all_gather", -1,
          {{"destination", Access::write, destination}, {"source", Access::read, source}}, stream,
          label, [&](cudaStream_t handle) {
            CGCONFORM_CUDA_TRY(ncclAllGather(source.data, destination.data, count(source),
                                             nccl_type(source.dtype), handle_->comm, handle));
          });
}

void NcclCommunicator::reduce_scatter(const TensorView& destination, const TensorView& source,
                                      Stream& stream, std::string label) {
  require_sizes(destination, source, options_.size, 1, label);
  enqueue("reduce_scatter", -1,
          {{"destination", Access::write, destination}, {"source", Access::read, source}}, stream,
          label, [&](cudaStream_t handle) {
            CGCONFORM_CUDA_TRY(ncclReduceScatter(source.data, destination.data, count(destination),
                                                 nccl_type(source.dtype), ncclSum, handle_->comm,
                                                 handle));
          });
}

std::vector<std::string> NcclCommunicator::exchange(const std::string& mine) {
  if (options_.size == 1) return {mine};
  const std::uint64_t round = exchanges_++;
  const auto key = [&](int rank) {
    return fmt::format("exchange/{}/{}/{}", options_.name, round, rank);
  };
  options_.store->set(key(options_.rank), mine);
  std::vector<std::string> all;
  all.reserve(static_cast<std::size_t>(options_.size));
  for (int rank = 0; rank < options_.size; ++rank) {
    all.push_back(rank == options_.rank ? mine : options_.store->get(key(rank), options_.timeout));
  }
  return all;
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, const std::string& name) {
  const std::vector<std::string> colors = exchange(std::to_string(color));
  CommunicatorOptions options = split_options(options_, colors, name, splits_++);
  std::shared_ptr<Handle>& part = parts_[fmt::format("{} {}", name, fmt::join(colors, " "))];
  // All ranks have split alike, so that all keep the part, or none does.
  if (!part || part->closed()) {
    if (part) part->remove_owner();
    part = std::make_shared<Handle>(options.name, options.timeout);
    part->add_owner();
    CGCONFORM_CUDA_TRY(ncclCommSplit(handle_->comm, color, options_.rank, &part->comm, nullptr));
    if (options.size > 1) state_->watch(part);
  }
  return std::unique_ptr<Communicator>(new NcclCommunicator(state_, std::move(options), part));
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::copy(CommunicatorOptions options) {
  auto handle = std::make_shared<Handle>(options.name, options.timeout);
  CGCONFORM_CUDA_TRY(ncclCommSplit(handle_->comm, 0, options.rank, &handle->comm, nullptr));
  if (options.size > 1) state_->watch(handle);
  return std::unique_ptr<NcclCommunicator>(
      new NcclCommunicator(state_, std::move(options), std::move(handle)));
}

ErrorCategory NcclCommunicator::async_error() const {
  return handle_->async_error();
}

void NcclCommunicator::end(CommunicatorEnd how) {
  state_->observed(communicator_end_name(how), options_.name, [&] {
    const ncclComm_t comm = handle_->take();
    if (how == CommunicatorEnd::abort) {
      CGCONFORM_CUDA_TRY(ncclCommAbort(comm));
      return;
    }
    if (how == CommunicatorEnd::finalize) CGCONFORM_CUDA_TRY(ncclCommFinalize(comm));
    CGCONFORM_CUDA_TRY(ncclCommDestroy(comm));
  });
}

int NcclCommunicator::live_graph_references() const {
  return static_cast<int>(handle_.use_count()) - handle_->owners();
}

void NcclCommunicator::close() {
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  while (live_graph_references() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  const int graphs = live_graph_references();
  handle_->set_closed();
  if (graphs == 0) return;
  throw DeviceError(ErrorCategory::communicator_timeout, "close",
                    fmt::format("communicator {}: {} graphs still use it after {} ms; destroy them "
                                "first",
                                options_.name, graphs, options_.timeout.count()));
}

}  // namespace cgconform::workloads::cuda
