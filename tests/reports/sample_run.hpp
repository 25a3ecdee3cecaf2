#pragma once

#include <optional>
#include <vector>

#include "reports/report_writer.hpp"

namespace cgconform::reports::testing {

/// A run of six cells on two ranks: one pass, one baseline, one wrong result, one crash, one
/// refused and one skipped.
inline RunInfo sample_run() {
  RunInfo info;
  info.version = "0.1.0";
  info.git_commit = "0123abc";
  info.command_line = "cgconform --matrix sample.json";
  info.matrix = "sample";
  info.matrix_hash = "00000000000000aa";
  info.seed = 7;
  info.device = "reference";
  info.started = "2026-01-02T03:04:05Z";
  info.ranks = {{0, "node-a", 100, "reference", {{"MPI", "4.1.6"}, {"NCCL_GRAPH_REGISTER", "0"}}},
                {1, "node-b", 200, "reference", {{"MPI", "4.1.6"}, {"NCCL_GRAPH_REGISTER", "1"}}}};
  info.planned = {6, 4, 1, 1};
  return info;
}

inline suites::CellResult passed_cell() {
  suites::CellResult result;
  result.id = "impl=local/scope=attn";
  result.hash = "1111111111111111";
  result.seconds = 0.5;
  suites::RankReport rank;
  rank.host = "node-a";
  rank.device = "reference";
  rank.checks = {{"NUM-01", suites::Verdict::pass, "20 replays equal", std::nullopt}};
  rank.captures = 4;
  rank.replays = 20;
  rank.comparisons = 80;
  rank.phase_milliseconds = {{"capture", 1.5}};
  result.ranks = {rank};
  return result;
}

inline suites::CellResult baseline_cell() {
  suites::CellResult result = passed_cell();
  result.index = 1;
  result.id = "impl=none";
  result.hash = "2222222222222222";
  result.verdict = suites::Verdict::baseline;
  return result;
}

inline suites::CellResult wrong_cell() {
  suites::CellResult result = passed_cell();
  result.index = 2;
  result.id = "impl=local/scope=mlp";
  result.hash = "3333333333333333";
  result.verdict = suites::Verdict::fail_overwrite;
  result.check_id = "MEM-09";
  result.reason = "output of layer 1 overwritten before its use";
  result.failing_rank = 1;
  result.secondary = {"NUM-02"};
  result.reproducer =
      "mpirun -np 2 cgconform --matrix sample.json --cell 3333333333333333 --seed 7";
  suites::RankReport rank = result.ranks.front();
  rank.rank = 1;
  rank.world_rank = 1;
  rank.host = "node-b";
  suites::Divergence divergence;
  divergence.step = 2;
  divergence.microbatch = 1;
  divergence.layer = 0;
  divergence.tensor = "output";
  divergence.first_bad_index = 5;
  divergence.expected = 1.0;
  divergence.actual = 2.0;
  divergence.bad_count = 3;
  divergence.element_count = 64;
  rank.checks = {{"MEM-09", suites::Verdict::fail_overwrite, "hash changed", divergence}};
  result.ranks.push_back(rank);
  return result;
}

inline suites::CellResult crashed_cell() {
  suites::CellResult result;
  result.index = 3;
  result.id = "impl=local/scope=full_iteration";
  result.hash = "4444444444444444";
  result.verdict = suites::Verdict::crash;
  result.reason = "rank 0 died of SIGSEGV in phase replay";
  result.failing_rank = 0;
  result.reproducer =
      "mpirun -np 2 cgconform --matrix sample.json --cell 4444444444444444 --seed 7";
  suites::RankReport rank;
  rank.host = "node-a";
  rank.device = "reference";
  suites::AbnormalEnd end;
  end.signal = 11;
  end.phase = "replay";
  end.last_operation = "step 1 layer 0 \x01 gemm";
  end.stack = {"gemm_kernel", "run_node", "main"};
  rank.abnormal_end = end;
  result.ranks = {rank};
  return result;
}

inline suites::CellResult refused_cell() {
  suites::CellResult result;
  result.index = 4;
  result.id = "impl=local/scope=moe+moe_router";
  result.hash = "5555555555555555";
  result.verdict = suites::Verdict::rejected_constraint;
  result.rules = {"moe-xor-router", "moe-scope-needs-moe-model"};
  return result;
}

inline suites::CellResult skipped_cell() {
  suites::CellResult result;
  result.index = 5;
  result.id = "impl=none/scope=attn";
  result.hash = "6666666666666666";
  result.verdict = suites::Verdict::skip;
  result.reason = "duplicate of impl=none";
  return result;
}

inline std::vector<suites::CellResult> sample_cells() {
  return {passed_cell(),  baseline_cell(), wrong_cell(),
          crashed_cell(), refused_cell(),  skipped_cell()};
}

/// Sends the whole sample run to `writer`.
inline void play(ReportWriter& writer) {
  const RunInfo info = sample_run();
  SummaryCollector collector(info.planned);
  writer.begin(info);
  for (const suites::CellResult& cell : sample_cells()) {
    writer.cell_finished(cell);
    collector.add(cell);
  }
  writer.end(collector.finish(1, "a check failed", 2.0));
}

}  // namespace cgconform::reports::testing
