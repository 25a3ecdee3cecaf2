#include "workloads/parallel/launch_ledger.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {
namespace {

using Kind = LaunchIntent::Kind;

// Intents travel as lines of tab-separated fields; names come from communicators and ops.
constexpr std::string_view intent_prefix = "launch ";
constexpr char field_end = '\t';
constexpr char line_end = '\n';

std::vector<std::string> split(std::string_view text, char end) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find(end), text.size());
    parts.emplace_back(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return parts;
}

template <typename Number>
Number number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw InternalError(fmt::format("'{}' in the intent of a launch is no number", text));
  }
  return number;
}

std::string_view deed(Kind kind) {
  constexpr std::array<std::string_view, 3> deeds{"run eagerly", "capture", "launch from a graph"};
  return deeds.at(static_cast<std::size_t>(kind));
}

std::string describe(const LaunchedCommunication& communication) {
  const std::string peer =
      communication.peer < 0 ? "" : fmt::format(" with rank {}", communication.peer);
  return fmt::format("{} of {} bytes {}{} on '{}'", communication.op, communication.bytes,
                     communication.dtype, peer, communication.communicator);
}

bool equal(const LaunchedCommunication& a, const LaunchedCommunication& b) {
  return a.communicator == b.communicator && a.op == b.op && a.bytes == b.bytes &&
         a.dtype == b.dtype;
}

/// The first rank that is not in the group that counts.
int odd_rank(std::span<const std::string> keys) {
  const auto size_of = [&](const std::string& key) {
    return std::count(keys.begin(), keys.end(), key);
  };
  const auto right = std::max_element(
      keys.begin(), keys.end(),
      [&](const std::string& a, const std::string& b) { return size_of(a) < size_of(b); });
  const auto odd =
      std::find_if(keys.begin(), keys.end(), [&](const std::string& key) { return key != *right; });
  return odd == keys.end() ? -1 : static_cast<int>(odd - keys.begin());
}

/// Some rank other than `odd`.
std::size_t reference_rank(int odd) {
  return odd == 0 ? 1 : 0;
}

std::optional<LaunchDisagreement> find_other_deed(std::span<const LaunchIntent> intents) {
  std::vector<std::string> keys;
  for (const LaunchIntent& intent : intents) {
    keys.push_back(fmt::format("{} {}", static_cast<int>(intent.kind), intent.replay));
  }
  const int odd = odd_rank(keys);
  if (odd < 0) return std::nullopt;
  const LaunchIntent& intent = intents[static_cast<std::size_t>(odd)];
  const std::size_t other = reference_rank(odd);
  const LaunchIntent& expected = intents[other];
  const bool same_kind = intent.kind == expected.kind;
  return LaunchDisagreement{
      .rank = odd,
      .category = ErrorCategory::communicator_mismatch,
      .text = same_kind
                  ? fmt::format("rank {} is about to {} '{}' for the {}th time, rank {} '{}' for "
                                "the {}th",
                                odd, deed(intent.kind), intent.name, intent.replay + 1, other,
                                expected.name, expected.replay + 1)
                  : fmt::format("rank {} is about to {} '{}' while rank {} is about to {} '{}'",
                                odd, deed(intent.kind), intent.name, other, deed(expected.kind),
                                expected.name)};
}

std::vector<LaunchedCommunication> collectives_of(const LaunchIntent& intent) {
  std::vector<LaunchedCommunication> collectives;
  std::copy_if(intent.communications.begin(), intent.communications.end(),
               std::back_inserter(collectives),
               [](const LaunchedCommunication& communication) { return communication.peer < 0; });
  return collectives;
}

/// Collectives of `mine` on communicators that `other` uses as well.
std::vector<LaunchedCommunication> shared_collectives(const LaunchIntent& mine,
                                                      const LaunchIntent& other) {
  std::vector<LaunchedCommunication> shared = collectives_of(mine);
  const std::vector<LaunchedCommunication> theirs = collectives_of(other);
  shared.erase(std::remove_if(shared.begin(), shared.end(),
                              [&](const LaunchedCommunication& communication) {
                                return std::none_of(theirs.begin(), theirs.end(),
                                                    [&](const LaunchedCommunication& their) {
                                                      return their.communicator ==
                                                             communication.communicator;
                                                    });
                              }),
               shared.end());
  return shared;
}

