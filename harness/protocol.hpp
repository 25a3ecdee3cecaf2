#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "harness/control_channel.hpp"
#include "matrix/cell.hpp"
#include "suites/result_record.hpp"

namespace cgconform::harness {

/// Values of `Assignment::scenario`: every scenario of that kind, one after the other, or this and
/// the id of a self-test row.
constexpr const char* device_scenarios = "device";
constexpr const char* gang_scenarios = "gang";
constexpr const char* run_scenarios = "run";
constexpr const char* selftest_scenario = "selftest ";

/// One attempt at a cell, as given to one rank of its gang.
struct Assignment {
  std::uint64_t id = 0;    ///< unique in the run, equal on all ranks of the gang
  std::uint64_t gang = 0;  ///< equal while the same workers keep their communicator
  bool new_gang = true;    ///< the workers have to find each other first
  bool fresh = false;      ///< needs a worker that has run nothing yet
  /// The worker this was made for; checked for a gang that is not new.
  std::uint64_t worker_generation = 0;
  int rank = 0;                  ///< in the gang
  std::vector<int> world_ranks;  ///< of the gang, in gang rank order
  matrix::CellName name;
  matrix::Cell cell;
  std::uint64_t seed = 0;
  std::string device = "reference";
  std::vector<std::string> faults;  ///< ids of the fault switches to turn on
  std::string sabotage;             ///< name; empty for none
  std::vector<std::string> checks;  ///< ids or globs to run; empty for all
  std::string mock;                 ///< behaviour of a mock cell; empty for a cell of the matrix
  std::string mishap;               ///< mock behaviour in a phase of a true cell; empty for none
  std::string scenario;             ///< which scenarios to run; empty for a cell
  std::map<std::string, std::string> environment;  ///< that its worker has to be started with
  double deadline_scale = 0.0;                     ///< in place of the run's; 0 for the run's
  int gpu = 0;                                     ///< of those the worker sees, on device cuda
  bool gpus_shared = false;                        ///< times say nothing then
  bool shares_legs = false;         ///< eager legs of other cells may stand for this one's
  std::string guard_pages = "off";  ///< where buffers lie in mappings of their own: end, start
  std::int64_t communicator_timeout_milliseconds = 30000;
};

/// A rank's worker ended its attempt, one way or another.
struct CellReport {
  std::uint64_t assignment = 0;
  suites::RankReport report;
  std::uint64_t worker_generation = 0;  ///< of the worker that will take the next assignment
};

/// The assignment was made for a worker that is gone; nothing was run.
struct StaleAssignment {
  std::uint64_t assignment = 0;
  std::uint64_t worker_generation = 0;
};

/// To a supervisor: end this attempt, a peer has crashed or missed a deadline.
struct StopAssignment {
  std::uint64_t assignment = 0;
  bool hang = false;  ///< of the gang, so that this rank's end is one too
};

/// The workers of a gang will not meet again: its communicator can go.
struct RetireGang {
  std::uint64_t gang = 0;
};

struct StoreSet {
  std::uint64_t gang = 0;
  std::string key;
  std::string value;
};
struct StoreGet {
  std::uint64_t gang = 0;
  std::string key;
};
struct StoreValue {
  std::uint64_t gang = 0;
  std::string key;
  std::string value;
};

/// A rank's introduction: what has to be the same on all ranks, and its environment.
struct Hello {
  int world_rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string trouble;  ///< why this rank cannot take part; empty where it can
  int trouble_code = 0;
  std::map<std::string, std::string> must_agree;
  std::map<std::string, std::string> facts;
};

/// A worker's introduction.
struct WorkerReady {
  std::string build;  ///< must equal the supervisor's
};

/// A rank's worker died while it had nothing to do.
struct WorkerLost {
  std::uint64_t worker_generation = 0;  ///< of its successor
};

/// To every supervisor, once, before the first assignment: the run takes place.
struct Begin {
  std::string log_directory;  ///< of the workers' output; empty for none
  double deadline_scale = 1.0;
  std::int64_t cell_deadline_milliseconds = 0;
  std::string wrap;  ///< tool of compute-sanitizer to run workers under; empty for none
  std::map<std::string, std::string> environment;  ///< that every worker of the rank starts with
};
/// A supervisor's first worker is up, or why it is not.
struct Begun {
  std::string trouble;
};

struct Interrupted {
  int signal = 0;
};
struct Shutdown {
  int exit_code = 0;
};
/// The supervisor's worker is gone and nothing is left of it.
struct Goodbye {
  int world_rank = 0;
};

using Message = std::variant<Assignment, CellReport, StaleAssignment, StopAssignment, RetireGang,
                             StoreSet, StoreGet, StoreValue, Hello, WorkerReady, WorkerLost, Begin,
                             Begun, Interrupted, Shutdown, Goodbye>;

/// CBOR of a message. `decode` throws EnvironmentError for bytes that are none.
Packet encode(const Message& message);
Message decode(const Packet& packet);

/// Name of a message's type, for errors.
std::string message_name(const Message& message);

}  // namespace cgconform::harness
