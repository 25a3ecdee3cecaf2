#include "suites/rank_vote.hpp"

#include <algorithm>
#include <map>

namespace cgconform::suites {

std::optional<OddRank> find_odd_rank(std::span<const std::string> answers) {
  std::map<std::string_view, std::size_t> votes;
  for (const std::string& answer : answers) ++votes[answer];
  if (votes.size() < 2) return std::nullopt;
  const auto most = std::max_element(
      answers.begin(), answers.end(),
      [&](const std::string& a, const std::string& b) { return votes[a] < votes[b]; });
  const auto odd = std::find_if(answers.begin(), answers.end(),
                                [&](const std::string& answer) { return answer != *most; });
  return OddRank{static_cast<std::size_t>(odd - answers.begin()),
                 static_cast<std::size_t>(most - answers.begin())};
}

}  // namespace cgconform::suites
