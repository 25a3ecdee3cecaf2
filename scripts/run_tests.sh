#!/usr/bin/env bash
# Installs what is missing, builds everything and passes the tests and gates through CTest, whose
# closing lines are the last ones printed. Its exit code is not 0 when anything failed.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: run_tests.sh [--no-install] [--preset NAME] [--sanitizers] [--deadline MINUTES]
                    [CTEST OPTIONS...]
  --no-install        do not look for missing packages
  --preset NAME       release (default), debug, asan or tsan
  --sanitizers        first run the unit tests under ASan+UBSan and under TSan
  --deadline MINUTES  start no sanitizer build, and cut the clang-tidy gate, so that all ends by then
Everything else goes to ctest, for example -L unit or -R Matrix. Labels: unit, mpi, cli, gpu, gate.
TEXT
}

install=true
preset=release
sanitizers=false
deadline=''
options=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --no-install) install=false ;;
    --sanitizers) sanitizers=true ;;
    --preset)
      (($# >= 2)) || die 2 "--preset needs a name: release, debug, asan or tsan"
      preset=$2
      shift
      ;;
    --deadline)
      (($# >= 2)) && [[ $2 =~ ^[1-9][0-9]*$ ]] || die 2 "--deadline needs a number of minutes"
      deadline=$((SECONDS + 60 * $2))
      shift
      ;;
    *) options+=("$1") ;;
  esac
  shift
done
[[ $preset =~ ^(release|debug|asan|tsan)$ ]] ||
  die 2 "unknown preset '$preset'; there are release, debug, asan and tsan"

run_ctest() {
  local name=$1
  shift
  (cd "$project_dir" && ctest --preset "$name" --parallel "$(nproc)" "$@")
}

# Builds and runs the unit tests under one sanitizer preset.
sanitizer_stage() {
  local name=$1
  say "== unit tests under $name"
  configure "$name" >/dev/null
  build "$name" unit_tests && run_ctest "$name" -L unit -LE gate
}

if $install; then "$project_dir/scripts/install_dependencies.sh"; fi
allow_small_machines
configure "$preset"
build "$preset"

failed=()
if $sanitizers; then
  for name in asan tsan; do
    sanitizer_stage "$name" || failed+=("$name")
  done
fi

run_ctest "$preset" "${options[@]}" || failed+=("$preset")
if ((${#failed[@]} > 0)); then
  say "failed: ${failed[*]}" >&2
  exit 1
fi
