#include "workloads/device/reference/gloo_communicator.hpp"

#include <array>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "workloads/device/collective_sizes.hpp"
#include "workloads/device/reference/communicator_state.hpp"
#include "workloads/device/reference/reference_stream.hpp"

namespace cgconform::workloads::reference {
namespace {

constexpr std::array<OperandDeclaration, 1> read_operand{{{"tensor", Access::read}}};
constexpr std::array<OperandDeclaration, 1> write_operand{{{"tensor", Access::write}}};
constexpr std::array<OperandDeclaration, 1> update_operand{{{"tensor", Access::accumulate}}};
constexpr std::array<OperandDeclaration, 2> reduce_operands{
    {{"destination", Access::write}, {"source", Access::read}}};
constexpr OpDeclaration send_op{"send", read_operand, nullptr, nullptr};
constexpr OpDeclaration receive_op{"receive", write_operand, nullptr, nullptr};
constexpr OpDeclaration broadcast_op{"broadcast", update_operand, nullptr, nullptr};
constexpr OpDeclaration all_reduce_op{"all_reduce", reduce_operands, nullptr, nullptr};
constexpr OpDeclaration all_gather_op{"all_gather", reduce_operands, nullptr, nullptr};
constexpr OpDeclaration reduce_scatter_op{"reduce_scatter", reduce_operands, nullptr, nullptr};

/// One message of a communication. `peer` is the other rank.
struct MessagePart {
  int peer = 0;
  MessageHeader header;
  const void* payload = nullptr;  ///< of one that is sent
};

/// What becomes of that which arrives.
enum class Arrival : std::uint8_t {
  written,   ///< to the destination, as it is
  reduced,   ///< with this rank's own part, in rank order
  gathered,  ///< side by side with this rank's own part, in rank order
};

/// A message or collective as bound at the call: what it sends, what it expects, and where.
struct Plan {
  std::string label;
  int peer = -1;           ///< the other rank of a message
  TensorView destination;  ///< invalid where nothing arrives
  Arrival arrival = Arrival::written;
  TensorView own;  ///< this rank's part of what is reduced or gathered
  ReduceOp reduce = ReduceOp::sum;
  std::vector<MessagePart> sends;
  std::vector<MessagePart> receives;  ///< by rank
};

MessageHeader in_run(MessageHeader header, const CommunicationRun& run) {
  header.captured = run.captured ? 1 : 0;
  header.replay = run.replay;
  return header;
}

class PendingPlan : public PendingCommunication {
 public:
  PendingPlan(std::shared_ptr<CommunicatorState> state, std::shared_ptr<const Plan> plan,
              const CommunicationRun& run)
      : state_(std::move(state)),
        plan_(std::move(plan)),
        run_(run),
        deadline_(std::chrono::steady_clock::now() + state_->timeout()),
        arrived_(plan_->receives.size()) {
    for (const MessagePart& part : plan_->sends) {
      state_->send(part.peer, in_run(part.header, run_), part.payload);
    }
    // In place, the destination is overwritten by the lower ranks' parts before this rank's turn.
    if (plan_->arrival != Arrival::written) {
      const auto* bytes = static_cast<const std::byte*>(plan_->own.data);
      own_.assign(bytes, bytes + plan_->own.bytes());
    }
  }

  bool try_finish() override {
    for (std::size_t index = 0; index < arrived_.size(); ++index) {
      if (arrived_[index]) continue;
      const MessagePart& part = plan_->receives[index];
      auto message = state_->take(part.peer, in_run(part.header, run_), plan_->label);
      if (!message) return false;
      arrived_[index] = std::move(message);
    }
    write();
    return true;
  }

  std::chrono::steady_clock::time_point deadline() const override { return deadline_; }

  void time_out() override {
    state_->note_error(ErrorCategory::communicator_timeout);
    std::string missing;
    for (std::size_t index = 0; index < arrived_.size(); ++index) {
      const MessagePart& part = plan_->receives[index];
      if (arrived_[index]) continue;
      missing += fmt::format("{}{} from rank {}", missing.empty() ? "" : ", ",
                             describe(in_run(part.header, run_)), part.peer);
    }
    throw DeviceError(
        ErrorCategory::communicator_timeout, plan_->label,
        fmt::format("rank {} of '{}' waited {} ms for {}; see what that rank does", state_->rank(),
                    state_->name(), state_->timeout().count(), missing));
  }

 private:
  void write() {
    const auto size = static_cast<std::size_t>(plan_->destination.bytes());
    if (size == 0) return;
    if (plan_->arrival == Arrival::written) {
      if (!arrived_.empty()) {
        std::memcpy(plan_->destination.data, arrived_[0]->payload.data(), size);
      }
      return;
    }
    bool first = true;
    std::size_t next = 0;
    auto* place = static_cast<std::byte*>(plan_->destination.data);
    for (int rank = 0; rank < state_->size(); ++rank) {
      const std::byte* part =
          rank == state_->rank() ? own_.data() : arrived_[next++]->payload.data();
      if (plan_->arrival == Arrival::gathered) {
        std::memcpy(place, part, own_.size());
        place += own_.size();
      } else if (std::exchange(first, false)) {
        std::memcpy(plan_->destination.data, part, size);
      } else {
        reduce_into(plan_->destination, part, plan_->reduce);
      }
    }
  }

