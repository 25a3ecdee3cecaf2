#include "matrix/cell_environment.hpp"

namespace cgconform::matrix {

std::vector<EnvironmentVariable> cell_environment(const Cell& cell) {
  std::vector<EnvironmentVariable> variables;
  if (cell.platform.expandable_segments) {
    variables.push_back({"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"});
  }
  if (cell.platform.nccl_graph_register) {
    variables.push_back({"NCCL_GRAPH_REGISTER", *cell.platform.nccl_graph_register ? "1" : "0"});
  }
  return variables;
}

}  // namespace cgconform::matrix
