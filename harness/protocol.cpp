#include "harness/protocol.hpp"

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/cell_json.hpp"
#include "harness/system_error.hpp"
#include "suites/result_json.hpp"

namespace cgconform::harness {
namespace {

using nlohmann::json;

// One overload of `members` a message type: the one list of its fields, used both ways.

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, Assignment> {
  visit("id", m.id);
  visit("gang", m.gang);
  visit("new_gang", m.new_gang);
  visit("fresh", m.fresh);
  visit("worker_generation", m.worker_generation);
  visit("rank", m.rank);
  visit("world_ranks", m.world_ranks);
  visit("cell_id", m.name.id);
  visit("cell_hash", m.name.hash);
  visit("cell", m.cell);
  visit("seed", m.seed);
  visit("device", m.device);
  visit("faults", m.faults);
  visit("shares_legs", m.shares_legs);
  visit("sabotage", m.sabotage);
  visit("checks", m.checks);
  visit("mock", m.mock);
  visit("mishap", m.mishap);
  visit("scenario", m.scenario);
  visit("environment", m.environment);
  visit("deadline_scale", m.deadline_scale);
  visit("gpu", m.gpu);
  visit("gpus_shared", m.gpus_shared);
  visit("guard_pages", m.guard_pages);
  visit("communicator_timeout_milliseconds", m.communicator_timeout_milliseconds);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, CellReport> {
  visit("assignment", m.assignment);
  visit("report", m.report);
  visit("worker_generation", m.worker_generation);
}

template <typename M, typename Visit>
void members(M& m,
             const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, StaleAssignment> {
  visit("assignment", m.assignment);
  visit("worker_generation", m.worker_generation);
}

template <typename M, typename Visit>
void members(M& m,
             const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, StopAssignment> {
  visit("assignment", m.assignment);
  visit("hang", m.hang);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, RetireGang> {
  visit("gang", m.gang);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, StoreGet> {
  visit("gang", m.gang);
  visit("key", m.key);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, StoreSet> ||
    std::is_same_v<std::remove_const_t<M>, StoreValue> {
  visit("gang", m.gang);
  visit("key", m.key);
  visit("value", m.value);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, Hello> {
  visit("world_rank", m.world_rank);
  visit("host", m.host);
  visit("pid", m.pid);
  visit("trouble", m.trouble);
  visit("trouble_code", m.trouble_code);
  visit("must_agree", m.must_agree);
  visit("facts", m.facts);
}

template <typename M, typename Visit>
void members(M& m,
             const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, WorkerReady> {
  visit("build", m.build);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, WorkerLost> {
  visit("worker_generation", m.worker_generation);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, Begin> {
  visit("log_directory", m.log_directory);
  visit("deadline_scale", m.deadline_scale);
  visit("cell_deadline_milliseconds", m.cell_deadline_milliseconds);
  visit("wrap", m.wrap);
  visit("environment", m.environment);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, Begun> {
  visit("trouble", m.trouble);
}

template <typename M, typename Visit>
void members(M& m,
             const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, Interrupted> {
  visit("signal", m.signal);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, Shutdown> {
  visit("exit_code", m.exit_code);
}

template <typename M, typename Visit>
void members(M& m, const Visit& visit) requires std::is_same_v<std::remove_const_t<M>, Goodbye> {
  visit("world_rank", m.world_rank);
}

/// Names in the order of the variant's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<Message>> message_names{
    "assignment",  "cell_report",  "stale_assignment", "stop_assignment",
    "retire_gang", "store_set",    "store_get",        "store_value",
    "hello",       "worker_ready", "worker_lost",      "begin",
    "begun",       "interrupted",  "shutdown",         "goodbye",
};

template <typename T>
json encode_member(const T& member) {
  if constexpr (std::is_same_v<T, matrix::Cell>) {
    return cell_to_json(member);
  } else if constexpr (std::is_same_v<T, suites::RankReport>) {
    return suites::to_json(member);
  } else {
    return member;
  }
}

template <typename T>
void decode_member(const json& value, T& member) {
  if constexpr (std::is_same_v<T, matrix::Cell>) {
    member = cell_from_json(value);
  } else if constexpr (std::is_same_v<T, suites::RankReport>) {
    member = suites::rank_report_from_json(value);
  } else {
    member = value.get<T>();
  }
}

/// A default message of the alternative with this name.
template <std::size_t... Indices>
Message empty_message(std::string_view name, std::index_sequence<Indices...> /*indices*/) {
  Message message;
  const bool found =
      ((message_names.at(Indices) == name ? (message.emplace<Indices>(), true) : false) || ...);
  if (!found) throw EnvironmentError(fmt::format("control message of unknown type '{}'", name));
  return message;
}

}  // namespace

std::string message_name(const Message& message) {
  return std::string(message_names.at(message.index()));
}

Packet encode(const Message& message) {
  json object = {{"type", message_names.at(message.index())}};
  std::visit(
      [&](const auto& body) {
        members(body, [&](const char* name, const auto& member) {
          object[name] = encode_member(member);
        });
      },
      message);
  return json::to_cbor(object);
}

Message decode(const Packet& packet) {
  try {
    const json object = json::from_cbor(packet);
    Message message = empty_message(object.at("type").get<std::string>(),
                                    std::make_index_sequence<std::variant_size_v<Message>>{});
    std::visit(
        [&](auto& body) {
          members(body,
                  [&](const char* name, auto& member) { decode_member(object.at(name), member); });
        },
        message);
    return message;
  } catch (const json::exception& error) {
    throw EnvironmentError(fmt::format("control message cannot be read: {}", error.what()));
  } catch (const InputError& error) {
    throw EnvironmentError(fmt::format("control message cannot be read: {}", error.what()));
  }
}

}  // namespace cgconform::harness