  std::shared_ptr<CommunicatorState> state_;
  std::shared_ptr<const Plan> plan_;
  CommunicationRun run_;
  std::chrono::steady_clock::time_point deadline_;
  std::vector<std::optional<Message>> arrived_;
  std::vector<std::byte> own_;
};

class PlannedCommunication : public Communication {
 public:
  PlannedCommunication(std::shared_ptr<CommunicatorState> state, Plan plan)
      : state_(state),
        core_(std::move(state)),
        plan_(std::make_shared<const Plan>(std::move(plan))) {}
  std::unique_ptr<PendingCommunication> start(const CommunicationRun& run) override {
    state_->require_open(plan_->label);
    return std::make_unique<PendingPlan>(state_, plan_, run);
  }
  const std::shared_ptr<CommunicatorCore>& core() const override { return core_; }
  int rank() const override { return state_->rank(); }
  int peer() const override { return plan_->peer; }

 private:
  std::shared_ptr<CommunicatorState> state_;
  std::shared_ptr<CommunicatorCore> core_;
  std::shared_ptr<const Plan> plan_;
};

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(std::shared_ptr<Core> core, const CommunicatorOptions& options,
                   std::shared_ptr<gloo::transport::Device> transport)
      : core_(std::move(core)),
        options_(options),
        transport_(transport),
        name_(options.name),
        state_(std::make_shared<CommunicatorState>(
            options, std::move(transport),
            [this_core = core_] { this_core->executor().notify_arrival(); })),
        numbers_(options.size) {}
  ~GlooCommunicator() override {
    state_->close();
    core_->forget_communicator(*state_);
  }
  GlooCommunicator(const GlooCommunicator&) = delete;
  GlooCommunicator& operator=(const GlooCommunicator&) = delete;

  int rank() const override { return state_->rank(); }
  int size() const override { return state_->size(); }
  const std::string& name() const override { return name_; }

  void send(const TensorView& tensor, int peer, Stream& stream, std::string label) override {
    core_->call("send", label, [&] {
      require_peer(peer, "send");
      Plan plan{.label = label, .peer = peer};
      const std::uint64_t capture = core_->capture_number(state_of(stream));
      plan.sends.push_back(outgoing(capture, peer, MessageKind::send, tensor));
      enqueue(std::move(plan), send_op, {&tensor, 1}, stream);
    });
  }

  void receive(const TensorView& tensor, int peer, Stream& stream, std::string label) override {
    core_->call("receive", label, [&] {
      require_peer(peer, "receive");
      Plan plan{.label = label, .peer = peer, .destination = tensor};
      const std::uint64_t capture = core_->capture_number(state_of(stream));
      plan.receives.push_back(incoming(capture, peer, MessageKind::send, tensor));
      enqueue(std::move(plan), receive_op, {&tensor, 1}, stream);
    });
  }

  void all_reduce(const TensorView& destination, const TensorView& source, ReduceOp op,
                  Stream& stream, std::string label) override {
    core_->call("all_reduce", label, [&] {
      require_sizes(destination, source, 1, 1, label);
      Plan plan{.label = label,
                .destination = destination,
                .arrival = Arrival::reduced,
                .own = source,
                .reduce = op};
      exchange_parts(plan, MessageKind::all_reduce, stream, [&](int) { return source; });
      enqueue(std::move(plan), all_reduce_op, std::array{destination, source}, stream);
    });
  }

  void all_gather(const TensorView& destination, const TensorView& source, Stream& stream,
                  std::string label) override {
    core_->call("all_gather", label, [&] {
      require_sizes(destination, source, 1, size(), label);
      Plan plan{
          .label = label, .destination = destination, .arrival = Arrival::gathered, .own = source};
      exchange_parts(plan, MessageKind::all_gather, stream, [&](int) { return source; });
      enqueue(std::move(plan), all_gather_op, std::array{destination, source}, stream);
    });
  }

  void reduce_scatter(const TensorView& destination, const TensorView& source, Stream& stream,
                      std::string label) override {
    core_->call("reduce_scatter", label, [&] {
      require_sizes(destination, source, size(), 1, label);
      const auto part_of = [&](int part) {
        TensorView view = destination;
        view.data = static_cast<std::byte*>(source.data) + part * destination.bytes();
        return view;
      };
      Plan plan{.label = label,
                .destination = destination,
                .arrival = Arrival::reduced,
                .own = part_of(rank())};
      exchange_parts(plan, MessageKind::reduce_scatter, stream, part_of);
      enqueue(std::move(plan), reduce_scatter_op, std::array{destination, source}, stream);
    });
  }

