# Sourced by the scripts of this folder: where the project is, how to say things, how to build.
# Expects `set -euo pipefail` in the caller.

project_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }

# die CODE MESSAGE...: 2 is a wrong command line, 3 an environment that cannot be used.
die() {
  local code=$1
  shift
  printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2
  exit "$code"
}

# Compilers to run at once: one a core, but no more than memory allows (1.5 GiB each).
build_jobs() {
  local cores memory_kib by_memory
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || true)
  by_memory=$((${memory_kib:-1572864} / 1572864))
  ((by_memory >= 1)) || by_memory=1
  say $((cores < by_memory ? cores : by_memory))
}

# configure PRESET: also when the tree was moved or copied after an earlier configure.
configure() {
  local preset=$1 fresh=() cache
  cache="$project_dir/build/$preset/CMakeCache.txt"
  if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$project_dir" "$cache"; then
    fresh=(--fresh)
  fi
  (cd "$project_dir" && cmake "${fresh[@]}" --preset "$preset")
}

# build PRESET [TARGET...]
build() {
  local preset=$1 targets=()
  shift
  (($# == 0)) || targets=(--target "$@")
  cmake --build "$project_dir/build/$preset" --parallel "$(build_jobs)" "${targets[@]}"
}

# Lets 4 ranks run on fewer cores, politely; as root only with the permission Open MPI asks for;
# and in containers that forbid ptrace without its warning about copies between processes.
allow_small_machines() {
  export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe:-1}
  export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
  export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}
  if ((EUID == 0)); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# cpp_sources PATTERN...: files of the project's source folders, separated by NUL.
cpp_sources() {
  local names=() pattern
  for pattern in "$@"; do
    names+=(-o -name "$pattern")
  done
  (cd "$project_dir" && find matrix workloads suites reports harness tests benchmarks \
    -type f \( "${names[@]:1}" \) -print0 | sort -z)
}
