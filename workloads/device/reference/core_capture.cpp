#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "workloads/device/reference/core.hpp"

namespace cgconform::workloads::reference {
namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

void Core::refuse(CaptureViolation violation, std::string_view call_name) {
  const CaptureRule& rule = capture_rule(violation);
  throw DeviceError(rule.category, std::string(call_name),
                    fmt::format("{}; {} [{}]", rule.reason, rule.remedy, rule.id));
}

CaptureSession* Core::open_capture(const StreamState& stream) {
  CaptureSession* session = stream.capture.get();
  return session == nullptr || session->ended() ? nullptr : session;
}

void Core::require_legacy_usable(const StreamState& stream, std::string_view call_name) {
  if (!stream.legacy || sessions_.empty()) return;
  bool refused = false;
  for (const auto& other : streams_) {
    CaptureSession* session = open_capture(*other);
    if (session == nullptr || other->kind != StreamKind::blocking) continue;
    session->invalidate();
    refused = true;
  }
  if (refused) refuse(CaptureViolation::use_legacy_stream, call_name);
}

void Core::require_safe(CaptureViolation violation, std::string_view call_name) {
  const Lock lock(mutex_);
  require_safe_locked(violation, call_name);
}

void Core::require_safe_locked(CaptureViolation violation, std::string_view call_name) {
  if (sessions_.empty()) return;
  const auto here = std::this_thread::get_id();
  const auto exchanged = thread_modes_.find(here);
  const CaptureMode mode =
      exchanged == thread_modes_.end() ? CaptureMode::global : exchanged->second;
  if (mode == CaptureMode::relaxed) return;
  bool refused = false;
  for (const auto& session : sessions_) {
    const bool own = session->thread() == here && session->mode() != CaptureMode::relaxed;
    const bool global = session->mode() == CaptureMode::global && mode == CaptureMode::global;
    if (!own && !global) continue;
    session->invalidate();
    refused = true;
  }
  if (refused) refuse(violation, call_name);
}

void Core::end_session(CaptureSession& session) {
  session.end();
  sessions_.erase(std::remove_if(sessions_.begin(), sessions_.end(),
                                 [&](const auto& open) { return open.get() == &session; }),
                  sessions_.end());
}

void Core::begin_capture(const std::shared_ptr<StreamState>& stream, CaptureMode mode) {
  constexpr std::string_view call_name = "begin capture";
  const Lock lock(mutex_);
  require_legacy_usable(*stream, call_name);
  if (stream->legacy) refuse(CaptureViolation::capture_legacy_stream, call_name);
  if (open_capture(*stream) != nullptr) refuse(CaptureViolation::begin_twice, call_name);
  stream->capture = std::make_shared<CaptureSession>(mode, stream.get(), ++captures_);
  stream->capture_tail.clear();
  sessions_.push_back(stream->capture);
}

std::shared_ptr<const GraphBody> Core::end_capture(const std::shared_ptr<StreamState>& stream) {
  constexpr std::string_view call_name = "end capture";
  const Lock lock(mutex_);
  require_legacy_usable(*stream, call_name);
  if (open_capture(*stream) == nullptr) refuse(CaptureViolation::end_without_capture, call_name);
  const std::shared_ptr<CaptureSession> session = stream->capture;
  if (session->origin() != stream.get()) {
    session->invalidate();
    refuse(CaptureViolation::end_on_forked_stream, call_name);
  }
  const bool wrong_thread =
      session->mode() != CaptureMode::relaxed && session->thread() != std::this_thread::get_id();
  const bool joined = session->joined(stream->capture_tail);
  auto nodes = session->take_nodes();
  auto commands = session->take_commands();
  stream->capture.reset();
  end_session(*session);
  if (wrong_thread) refuse(CaptureViolation::end_on_other_thread, call_name);
  if (session->invalidated()) refuse(CaptureViolation::end_after_invalidation, call_name);
  if (!joined) refuse(CaptureViolation::end_unjoined, call_name);
  return std::make_shared<const GraphBody>(std::move(nodes), std::move(commands));
}

std::uint64_t Core::capture_number(const std::shared_ptr<StreamState>& stream) {
  const Lock lock(mutex_);
  const CaptureSession* session = open_capture(*stream);
  return session == nullptr ? 0 : session->number();
}

CaptureStatus Core::capture_status(const std::shared_ptr<StreamState>& stream) {
  const Lock lock(mutex_);
  const CaptureSession* session = open_capture(*stream);
  if (session == nullptr) return CaptureStatus::none;
  return session->invalidated() ? CaptureStatus::invalidated : CaptureStatus::active;
}

CaptureMode Core::exchange_thread_mode(CaptureMode mode) {
  const Lock lock(mutex_);
  const auto [entry, is_new] = thread_modes_.try_emplace(std::this_thread::get_id(), mode);
  const CaptureMode former = is_new ? CaptureMode::global : std::exchange(entry->second, mode);
  if (mode == CaptureMode::global) thread_modes_.erase(entry);
  return former;
}

}  // namespace cgconform::workloads::reference
