#pragma once

#include <string>
#include <string_view>

namespace cgconform::matrix {

/// What `cgconform explain RULE` prints: every variant of one rule. Throws InputError for an
/// unknown id, naming the nearest one.
std::string explain_rule(std::string_view id);

/// The whole table as Markdown; `docs/constraints.md` is this text.
std::string explain_all_as_markdown();

}  // namespace cgconform::matrix