/// Two launches with collectives that have no communicator in common stand in another order.
std::optional<LaunchDisagreement> compare_disjoint(std::span<const LaunchIntent> intents, int a,
                                                   int b) {
  const LaunchIntent& first = intents[static_cast<std::size_t>(a)];
  const LaunchIntent& second = intents[static_cast<std::size_t>(b)];
  if (first.name == second.name || collectives_of(first).empty() ||
      collectives_of(second).empty()) {
    return std::nullopt;
  }
  return LaunchDisagreement{
      .rank = b,
      .category = ErrorCategory::communicator_order,
      .text = fmt::format("rank {} is about to launch '{}' with its {}, while rank {} is about to "
                          "launch '{}' with its {}",
                          b, second.name, describe(collectives_of(second).front()), a, first.name,
                          describe(collectives_of(first).front()))};
}

std::optional<LaunchDisagreement> compare_collectives(std::span<const LaunchIntent> intents, int a,
                                                      int b) {
  const auto mine = shared_collectives(intents[static_cast<std::size_t>(a)],
                                       intents[static_cast<std::size_t>(b)]);
  const auto theirs = shared_collectives(intents[static_cast<std::size_t>(b)],
                                         intents[static_cast<std::size_t>(a)]);
  if (mine.empty() && theirs.empty()) return compare_disjoint(intents, a, b);
  const std::size_t common = std::min(mine.size(), theirs.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (equal(mine[i], theirs[i])) continue;
    const bool order = mine[i].communicator != theirs[i].communicator;
    return LaunchDisagreement{
        .rank = b,
        .category =
            order ? ErrorCategory::communicator_order : ErrorCategory::communicator_mismatch,
        .text = fmt::format("collective {} of '{}' is {} on rank {} and {} on rank {}", i,
                            intents[static_cast<std::size_t>(b)].name, describe(theirs[i]), b,
                            describe(mine[i]), a)};
  }
  if (mine.size() == theirs.size()) return std::nullopt;
  return LaunchDisagreement{
      .rank = b,
      .category = ErrorCategory::communicator_mismatch,
      .text =
          fmt::format("'{}' has {} collectives on rank {} and {} on rank {}",
                      intents[static_cast<std::size_t>(b)].name, theirs.size(), b, mine.size(), a)};
}

std::vector<LaunchedCommunication> messages(const LaunchIntent& intent, std::string_view op,
                                            const LaunchedCommunication& pair) {
  std::vector<LaunchedCommunication> found;
  std::copy_if(intent.communications.begin(), intent.communications.end(),
               std::back_inserter(found), [&](const LaunchedCommunication& communication) {
                 return communication.op == op && communication.communicator == pair.communicator &&
                        communication.rank == pair.rank && communication.peer == pair.peer;
               });
  return found;
}

/// The messages that rank `a` of the gang has with a peer, against what `b` has where it is that
/// peer: what one sends the other must receive.
std::optional<LaunchDisagreement> compare_messages(std::span<const LaunchIntent> intents, int a,
                                                   int b, const LaunchedCommunication& message) {
  const LaunchIntent& mine = intents[static_cast<std::size_t>(a)];
  const LaunchIntent& theirs = intents[static_cast<std::size_t>(b)];
  const bool member =
      std::any_of(theirs.communications.begin(), theirs.communications.end(),
                  [&](const LaunchedCommunication& other) {
                    return other.communicator == message.communicator && other.rank == message.peer;
                  });
  if (!member) return std::nullopt;
  const bool sends = message.op == "send";
  LaunchedCommunication mirrored = message;
  std::swap(mirrored.rank, mirrored.peer);
  const auto here = messages(mine, message.op, message);
  const auto there = messages(theirs, sends ? "receive" : "send", mirrored);
  const auto differs = [&](std::string text) {
    return LaunchDisagreement{
        .rank = b, .category = ErrorCategory::communicator_mismatch, .text = std::move(text)};
  };
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    if (here[i].bytes == there[i].bytes && here[i].dtype == there[i].dtype) continue;
    return differs(fmt::format("message {} in '{}' is {} on rank {} and {} on rank {}", i,
                               theirs.name, describe(there[i]), b, describe(here[i]), a));
  }
  if (here.size() == there.size()) return std::nullopt;
  return differs(
      fmt::format("rank {} makes {} times {} in '{}', for which rank {} has {} "
                  "counterparts",
                  a, here.size(), describe(message), mine.name, b, there.size()));
}

std::optional<LaunchDisagreement> compare_messages(std::span<const LaunchIntent> intents, int a,
                                                   int b) {
  for (const LaunchedCommunication& message : intents[static_cast<std::size_t>(a)].communications) {
    if (message.peer < 0) continue;
    if (auto other = compare_messages(intents, a, b, message)) return other;
  }
  return std::nullopt;
}

}  // namespace