  void broadcast(const TensorView& tensor, int root, Stream& stream, std::string label) override {
    core_->call("broadcast", label, [&] {
      if (root < 0 || root >= size()) throw_no_such_rank(root, "broadcast");
      Plan plan{.label = label, .destination = tensor};
      const std::uint64_t capture = core_->capture_number(state_of(stream));
      if (root == rank()) {
        for (int peer = 0; peer < size(); ++peer) {
          if (peer == rank()) continue;
          plan.sends.push_back(outgoing(capture, peer, MessageKind::broadcast, tensor));
        }
      } else {
        plan.receives.push_back(incoming(capture, root, MessageKind::broadcast, tensor));
      }
      enqueue(std::move(plan), broadcast_op, {&tensor, 1}, stream);
    });
  }

  std::vector<std::string> exchange(const std::string& mine) override {
    return core_->call("exchange", {}, [&] {
      state_->require_open("exchange");
      // A peer may have to time out in a transfer first, which it then reports here.
      const auto deadline = std::chrono::steady_clock::now() + 2 * state_->timeout();
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        state_->send(peer, {.kind = MessageKind::exchange, .bytes = mine.size()}, mine.data());
      }
      std::vector<std::string> all;
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) {
          all.push_back(mine);
          continue;
        }
        const Message message = state_->exchange_with(peer, deadline);
        const auto* text = reinterpret_cast<const char*>(message.payload.data());
        all.emplace_back(text, message.payload.size());
      }
      return all;
    });
  }

  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    return core_->call("split communicator", name, [&] {
      const std::vector<std::string> colors = exchange(std::to_string(color));
      return std::make_unique<GlooCommunicator>(
          core_, split_options(options_, colors, name, splits_++), transport_);
    });
  }

  ErrorCategory async_error() const override { return state_->async_error(); }
  int live_graph_references() const override { return state_->graph_references(); }

  void close() override {
    core_->call("close communicator", name_, [&] {
      if (state_->close()) return;
      throw DeviceError(ErrorCategory::communicator_timeout, "close communicator",
                        fmt::format("{} graphs or executables still hold '{}'; destroy them first",
                                    state_->graph_references(), name_));
    });
  }

  // As NCCL does it, all of them wait for the graphs.
  void end(CommunicatorEnd how) override {
    core_->call(communicator_end_name(how), name_, [&] { state_->close_when_unused(); });
  }

 private:
  [[noreturn]] void throw_no_such_rank(int peer, std::string_view call) const {
    throw DeviceError(ErrorCategory::communicator_invalid_usage, std::string(call),
                      fmt::format("rank {} is no peer of rank {} in '{}', which has {} ranks", peer,
                                  rank(), name_, size()));
  }
  void require_peer(int peer, std::string_view call) const {
    if (peer < 0 || peer >= size() || peer == rank()) throw_no_such_rank(peer, call);
  }

  /// Plans a message of every rank to every other one: `part_for(peer)` is what a peer is sent.
  template <typename PartFor>
  void exchange_parts(Plan& plan, MessageKind kind, Stream& stream, const PartFor& part_for) {
    const std::uint64_t capture = core_->capture_number(state_of(stream));
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      plan.sends.push_back(outgoing(capture, peer, kind, part_for(peer), plan.reduce));
      plan.receives.push_back(incoming(capture, peer, kind, plan.own, plan.reduce));
    }
  }

  static MessageHeader header(MessageKind kind, const TensorView& tensor, ReduceOp op,
                              std::uint64_t sequence) {
    return {.kind = kind,
            .dtype = tensor.dtype,
            .reduce = op,
            .bytes = static_cast<std::uint64_t>(tensor.bytes()),
            .sequence = sequence};
  }
  MessagePart outgoing(std::uint64_t capture, int peer, MessageKind kind, const TensorView& tensor,
                       ReduceOp op = ReduceOp::sum) {
    return {peer, header(kind, tensor, op, numbers_.next_sent(capture, peer)), tensor.data};
  }
  MessagePart incoming(std::uint64_t capture, int peer, MessageKind kind, const TensorView& tensor,
                       ReduceOp op = ReduceOp::sum) {
    return {peer, header(kind, tensor, op, numbers_.next_received(capture, peer))};
  }

  void enqueue(Plan plan, const OpDeclaration& op, std::span<const TensorView> operands,
               Stream& stream) {
    state_->require_open(op.name);
    Command command{.kind = NodeKind::communication,
                    .call = make_call(op, operands, {}, plan.label)};
    command.communication = std::make_shared<PlannedCommunication>(state_, std::move(plan));
    core_->enqueue(state_of(stream), std::move(command), op.name);
  }

  std::shared_ptr<Core> core_;
  CommunicatorOptions options_;
  std::shared_ptr<gloo::transport::Device> transport_;
  std::string name_;
  int splits_ = 0;
  std::shared_ptr<CommunicatorState> state_;
  MessageNumbers numbers_;
};

}  // namespace

std::unique_ptr<Communicator> create_gloo_communicator(
    std::shared_ptr<Core> core, const CommunicatorOptions& options,
    std::shared_ptr<gloo::transport::Device> transport) {
  return std::make_unique<GlooCommunicator>(std::move(core), options, std::move(transport));
}

}  // namespace cgconform::workloads::reference
