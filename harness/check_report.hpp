#pragma once

#include <string>
#include <vector>

#include "matrix/constraint_engine.hpp"
#include "matrix/input.hpp"
#include "matrix/suggest.hpp"

namespace cgconform::harness {

/// What `cgconform check --suggest` adds to a verdict.
struct Suggestions {
  std::vector<matrix::Repair> repairs;
  std::vector<matrix::ScopeRung> ladder;
};

/// Appends the verdict on one configuration as one line of JSON. `suggestions` may be null.
void append_check_json(std::string& out, const matrix::CheckInput& input,
                       const matrix::Evaluation& evaluation, const Suggestions* suggestions);

/// Appends the verdict for people; `source` names the input. `colours` wraps it in terminal codes.
void append_check_text(std::string& out, const std::string& source, matrix::Ruleset ruleset,
                       const matrix::CheckInput& input, const matrix::Evaluation& evaluation,
                       const Suggestions* suggestions, bool colours);

}  // namespace cgconform::harness