std::vector<LaunchedCommunication> communications_of(std::span<const GraphNode> nodes) {
  std::vector<LaunchedCommunication> communications;
  for (const GraphNode& node : nodes) {
    if (node.kind != NodeKind::communication) continue;
    LaunchedCommunication communication{.communicator = node.communicator,
                                        .op = std::string(node.op_name),
                                        .rank = node.rank,
                                        .peer = node.peer};
    if (!node.operands.empty()) {
      const TensorView& tensor = node.operands.front().tensor;
      communication.bytes = static_cast<std::uint64_t>(tensor.bytes());
      communication.dtype = dtype_name(tensor.dtype);
    }
    communications.push_back(std::move(communication));
  }
  return communications;
}

std::string LaunchIntent::encode() const {
  std::string text =
      fmt::format("{}{}\t{}\t{}\n", intent_prefix, static_cast<int>(kind), replay, name);
  for (const LaunchedCommunication& communication : communications) {
    text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", communication.communicator, communication.op,
                        communication.rank, communication.peer, communication.bytes,
                        communication.dtype);
  }
  return text;
}

bool LaunchIntent::is_intent(std::string_view text) {
  return text.starts_with(intent_prefix);
}

LaunchIntent LaunchIntent::decode(const std::string& text) {
  const std::size_t begin = is_intent(text) ? intent_prefix.size() : 0;
  const std::vector<std::string> lines = split(std::string_view(text).substr(begin), line_end);
  const std::vector<std::string> head =
      lines.empty() ? std::vector<std::string>{} : split(lines.front(), field_end);
  constexpr std::size_t head_fields = 3;
  if (head.size() != head_fields) {
    throw InternalError(fmt::format("'{}' is no intent of a launch", text));
  }
  LaunchIntent intent{.name = head[2],
                      .kind = static_cast<Kind>(number_of<int>(head[0])),
                      .replay = number_of<std::uint64_t>(head[1])};
  for (std::size_t line = 1; line < lines.size(); ++line) {
    const std::vector<std::string> fields = split(lines[line], field_end);
    constexpr std::size_t communication_fields = 6;
    if (fields.size() != communication_fields) {
      throw InternalError(fmt::format("'{}' is no communication of a launch", lines[line]));
    }
    intent.communications.push_back({.communicator = fields[0],
                                     .op = fields[1],
                                     .rank = number_of<std::int32_t>(fields[2]),
                                     .peer = number_of<std::int32_t>(fields[3]),
                                     .bytes = number_of<std::uint64_t>(fields[4]),
                                     .dtype = fields[5]});
  }
  return intent;
}

std::optional<LaunchDisagreement> find_disagreement(std::span<const LaunchIntent> intents) {
  if (auto other = find_other_deed(intents)) return other;
  const int ranks = static_cast<int>(intents.size());
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      if (auto other = compare_collectives(intents, a, b)) return other;
      if (auto other = compare_messages(intents, a, b)) return other;
      if (auto other = compare_messages(intents, b, a)) return other;
    }
  }
  return std::nullopt;
}

void LaunchLedger::agree(const LaunchIntent& intent) {
  if (intent.kind == Kind::replay && intent.communications.empty()) return;
  const auto begin = std::chrono::steady_clock::now();
  agree_in(gang_, intent);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  count(intent, spent.count());
}

void LaunchLedger::agree_on_layer(const LaunchIntent& intent) {
  if (layer_groups_.empty()) return;
  const auto begin = std::chrono::steady_clock::now();
  for (Communicator* group : layer_groups_) agree_in(*group, intent);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  count(intent, spent.count());
}

void LaunchLedger::agree_in(Communicator& group, const LaunchIntent& intent) {
  std::vector<LaunchIntent> intents;
  const std::vector<std::string> texts = group.exchange(intent.encode());
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!LaunchIntent::is_intent(texts[rank])) {
      throw DeviceError(ErrorCategory::communicator_error, "launch ledger",
                        fmt::format("rank {} does not go on to '{}', it says: {}", rank,
                                    intent.name, texts[rank]));
    }
    intents.push_back(LaunchIntent::decode(texts[rank]));
  }
  if (const auto disagreement = find_disagreement(intents)) {
    throw DeviceError(disagreement->rank == group.rank() ? disagreement->category
                                                         : ErrorCategory::communicator_error,
                      "launch ledger", disagreement->text);
  }
}

void LaunchLedger::count(const LaunchIntent& intent, double milliseconds) {
  switch (intent.kind) {
    case Kind::eager:
      ++agreements_.eager;
      break;
    case Kind::capture:
      ++agreements_.captures;
      break;
    case Kind::replay:
      ++agreements_.replays;
      break;
  }
  agreements_.slowest_milliseconds = std::max(agreements_.slowest_milliseconds, milliseconds);
}

}  // namespace cgconform::workloads
