#include "harness/rounds_source.hpp"

#include <utility>

namespace cgconform::harness {
namespace {

class RoundsSource final : public CellSource {
 public:
  RoundsSource(const Selection& selection, std::uint64_t seed, RoundFactory factory)
      : selection_(selection), seed_(seed), factory_(std::move(factory)), source_(factory_(1)) {
    counts_ = source_->counts();
    first_round_runs_ = counts_.run;
    if (!selection_.soak) {
      counts_.run *= selection_.repeat;
      counts_.total += counts_.run - first_round_runs_;
    }
  }

  const reports::PlannedCounts& counts() const override { return counts_; }

  std::optional<SourceItem> next() override {
    while (source_) {
      auto item = source_->next();
      if (!item) {
        next_round();
      } else if (auto* planned = std::get_if<PlannedCell>(&*item)) {
        mark(*planned);
        return item;
      } else if (round_ == 1) {
        return item;
      }
    }
    return std::nullopt;
  }

  void stop() override {
    stopped_ = true;
    if (selection_.soak && round_ > 1) source_.reset();
  }

 private:
  void next_round() {
    const bool last = selection_.soak ? stopped_ : round_ == selection_.repeat;
    if (last || first_round_runs_ == 0) {
      source_.reset();
      return;
    }
    ++round_;
    source_ = factory_(round_);
  }

  void mark(PlannedCell& planned) {
    planned.round = round_;
    if (!selection_.soak) return;
    planned.seed = matrix::round_seed(seed_, round_);
    if (round_ == 1) return;
    ++counts_.run;
    ++counts_.total;
  }

  Selection selection_;
  std::uint64_t seed_;
  RoundFactory factory_;
  std::unique_ptr<CellSource> source_;
  reports::PlannedCounts counts_;
  std::uint64_t first_round_runs_ = 0;
  std::uint64_t round_ = 1;
  bool stopped_ = false;
};

}  // namespace

std::unique_ptr<CellSource> rounds_source(const Selection& selection, std::uint64_t seed,
                                          RoundFactory factory) {
  if (!selection.has_rounds()) return factory(1);
  return std::make_unique<RoundsSource>(selection, seed, std::move(factory));
}

}  // namespace cgconform::harness
