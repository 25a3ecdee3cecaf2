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
  --deadline MINUTES  start no sanitizer build, cut the clang-tidy gate and leave out that of headers,
                      so that all ends by then
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

# Seconds kept for the tests themselves, and for the gates of clang-tidy and of headers, when there
# is a deadline.
tests_seconds=900
tidy_seconds=480
headers_seconds=420

# Seconds that an optional stage may take so that what must follow still fits; "infinity" without a
# deadline (as timeout(1) spells it).
seconds_before() {
  local reserved=$1 left
  if [[ -z $deadline ]]; then
    say infinity
    return
  fi
  left=$((deadline - SECONDS - reserved))
  say $((left > 0 ? left : 0))
}

run_ctest() {
  local name=$1
  shift
  (cd "$project_dir" && ctest --preset "$name" --parallel "$(nproc)" "$@")
}

# Builds and runs the unit tests under one sanitizer preset; 124 when the time was over.
sanitizer_stage() {
  local name=$1 seconds
  seconds=$(seconds_before $((tests_seconds + tidy_seconds)))
  [[ $seconds != 0 ]] || return 124
  say "unit tests under $name, at most $seconds s"
  export -f configure build build_jobs run_ctest say sanitizer_commands
  export project_dir
  timeout "$seconds" bash -euo pipefail -c 'sanitizer_commands "$1"' sanitizer_stage "$name"
}

sanitizer_commands() {
  configure "$1" >/dev/null
  build "$1" unit_tests
  run_ctest "$1" --label-regex unit --label-exclude gate
}

if $install; then "$project_dir/scripts/install_dependencies.sh"; fi
allow_small_machines
configure "$preset"
build "$preset"

failed=()
cut=()
if $sanitizers; then
  for name in asan tsan; do
    code=0
    sanitizer_stage "$name" || code=$?
    case $code in
      0) ;;
      124) cut+=("the unit tests under $name") ;;
      *) failed+=("$name") ;;
    esac
  done
fi

if [[ -n $deadline ]]; then
  CGCONFORM_TIDY_BUDGET=${CGCONFORM_TIDY_BUDGET:-$(seconds_before "$tests_seconds")}
  export CGCONFORM_TIDY_BUDGET
  if (($(seconds_before "$tests_seconds") < headers_seconds)); then
    options+=(--exclude-regex 'gate\.header_self_containment')
    cut+=("the gate of self-contained headers")
  fi
fi
((${#cut[@]} == 0)) || say "cut by the deadline: $(printf '%s; ' "${cut[@]}")"
((${#failed[@]} == 0)) || say "failed before this: the unit tests under ${failed[*]}"
run_ctest "$preset" "${options[@]}" || exit
((${#failed[@]} == 0))
