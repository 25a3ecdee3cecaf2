#include "suites/checks/child_programs.hpp"

#include <algorithm>
#include <array>

#include "workloads/lifecycle/captured_collective.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::CapturedCollective;
using workloads::CommunicatorEnd;

constexpr std::string_view raw_destroy = "raw-destroy";
constexpr std::string_view raw_finalize = "raw-finalize";
constexpr std::string_view raw_abort = "raw-abort";

template <CommunicatorEnd How>
void end_with_live_graph(ChildContext& context) {
  CapturedCollective captured(context.device, *context.communicator);
  captured.replay();
  captured.wait();
  context.announce();
  context.communicator->end(How);
}

void tear_down_together(ChildContext& context) {
  workloads::replay_and_tear_down(context.device, *context.communicator, context.faults,
                                  context.announce);
}

constexpr std::array programs{
    ChildProgram{raw_destroy, end_with_live_graph<CommunicatorEnd::destroy>},
    ChildProgram{raw_finalize, end_with_live_graph<CommunicatorEnd::finalize>},
    ChildProgram{raw_abort, end_with_live_graph<CommunicatorEnd::abort>},
    ChildProgram{ranks_program, tear_down_together},
};

}  // namespace

std::span<const ChildProgram> child_programs() {
  return programs;
}

const ChildProgram* find_child_program(std::string_view name) {
  const auto* found = std::find_if(programs.begin(), programs.end(),
                                   [&](const ChildProgram& row) { return row.name == name; });
  return found == programs.end() ? nullptr : found;
}

std::string_view raw_end_program(CommunicatorEnd how) {
  switch (how) {
    case CommunicatorEnd::destroy:
      return raw_destroy;
    case CommunicatorEnd::finalize:
      return raw_finalize;
    case CommunicatorEnd::abort:
      break;
  }
  return raw_abort;
}

}  // namespace cgconform::suites::checks
